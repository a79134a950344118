//! Reading `tf.train.Example`: a map from names to lists of bytes, floats or integers. Only what is wanted is touched.
//!
//! 1. `Wanted` is the set of names that somebody asks for.
//! 2. `Wanted::read` walks over one record and leaves a `Feature` for each of them that is there: a view of the record.
//! 3. The feature's values are decoded straight into the caller's memory (`floats_into`, `ints_into`, …), or are
//!    slices of the record (`bytes`).
//!
//! Everything that protobuf allows is read as protobuf does: packed and single values, several runs of them, a name
//! that occurs twice (the last one counts), features in pieces, unknown fields. Records that TensorFlow writes have none
//! of this, so each step first looks for the one form in use.

use crate::alike::{Alike, Like};
use crate::wire::{Field, Fields, Malformed, Result, take, varint};
use std::ops::Deref;

/// The types of values that an Example can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stored {
    Bytes,
    Floats,
    Ints,
}

impl Stored {
    /// By the number of its field in `Feature`.
    fn of(number: u32) -> Option<Stored> {
        Some(match number {
            1 => Stored::Bytes,
            2 => Stored::Floats,
            3 => Stored::Ints,
            _ => return None,
        })
    }
    /// As users know it: the dtype of the tensors that it becomes.
    pub fn name(self) -> &'static str {
        match self {
            Stored::Bytes => "string",
            Stored::Floats => "float32",
            Stored::Ints => "int64",
        }
    }
}

/// One feature of a record: a view of its bytes. Values are checked when they are read.
#[derive(Clone, Copy, Debug)]
pub struct Feature<'a> {
    /// `None` if it is there but says nothing: neither bytes nor floats nor integers.
    pub stored: Option<Stored>,
    lists: Lists<'a>,
}

/// Where the lists of a feature lie. There is one, except in features that came in pieces.
#[derive(Clone, Copy, Debug)]
enum Lists<'a> {
    One(&'a [u8]),
    /// Those in a message `Feature`, from this one on.
    InFeature(&'a [u8], usize),
    /// Those in the features of an entry of the map, from this one on.
    InEntry(&'a [u8], usize),
}

impl<'a> Feature<'a> {
    /// A message `Feature`.
    #[inline]
    pub fn new(feature: &'a [u8]) -> Result<Feature<'a>> {
        // In use: one list that fills the message.
        if let [tag @ (0x0a | 0x12 | 0x1a), rest @ ..] = feature {
            let mut rest = rest;
            let len = varint(&mut rest)?;
            if len == rest.len() as u64 {
                return Ok(Feature { stored: Stored::of(u32::from(tag >> 3)), lists: Lists::One(rest) });
            }
        }
        Feature::in_pieces(Pieces::InFeature(Fields::new(feature)), |from| Lists::InFeature(feature, from))
    }

    /// Pieces of one type are put together, another type replaces what was there. All of them must be well formed.
    #[cold]
    fn in_pieces(mut pieces: Pieces<'a>, lists: impl FnOnce(usize) -> Lists<'a>) -> Result<Feature<'a>> {
        let (mut stored, mut from, mut count) = (None, 0, 0);
        while let Some((kind, list)) = pieces.next()? {
            check(kind, list)?;
            if stored != Some(kind) {
                (stored, from) = (Some(kind), count);
            }
            count += 1;
        }
        Ok(Feature { stored, lists: lists(from) })
    }

    fn pieces(&self) -> Pieces<'a> {
        match self.lists {
            Lists::InFeature(bytes, _) => Pieces::InFeature(Fields::new(bytes)),
            Lists::InEntry(bytes, _) => Pieces::InEntry { entry: Fields::new(bytes), feature: Fields::new(&[]) },
            Lists::One(_) => Pieces::InFeature(Fields::new(&[])),
        }
    }

    /// Calls `f` with each of the lists.
    #[inline]
    fn each_list(&self, mut f: impl FnMut(&'a [u8]) -> Result<()>) -> Result<()> {
        match self.lists {
            Lists::One(list) => f(list),
            Lists::InFeature(_, from) | Lists::InEntry(_, from) => {
                let mut pieces = self.pieces();
                let mut at = 0;
                while let Some((_, list)) = pieces.next()? {
                    if at >= from {
                        f(list)?;
                    }
                    at += 1;
                }
                Ok(())
            }
        }
    }

    /// The number of values.
    pub fn count(&self) -> Result<usize> {
        let mut count = 0;
        self.each_list(|list| {
            count += match self.stored {
                Some(Stored::Bytes) => count_bytes(list)?,
                Some(Stored::Floats) => {
                    let mut n = 0;
                    each_float_run(list, |run| n += run.len())?;
                    n
                }
                Some(Stored::Ints) => {
                    let mut n = 0;
                    each_int_run(list, |run| count_ints(run).map(|more| n += more))?;
                    n
                }
                None => 0,
            };
            Ok(())
        })?;
        Ok(count)
    }

    /// Writes the floats and returns how many there are. If that is not the length of `out`, only some were written.
    #[inline]
    pub fn floats_into(&self, out: &mut [f32]) -> Result<usize> {
        let mut count = 0;
        self.each_list(|list| {
            each_float_run(list, |run| {
                if let Some(slots) = out.get_mut(count..count + run.len()) {
                    slots.iter_mut().zip(run).for_each(|(slot, bytes)| *slot = f32::from_le_bytes(*bytes));
                }
                count += run.len();
            })
        })?;
        Ok(count)
    }

    /// Appends the floats and returns how many there are.
    #[inline]
    pub fn floats_onto(&self, out: &mut (impl Extend<f32> + Deref<Target = [f32]>)) -> Result<usize> {
        let before = out.len();
        self.each_list(|list| each_float_run(list, |run| out.extend(run.iter().map(|b| f32::from_le_bytes(*b)))))?;
        Ok(out.len() - before)
    }

    /// Writes the integers and returns how many there are. If that is not the length of `out`, only some were written.
    #[inline]
    pub fn ints_into(&self, out: &mut [i64]) -> Result<usize> {
        let mut count = 0;
        self.each_list(|list| {
            each_int_run(list, |mut run| {
                while !run.is_empty() {
                    let n = varint(&mut run)? as i64;
                    if let Some(slot) = out.get_mut(count) {
                        *slot = n;
                    }
                    count += 1;
                }
                Ok(())
            })
        })?;
        Ok(count)
    }

    /// Appends the integers and returns how many there are.
    #[inline]
    pub fn ints_onto(&self, out: &mut Vec<i64>) -> Result<usize> {
        self.each_int(|n| out.push(n))
    }

    /// Calls `f` with each integer, and returns how many there are.
    #[inline]
    pub fn each_int(&self, mut f: impl FnMut(i64)) -> Result<usize> {
        let mut count = 0;
        self.each_list(|list| {
            each_int_run(list, |mut run| {
                while !run.is_empty() {
                    f(varint(&mut run)? as i64);
                    count += 1;
                }
                Ok(())
            })
        })?;
        Ok(count)
    }

    /// Calls `f` with each byte string, a slice of the record, and returns how many there are.
    #[inline]
    pub fn each_bytes(&self, mut f: impl FnMut(&'a [u8])) -> Result<usize> {
        let mut count = 0;
        self.each_list(|list| {
            each_bytes(list, |bytes| {
                f(bytes);
                count += 1;
            })
        })?;
        Ok(count)
    }
}

/// The lists of a feature that came in pieces, with their types.
enum Pieces<'a> {
    InFeature(Fields<'a>),
    InEntry { entry: Fields<'a>, feature: Fields<'a> },
}

impl<'a> Pieces<'a> {
    fn next(&mut self) -> Result<Option<(Stored, &'a [u8])>> {
        loop {
            let feature = match self {
                Pieces::InFeature(feature) | Pieces::InEntry { feature, .. } => feature,
            };
            while let Some((number, field)) = feature.read()? {
                if let Some(stored) = Stored::of(number) {
                    return Ok(Some((stored, feature.bytes(field)?)));
                }
            }
            let Pieces::InEntry { entry, feature } = self else { return Ok(None) };
            match entry.read()? {
                Some((2, field)) => *feature = Fields::new(entry.bytes(field)?),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }
}

/// Whether a list is well formed.
fn check(stored: Stored, list: &[u8]) -> Result<()> {
    match stored {
        Stored::Bytes => count_bytes(list).map(drop),
        Stored::Floats => each_float_run(list, |_| ()),
        Stored::Ints => each_int_run(list, |run| count_ints(run).map(drop)),
    }
}

fn count_bytes(list: &[u8]) -> Result<usize> {
    let mut count = 0;
    each_bytes(list, |_| count += 1)?;
    Ok(count)
}

#[inline]
fn each_bytes<'a>(list: &'a [u8], mut f: impl FnMut(&'a [u8])) -> Result<()> {
    let mut rest = list;
    while let [0x0a, tail @ ..] = rest {
        rest = tail;
        let len = varint(&mut rest)?;
        f(take(&mut rest, len)?);
    }
    let mut fields = Fields::new(rest);
    while let Some((number, field)) = fields.read()? {
        if number == 1 {
            f(fields.bytes(field)?);
        }
    }
    Ok(())
}

/// Floats that lie side by side.
#[inline]
fn each_float_run<'a>(list: &'a [u8], mut f: impl FnMut(&'a [[u8; 4]])) -> Result<()> {
    let mut floats = |run: &'a [u8]| match run.as_chunks() {
        (floats, []) => {
            f(floats);
            Ok(())
        }
        (_, rest) => Err(Malformed::new("a float that is cut off", rest)),
    };
    if let Some(run) = only_run(list)? {
        return floats(run);
    }
    let mut fields = Fields::new(list);
    while let Some(field) = fields.read()? {
        match field {
            (1, Field::Bytes(run)) => floats(run)?,
            (1, Field::Fixed32(_)) => floats(fields.last().last_chunk::<4>().expect("it has four bytes"))?,
            (1, _) => return Err(fields.wrong_type()),
            _ => {}
        }
    }
    Ok(())
}

/// Integers that lie side by side, as varints.
#[inline]
fn each_int_run<'a>(list: &'a [u8], mut f: impl FnMut(&'a [u8]) -> Result<()>) -> Result<()> {
    if let Some(run) = only_run(list)? {
        return f(run);
    }
    let mut fields = Fields::new(list);
    while let Some(field) = fields.read()? {
        match field {
            (1, Field::Bytes(run)) => f(run)?,
            (1, Field::Varint(_)) => {
                let mut number = fields.last();
                varint(&mut number)?;
                f(number)?;
            }
            (1, _) => return Err(fields.wrong_type()),
            _ => {}
        }
    }
    Ok(())
}

/// The packed values of a list that holds nothing else.
#[inline]
fn only_run(list: &[u8]) -> Result<Option<&[u8]>> {
    let [0x0a, rest @ ..] = list else { return Ok(None) };
    let mut rest = rest;
    let len = varint(&mut rest)?;
    Ok((len == rest.len() as u64).then_some(rest))
}

fn count_ints(mut run: &[u8]) -> Result<usize> {
    let mut count = 0;
    while !run.is_empty() {
        varint(&mut run)?;
        count += 1;
    }
    Ok(count)
}

/// Features by name, as they lie in a map of a record.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    /// The messages that hold maps: `Example`, or `SequenceExample` for its context.
    record: Fields<'a>,
    map: Fields<'a>,
}

impl<'a> Entries<'a> {
    /// All features of an Example, repeated names included.
    pub fn new(record: &'a [u8]) -> Entries<'a> {
        Entries { record: Fields::new(record), map: Fields::new(&[]) }
    }

    /// The next entry of the map: its bytes.
    #[inline]
    pub(crate) fn next_entry(&mut self, map_number: u32) -> Result<Option<&'a [u8]>> {
        loop {
            match self.map.read()? {
                Some((1, field)) => return self.map.bytes(field).map(Some),
                Some(_) => {}
                None if self.next_map(map_number)? => {}
                None => return Ok(None),
            }
        }
    }
    /// Goes on to the next message that holds a map. False if there is none.
    #[inline]
    fn next_map(&mut self, map_number: u32) -> Result<bool> {
        while let Some((number, field)) = self.record.read()? {
            if number == map_number {
                self.map = Fields::new(self.record.bytes(field)?);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Nothing more, as after an error.
    pub(crate) fn end(&mut self) {
        *self = Entries::new(&[]);
    }
}

/// Names and what they stand for. An error is the last item.
impl<'a> Iterator for Entries<'a> {
    type Item = Result<(&'a [u8], Feature<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.next_entry(1).transpose()?.and_then(Entry::new);
        let item = entry.and_then(|entry| Ok((entry.key, entry.feature()?)));
        Some(item.inspect_err(|_| self.end()))
    }
}

/// An entry of a map: a name, and a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub key: &'a [u8],
    pub value: Value<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    One(&'a [u8]),
    /// Not in the order and number in use: the bytes of the entry.
    Odd(&'a [u8]),
}

impl<'a> Entry<'a> {
    #[inline]
    pub fn new(entry: &'a [u8]) -> Result<Entry<'a>> {
        // In use: the key, then the value, which fills the rest.
        if let [0x0a, rest @ ..] = entry {
            let mut rest = rest;
            let len = varint(&mut rest)?;
            let key = take(&mut rest, len)?;
            if let [0x12, tail @ ..] = rest {
                let mut tail = tail;
                let len = varint(&mut tail)?;
                if len == tail.len() as u64 {
                    return Ok(Entry { key, value: Value::One(tail) });
                }
            }
        }
        Entry::odd(entry)
    }

    #[cold]
    fn odd(entry: &'a [u8]) -> Result<Entry<'a>> {
        let mut key: &[u8] = &[];
        let mut fields = Fields::new(entry);
        while let Some((number, field)) = fields.read()? {
            match number {
                1 => key = fields.bytes(field)?,
                2 => drop(fields.bytes(field)?),
                _ => {}
            }
        }
        Ok(Entry { key, value: Value::Odd(entry) })
    }

    #[inline]
    pub fn feature(&self) -> Result<Feature<'a>> {
        match self.value {
            Value::One(feature) => Feature::new(feature),
            Value::Odd(entry) => {
                let pieces = Pieces::InEntry { entry: Fields::new(entry), feature: Fields::new(&[]) };
                Feature::in_pieces(pieces, |from| Lists::InEntry(entry, from))
            }
        }
    }
}

/// Names that are asked for, to be found fast: a table of twice as many places at least, probed one after the other.
/// Records cannot make the probing longer than the names themselves do.
#[derive(Clone, Debug)]
pub struct Wanted {
    names: Vec<Box<[u8]>>,
    /// The number of a name, plus one; 0 is an empty place. As many places as a power of two.
    places: Box<[u32]>,
}

impl Wanted {
    /// Equal names are the same one: the first counts.
    pub fn new<N: AsRef<[u8]>>(names: impl IntoIterator<Item = N>) -> Wanted {
        let names: Vec<Box<[u8]>> = names.into_iter().map(|n| n.as_ref().into()).collect();
        let size = (names.len() * 4).next_power_of_two().max(4);
        let mut places = vec![0; size].into_boxed_slice();
        for (i, name) in names.iter().enumerate() {
            let mut at = hash(name) as usize;
            loop {
                at &= size - 1;
                match places[at] {
                    0 => break places[at] = i as u32 + 1,
                    other if names[other as usize - 1] == *name => break,
                    _ => at += 1,
                }
            }
        }
        Wanted { names, places }
    }
    pub fn names(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.names.iter().map(|n| &**n)
    }
    pub fn len(&self) -> usize {
        self.names.len()
    }
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The number of a name.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let mask = self.places.len() - 1;
        let mut at = hash(name) as usize & mask;
        loop {
            let number = (self.places[at] as usize).checked_sub(1)?;
            if *self.names[number] == *name {
                return Some(number);
            }
            at = (at + 1) & mask;
        }
    }

    /// Finds the wanted features of an Example: `found` gets one for each name, or `None`. Other features are passed
    /// over without a look. `alike` is what is remembered of the records before it, which makes this one faster.
    #[inline]
    pub fn read<'a>(&self, record: &'a [u8], alike: &mut Alike, found: &mut [Option<Feature<'a>>]) -> Result<()> {
        found.iter_mut().for_each(|f| *f = None);
        let mut entries = Entries::new(record);
        for place in 0.. {
            while entries.map.rest().is_empty() {
                if !entries.next_map(1)? {
                    return Ok(());
                }
            }
            if let Some(like) = alike.find(place, entries.map.rest()) {
                let list = &entries.map.pass(like.whole)[like.list..];
                if let Some(slot) = like.number.and_then(|number| found.get_mut(number)) {
                    *slot = Some(Feature { stored: like.stored, lists: Lists::One(list) });
                }
                continue;
            }
            let Some(entry) = entries.next_entry(1)? else { return Ok(()) };
            let entry = Entry::new(entry)?;
            let number = self.find(entry.key);
            let feature = number.map(|_| entry.feature()).transpose()?;
            let (head, like) = looks(entries.map.last(), &entry, number, feature.as_ref());
            alike.note(place, entries.map.last(), head, like);
            if let Some(slot) = number.and_then(|number| found.get_mut(number)) {
                *slot = feature;
            }
        }
        Ok(())
    }

    /// The same for any map from names to messages.
    #[inline]
    pub(crate) fn read_map<'a, T>(
        &self,
        mut entries: Entries<'a>,
        map_number: u32,
        found: &mut [Option<T>],
        read: impl Fn(Entry<'a>) -> Result<T>,
    ) -> Result<()> {
        found.iter_mut().for_each(|f| *f = None);
        while let Some(entry) = entries.next_entry(map_number)? {
            let entry = Entry::new(entry)?;
            if let Some(slot) = self.find(entry.key).and_then(|number| found.get_mut(number)) {
                *slot = Some(read(entry)?);
            }
        }
        Ok(())
    }
}

/// What an entry looks like: how many of its bytes say all that is not a value, and what they say. None of them (0) where
/// it is not in the form in use; nor where it holds byte strings, whose lengths differ.
#[inline]
fn looks(whole: &[u8], entry: &Entry<'_>, number: Option<usize>, feature: Option<&Feature<'_>>) -> (usize, Like) {
    let place = |part: &[u8]| part.as_ptr() as usize - whole.as_ptr() as usize;
    let mut like = Like { whole: whole.len(), number, stored: None, list: whole.len() };
    let head = match (entry.value, feature) {
        (Value::One(value), None) => place(value),
        (
            Value::One(_),
            Some(&Feature { stored: stored @ Some(Stored::Floats | Stored::Ints), lists: Lists::One(list) }),
        ) => {
            (like.stored, like.list) = (stored, place(list));
            only_run(list).ok().flatten().map_or(0, place)
        }
        _ => 0,
    };
    (head, like)
}

/// Eight bytes at a time; the last ones overlap. Short names take one multiplication, of which both halves are used:
/// names often differ in their last characters only.
#[inline]
fn hash(name: &[u8]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(*name[at..].first_chunk().expect("eight bytes"));
    let mut h = name.len() as u64;
    let mix = |h: u64, x: u64| {
        let product = u128::from(h.rotate_left(29) ^ x) * 0x9e37_79b9_7f4a_7c15;
        product as u64 ^ (product >> 64) as u64
    };
    match name.len() {
        8.. => {
            let mut at = 0;
            while at + 8 < name.len() {
                h = mix(h, word(at));
                at += 8;
            }
            h = mix(h, word(name.len() - 8));
        }
        n @ 4..8 => {
            let half = |at: usize| u64::from(u32::from_le_bytes(*name[at..].first_chunk().expect("four bytes")));
            h = mix(h, half(0) << 32 | half(n - 4));
        }
        n @ 1..4 => h = mix(h, u64::from(name[0]) << 16 | u64::from(name[n / 2]) << 8 | u64::from(name[n - 1])),
        0 => {}
    }
    h
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest way to a name.
    fn longest_probe(wanted: &Wanted) -> usize {
        let mask = wanted.places.len() - 1;
        let way = |(i, name): (usize, &[u8])| {
            let from = hash(name) as usize & mask;
            (0..).find(|step| wanted.places[(from + step) & mask] as usize == i + 1).expect("it is there")
        };
        wanted.names().enumerate().map(way).max().unwrap_or(0)
    }

    #[test]
    fn names_are_found_fast() {
        for make in [
            |i: usize| format!("feature_{i:03}"),
            |i| format!("{i}"),
            |i| format!("a_long_name_that_goes_on_{i:04}_and_ends_like_the_others"),
            |i| format!("{i:07}/x"),
        ] {
            let names: Vec<String> = (0..500).map(make).collect();
            let wanted = Wanted::new(&names);
            assert!(names.iter().enumerate().all(|(i, name)| wanted.find(name.as_bytes()) == Some(i)));
            assert_eq!(wanted.find(b"other"), None);
            assert!(longest_probe(&wanted) < 12, "{} for {:?}", longest_probe(&wanted), names[1]);
        }
        assert_eq!(Wanted::new([""; 0]).find(b""), None);
        assert_eq!(Wanted::new(["", "a", "a"]).find(b"a"), Some(1));
    }

    #[test]
    fn only_what_is_wanted_is_touched() {
        // `x` holds floats that are cut off: whoever does not ask for it does not notice.
        let bytes = [0x0a, 0x0c, 0x0a, 0x0a, 0x0a, 0x01, b'x', 0x12, 0x05, 0x12, 0x03, 0x0a, 0x01, 0x00];
        let mut found = [None];
        let alike = &mut Alike::default();
        assert_eq!(Wanted::new(["y"]).read(&bytes, alike, &mut found), Ok(()));
        assert!(found[0].is_none());
        let alike = &mut Alike::default();
        Wanted::new(["x"]).read(&bytes, alike, &mut found).unwrap();
        let x = found[0].unwrap();
        assert_eq!(x.stored, Some(Stored::Floats));
        let error = x.floats_into(&mut [0.0]).unwrap_err().within(&bytes, "Example");
        assert_eq!(error.to_string(), "not a valid Example: a float that is cut off at byte 13 of 14");
        assert!(Wanted::new(["y"]).read(&bytes[..13], &mut Alike::default(), &mut found).is_err());
    }
}
