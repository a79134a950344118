//! A folder with the built command in it, for tests.
#![allow(dead_code)] // each test uses what it needs

use serde_json::Value as Json;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A folder of its own, and the command in it.
pub struct Place(pub TempDir);

impl Place {
    pub fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }
    pub fn get(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_feedline"));
        let cache = self.path(".cache");
        command.current_dir(self.0.path()).args(words).stdin(Stdio::null()).env("FEEDLINE_INDEX_DIR", cache);
        command
    }
    pub fn run(&self, words: &[&str]) -> Ran {
        Ran::of(self.command(words).output().unwrap(), words)
    }
    /// Runs it with `--json` and gives the document, too.
    pub fn json(&self, words: &[&str]) -> (i32, Json) {
        let ran = self.run(&[words, &["--json"]].concat());
        let json = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{words:?}: {e}: {}", ran.out));
        (ran.code, json)
    }
    pub fn rows(&self, name: &str) -> Vec<Json> {
        let (code, json) = self.json(&["head", "-n", "1000000", name]);
        assert_eq!(code, 0, "{json}");
        json["rows"].as_array().unwrap().clone()
    }
}

pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(output: Output, words: &[&str]) -> Ran {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let ran = Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) };
        assert!(!ran.err.contains("panicked"), "{words:?}: {}", ran.err);
        ran
    }
}
