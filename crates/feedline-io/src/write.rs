//! Writing that is all or nothing: what is not committed was never there.

use crate::local::in_words;
use crate::location::{Location, locate};
use crate::shards::{is_at, try_lock};
use crate::{Error, Kind, Result, bail};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const BUFFER: usize = 1 << 20;

/// Something that is written from front to back and appears, whole, when it is committed. Dropped before, it leaves
/// nothing, and what was there under its name stays.
pub trait Sink: Write + Send {
    /// As the user wrote it: what errors call it.
    fn name(&self) -> &str;
    /// Brings all of it to the disk, so that only the name is left for `commit`. Nothing is written behind it.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }
    fn commit(self: Box<Self>) -> Result<()>;
    /// For those that get their names together.
    fn as_file(&mut self) -> Option<&mut AtomicFile> {
        None
    }
}

/// What is to be written under a path or URL: a file, or with the feature `remote` an object of `s3://`, `gs://`, `az://`.
pub fn create(name: &str) -> Result<Box<dyn Sink>> {
    match locate(name)? {
        Location::Local(path) => Ok(Box::new(AtomicFile::new(name, path)?)),
        #[cfg(feature = "remote")]
        Location::Http(_) => bail!(Usage, "web addresses can only be read; write to a file, s3://, gs:// or az://"),
        #[cfg(feature = "remote")]
        location => Ok(Box::new(crate::upload::Upload::new(name, &location)?)),
    }
}

/// A file under a temporary name in its folder, which gets its own name when it is committed. It is locked meanwhile: what
/// a killed process left can be told from what is being written (`shards.rs`).
#[derive(Debug)]
pub struct AtomicFile {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) temporary: PathBuf,
    /// `None` once it has its name.
    pub(crate) file: Option<BufWriter<File>>,
}

/// The folder of a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A name for a file until it is whole, which no other of this process has.
pub(crate) fn temporary_name(file_name: &OsStr) -> OsString {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = OsString::from(".");
    // Names have a limit: of a long one, only the number is needed.
    if file_name.len() < 200 {
        name.push(file_name);
    }
    name.push(format!(".{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Relaxed)));
    name
}

impl AtomicFile {
    pub fn new(name: impl Into<String>, path: impl AsRef<Path>) -> Result<AtomicFile> {
        let name = name.into();
        // A link stays, and what it points to is replaced.
        let path = fs::canonicalize(path.as_ref()).unwrap_or_else(|_| path.as_ref().to_path_buf());
        let (folder, Some(file_name)) = (folder_of(&path), path.file_name()) else {
            bail!(Usage, "{name} cannot be the name of a file");
        };
        let old = fs::metadata(&path).ok();
        if old.as_ref().is_some_and(|old| !old.is_file()) {
            bail!(Io, "{name} is there and is not a regular file: it cannot be replaced");
        }
        let failed = |e: io::Error, path: &Path| {
            Error::new(Kind::Io, in_words(&e, path)).in_file(&name, None).with_source(Arc::new(e))
        };
        // Stores have no folders to make, so nobody needs to make them here.
        fs::create_dir_all(folder).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => {
                let message = format!("{} is not a folder, so nothing can be written into it", folder.display());
                Error::new(Kind::Io, message).in_file(&name, None)
            }
            _ => failed(e, folder),
        })?;
        loop {
            let temporary = folder.join(temporary_name(file_name));
            let file = match File::options().write(true).create_new(true).open(&temporary) {
                // Left by a process that had this number before.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file.map_err(|e| failed(e, &temporary))?,
            };
            // Somebody who looked for what is left may have been faster than the lock, and removed it.
            if try_lock(&file) == Some(false) || !is_at(&file, &temporary) {
                continue;
            }
            if let Some(old) = &old {
                // Whoever may read the old file may read the new one. It need not work: the file may not be ours.
                let _ = file.set_permissions(old.permissions());
            }
            let file = Some(BufWriter::with_capacity(BUFFER, file));
            return Ok(AtomicFile { name, path, temporary, file });
        }
    }

    fn bring(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.flush()?;
        // Before the name: a crash must not leave a file that has one and is empty.
        file.get_ref().sync_all()
    }
    fn finish(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            return Ok(());
        }
        self.bring()?;
        fs::rename(&self.temporary, &self.path)?;
        self.file = None;
        // Some file systems cannot do this with folders; the file is whole under either name.
        let _ = File::open(folder_of(&self.path)).and_then(|folder| folder.sync_all());
        Ok(())
    }
    fn failed(&self, e: io::Error) -> Error {
        Error::new(Kind::Io, in_words(&e, &self.path)).in_file(&self.name, None).with_source(Arc::new(e))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some(file) => file.write(bytes),
            None => Err(io::Error::other("it is closed")),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Sink for AtomicFile {
    fn name(&self) -> &str {
        &self.name
    }
    fn settle(&mut self) -> Result<()> {
        self.bring().map_err(|e| self.failed(e))
    }
    fn commit(mut self: Box<Self>) -> Result<()> {
        self.finish().map_err(|e| self.failed(e))
    }
    fn as_file(&mut self) -> Option<&mut AtomicFile> {
        Some(self)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            // Without writing what is left in the buffer.
            drop(file.into_parts());
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn entries(dir: &Path) -> usize {
        fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn only_what_is_committed_appears() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let name = path.to_str().unwrap();
        let mut sink = create(name).unwrap();
        sink.write_all(&[1; 3 << 20]).unwrap();
        assert!(!path.exists());
        sink.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), vec![1; 3 << 20]);
        // The old one stays until the new one is whole.
        let mut sink = create(&format!("file://{name}")).unwrap();
        sink.write_all(b"half").unwrap();
        drop(sink);
        assert_eq!(fs::read(&path).unwrap().len(), 3 << 20);
        assert_eq!(entries(dir.path()), 1);
    }

    #[test]
    fn links_and_rights_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        let mut sink = create(link.to_str().unwrap()).unwrap();
        sink.write_all(b"new").unwrap();
        sink.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn what_cannot_be_written_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_str().unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        for (name, word) in [
            (format!("{root}/file/x"), "not a folder"),
            (root.to_string(), "regular"),
            ("/dev/null".into(), "regular"),
            ("/".into(), "name"),
            ("..".into(), "regular"),
            (String::new(), "name"),
        ] {
            let error = create(&name).err().unwrap_or_else(|| panic!("{name} was made"));
            assert!(error.to_string().contains(word), "{name}: {error}");
        }
        create(&format!("{root}/new/folders/x")).unwrap().commit().unwrap();
        assert!(dir.path().join("new/folders/x").exists());
        let long = format!("{root}/{}", "x".repeat(255));
        create(&long).unwrap().commit().unwrap();
        assert!(create(&format!("{long}x")).unwrap().commit().is_err());
        assert_eq!(entries(dir.path()), 3);
    }
}
