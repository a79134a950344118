//! Reading `tf.train.SequenceExample`: features of the whole (the context, a map as in an Example), and lists of
//! features, one for each step, by name.

use crate::example::{Entries, Entry, Feature, Value, Wanted};
use crate::wire::{Fields, Result};

/// One list of features of a record: a view of its bytes.
#[derive(Clone, Copy, Debug)]
pub struct FeatureList<'a>(Value<'a>);

impl<'a> FeatureList<'a> {
    /// The features, step by step. They are checked on the way.
    pub fn steps(&self) -> Steps<'a> {
        match self.0 {
            Value::One(list) => Steps { entry: Fields::new(&[]), list: Fields::new(list) },
            Value::Odd(entry) => Steps { entry: Fields::new(entry), list: Fields::new(&[]) },
        }
    }
}

/// Goes through a list of features.
#[derive(Clone, Copy, Debug)]
pub struct Steps<'a> {
    /// What is left of an entry that came in pieces.
    entry: Fields<'a>,
    list: Fields<'a>,
}

impl<'a> Steps<'a> {
    #[inline]
    fn read(&mut self) -> Result<Option<Feature<'a>>> {
        loop {
            match self.list.read()? {
                Some((1, field)) => return Feature::new(self.list.bytes(field)?).map(Some),
                Some(_) => {}
                None => match self.entry.read()? {
                    Some((2, field)) => self.list = Fields::new(self.entry.bytes(field)?),
                    Some(_) => {}
                    None => return Ok(None),
                },
            }
        }
    }
}

/// An error is the last item.
impl<'a> Iterator for Steps<'a> {
    type Item = Result<Feature<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let item = self.read().transpose()?;
        Some(item.inspect_err(|_| *self = Steps { entry: Fields::new(&[]), list: Fields::new(&[]) }))
    }
}

/// The lists of a SequenceExample by name, as they lie in the record.
#[derive(Clone, Debug)]
pub struct Lists<'a>(Entries<'a>);

impl<'a> Lists<'a> {
    pub fn new(record: &'a [u8]) -> Lists<'a> {
        Lists(Entries::new(record))
    }
}

/// An error is the last item.
impl<'a> Iterator for Lists<'a> {
    type Item = Result<(&'a [u8], FeatureList<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.0.next_entry(2).transpose()?.and_then(Entry::new);
        Some(entry.map(|entry| (entry.key, FeatureList(entry.value))).inspect_err(|_| self.0.end()))
    }
}

impl Wanted {
    /// Finds the wanted lists of a SequenceExample, as `read` finds the features of its context.
    pub fn read_lists<'a>(&self, record: &'a [u8], found: &mut [Option<FeatureList<'a>>]) -> Result<()> {
        self.read_map(Entries::new(record), 2, found, |entry| Ok(FeatureList(entry.value)))
    }
}
