//! What fuzzing has found so far, for the tests of the crates with targets: every kept input still runs without a panic.

use std::fs;
use std::path::Path;

/// A target by its name.
pub type Target = (&'static str, fn(&[u8]));

pub fn kept_inputs_run(targets: &[Target]) {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    for (name, target) in targets {
        assert!(fuzz.join("fuzz_targets").join(format!("{name}.rs")).exists(), "{name} has no file");
        let folder = fuzz.join("corpus").join(name);
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
