//! Records of one data set look alike: the same names in the same order, mostly with the same lengths. What stood in front
//! of an entry's values in the last record is tried first for the entry in the same place of the next one. Where it is the
//! same byte for byte, all lengths are the same too, and nothing of it needs to be read again.

use crate::example::Stored;

/// Longer ones are read anew each time.
const MOST_BYTES: usize = 32;
/// A record may have any number of entries; so many of them are remembered.
const MOST_ENTRIES: usize = 1024;

/// What the entries of the last record looked like.
#[derive(Clone, Debug, Default)]
pub struct Alike(Vec<Head>);

/// What stands in front of the values of an entry, its tag included.
#[derive(Clone, Copy, Debug)]
struct Head {
    bytes: [u8; MOST_BYTES],
    /// How many of them; none if nothing is remembered.
    len: usize,
    like: Like,
}

/// What an entry is that looks the same.
#[derive(Clone, Copy, Debug)]
pub struct Like {
    /// The bytes of the whole entry.
    pub whole: usize,
    /// The number of its name, if that is wanted.
    pub number: Option<usize>,
    /// What it holds, and where the list of that begins.
    pub stored: Option<Stored>,
    pub list: usize,
}

impl Alike {
    /// What the entry in front of `rest` is, if it looks like the one that was in this place.
    #[inline]
    pub fn find(&self, place: usize, rest: &[u8]) -> Option<&Like> {
        let head = self.0.get(place)?;
        (rest.len() >= head.like.whole && head.is_front_of(rest)).then_some(&head.like)
    }

    /// Remembers an entry: its bytes, of which the first `len` say what the others are; 0 if they do not.
    #[inline]
    pub fn note(&mut self, place: usize, entry: &[u8], len: usize, like: Like) {
        let mut head = Head { bytes: [0; MOST_BYTES], len: 0, like };
        if let (Some(to), Some(from)) = (head.bytes.get_mut(..len), entry.get(..len)) {
            to.copy_from_slice(from);
            head.len = len;
        }
        if let Some(slot) = self.0.get_mut(place) {
            *slot = head;
        } else if place < MOST_ENTRIES {
            self.0.push(head);
        }
    }
}

impl Head {
    /// Two words that may overlap: shorter than a call that compares any number of bytes.
    #[inline]
    fn is_front_of(&self, rest: &[u8]) -> bool {
        fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
            bytes.get(at..)?.first_chunk()
        }
        fn same<const N: usize>(a: &[u8], b: &[u8], len: usize) -> bool {
            let ends = |bytes| Some((word::<N>(bytes, 0)?, word::<N>(bytes, len - N)?));
            ends(a).is_some_and(|a| Some(a) == ends(b))
        }
        match self.len {
            n @ 16.. => same::<16>(&self.bytes, rest, n),
            n @ 8.. => same::<8>(&self.bytes, rest, n),
            n @ 1.. => rest.starts_with(&self.bytes[..n]),
            0 => false,
        }
    }
}
