//! What a pattern names: files of this machine, or objects of a store.
//!
//! `glob` is TensorFlow's `matching_files`: each part of a path is matched on its own (`*` and `?` do not cross `/`),
//! hidden files match, folders that match are named too, the result is sorted by its bytes, and nothing found is no
//! error. `expand` is for readers: also a plain file, or a folder (its files, without those whose names begin with `.` or
//! `_`, which are hidden or notes of whoever wrote it, as Spark's `_SUCCESS`), or `**` as a part of its own (any number of
//! folders, without hidden ones); only files come out, and nothing found is an error. The indexes that are kept beside record
//! files are no data: `expand` leaves them out, unless one is named outright. A set that was not saved to its end is refused.
//!
//! A web address names itself: servers have no folders, and `?` begins a query. A name that is no UTF-8 is an error if it
//! is wanted: names travel as text, and a changed one could not be opened.

use crate::glob::{Glob, is_pattern};
use crate::local::in_words;
use crate::location::{Location, locate};
use crate::shards::refuse_unfinished;
use crate::{Error, Kind, Result};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What the indexes of record files are called: the file's name and this.
pub const INDEX_ENDING: &str = ".flidx";

/// What matches a pattern, as TensorFlow says it.
pub fn glob(pattern: &str) -> Result<Vec<String>> {
    let Some(named) = Named::new(pattern)? else { return Ok(vec![pattern.to_string()]) };
    let found = find(&*named.tree, &parts(named.path, false))?;
    let found: Vec<String> = found.into_iter().map(|found| named.text(found.path)).collect::<Result<_>>()?;
    crate::witness::note_pattern(pattern, &found);
    Ok(found)
}

/// The same for whoever reads what is found. Without the indexes that lie beside record files, which TensorFlow does not
/// make: what reads a folder today must read it also when an index was made. A pattern that asks for them gets them.
pub fn glob_data(pattern: &str) -> Result<Vec<String>> {
    let mut found = glob(pattern)?;
    if !pattern.ends_with(INDEX_ENDING) {
        found.retain(|name| !name.ends_with(INDEX_ENDING));
    }
    refuse_unfinished(found.iter().map(String::as_str))?;
    Ok(found)
}

/// The files that a reader means by a name.
pub fn expand(name: &str) -> Result<Vec<String>> {
    expand_ending(name, &[])
}

/// The same; a folder stands for those of its files whose names end with one of these, if there are any of these.
pub fn expand_ending(name: &str, endings: &[String]) -> Result<Vec<String>> {
    expand_to(name, endings)?.into_iter().collect()
}

/// The same for whoever can do without some: a file whose name is no text is an error in its place.
pub fn expand_each(name: &str) -> Result<Vec<Result<String>>> {
    expand_to(name, &[])
}

fn expand_to(name: &str, endings: &[String]) -> Result<Vec<Result<String>>> {
    let found = look_up(name, endings)?;
    refuse_unfinished(found.iter().flatten().map(String::as_str))?;
    Ok(found)
}

fn look_up(name: &str, endings: &[String]) -> Result<Vec<Result<String>>> {
    let Some(named) = Named::new(name)? else { return Ok(vec![Ok(name.to_string())]) };
    let Named { tree, path, .. } = &named;
    // What is there under the very name needs no pattern: `data[1].csv` may be a file. Nobody writes a `*` into one, and
    // a store may not answer to names that are not there.
    let there = if path.contains('*') { None } else { tree.kind(path.as_bytes())? };
    match there {
        Some(Is::File) => return Ok(vec![Ok(name.to_string())]),
        Some(Is::Folder) => return named.files_of_folder(name, endings),
        None => {}
    }
    if !is_pattern(path) {
        return Err(missing(format!("there is no file or folder {name}{}", tree.seen_from(path))));
    }
    let parts = parts(path, true);
    let mut found = find(&**tree, &parts)?;
    found.retain(|f| f.is == Is::File && !is_index(&f.path));
    match found.is_empty() {
        true => Err(nothing(name, &named, &parts)),
        false => Ok(found.into_iter().map(|f| named.text(f.path)).collect()),
    }
}

/// The files in a folder, sorted, and none if it is empty. A folder that is not there is an error.
pub fn files_in(folder: &str) -> Result<Vec<String>> {
    let Some(named) = Named::new(folder)? else { return Err(missing(format!("{folder} is not a folder"))) };
    match named.tree.kind(named.path.as_bytes())? {
        Some(Is::Folder) => {}
        _ => return Err(missing(format!("there is no folder {folder}{}", named.tree.seen_from(named.path)))),
    }
    let has_files = named.tree.children(&named.folder())?.iter().any(Child::is_data);
    if has_files { named.files_of_folder(folder, &[])?.into_iter().collect() } else { Ok(vec![]) }
}

/// The files that a reader means by several names, in their order. Objects are looked for side by side.
pub fn expand_all<S: AsRef<str>>(names: &[S]) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for names in names.chunks(64) {
        let looks: Vec<_> = names.iter().map(|name| look(name.as_ref())).collect();
        for (name, look) in names.iter().zip(looks) {
            match look.map(crate::Task::wait) {
                Some(Ok(true)) => all.push(name.as_ref().to_string()),
                _ => all.extend(expand(name.as_ref())?),
            }
        }
    }
    Ok(all)
}

/// Whether there is an object of this very name, on its way; `None`: it is not far, or a pattern.
fn look(name: &str) -> Option<crate::Task<Result<bool>>> {
    #[cfg(feature = "remote")]
    if let Ok(location @ Location::Object { key, .. }) = locate(name)
        && !key.contains('*')
        && !key.ends_with('/')
        && !key.is_empty()
    {
        return Some(std::sync::Arc::new(crate::Remote::new(name, &location).ok()?).exists());
    }
    let _ = name;
    None
}

/// Whether there is such a file, folder or object.
pub fn exists(name: &str) -> Result<bool> {
    match Named::new(name)? {
        Some(named) => Ok(named.tree.kind(named.path.as_bytes())?.is_some()),
        #[cfg(feature = "remote")]
        None => std::sync::Arc::new(crate::Remote::new(name, &locate(name)?)?).exists().wait(),
        #[cfg(not(feature = "remote"))]
        None => Ok(false),
    }
}

/// A name taken apart: where its files hang, and its path there.
struct Named<'a> {
    tree: Box<dyn Tree>,
    /// What stands before a path in a name.
    before: String,
    path: &'a str,
}

impl Named<'_> {
    /// `None`: it is a web address.
    fn new(name: &str) -> Result<Option<Named<'_>>> {
        Ok(Some(match locate(name)? {
            Location::Local(path) => {
                Named { tree: Box::new(Files), before: name[..name.len() - path.len()].into(), path }
            }
            #[cfg(feature = "remote")]
            Location::Http(_) => return Ok(None),
            #[cfg(feature = "remote")]
            location @ Location::Object { scheme, bucket, key } => {
                let tree = Box::new(crate::objects::Objects::new(name, &location)?);
                Named { tree, before: format!("{scheme}://{bucket}/"), path: key }
            }
        }))
    }

    /// A found path as a name.
    fn text(&self, path: Vec<u8>) -> Result<String> {
        match String::from_utf8(path) {
            Ok(path) => Ok(format!("{}{path}", self.before)),
            Err(e) => {
                let path = escaped(e.as_bytes());
                Err(Error::new(Kind::Io, "the name of this file is not UTF-8; rename it").in_file(&path, None))
            }
        }
    }

    /// Its path as that of a folder.
    fn folder(&self) -> Vec<u8> {
        let mut folder = self.path.as_bytes().to_vec();
        if !folder.is_empty() && !folder.ends_with(b"/") {
            folder.push(b'/');
        }
        folder
    }
    fn files_of_folder(&self, name: &str, endings: &[String]) -> Result<Vec<Result<String>>> {
        let folder = self.folder();
        let mut children = self.tree.children(&folder)?;
        let has_folders = children.iter().any(|child| child.is == Is::Folder);
        children.retain(Child::is_data);
        if children.is_empty() {
            let instead = if has_folders { ", only folders; name them, or use **" } else { "" };
            return Err(missing(format!("the folder {name} has no files{instead}")));
        }
        if !endings.is_empty() {
            children.retain(|child| endings.iter().any(|ending| child.name.ends_with(ending.as_bytes())));
            if children.is_empty() {
                return Err(missing(format!("no file in {name} ends with {}", endings.join(" or "))));
            }
        }
        children.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(children.into_iter().map(|child| self.text([folder.as_slice(), &child.name].concat())).collect())
    }
}

/// A name that is no text, so that it can be told from others: bytes that are none as `\xff`.
fn escaped(name: &[u8]) -> String {
    let part = |chunk: std::str::Utf8Chunk<'_>| format!("{}{}", chunk.valid(), chunk.invalid().escape_ascii());
    name.utf8_chunks().map(part).collect()
}

/// Something with files in folders. Paths are bytes: file names need not be text.
pub(crate) trait Tree {
    /// What is in a folder whose name is empty or ends with `/`; nothing if there is no such folder.
    fn children(&self, folder: &[u8]) -> Result<Vec<Child>>;
    /// What is there under a path.
    fn kind(&self, path: &[u8]) -> Result<Option<Is>>;
    /// Tells folders apart that have many names, because of links.
    fn identity(&self, _folder: &[u8]) -> Option<(u64, u64)> {
        None
    }
    /// For a path that is not there: from where it was looked for.
    fn seen_from(&self, _path: &str) -> String {
        String::new()
    }
}

#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) name: Vec<u8>,
    pub(crate) is: Is,
}

impl Child {
    /// Whether a reader means it by the name of its folder.
    fn is_data(&self) -> bool {
        self.is == Is::File && !self.name.starts_with(b".") && !self.name.starts_with(b"_") && !is_index(&self.name)
    }
}

fn is_index(path: &[u8]) -> bool {
    path.ends_with(INDEX_ENDING.as_bytes())
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Is {
    File,
    Folder,
}

/// One part of a path that is looked for.
#[derive(Debug)]
enum Part {
    Text(String),
    Glob(Glob),
    /// Any number of folders.
    Deep,
}

/// The parts of a pattern, the empty ones between `//` left out; a leading `/` is the first.
fn parts(pattern: &str, deep: bool) -> Vec<Part> {
    let mut parts = Vec::new();
    if pattern.starts_with('/') {
        parts.push(Part::Text("/".into()));
    }
    for text in pattern.split('/').filter(|text| !text.is_empty()) {
        if deep && text == "**" {
            parts.push(Part::Deep);
            continue;
        }
        let glob = Glob::new(text);
        parts.push(match glob.literal() {
            Some(text) => Part::Text(text),
            None => Part::Glob(glob),
        });
    }
    parts
}

struct Found {
    path: Vec<u8>,
    is: Is,
}

/// All that matches, sorted by its bytes.
fn find(tree: &dyn Tree, parts: &[Part]) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    walk(tree, Vec::new(), parts, &mut Vec::new(), &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.dedup_by(|a, b| a.path == b.path);
    Ok(found)
}

/// `folder` is what the parts before matched, and `within` the folders that `**` has gone down through.
fn walk(
    tree: &dyn Tree,
    folder: Vec<u8>,
    parts: &[Part],
    within: &mut Vec<(u64, u64)>,
    found: &mut Vec<Found>,
) -> Result<()> {
    let join = |name: &[u8], is_last: bool| {
        let mut path = folder.clone();
        path.extend_from_slice(name);
        if !is_last && !path.ends_with(b"/") {
            path.push(b'/');
        }
        path
    };
    let Some((part, rest)) = parts.split_first() else { return Ok(()) };
    match part {
        Part::Text(text) => {
            let path = join(text.as_bytes(), rest.is_empty());
            if !rest.is_empty() {
                return walk(tree, path, rest, within, found);
            }
            if let Some(is) = tree.kind(&path)? {
                found.push(Found { path, is });
            }
        }
        Part::Glob(glob) => {
            for child in tree.children(&folder)? {
                if !glob.matches(&child.name) {
                    continue;
                }
                let path = join(&child.name, rest.is_empty());
                match child.is {
                    is if rest.is_empty() => found.push(Found { path, is }),
                    Is::Folder => walk(tree, path, rest, within, found)?,
                    Is::File => {}
                }
            }
        }
        Part::Deep => {
            let identity = tree.identity(&folder);
            if identity.is_some_and(|identity| within.contains(&identity)) {
                return Ok(());
            }
            within.extend(identity);
            // No folder at all, or one more; at the end, all files.
            if !rest.is_empty() {
                walk(tree, folder.clone(), rest, within, found)?;
            }
            for child in tree.children(&folder)? {
                if child.name.starts_with(b".") {
                    continue;
                }
                match child.is {
                    Is::Folder => walk(tree, join(&child.name, false), parts, within, found)?,
                    Is::File if rest.is_empty() => found.push(Found { path: join(&child.name, true), is: Is::File }),
                    Is::File => {}
                }
            }
            if identity.is_some() {
                within.pop();
            }
        }
    }
    Ok(())
}

/// Says what was looked for, and how far it is there.
fn nothing(name: &str, named: &Named<'_>, parts: &[Part]) -> Error {
    let mut folder = Vec::new();
    for part in parts {
        let Part::Text(text) = part else { break };
        folder.extend_from_slice(text.as_bytes());
        if !folder.ends_with(b"/") {
            folder.push(b'/');
        }
    }
    let place = match format!("{}{}", named.before, String::from_utf8_lossy(&folder)) {
        place if place.is_empty() => "the current folder".into(),
        place => place,
    };
    let there = match named.tree.children(&folder) {
        Ok(children) if children.is_empty() => format!("{place} is empty or not there"),
        Ok(mut children) => {
            children.sort_by(|a, b| a.name.cmp(&b.name));
            let some: Vec<_> = children.iter().take(3).map(|c| String::from_utf8_lossy(&c.name)).collect();
            format!("{place} has {} entries, such as {}", children.len(), some.join(", "))
        }
        Err(error) => error.to_string(),
    };
    missing(format!("no file matches {name}: {there}{}", named.tree.seen_from(named.path)))
}

/// What is asked for is not there.
fn missing(text: String) -> Error {
    Error::new(Kind::Io, text).with_source(std::sync::Arc::new(std::io::Error::from(std::io::ErrorKind::NotFound)))
}

/// What the system said of a path.
fn refused(e: std::io::Error, path: &Path) -> Error {
    Error::new(Kind::Io, in_words(&e, path)).in_file(&path.to_string_lossy(), None).with_source(std::sync::Arc::new(e))
}

/// The files of this machine.
struct Files;

impl Files {
    fn path(path: &[u8]) -> &Path {
        Path::new(OsStr::from_bytes(if path.is_empty() { b"." } else { path }))
    }
}

impl Tree for Files {
    fn children(&self, folder: &[u8]) -> Result<Vec<Child>> {
        let path = Files::path(folder);
        let failed = |e: std::io::Error| refused(e, path);
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(e) => {
                use std::io::ErrorKind::{NotADirectory, NotFound};
                return if matches!(e.kind(), NotFound | NotADirectory) { Ok(Vec::new()) } else { Err(failed(e)) };
            }
        };
        let mut children = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let is_folder = match entry.file_type() {
                // A link is what it points to; one that points nowhere is as good as a file, whose reader will say so.
                Ok(kind) if kind.is_symlink() => fs::metadata(entry.path()).is_ok_and(|meta| meta.is_dir()),
                kind => kind.is_ok_and(|kind| kind.is_dir()),
            };
            let is = if is_folder { Is::Folder } else { Is::File };
            children.push(Child { name: entry.file_name().into_vec(), is });
        }
        Ok(children)
    }
    fn kind(&self, path: &[u8]) -> Result<Option<Is>> {
        if path.is_empty() {
            return Ok(None);
        }
        let path = Files::path(path);
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => Ok(Some(Is::Folder)),
            Ok(_) => Ok(Some(Is::File)),
            Err(e) => match e.raw_os_error() {
                // A pattern can be longer than any name, and a name with a zero byte is none.
                Some(libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG) | None => Ok(None),
                _ => Err(refused(e, path)),
            },
        }
    }
    fn identity(&self, folder: &[u8]) -> Option<(u64, u64)> {
        let meta = fs::metadata(Files::path(folder)).ok()?;
        Some((meta.dev(), meta.ino()))
    }
    fn seen_from(&self, path: &str) -> String {
        match std::env::current_dir() {
            Ok(dir) if !path.starts_with('/') => format!(" (seen from {})", dir.display()),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        dir
    }
    type Find = fn(&str) -> Result<Vec<String>>;
    /// The result without the folder of the test.
    fn found(how: Find, dir: &tempfile::TempDir, pattern: &str) -> Vec<String> {
        let root = format!("{}/", dir.path().display());
        let names = how(&format!("{root}{pattern}")).unwrap();
        names.into_iter().map(|name| name.strip_prefix(&root).unwrap().to_string()).collect()
    }

    #[test]
    fn patterns_find_what_tensorflow_finds() {
        let dir = tree(&["b.txt", "a.txt", "c.dat", "sub/d.txt", ".hidden.txt", "x.d/e.txt"]);
        assert_eq!(found(glob, &dir, "*.txt"), [".hidden.txt", "a.txt", "b.txt"]);
        assert_eq!(found(glob, &dir, "*/*.txt"), ["sub/d.txt", "x.d/e.txt"]);
        assert_eq!(found(glob, &dir, "[a-x]*.?[xs]?"), ["a.txt", "b.txt"]);
        // Folders are named too, and `**` is no more than `*`.
        assert_eq!(found(glob, &dir, "*.d*"), ["c.dat", "x.d"]);
        assert_eq!(found(glob, &dir, "**/*.txt"), ["sub/d.txt", "x.d/e.txt"]);
        assert_eq!(found(glob, &dir, "*.nope"), [""; 0]);
        assert_eq!(found(glob, &dir, "nope/*"), [""; 0]);
        assert_eq!(found(glob, &dir, "a.txt"), ["a.txt"]);
        assert_eq!(found(glob, &dir, "a.txt/*"), [""; 0]);
    }

    #[test]
    fn readers_get_files() {
        let dir = tree(&["b.txt", "a.txt", "d.txt/inner", ".hidden.txt", "sub/e.txt", "sub/deep/f.txt", "data[1].csv"]);
        assert_eq!(found(expand, &dir, "*.txt"), [".hidden.txt", "a.txt", "b.txt"]);
        assert_eq!(found(expand, &dir, "a.txt"), ["a.txt"]);
        assert_eq!(found(expand, &dir, "data[1].csv"), ["data[1].csv"]);
        assert_eq!(found(expand, &dir, ""), ["a.txt", "b.txt", "data[1].csv"]);
        assert_eq!(found(expand, &dir, "sub"), ["sub/e.txt"]);
        assert_eq!(found(expand, &dir, "**/*.txt"), [".hidden.txt", "a.txt", "b.txt", "sub/deep/f.txt", "sub/e.txt"]);
        assert_eq!(found(expand, &dir, "sub/**"), ["sub/deep/f.txt", "sub/e.txt"]);
        let spark = tree(&["_SUCCESS", "._SUCCESS.crc", "part-1.parquet", "part-0.parquet", "notes.txt", "_x.parquet"]);
        assert_eq!(found(expand, &spark, ""), ["notes.txt", "part-0.parquet", "part-1.parquet"]);
        assert_eq!(found(expand, &spark, "_x.parquet"), ["_x.parquet"]);
        let tables: Find = |name| expand_ending(name, &[".parquet".into()]);
        assert_eq!(found(tables, &spark, ""), ["part-0.parquet", "part-1.parquet"]);
        assert_eq!(found(tables, &spark, "*"), found(expand, &spark, "*"));
        let error = expand_ending(spark.path().to_str().unwrap(), &[".npy".into(), ".npz".into()]).unwrap_err();
        assert!(error.message().contains("ends with .npy or .npz"), "{error}");
        let url = format!("file://{}/sub/*", dir.path().display());
        assert_eq!(expand(&url).unwrap(), [url.replace('*', "e.txt")]);
        let both = [format!("{}/b.txt", dir.path().display()), format!("{}/a*", dir.path().display())];
        assert_eq!(expand_all(&both).unwrap(), [both[0].clone(), both[1].replace("a*", "a.txt")]);
        assert!(exists(&both[0]).unwrap() && !exists(&both[1]).unwrap());
        assert!(exists(dir.path().to_str().unwrap()).unwrap());
    }

    #[test]
    fn indexes_are_no_data() {
        let dir = tree(&["a", "a.flidx", "b", "b.flidx", "sub/c", "sub/c.flidx", "only/d.flidx"]);
        assert_eq!(found(expand, &dir, ""), ["a", "b"]);
        assert_eq!(found(expand, &dir, "*"), ["a", "b"]);
        assert_eq!(found(expand, &dir, "a*"), ["a"]);
        assert_eq!(found(expand, &dir, "**"), ["a", "b", "sub/c"]);
        assert_eq!(found(expand, &dir, "a.flidx"), ["a.flidx"], "what is named outright stays");
        assert_eq!(found(files_in, &dir, "sub"), ["sub/c"]);
        assert_eq!(found(files_in, &dir, "only"), [""; 0]);
        assert!(expand(&format!("{}/only", dir.path().display())).is_err());
        assert_eq!(found(glob_data, &dir, "*/*"), ["sub/c"]);
        assert_eq!(found(glob_data, &dir, "*.flidx"), ["a.flidx", "b.flidx"]);
        assert_eq!(found(glob, &dir, "a*"), ["a", "a.flidx"], "a listing shows what is there");
    }

    #[test]
    fn nothing_found_says_what_was_looked_for() {
        let dir = tree(&["a.txt", "b.txt", "only/folders/here"]);
        let root = dir.path().display();
        for (name, words) in [
            ("*.csv", vec!["*.csv", "3 entries, such as a.txt, b.txt, only"]),
            ("nope/*.csv", vec!["nope/", "empty or not there"]),
            ("nope.csv", vec!["no file or folder", "nope.csv"]),
            ("only", vec!["only folders"]),
        ] {
            let error = expand(&format!("{root}/{name}")).unwrap_err();
            assert_eq!(error.kind(), Kind::Io);
            assert!(words.iter().all(|word| error.message().contains(word)), "{error}");
        }
        let error = expand("surely/not/here/*.x").unwrap_err();
        assert!(error.message().contains("seen from"), "{error}");
        for odd in ["", "\0", "\0*", &"x".repeat(10_000), &"x*".repeat(10_000)] {
            assert!(expand(odd).is_err());
            assert!(glob(odd).is_ok());
        }
    }

    #[test]
    fn refusals_keep_their_cause() {
        let dir = tempfile::tempdir().unwrap();
        let round = dir.path().join("round");
        std::os::unix::fs::symlink(&round, &round).unwrap();
        for name in ["round", "round/*", "round/a"] {
            let error = expand(dir.path().join(name).to_str().unwrap()).unwrap_err();
            let cause = error.cause().and_then(|cause| cause.downcast_ref::<std::io::Error>());
            assert_eq!(cause.and_then(|e| e.raw_os_error()), Some(libc::ELOOP), "{name}: {error}");
        }
    }

    #[test]
    fn circles_of_links_end() {
        let dir = tree(&["a/one.txt", "b/two.txt"]);
        std::os::unix::fs::symlink(dir.path(), dir.path().join("a/up")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("b"), dir.path().join("b/self")).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("dangling.txt")).unwrap();
        std::os::unix::fs::symlink("round", dir.path().join("round")).unwrap();
        let all = found(expand, &dir, "**/*.txt");
        assert_eq!(all, ["a/one.txt", "b/two.txt", "dangling.txt"]);
    }

    #[test]
    fn names_that_are_no_text_are_refused_if_wanted() {
        let dir = tree(&["a.txt"]);
        let odd = dir.path().join(OsStr::from_bytes(b"odd\xff.dat"));
        if fs::write(odd, "x").is_err() {
            // A file system that knows only text has no such files.
            return;
        }
        assert_eq!(found(glob, &dir, "*.txt"), ["a.txt"]);
        for how in [glob as Find, expand] {
            let error = how(&format!("{}/*.dat", dir.path().display())).unwrap_err();
            assert!(error.to_string().contains("not UTF-8") && error.to_string().contains("odd\\xff.dat"), "{error}");
        }
        assert!(expand(dir.path().to_str().unwrap()).is_err());
        let each = expand_each(dir.path().to_str().unwrap()).unwrap();
        assert!(each.len() == 2 && each[0].is_ok() && each[1].is_err(), "{each:?}");
    }
}
