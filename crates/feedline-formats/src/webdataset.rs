//! Samples in tar files as `webdataset` lays them out: members that follow each other and share a key are one sample.
//! The key is the path up to the first dot of its last part, the rest is the extension, which names the field.

use crate::records::{Cut, Longest, Out, Records};
use crate::tar::{Member, Step, Tar, View};
use feedline_io::{Buf, Error, Result};

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
    /// The names of its fields, in the order of the file.
    pub fn field_names(&self) -> Vec<String> {
        self.fields.iter().map(|(extension, _)| String::from_utf8_lossy(extension).into_owned()).collect()
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
        Error::data(format!(
            "the sample {:?} has no {:?}, only {}; say which fields are wanted with fields=[...], or leave such samples out \
             with on_error=\"skip\"",
            String::from_utf8_lossy(&self.key),
            String::from_utf8_lossy(extensions),
            self.field_names().join(", ")
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

/// Whether a name is one of those of a field (`jpg;jpeg;png`).
fn is_one_of(extension: &[u8], names: &[u8]) -> bool {
    names.split(|b| *b == b';').any(|name| name.eq_ignore_ascii_case(extension))
}

/// What is there of a member.
enum Content {
    View(View),
    NotWanted,
    /// It has so many bytes, and was passed over: that costs its sample, and no other.
    TooLong(u64),
}

/// Reads samples as records of several parts: the key, then the contents of each field.
pub struct Reader {
    tar: Tar,
    samples: Samples<Content>,
    fields: Vec<Vec<u8>>,
    longest: Longest,
    /// Fields that are not wanted are refused.
    strict: bool,
    ended: bool,
    /// What `cut` found when it had something to give first.
    later: Option<Cut>,
}

impl Reader {
    /// Samples with longer members are errors.
    pub fn longest(self, longest: Longest) -> Reader {
        Reader { longest, ..self }
    }
    pub fn new(fields: Vec<Vec<u8>>) -> Reader {
        let (tar, samples, longest) = (Tar::default(), Samples::default(), Longest::default());
        Reader { tar, samples, fields, longest, strict: false, ended: false, later: None }
    }
    /// Refuses samples with fields that are not wanted, for fields that were learned from another: they would be lost.
    pub fn strict(self, strict: bool) -> Reader {
        Reader { strict, ..self }
    }
    /// Hands out a whole sample, or says what is wrong with it.
    fn put(&self, sample: &Sample<Content>, out: &mut dyn Out) -> Result<()> {
        sample.check()?;
        let is_strange = |e: &[u8]| self.strict && !self.fields.iter().any(|field| is_one_of(e, field));
        if let Some((extension, _)) = sample.fields.iter().find(|(extension, _)| is_strange(extension)) {
            return Err(Error::data(format!(
                "the sample {:?} has the field {:?}, and the first has not",
                String::from_utf8_lossy(&sample.key),
                String::from_utf8_lossy(extension)
            )));
        }
        let view = |field: &Vec<u8>| match sample.field(field) {
            Some(Content::View(view)) => Ok(view),
            Some(Content::TooLong(bytes)) => {
                Err(self.longest.check(*bytes).err().unwrap_or_else(|| sample.missing(field)))
            }
            Some(Content::NotWanted) | None => Err(sample.missing(field)),
        };
        let views = self.fields.iter().map(view).collect::<Result<Vec<_>>>()?;
        out.copy(sample.header, &sample.key);
        views.iter().for_each(|view| out.view(&view.buf, view.range.clone()));
        Ok(())
    }
}

impl Records for Reader {
    fn feed(&mut self, block: Buf) {
        self.tar.feed(block);
    }
    fn finish(&mut self) {
        self.tar.finish();
    }
    fn place(&self) -> Option<u64> {
        // The sample whose first members are there is read again.
        match self.later {
            None | Some(Cut::More) => self.samples.current.as_ref().map(|sample| sample.header),
            _ => None,
        }
    }
    fn start_at(&mut self, byte: u64, _: u64) -> bool {
        self.tar = Tar::at(byte);
        true
    }
    fn cut(&mut self, want: usize, out: &mut dyn Out) -> Cut {
        let mut given = 0;
        while given < want {
            if let Some(cut) = self.later.take() {
                return cut;
            }
            let (fields, longest) = (&self.fields, &self.longest);
            let is_wanted = |member: &Member| {
                split_name(&member.name).is_some_and(|(_, e)| fields.iter().any(|field| is_one_of(e, field)))
            };
            let fits = |member: &Member| longest.check(member.size).is_ok();
            let mut wanted = |member: &Member| is_wanted(member) && fits(member);
            let step = if self.ended { Step::End } else { self.tar.next(&mut wanted) };
            let (whole, then) = match step {
                Step::Member(member, view) => {
                    let content = match view {
                        Some(view) => Content::View(view),
                        None if is_wanted(&member) => Content::TooLong(member.size),
                        None => Content::NotWanted,
                    };
                    (self.samples.push(&member, content), None)
                }
                // What is left of a sample around a damaged place is not known to be all of it.
                Step::Fail(error) => {
                    self.samples.finish();
                    (None, Some(Cut::Fail(error)))
                }
                Step::More => (None, Some(Cut::More)),
                Step::End => {
                    self.ended = true;
                    (self.samples.finish(), Some(Cut::End))
                }
            };
            self.later = then;
            if let Some(sample) = whole {
                match self.put(&sample, out) {
                    Ok(()) => given += 1,
                    Err(error) => {
                        let fail = Cut::Fail(error.at_byte(sample.header));
                        // The end, if that was found too, is found again.
                        self.later = Some(fail);
                    }
                }
            }
            if given > 0 && self.later.is_some() {
                break;
            }
        }
        Cut::Records(given)
    }
}

/// The fields of the first sample of a file, as far as its blocks tell. `around_damage`: a damaged place is passed over, and
/// with it the samples around it, which may lack something; they serve only if there is no other.
pub fn first_fields<B: AsRef<[u8]>>(
    blocks: impl IntoIterator<Item = Result<B>>,
    around_damage: bool,
) -> Result<Vec<String>> {
    let (mut tar, mut samples, mut blocks) = (Tar::default(), Samples::default(), blocks.into_iter());
    let (mut doubtful, mut before) = (false, None);
    loop {
        let (sample, is_end) = match tar.next(&mut |_| false) {
            Step::Member(member, _) => (samples.push(&member, ()), false),
            Step::Fail(error) if !around_damage => return Err(error),
            Step::Fail(_) => {
                doubtful = true;
                before = before.or(samples.finish());
                (None, false)
            }
            Step::More => {
                match blocks.next() {
                    Some(block) => tar.feed(Buf::copied(block?.as_ref())),
                    None => tar.finish(),
                }
                (None, false)
            }
            Step::End => (samples.finish(), true),
        };
        match sample {
            Some(sample) if doubtful => {
                doubtful = false;
                before = before.or(Some(sample));
            }
            Some(sample) => return Ok(sample.field_names()),
            None => {}
        }
        if is_end {
            return Ok(before.map_or(vec![], |sample| sample.field_names()));
        }
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

    /// Records of several parts as text, errors with a mark.
    fn read(file: &[u8], block: usize, fields: &[&str]) -> Vec<String> {
        struct Parts(Vec<Vec<u8>>);
        impl Out for Parts {
            fn view(&mut self, block: &Buf, range: std::ops::Range<usize>) {
                self.0.push(block.as_slice()[range].to_vec());
            }
            fn copy(&mut self, _: u64, record: &[u8]) {
                self.0.push(record.to_vec());
            }
        }
        let mut reader = Reader::new(fields.iter().map(|f| f.as_bytes().to_vec()).collect());
        let (mut all, mut blocks) = (Vec::new(), file.chunks(block));
        loop {
            let mut parts = Parts(Vec::new());
            match reader.cut(2, &mut parts) {
                Cut::Records(n) => {
                    assert_eq!(parts.0.len(), n * (fields.len() + 1));
                    let rows = parts.0.chunks(fields.len() + 1);
                    all.extend(rows.map(|r| String::from_utf8(r.join(&b'|')).unwrap()));
                }
                Cut::Fail(error) => all.push(format!("!{error}")),
                Cut::More => match blocks.next() {
                    Some(bytes) => reader.feed(Buf::copied(bytes)),
                    None => reader.finish(),
                },
                Cut::End => return all,
            }
        }
    }

    #[test]
    fn samples_are_read_for_any_block_size() {
        let mut writer = crate::tar::Writer::new(Vec::new());
        for (name, contents) in [
            ("a.jpg", "A"),
            ("a.cls", "1"),
            ("a.json", "not wanted"),
            ("b.PNG", "B"),
            ("b.cls", "2"),
            ("c.cls", "3"),
            ("d.jpg", "D"),
            ("d.cls", "4"),
            ("e.jpg", "E"),
        ] {
            writer.append(name.as_bytes(), contents.as_bytes(), 0).unwrap();
        }
        let file = writer.finish().unwrap();
        for block in [1, 511, 700, 2048, 1 << 20] {
            let all = read(&file, block, &["jpg;png", "cls"]);
            assert_eq!((&all[..2], &all[3]), (&["a|A|1".into(), "b|B|2".into()][..], &"d|D|4".into()));
            assert!(all[2].contains("\"c\" has no \"jpg;png\", only cls"), "{all:?}");
            assert!(all[4].contains("\"e\" has no \"cls\", only jpg"), "{all:?}");
            assert_eq!(all.len(), 5);
        }
        let fields = first_fields(file.chunks(300).map(Ok), false).unwrap();
        assert_eq!(fields, ["jpg", "cls", "json"]);
    }

    #[test]
    fn fields_are_learned_behind_damage_where_that_is_asked_for() {
        let mut tar = crate::tar::Writer::new(Vec::new());
        for key in ["a", "b", "c"] {
            ["cls", "jpg", "json"].iter().for_each(|e| tar.append(format!("{key}.{e}").as_bytes(), b"1", 0).unwrap());
        }
        let file = tar.finish().unwrap();
        // Of each of the first six members in turn, the header.
        for damaged in 0..6 {
            let mut file = file.clone();
            file[damaged * 1024 + 3] ^= 1;
            let fields = |around| first_fields(file.chunks(300).map(Ok), around);
            assert_eq!(fields(true).unwrap(), ["cls", "jpg", "json"], "{damaged}");
            assert_eq!(fields(false).is_err(), damaged < 4);
        }
        // Nothing but what is around the damage.
        let mut short = file[..2048].to_vec();
        short[1024] ^= 1;
        assert_eq!(first_fields([Ok(short)], true).unwrap(), ["cls"]);
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
