//! `feedline index`.

use super::place::Place;
use super::{example, files, framed};

#[test]
fn indexes_are_made_kept_and_refreshed() {
    let place = Place::new();
    files(&place, 30);
    let state = |words: &[&str]| place.json(&[&["index"], words].concat()).1["files"][0]["state"].clone();
    assert_eq!(state(&["a.tfrecord"]), "made");
    assert!(place.names().contains(&"a.tfrecord.flidx".to_owned()));
    assert_eq!(state(&["a.tfrecord"]), "kept");
    assert_eq!(state(&["--force", "a.tfrecord"]), "made");
    let (_, json) = place.json(&["inspect", "a.tfrecord"]);
    assert!(json["files"][0]["index"].as_str().unwrap().ends_with("a.tfrecord.flidx"), "{json}");
    assert_eq!(json["files"][0]["record_bytes"]["of"], 30);
    // A file that changed gets a new one.
    place.put("a.tfrecord", framed((0..31).map(example)));
    assert_eq!(place.json(&["count", "a.tfrecord"]).1["records"], 31);
    assert_eq!(state(&["a.tfrecord"]), "made");
    // Where nothing can be written beside the file there is the cache folder.
    std::fs::create_dir(place.path("taken")).unwrap();
    std::fs::rename(place.path("a.tfrecord"), place.path("taken/b.tfrecord")).unwrap();
    std::fs::create_dir(place.path("taken/b.tfrecord.flidx")).unwrap();
    let (code, json) = place.json(&["index", "taken/b.tfrecord"]);
    assert_eq!(code, 0, "{json}");
    assert!(json["files"][0]["index"].as_str().unwrap().contains(".cache"), "{json}");
}

#[test]
fn indexes_of_tar_files() {
    let place = Place::new();
    let tar = |samples: usize| {
        let mut tar = feedline_formats::tar::Writer::new(Vec::new());
        for i in 0..samples {
            tar.append(format!("{i}.txt").as_bytes(), b"some text", 0).unwrap();
            tar.append(format!("{i}.cls").as_bytes(), b"7", 0).unwrap();
        }
        tar.finish().unwrap()
    };
    place.put("a.tar", tar(30));
    let index = |words: &[&str]| place.json(&[&["index"], words].concat()).1["files"][0].clone();
    let made = index(&["a.tar"]);
    assert_eq!((&made["state"], &made["records"]), (&"made".into(), &30.into()));
    assert!(place.names().contains(&"a.tar.flidx".to_owned()));
    assert_eq!(index(&["a.tar"])["state"], "kept");
    assert_eq!(index(&["--force", "a.tar"])["state"], "made");
    let (_, json) = place.json(&["inspect", "a.tar"]);
    assert!(json["files"][0]["index"].as_str().unwrap().ends_with("a.tar.flidx"), "{json}");
    assert_eq!(json["files"][0]["records"], 30);
    // A file that changed, and a damaged index, are not believed.
    place.put("a.tar", tar(31));
    assert_eq!(place.json(&["count", "a.tar"]).1["records"], 31);
    assert_eq!(index(&["a.tar"])["state"], "made");
    let kept = place.get("a.tar.flidx");
    place.put("a.tar.flidx", &kept[..kept.len() - 1]);
    assert_eq!(index(&["a.tar"])["state"], "made");
    assert_eq!(place.get("a.tar.flidx"), kept);
    assert_eq!(place.json(&["verify", "."]).0, 0, "it is no data");
    // Where nothing can be written beside the file there is the cache folder.
    std::fs::remove_file(place.path("a.tar.flidx")).unwrap();
    std::fs::create_dir(place.path("a.tar.flidx")).unwrap();
    let made = index(&["a.tar"]);
    assert!(made["index"].as_str().unwrap().contains(".cache"), "{made}");
    assert_eq!(index(&["a.tar"])["state"], "kept");
    // A damaged file has none.
    place.put("b.tar", &tar(3)[..2000]);
    assert_eq!(place.json(&["index", "b.tar"]).0, 1);
    assert!(!place.names().contains(&"b.tar.flidx".to_owned()));
}
