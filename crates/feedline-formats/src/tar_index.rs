//! Where the samples of a tar file lie (`webdataset.rs`): found once by going from header to header, kept beside the file,
//! and valid as long as the file is what it was made from (`side_index.rs`). Of a damaged file the whole samples can be
//! found, too; that is not kept.
//!
//! In the index file stand all extensions once (how many; then each with its length), and for each sample: its key, behind
//! its length; how far its first header lies behind the contents before it; the number of its fields; 0, or the number of an
//! extension that came twice, plus 1; and for each field the number of its extension, how far its contents lie behind what
//! was before (at least a header), and their size. All numbers are varints. So everything rises, and ends within the file.

use crate::side_index::SideIndex;
use crate::tar::{BLOCK, Step, Tar, relative};
use crate::webdataset::{Sample, Samples, split_name};
use crate::wire::{put_varint, varint};
use feedline_io::{Buf, Error, Result, Source, Stat};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Contents of more bytes are hopped over: of far files, in which a read takes as long as many bytes do, and of others.
const FAR_GAP_BYTES: u64 = 1 << 20;
const GAP_BYTES: u64 = 64 << 10;
/// What is read behind a hop, some headers, and otherwise.
const HOP_BYTES: usize = 8 << 10;
const READ_BYTES: usize = 1 << 20;

/// The samples of a tar file, each with the places of its fields. Millions of them lie in memory, so nothing is a block of
/// its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Index {
    /// All keys, one behind the other.
    keys: Vec<u8>,
    samples: Vec<Entry>,
    fields: Vec<Field>,
    extensions: Vec<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    header: u64,
    /// Where its key and its fields end among all; they begin where those of the sample before end.
    key_end: usize,
    field_end: usize,
    twice: Option<u32>,
}

#[derive(Clone, Debug, PartialEq)]
struct Field {
    extension: u32,
    place: Range<u64>,
}

impl Index {
    /// The number of samples.
    pub fn len(&self) -> usize {
        self.samples.len()
    }
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }
    /// A sample, with the places of its fields in the file.
    pub fn sample(&self, number: usize) -> Sample<Range<u64>> {
        let (key, field) = self.starts(number);
        let entry = &self.samples[number];
        let name = |extension: u32| self.extensions[extension as usize].clone();
        let fields = self.fields[field..entry.field_end].iter().map(|f| (name(f.extension), f.place.clone()));
        Sample {
            key: self.keys[key..entry.key_end].to_vec(),
            header: entry.header,
            fields: fields.collect(),
            twice: entry.twice.map(name),
        }
    }
    fn starts(&self, number: usize) -> (usize, usize) {
        number.checked_sub(1).map_or((0, 0), |before| (self.samples[before].key_end, self.samples[before].field_end))
    }

    /// The same with these fields alone (`jpg;jpeg;png` each), and how many samples are missing because they did not have
    /// all of them, if `whole` is asked for. Otherwise these have all of theirs, of which whoever refuses them can tell.
    pub fn narrowed(&self, fields: &[Vec<u8>], whole: bool) -> (Index, usize) {
        let is_wanted = |e: &Vec<u8>| fields.iter().any(|f| f.split(|b| *b == b';').any(|name| name == e));
        let mut new = Builder::default();
        for mut sample in (0..self.len()).map(|i| self.sample(i)) {
            let is_whole = sample.check().is_ok() && fields.iter().all(|f| sample.field(f).is_some());
            if is_whole {
                sample.fields.retain(|(extension, _)| is_wanted(extension));
            }
            if is_whole || !whole {
                new.push(&sample);
            }
        }
        let left_out = self.len() - new.index.len();
        (new.index, left_out)
    }

    /// The index kept for this file, or a new one, which is then kept. Waits for its reads: not for threads that compute.
    pub fn of(source: &Arc<dyn Source>, stat: &Stat) -> Result<Index> {
        Index::kept_or(source, stat, || Index::scan(source, stat.len))
    }

    /// The same for whoever goes on behind damage: samples of which something is damaged are left out. Such an index is
    /// not kept: others would take it for that of a sound file, and what it leaves out should be said each time.
    pub fn around_damage(source: &Arc<dyn Source>, stat: &Stat) -> Result<Index> {
        if let Some((index, _)) = Index::kept(source, stat) {
            return Ok(index);
        }
        let mut is_sound = true;
        let index = Index::scan_watched(source, stat.len, &mut |_| Ok(()), &mut |error| {
            is_sound = false;
            log::warn!("left out of the index, as on_error says: {}", error.in_file(source.name(), None));
            Ok(())
        })?;
        match is_sound {
            true => Index::kept_or(source, stat, || Ok(index)),
            false => Ok(index),
        }
    }

    /// Finds the samples of a file, from header to header. Contents are not read unless they are short.
    pub fn scan(source: &Arc<dyn Source>, file_len: u64) -> Result<Index> {
        Index::scan_watched(source, file_len, &mut |_| Ok(()), &mut Err)
    }
    /// The same; `watch` hears now and then how far it is, and its error ends it. So does that of `damaged`, which hears
    /// what stands in the place of members.
    pub fn scan_watched(
        source: &Arc<dyn Source>,
        file_len: u64,
        watch: &mut dyn FnMut(u64) -> Result<()>,
        damaged: &mut dyn FnMut(Error) -> Result<()>,
    ) -> Result<Index> {
        let gap = if source.local_path().is_none() { FAR_GAP_BYTES } else { GAP_BYTES };
        let (mut tar, mut open, mut found, mut at) = (Tar::default(), Samples::default(), Builder::default(), 0);
        loop {
            let whole = match tar.next(&mut |_| false) {
                Step::Member(member, _) => open.push(&member, member.offset..member.offset + member.size),
                Step::Fail(error) => {
                    damaged(error.at_record(found.index.len() as u64))?;
                    // What is left of a sample around a damaged place is not known to be all of it.
                    open.finish();
                    None
                }
                Step::More => {
                    let hop = tar.hop(gap, file_len);
                    at = hop.unwrap_or(at);
                    watch(at)?;
                    let most = if hop.is_some() { HOP_BYTES } else { READ_BYTES };
                    let block = match at < file_len {
                        true => source.clone().read(at, most).wait()?,
                        false => Buf::new(0),
                    };
                    at += block.len() as u64;
                    match block.is_empty() {
                        true => tar.finish(),
                        false => tar.feed(block),
                    }
                    None
                }
                Step::End => match open.finish() {
                    Some(sample) => Some(sample),
                    None => return Ok(found.index),
                },
            };
            whole.iter().for_each(|sample| found.push(sample));
        }
    }
}

/// Puts samples into an index, in their order.
#[derive(Default)]
struct Builder {
    index: Index,
    numbers: HashMap<Vec<u8>, u32>,
}

impl Builder {
    fn number(&mut self, extension: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(extension) {
            return *number;
        }
        let number = self.index.extensions.len() as u32;
        self.index.extensions.push(extension.to_vec());
        self.numbers.insert(extension.to_vec(), number);
        number
    }
    fn push(&mut self, sample: &Sample<Range<u64>>) {
        for (extension, place) in &sample.fields {
            let field = Field { extension: self.number(extension), place: place.clone() };
            self.index.fields.push(field);
        }
        let twice = sample.twice.as_ref().map(|extension| self.number(extension));
        self.index.keys.extend_from_slice(&sample.key);
        let (key_end, field_end) = (self.index.keys.len(), self.index.fields.len());
        self.index.samples.push(Entry { header: sample.header, key_end, field_end, twice });
    }
}

/// Bytes of the shortest sample in an index file: five numbers and a byte for its key, three numbers for its field.
const SHORTEST: usize = 8;

impl SideIndex for Index {
    const MAGIC: &'static [u8; 8] = b"FLTAR001";

    fn records(&self) -> u64 {
        self.samples.len() as u64
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.extensions.len() as u64);
        for extension in &self.extensions {
            put_varint(out, extension.len() as u64);
            out.extend_from_slice(extension);
        }
        let mut at = 0;
        for (number, entry) in self.samples.iter().enumerate() {
            let (key, field) = self.starts(number);
            let (key, fields) = (&self.keys[key..entry.key_end], &self.fields[field..entry.field_end]);
            put_varint(out, key.len() as u64);
            out.extend_from_slice(key);
            put_varint(out, entry.header - at);
            put_varint(out, fields.len() as u64);
            put_varint(out, entry.twice.map_or(0, |extension| u64::from(extension) + 1));
            at = entry.header;
            for Field { extension, place } in fields {
                put_varint(out, u64::from(*extension));
                put_varint(out, place.start - at);
                put_varint(out, place.end - place.start);
                at = place.end;
            }
        }
    }

    fn get(mut contents: &[u8], records: u64, file_len: u64) -> Option<Index> {
        let rest = &mut contents;
        let mut index = Index::default();
        // Each has its length, at least.
        let extensions = number(rest).filter(|n| *n <= rest.len())?;
        for _ in 0..extensions {
            let extension = text(rest)?;
            let is_one = split_name(&[b"k.", extension].concat()) == Some((b"k", extension))
                && !extension.iter().any(u8::is_ascii_uppercase);
            index.extensions.push(is_one.then(|| extension.to_vec())?);
        }
        let extension = |n: usize| (n < extensions).then_some(n as u32);
        // Each has a header in the file, too.
        let records = usize::try_from(records).ok().filter(|n| *n <= rest.len() / SHORTEST)?;
        if records as u64 > file_len / BLOCK as u64 {
            return None;
        }
        index.samples.reserve_exact(records);
        let mut at = 0u64;
        for _ in 0..records {
            let key = text(rest)?;
            let name = [key, b".e"].concat();
            let is_one = split_name(&name) == Some((key, b"e")) && relative(&name).is_ok_and(|same| same == name);
            index.keys.extend_from_slice(is_one.then_some(key)?);
            let header = at.checked_add(varint(rest).ok()?)?;
            let fields = number(rest).filter(|n| *n > 0)?;
            let twice = number(rest)?.checked_sub(1).map(|n| extension(n).ok_or(())).transpose().ok()?;
            at = header;
            for _ in 0..fields {
                let extension = extension(number(rest)?)?;
                let gap = varint(rest).ok().filter(|gap| *gap >= BLOCK as u64)?;
                let start = at.checked_add(gap)?;
                at = start.checked_add(varint(rest).ok()?).filter(|end| *end <= file_len)?;
                index.fields.push(Field { extension, place: start..at });
            }
            let (key_end, field_end) = (index.keys.len(), index.fields.len());
            index.samples.push(Entry { header, key_end, field_end, twice });
        }
        rest.is_empty().then_some(index)
    }
}

fn number(rest: &mut &[u8]) -> Option<usize> {
    usize::try_from(varint(rest).ok()?).ok()
}

/// Bytes behind their length.
fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = number(rest)?;
    let (text, behind) = { *rest }.split_at_checked(length)?;
    *rest = behind;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::side_index::dated;
    use crate::tar::Writer;
    use feedline_io::{Kind, Task};
    use proptest::prelude::*;
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// A file that counts how often it is read.
    #[derive(Debug)]
    struct Counted(Arc<dyn Source>, AtomicUsize);

    impl Source for Counted {
        fn name(&self) -> &str {
            self.0.name()
        }
        fn stat(self: Arc<Self>) -> Task<Result<Stat>> {
            self.0.clone().stat()
        }
        fn read(self: Arc<Self>, at: u64, len: usize) -> Task<Result<Buf>> {
            self.1.fetch_add(1, Relaxed);
            self.0.clone().read(at, len)
        }
        fn local_path(&self) -> Option<&Path> {
            self.0.local_path()
        }
    }

    fn tar(members: &[(impl AsRef<str>, usize)]) -> Vec<u8> {
        let mut tar = Writer::new(Vec::new());
        members.iter().for_each(|(name, size)| tar.append(name.as_ref().as_bytes(), &vec![7; *size], 0).unwrap());
        tar.finish().unwrap()
    }
    fn open(path: &Path) -> (Arc<dyn Source>, Stat) {
        let source = feedline_io::open(path.to_str().unwrap()).unwrap();
        let stat = source.clone().stat().wait().unwrap();
        (source, stat)
    }
    fn keys(index: &Index) -> String {
        (0..index.len()).map(|i| String::from_utf8(index.sample(i).key).unwrap()).collect::<Vec<_>>().join(" ")
    }

    const MEMBERS: [(&str, usize); 7] =
        [("a.jpg", 70_000), ("a.cls", 1), ("README", 9), ("d/b.cls", 0), ("d/b.jpg", 5), ("c.cls", 2), ("c.CLS", 3)];

    #[test]
    fn a_second_look_reads_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        std::fs::write(&path, tar(&MEMBERS)).unwrap();
        let (file, stat) = open(&path);
        let counted = Arc::new(Counted(file, AtomicUsize::new(0)));
        let source: Arc<dyn Source> = counted.clone();
        let index = Index::of(&source, &stat).unwrap();
        assert!(counted.1.swap(0, Relaxed) > 0);
        assert!(dir.path().join("a.tar.flidx").exists());
        assert_eq!(Index::of(&source, &stat).unwrap(), index);
        assert_eq!(Index::around_damage(&source, &stat).unwrap(), index);
        assert_eq!(counted.1.load(Relaxed), 0);
        assert_eq!(keys(&index), "a d/b c");
        assert_eq!(index.sample(0).field(b"jpg"), Some(&(512..70_512)));
        assert_eq!(index.sample(1).field_names(), ["cls", "jpg"]);
        assert_eq!(index.sample(2).twice, Some(b"cls".to_vec()));
        // Nothing is kept of what nobody dates.
        let undated = Stat { version: String::new(), ..stat };
        assert!(Index::kept(&source, &undated).is_none());
        assert!(index.keep(&source, &undated).unwrap_err().to_string().contains("neither an ETag nor a time"));
    }

    #[test]
    fn some_fields_of_samples_that_are_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        let members =
            [("a.jpg", 1), ("a.cls", 1), ("a.txt", 1), ("b.png", 1), ("b.cls", 1), ("c.cls", 1), ("c.txt", 1)];
        std::fs::write(&path, tar(&members)).unwrap();
        let (source, stat) = open(&path);
        let (index, fields) = (Index::scan(&source, stat.len).unwrap(), [b"jpg;png".to_vec(), b"cls".to_vec()]);
        let (narrow, left_out) = index.narrowed(&fields, false);
        assert_eq!((keys(&narrow), left_out), ("a b c".into(), 0));
        assert_eq!(narrow.sample(0).field_names(), ["jpg", "cls"]);
        // What it has instead can be told.
        assert_eq!(narrow.sample(2), index.sample(2));
        let (narrow, left_out) = index.narrowed(&fields, true);
        assert_eq!((keys(&narrow), left_out), ("a b".into(), 1));
    }

    #[test]
    fn a_changed_file_gets_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        std::fs::write(&path, tar(&MEMBERS)).unwrap();
        let (source, stat) = open(&path);
        Index::of(&source, &stat).unwrap();
        // Other contents of one length, under the old time.
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let other: Vec<(String, usize)> = MEMBERS.iter().map(|(name, size)| (format!("x{name}"), *size)).collect();
        std::fs::write(&path, tar(&other)).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        assert_eq!(open(&path).1, stat, "nothing else tells them apart");
        assert_eq!(keys(&Index::of(&source, &stat).unwrap()), "xa xd/b xc");
        std::fs::write(&path, tar(&MEMBERS[..2])).unwrap();
        let (source, stat) = open(&path);
        assert_eq!(keys(&Index::of(&source, &stat).unwrap()), "a");
    }

    #[test]
    fn a_damaged_index_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        std::fs::write(&path, tar(&MEMBERS)).unwrap();
        let (source, stat) = open(&path);
        let index = Index::of(&source, &stat).unwrap();
        let (kept, stat_then) = (dir.path().join("a.tar.flidx"), dated(&source, &stat));
        let bytes = std::fs::read(&kept).unwrap();
        assert_eq!(Index::read(&bytes, &stat_then), Some(index.clone()));
        assert_eq!(Index::read(&bytes, &Stat { version: "other".into(), ..stat_then.clone() }), None);
        for i in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[i] ^= 0x10;
            assert_eq!(Index::read(&damaged, &stat_then), None, "byte {i}");
            assert_eq!(Index::read(&bytes[..i], &stat_then), None, "cut to {i}");
        }
        for wrong in [&bytes[..bytes.len() / 2], b"", b"FLIDX001 of another format"] {
            std::fs::write(&kept, wrong).unwrap();
            assert_eq!(Index::of(&source, &stat).unwrap(), index);
            assert_eq!(std::fs::read(&kept).unwrap(), bytes);
        }
    }

    #[test]
    fn damage_is_left_out_where_that_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        let sound = tar(&[("a.cls", 1), ("a.jpg", 1), ("b.cls", 1), ("b.jpg", 1), ("c.cls", 1), ("c.jpg", 1)]);
        let mut header = sound.clone();
        header[2 * 1024 + 3] ^= 1;
        for (bytes, left) in [(&header[..], "b c"), (&sound[..5 * 1024 + 512], "a b")] {
            std::fs::write(&path, bytes).unwrap();
            let (source, stat) = open(&path);
            assert!(matches!(Index::of(&source, &stat).unwrap_err().kind(), Kind::Data | Kind::Loss));
            let index = Index::around_damage(&source, &stat).unwrap();
            assert_eq!(keys(&index), left);
            assert!(Index::kept(&source, &stat).is_none(), "others would take it for that of a sound file");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let table = [&[1, 3][..], b"jpg"].concat();
        let get = |samples: &[u8], records: u64, len: u64| Index::get(&[&table, samples].concat(), records, len);
        let sample = |key: &[u8], rest: &[u64]| {
            let mut out = vec![key.len() as u8];
            out.extend_from_slice(key);
            rest.iter().for_each(|n| put_varint(&mut out, *n));
            out
        };
        // Header, fields, twice; extension, gap, size.
        let good = sample(b"k", &[0, 1, 0, 0, 512, 10]);
        assert_eq!(get(&good, 1, 522).unwrap().sample(0).fields, [(b"jpg".to_vec(), 512..522)]);
        assert!(get(&good, 1, 521).is_none(), "behind the end of the file");
        assert!(get(&good, 2, 5220).is_none() && get(&good, 0, 522).is_none(), "another number of samples");
        assert!(get(&good, u64::MAX, u64::MAX).is_none() && get(&good, u64::MAX / 16, u64::MAX).is_none());
        let huge = u64::MAX;
        for (key, rest) in [
            (&b"../k"[..], [0, 1, 0, 0, 512, 10]),
            (b"/k", [0, 1, 0, 0, 512, 10]),
            (b"k.jpg", [0, 1, 0, 0, 512, 10]),
            (b"__meta__/k", [0, 1, 0, 0, 512, 10]),
            (b"", [0, 1, 0, 0, 512, 10]),
            (b"k", [huge, 1, 0, 0, 512, 10]),
            (b"k", [0, huge, 0, 0, 512, 10]),
            (b"k", [0, 0, 0, 0, 512, 10]),
            (b"k", [0, 1, 2, 0, 512, 10]),
            (b"k", [0, 1, 0, 1, 512, 10]),
            (b"k", [0, 1, 0, 0, 511, 10]),
            (b"k", [0, 1, 0, 0, huge, 10]),
            (b"k", [0, 1, 0, 0, 512, huge]),
        ] {
            assert!(get(&sample(key, &rest), 1, 1 << 20).is_none(), "{} {rest:?}", key.escape_ascii());
        }
        for wrong in
            [&[0xff, 0xff, 0xff, 0xff, 0x7f][..], &[1, 3, b'j'], &[1, 3, b'J', b'P', b'G'], &[1, 3, b'a', b'/', b'b']]
        {
            assert!(Index::get(wrong, 0, 1 << 20).is_none(), "{}", wrong.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn any_samples_come_back(members in prop::collection::vec(("[ab]{1,2}(/[ab.]{1,90}){0,2}\\.[a-cA-C.]{0,3}", 0..1500usize), 0..20)) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a.tar");
            let members: Vec<_> = members.into_iter().filter(|(name, _)| relative(name.as_bytes()).is_ok_and(|n| n == name.as_bytes())).collect();
            std::fs::write(&path, tar(&members)).unwrap();
            let (source, stat) = open(&path);
            let index = Index::scan(&source, stat.len).unwrap();
            prop_assert_eq!(Index::read(&index.written(&stat), &stat), Some(index.clone()));
            let mut samples = Samples::default();
            let mut expected = Vec::new();
            let mut reader = Tar::default();
            reader.feed(Buf::copied(&std::fs::read(&path).unwrap()));
            reader.finish();
            while let Step::Member(member, _) = reader.next(&mut |_| false) {
                expected.extend(samples.push(&member, member.offset..member.offset + member.size));
            }
            expected.extend(samples.finish());
            prop_assert_eq!((0..index.len()).map(|i| index.sample(i)).collect::<Vec<_>>(), expected);
        }
    }
}
