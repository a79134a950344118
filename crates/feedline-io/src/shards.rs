//! Files that get their names together: the shards of a set, `train-00000-of-00200.tfrecord` and its kin.
//!
//! No file system renames many files in one step, and a process may be killed between two. So a set says of itself that it
//! is not whole:
//!
//! 1. All files are whole under temporary names, and on the disk, before the first gets its name.
//! 2. A marker appears, `.train-of-00200.tfrecord.part`, locked by whoever writes. From then on readers refuse every file of
//!    the set (`refuse_unfinished`).
//! 3. What was there under the names is moved away, all of it, and then all files get their names: others than us, who know
//!    no marker, may find a part of the new for a moment, but never a mixture. Nothing waits for the disk in between.
//! 4. The folder goes to the disk, the marker is removed, and then what was moved away.
//!
//! What a killed writer has left is removed by whoever writes the same files next (`sweep`). Temporary files are locked by
//! the process that writes them, however that ends: one that can be locked is nobody's.

use crate::local::in_words;
use crate::location::{Location, locate};
use crate::write::{AtomicFile, Sink, folder_of, temporary_name};
use crate::{Error, Kind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Just as long as the number of a shard is with the dot in front: a marker has a name wherever a shard has one.
const MARKER: &str = ".part";
const TEXT: &str =
    "feedline: files of this set are getting their names; if nobody does that any more, it is not whole\n";
/// Names are given in milliseconds; whoever takes so long was stopped.
const PATIENCE: Duration = Duration::from_secs(30);

/// The name of a shard taken apart: what stands in front of its number, how many there are, and the ending.
fn shard(name: &str) -> Option<(&str, &str, &str)> {
    let (stem, ending) = match name.find('.').filter(|at| *at > 0) {
        Some(dot) => name.split_at(dot),
        None => (name, ""),
    };
    let at = stem.len().checked_sub("-00000-of-00000".len())?;
    let (number, count) = stem.get(at..)?.strip_prefix('-')?.split_once("-of-")?;
    (is_number(number) && is_number(count)).then_some((&stem[..at], count, ending))
}

fn is_number(text: &str) -> bool {
    text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit())
}

/// What would say that the set of a file is not whole; `None` if it is no shard.
fn marker_of(path: &Path) -> Option<PathBuf> {
    let (stem, count, ending) = shard(path.file_name()?.to_str()?)?;
    Some(path.with_file_name(format!(".{stem}-of-{count}{ending}{MARKER}")))
}

/// One that is empty was made a moment before anything was changed.
fn is_marker(path: &Path) -> bool {
    fs::read(path).is_ok_and(|text| text.starts_with(TEXT.as_bytes()))
}

/// An error if one of these files is of a set that did not get all its names.
pub(crate) fn refuse_unfinished<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    // Shards of a set follow each other: one look serves all of them.
    let mut last = None;
    for name in names {
        let Ok(Location::Local(path)) = locate(name) else { continue };
        let Some(marker) = marker_of(Path::new(path)) else { continue };
        if last.as_ref() == Some(&marker) {
            continue;
        }
        if is_marker(&marker) {
            let marker = marker.display();
            let message = format!(
                "the set that this file belongs to is not whole: whoever saved it was killed, or is about to end; save it \
                 again, or remove its files and {marker}"
            );
            return Err(Error::new(Kind::Io, message).in_file(name, None));
        }
        last = Some(marker);
    }
    Ok(())
}

/// Whether it could be locked at once; `None` where there are no locks.
pub(crate) fn try_lock(file: &File) -> Option<bool> {
    // SAFETY: an open descriptor; the lock ends with it.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Some(true);
    }
    (io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock).then_some(false)
}

/// Whether this very file is there under a path.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let of = |meta: fs::Metadata| (meta.dev(), meta.ino());
    file.metadata().is_ok_and(|own| fs::symlink_metadata(path).is_ok_and(|there| of(own) == of(there)))
}

/// The marker of a set, held by this process.
struct Marker {
    path: PathBuf,
    _lock: File,
}

impl Marker {
    fn set(path: PathBuf) -> io::Result<Marker> {
        let begun = Instant::now();
        loop {
            let mut file = File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
            if try_lock(&file) == Some(false) {
                if begun.elapsed() > PATIENCE {
                    return Err(io::Error::other("another process is saving the same files"));
                }
                std::thread::sleep(Duration::from_millis(2));
                continue;
            }
            // It may have gone under the lock of another.
            if !is_at(&file, &path) {
                continue;
            }
            // One that a killed process left stays as it is: what it says is still true.
            if !is_marker(&path) {
                if file.metadata()?.len() > 0 {
                    return Err(io::Error::other(format!("{} is in the way; remove it", path.display())));
                }
                file.write_all(TEXT.as_bytes())?;
                file.sync_all()?;
            }
            return Ok(Marker { path, _lock: file });
        }
    }
    fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Gives all of them their names, or none. Objects of a store appear one after another.
pub fn commit_together(mut sinks: Vec<Box<dyn Sink>>) -> Result<()> {
    for sink in &mut sinks {
        sink.settle()?;
    }
    if sinks.len() > 1 && sinks.iter_mut().all(|sink| sink.as_file().is_some()) {
        return name_all(&mut sinks.iter_mut().filter_map(|sink| sink.as_file()).collect::<Vec<_>>());
    }
    sinks.into_iter().try_for_each(|sink| sink.commit())
}

fn name_all(files: &mut [&mut AtomicFile]) -> Result<()> {
    let failed = |e: io::Error, name: &str, path: &Path| {
        Error::new(Kind::Io, in_words(&e, path)).in_file(name, None).with_source(Arc::new(e))
    };
    let mut folders: BTreeSet<PathBuf> = files.iter().map(|file| folder_of(&file.path).to_path_buf()).collect();
    // Beside the name that readers use, which may be a link.
    let marker = match locate(&files[0].name)? {
        Location::Local(path) => marker_of(Path::new(path)),
        #[cfg(feature = "remote")]
        _ => None,
    };
    let marker = match marker {
        Some(path) => {
            folders.insert(folder_of(&path).to_path_buf());
            Some(Marker::set(path.clone()).map_err(|e| failed(e, &files[0].name, &path))?)
        }
        None => None,
    };
    // Some file systems cannot do this with folders; there is nothing else to do then.
    let sync = || folders.iter().for_each(|folder| drop(File::open(folder).and_then(|folder| folder.sync_all())));
    sync();
    let (mut aside, mut named) = (Vec::new(), Vec::new());
    let mut rename = || {
        for file in files.iter() {
            if let Some(old) = set_aside(&file.path).map_err(|e| failed(e, &file.name, &file.path))? {
                aside.push((old, file.path.clone()));
            }
        }
        for file in files.iter_mut() {
            fs::rename(&file.temporary, &file.path).map_err(|e| failed(e, &file.name, &file.path))?;
            file.file = None;
            named.push(file.path.clone());
        }
        Ok(())
    };
    if let Err(error) = rename() {
        // As it was. Where that cannot be, the marker stays.
        let mut is_back = named.iter().all(|path| fs::remove_file(path).is_ok());
        aside.iter().for_each(|(old, path)| is_back &= fs::rename(old, path).is_ok());
        if let Some(marker) = marker.filter(|_| is_back) {
            marker.remove();
        }
        return Err(error);
    }
    sync();
    if let Some(marker) = marker {
        marker.remove();
        sync();
    }
    // Large files take a while: all others can be read by now.
    aside.iter().for_each(|(old, _)| drop(fs::remove_file(old)));
    Ok(())
}

/// Another name for a file that is to be replaced, as that of a temporary file: if this process is killed, the next writer
/// removes it. `None`: there is none.
fn set_aside(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.is_file() => {
            return Err(io::Error::other("something is there that is not a regular file: it cannot be replaced"));
        }
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    }
    let file_name = path.file_name().unwrap_or_default();
    loop {
        let aside = folder_of(path).join(temporary_name(file_name));
        if fs::symlink_metadata(&aside).is_err() {
            fs::rename(path, &aside)?;
            return Ok(Some(aside));
        }
    }
}

/// Removes what killed writers of these files have left: temporary files, and of several names, which are a set, the files of
/// sets of this name that are not whole, however many shards they have. What a living process writes stays, and so
/// does everything else. It need not work.
pub fn sweep(names: &[String]) {
    let mut wanted: BTreeMap<PathBuf, BTreeSet<OsString>> = BTreeMap::new();
    for name in names {
        let Ok(Location::Local(path)) = locate(name) else { continue };
        // Where a link points to is where the file is written.
        for path in [Some(PathBuf::from(path)), fs::canonicalize(path).ok()].into_iter().flatten() {
            if let Some(name) = path.file_name() {
                wanted.entry(folder_of(&path).to_path_buf()).or_default().insert(name.to_os_string());
            }
        }
    }
    let set = if names.len() > 1 { names[0].rsplit('/').next().and_then(shard) } else { None };
    let of_set = |stem: &str, ending: &str| set.is_some_and(|(s, _, e)| (s, e) == (stem, ending));
    for (folder, files) in wanted {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        let entries: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        for name in &entries {
            let path = folder.join(name);
            if let Some(file) = written_as(name) {
                let is_ours = files.contains(&OsString::from(file))
                    || shard(file).is_some_and(|(stem, _, ending)| of_set(stem, ending));
                if is_ours {
                    remove_unless_locked(&path);
                }
            } else if let Some((stem, count, ending)) = marked(name)
                && of_set(stem, ending)
                && is_marker(&path)
                && let Ok(lock) = File::open(&path)
                && try_lock(&lock) == Some(true)
                && is_at(&lock, &path)
            {
                let is_part = |name: &&String| shard(name) == Some((stem, count, ending));
                let left = entries.iter().filter(is_part);
                if left.map(|name| fs::remove_file(folder.join(name))).all(|removed| removed.is_ok()) {
                    let _ = fs::remove_file(&path);
                }
            }
        }
    }
}

/// Of the name of a temporary file (`.name.77-3.tmp`): which file was to be written.
fn written_as(name: &str) -> Option<&str> {
    let (file, number) = name.strip_prefix('.')?.strip_suffix(".tmp")?.rsplit_once('.')?;
    let (process, count) = number.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(process) && is_number(count)).then_some(file)
}

/// Of the name of a marker (`.train-of-00200.tfrecord.part`): which set.
fn marked(name: &str) -> Option<(&str, &str, &str)> {
    let name = name.strip_prefix('.')?.strip_suffix(MARKER)?;
    let (stem, ending) = match name.find('.').filter(|at| *at > 0) {
        Some(dot) => name.split_at(dot),
        None => (name, ""),
    };
    let (stem, count) = stem.rsplit_once("-of-")?;
    is_number(count).then_some((stem, count, ending))
}

fn remove_unless_locked(path: &Path) {
    let is_file = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
    let Some(file) = is_file.then(|| File::open(path).ok()).flatten() else { return };
    if try_lock(&file) == Some(true) && is_at(&file, path) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{create, expand, glob_data, open};

    fn names(dir: &Path, count: usize) -> Vec<String> {
        (0..count).map(|i| format!("{}/a-{i:05}-of-{count:05}.x.gz", dir.display())).collect()
    }
    fn begin(dir: &Path, count: usize, text: &str) -> Vec<Box<dyn Sink>> {
        let begin = |name: &String| {
            let mut sink = create(name).unwrap();
            sink.write_all(text.as_bytes()).unwrap();
            sink
        };
        names(dir, count).iter().map(begin).collect()
    }
    fn entries(dir: &Path) -> Vec<String> {
        let mut all: Vec<String> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        all.sort();
        all
    }
    fn texts(dir: &Path, count: usize) -> Vec<String> {
        names(dir, count).iter().map(|name| fs::read_to_string(name).unwrap_or_default()).collect()
    }

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(shard("a-00003-of-00200.x.gz"), Some(("a", "00200", ".x.gz")));
        assert_eq!(shard("-00003-of-00200"), Some(("", "00200", "")));
        assert_eq!(shard(".a.b-00003-of-00200"), Some((".a.b", "00200", "")));
        assert_eq!(shard(".a-00003-of-00200"), Some((".a", "00200", "")));
        for other in ["a.x", "a-3-of-5.x", "a-00003-of-0020x", "é-0003-of-00200", "", "00003-of-00200"] {
            assert_eq!(shard(other), None, "{other}");
        }
        assert_eq!(written_as(".a.x.77-3.tmp"), Some("a.x"));
        for other in ["a.x.77-3.tmp", ".a.x.77.tmp", ".a.x.77-.tmp", ".a.x.7b-3.tmp", ".77-3.tmp"] {
            assert_eq!(written_as(other), None, "{other}");
        }
        let marker = marker_of(Path::new("f/a-00003-of-00200.x.gz")).unwrap();
        assert_eq!(marker, Path::new("f/.a-of-00200.x.gz.part"));
        assert_eq!(marked(".a-of-00200.x.gz.part"), Some(("a", "00200", ".x.gz")));
        assert_eq!(marked(".a.x.gz.part"), None);
    }

    #[test]
    fn all_or_none_get_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        commit_together(begin(dir, 3, "old")).unwrap();
        assert_eq!((texts(dir, 3), entries(dir).len()), (vec!["old".into(); 3], 3));
        commit_together(begin(dir, 3, "new")).unwrap();
        assert_eq!((texts(dir, 3), entries(dir).len()), (vec!["new".into(); 3], 3));
        // The last cannot be moved away: those before it come back.
        let sinks = begin(dir, 3, "newer");
        let last = names(dir, 3).remove(2);
        fs::remove_file(&last).unwrap();
        fs::create_dir(&last).unwrap();
        let error = commit_together(sinks).unwrap_err();
        assert!(error.to_string().contains("00002-of-00003") && error.to_string().contains("regular"), "{error}");
        assert_eq!((texts(dir, 2).len(), entries(dir).len()), (2, 3));
        assert_eq!(texts(dir, 3)[..2], ["new", "new"]);
        // A temporary file is gone: those that have their names lose them.
        fs::remove_dir(&last).unwrap();
        fs::write(&last, "new").unwrap();
        let mut sinks = begin(dir, 3, "newer");
        fs::remove_file(&sinks[2].as_file().unwrap().temporary).unwrap();
        commit_together(sinks).unwrap_err();
        assert_eq!((texts(dir, 3), entries(dir).len()), (vec!["new".into(); 3], 3));
    }

    /// What a killed process leaves that had given so many names.
    fn killed(dir: &Path, count: usize, given: usize) {
        let mut sinks = begin(dir, count, "killed");
        let marker = Marker::set(marker_of(Path::new(&names(dir, count)[0])).unwrap()).unwrap();
        drop(marker);
        for sink in &mut sinks[..given] {
            sink.settle().unwrap();
            let file = sink.as_file().unwrap();
            fs::rename(&file.temporary, &file.path).unwrap();
        }
        for mut sink in sinks {
            drop(sink.as_file().unwrap().file.take());
        }
    }

    #[test]
    fn what_is_not_whole_is_not_read_and_makes_room() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        killed(dir, 4, 3);
        assert_eq!(entries(dir).len(), 5, "three, a temporary file and the marker");
        let root = dir.display();
        let first = names(dir, 4).remove(0);
        for name in [
            first.clone(),
            format!("{root}/*"),
            format!("{root}/a-*.gz"),
            format!("{root}/"),
            format!("file://{first}"),
        ] {
            let error = expand(&name).unwrap_err();
            assert!(
                error.to_string().contains("not whole") && error.to_string().contains("save it"),
                "{name}: {error}"
            );
        }
        assert!(glob_data(&format!("{root}/a-*")).is_err() && open(&first).is_err());
        // Others of the folder are not meant.
        fs::write(dir.join("b-00000-of-00004.x.gz"), "b").unwrap();
        assert_eq!(expand(&format!("{root}/b*")).unwrap().len(), 1);
        // Another number of shards, of the same name.
        for kept in [".a.x.gz.77-3.tmp", ".b-00000-of-00004.x.gz.77-3.tmp", ".a-00000-of-00004.x.gz.tmp", "a.x.gz"] {
            fs::write(dir.join(kept), "mine").unwrap();
        }
        sweep(&names(dir, 2));
        assert_eq!(entries(dir).len(), 5, "{:?}", entries(dir));
        commit_together(begin(dir, 2, "new")).unwrap();
        assert_eq!(expand(&format!("{root}/a-*")).unwrap(), names(dir, 2));
        // Or the same, without a look before.
        killed(dir, 2, 1);
        commit_together(begin(dir, 2, "newer")).unwrap();
        assert_eq!((expand(&format!("{root}/a-*")).unwrap().len(), texts(dir, 2)), (2, vec!["newer".into(); 2]));
    }

    #[test]
    fn what_somebody_writes_stays() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let alive = begin(dir, 3, "alive");
        killed(dir, 3, 0);
        let marker = Marker::set(dir.join(".a-of-00003.x.gz.part")).unwrap();
        assert_eq!(entries(dir).len(), 7);
        sweep(&names(dir, 3));
        assert_eq!(entries(dir).len(), 4, "{:?}", entries(dir));
        drop(marker);
        commit_together(alive).unwrap();
        assert_eq!((texts(dir, 3), entries(dir).len()), (vec!["alive".into(); 3], 3));
        // A single file is no set: others of its name are left to their writers.
        killed(dir, 3, 2);
        sweep(&names(dir, 3)[2..]);
        assert_eq!(entries(dir).len(), 4);
        assert!(dir.join(".a-of-00003.x.gz.part").exists());
        // What is not ours is in the way, and stays.
        fs::write(dir.join(".a-of-00005.x.gz.part"), "mine").unwrap();
        assert!(commit_together(begin(dir, 5, "x")).unwrap_err().to_string().contains("in the way"));
        sweep(&names(dir, 5));
        assert_eq!(entries(dir), [".a-of-00005.x.gz.part"]);
    }
}
