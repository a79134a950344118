//! Samples in tar files as `webdataset` lays them out: members that follow each other and share a key are one sample.
//! The key is the path up to the first dot of its last part, the rest is the extension, which names the field.

use crate::tar::Member;
use feedline_io::{Error, Result};

/// Key and extension of a name; `None` for members that belong to no sample: those without a dot, those that begin with
/// one, and those under a name like `__meta__`.
pub fn split_name(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let base = name.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    let dot = base + name[base..].iter().position(|b| *b == b'.')?;
    let first = name.split(|b| *b == b'/').next().unwrap_or_default();
    let is_meta = first.len() > 4 && first.starts_with(b"__") && first.ends_with(b"__");
    (dot > base && !is_meta).then(|| (&name[..dot], &name[dot + 1..]))
}

/// The members of one sample. `T` is what is kept of each: its contents, or its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<T> {
    pub key: Vec<u8>,
    /// The byte at which its first header begins.
    pub header: u64,
    /// Extensions in lower case, in the order of the file.
    pub fields: Vec<(Vec<u8>, T)>,
    /// An extension that came twice.
    pub twice: Option<Vec<u8>>,
}

impl<T> Sample<T> {
    /// The field of that extension, or of the first of several (`jpg;jpeg;png`) that is there.
    pub fn field(&self, extensions: &[u8]) -> Option<&T> {
        extensions
            .split(|b| *b == b';')
            .find_map(|wanted| self.fields.iter().find(|(extension, _)| extension == wanted).map(|(_, value)| value))
    }
    /// An error if an extension came twice: it cannot be said which one is meant.
    pub fn check(&self) -> Result<()> {
        match &self.twice {
            None => Ok(()),
            Some(extension) => Err(Error::data(format!(
                "the sample {:?} has two files of the extension {:?}; samples of one key must not follow each other",
                String::from_utf8_lossy(&self.key),
                String::from_utf8_lossy(extension)
            ))),
        }
    }
    /// What is said when a field is missing.
    pub fn missing(&self, extensions: &[u8]) -> Error {
        let has: Vec<_> = self.fields.iter().map(|(e, _)| String::from_utf8_lossy(e)).collect();
        Error::data(format!(
            "the sample {:?} has no {:?}, only {}",
            String::from_utf8_lossy(&self.key),
            String::from_utf8_lossy(extensions),
            if has.is_empty() { "nothing".into() } else { has.join(", ") }
        ))
    }
}

/// Puts members together to samples.
#[derive(Clone, Debug)]
pub struct Samples<T> {
    current: Option<Sample<T>>,
}

impl<T> Default for Samples<T> {
    fn default() -> Samples<T> {
        Samples { current: None }
    }
}

impl<T> Samples<T> {
    /// Adds the next member; gives the sample before, if it is whole now.
    pub fn push(&mut self, member: &Member, value: T) -> Option<Sample<T>> {
        let (key, extension) = split_name(&member.name)?;
        let before = match &self.current {
            Some(sample) if sample.key == key => None,
            _ => {
                let new = Sample { key: key.to_vec(), header: member.header, fields: Vec::new(), twice: None };
                self.current.replace(new)
            }
        };
        let sample = self.current.as_mut().expect("there is one now");
        let extension = extension.to_ascii_lowercase();
        if sample.fields.iter().any(|(e, _)| *e == extension) {
            sample.twice.get_or_insert(extension);
        } else {
            sample.fields.push((extension, value));
        }
        before
    }
    /// The last one, at the end of a file.
    pub fn finish(&mut self) -> Option<Sample<T>> {
        self.current.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_as_webdataset_does() {
        let split = |name: &str| {
            let (key, extension) = split_name(name.as_bytes())?;
            Some(format!("{} | {}", String::from_utf8_lossy(key), String::from_utf8_lossy(extension)))
        };
        assert_eq!(split("a/b.c/0001.seg.png").unwrap(), "a/b.c/0001 | seg.png");
        assert_eq!(split("0001.jpg").unwrap(), "0001 | jpg");
        assert_eq!(split("a.").unwrap(), "a | ");
        for name in ["README", "dir.d/README", ".hidden", "a/.hidden.txt", "__meta__/a.txt", "__index__"] {
            assert_eq!(split(name), None, "{name}");
        }
    }

    #[test]
    fn neighbours_of_one_key_are_a_sample() {
        let mut samples = Samples::default();
        let mut done = Vec::new();
        for (i, name) in ["a.JPG", "a.cls", "notes", "b.cls", "a.cls", "a.cls"].iter().enumerate() {
            let member = Member { name: name.as_bytes().to_vec(), header: i as u64, offset: 0, size: 0 };
            done.extend(samples.push(&member, i));
        }
        done.extend(samples.finish());
        assert!(samples.finish().is_none());
        assert_eq!(done.iter().map(|s| s.fields.len()).collect::<Vec<_>>(), [2, 1, 1]);
        assert_eq!(done[0].field(b"png;jpg"), Some(&0));
        assert_eq!((done[1].header, done[1].field(b"jpg")), (3, None));
        assert!(done[1].missing(b"jpg").to_string().contains("\"b\" has no \"jpg\", only cls"));
        assert!(done[0].check().is_ok());
        assert!(done[2].check().unwrap_err().to_string().contains("two files of the extension \"cls\""));
    }
}
