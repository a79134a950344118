//! What fuzzing has found so far: every kept input still runs without a panic.

use feedline_formats::fuzzing::TARGETS;
use std::fs;
use std::path::Path;

#[test]
fn kept_inputs_run() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, target) in TARGETS {
        let folder = corpus.join(name);
        let mut inputs: Vec<_> = fs::read_dir(&folder)
            .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
            .map(|entry| entry.unwrap().path())
            .collect();
        inputs.sort();
        assert!(inputs.len() >= 2, "{name} has hardly any input");
        for input in inputs {
            println!("{}", input.display());
            target(&fs::read(&input).unwrap());
        }
    }
}

#[test]
fn each_target_has_its_file() {
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    for (name, _) in TARGETS {
        assert!(targets.join(format!("{name}.rs")).exists(), "{name}");
    }
}
