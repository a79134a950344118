//! From where a stage goes on: what a state is made of.
//!
//! 1. A *mark* is a short list of parts, mostly numbers: those of a stage, behind them those of its inputs. A stage that is
//!    built from the same plan and sent there (`Stage::seek`) gives what the marked one gives next.
//! 2. Whoever pulls a head marks it after each pull, and the mark travels with the chunk that follows. So the mark of what
//!    a consumer got is known, however far workers are.
//! 3. Marks are made for every chunk, and most are never looked at: a stage with much to tell leaves a part that tells it
//!    only if it is asked (`Later`).
//! 4. `saved` turns a mark into what can be written, and `At` reads that back, part by part.

use crate::element::Value;
use crate::error::{Error, Kind, Result};
use serde_json::Value as Json;
use std::sync::{Arc, OnceLock};

#[derive(Clone, Default)]
pub struct Mark(Vec<Part>);

#[derive(Clone)]
enum Part {
    Number(u64),
    /// What an operator carries from element to element.
    Values(Arc<[Value]>),
    /// Asked what it was like at that time, if anybody wants to know.
    Later(Arc<dyn Later>, u64),
    /// Read from a state, and told again as it was.
    Saved(Arc<[Saved]>),
    /// A mark with the number of its parts, which is known only when they are told.
    Counted(Box<Mark>),
    /// The operator cannot be resumed, and why.
    Never(&'static str),
    /// The operator can begin here, but if the reason is set it does not give the same once more: nobody may make again what
    /// it gave from here on. It tells nothing.
    Once(Arc<OnceLock<String>>),
    /// Somebody would.
    Again(Arc<OnceLock<String>>),
    /// It should tell where it is, and failed.
    Failed(Box<Error>),
}

/// Tells what a mark left out.
pub trait Later: Send + Sync {
    /// The parts that describe the moment `at`.
    fn tell(&self, at: u64, out: &mut Vec<Saved>) -> Result<()>;
}

/// A part of a mark that can be written.
#[derive(Clone, Debug, PartialEq)]
pub enum Saved {
    Number(u64),
    /// Many numbers, packed.
    Bytes(Vec<u8>),
    Values(Vec<Value>),
    /// What a generator tells of itself.
    Json(Json),
}

impl Saved {
    pub fn as_number(&self) -> Option<u64> {
        if let Saved::Number(n) = self { Some(*n) } else { None }
    }
}

impl Mark {
    /// Where a stage is before anything was read: as good as a state, whenever it is told.
    pub fn start(stage: &mut dyn super::Stage) -> Mark {
        let mut mark = Mark::default();
        stage.mark(&mut mark);
        mark.told()
    }
    /// The same with all told now, as far as it can be: it asks nobody any more, and so nothing is kept for it.
    pub fn told(mut self) -> Mark {
        let mut parts = Vec::new();
        if !self.0.iter().any(|part| matches!(part, Part::Once(..) | Part::Again(..))) && self.saved(&mut parts).is_ok()
        {
            return Mark::from(&parts[..]);
        }
        // What cannot be told now stays as it is; what could be told only now does not.
        self.0.iter_mut().for_each(|part| {
            let mut told = Vec::new();
            if let Part::Later(who, at) = part
                && who.tell(*at, &mut told).is_ok()
            {
                *part = Part::Saved(told.into());
            }
        });
        self
    }
    pub fn number(&mut self, n: u64) {
        self.0.push(Part::Number(n));
    }
    pub fn flag(&mut self, yes: bool) {
        self.number(yes.into());
    }
    pub fn values(&mut self, values: Arc<[Value]>) {
        self.0.push(Part::Values(values));
    }
    pub fn later(&mut self, who: Arc<dyn Later>, at: u64) {
        self.0.push(Part::Later(who, at));
    }
    /// Says why the operator cannot be resumed. Whoever asks for a state gets this as an error.
    pub fn never(&mut self, why: &'static str) {
        self.0.push(Part::Never(why));
    }
    /// Says why nobody may make again what comes from here on, if it turns out to be so.
    pub fn once(&mut self, why: Arc<OnceLock<String>>) {
        self.0.push(Part::Once(why));
    }
    pub fn failed(&mut self, error: Error) {
        self.0.push(Part::Failed(Box::new(error)));
    }
    pub fn extend(&mut self, other: &Mark) {
        self.0.extend_from_slice(&other.0);
    }
    /// The same where something came from there already, which is made again.
    pub fn extend_again(&mut self, other: &Mark) {
        self.0.extend(other.0.iter().map(|part| match part {
            Part::Once(why) => Part::Again(why.clone()),
            Part::Counted(mark) => Part::Counted(Box::new((**mark).clone().again())),
            part => part.clone(),
        }));
    }
    /// A mark of what is made again.
    pub fn again(self) -> Mark {
        let mut mark = Mark::default();
        mark.extend_again(&self);
        mark
    }
    /// The same with the number of its parts, so that it can be read as a whole.
    pub fn counted(&mut self, other: &Mark) {
        if !other.is_whole() {
            return self.0.push(Part::Counted(Box::new(other.clone())));
        }
        let parts = other.0.iter().map(|part| match part {
            Part::Saved(parts) => parts.len(),
            Part::Once(..) | Part::Again(..) => 0,
            _ => 1,
        });
        self.number(parts.sum::<usize>() as u64);
        self.extend(other);
    }
    /// What it takes of memory, without what others have, too.
    pub fn bytes(&self) -> usize {
        let inside = |part: &Part| match part {
            Part::Counted(mark) => size_of::<Mark>() + mark.bytes(),
            _ => 0,
        };
        self.0.capacity() * size_of::<Part>() + self.0.iter().map(inside).sum::<usize>()
    }
    /// How many parts it has.
    pub fn parts(&self) -> usize {
        self.0.len()
    }
    pub fn clear(&mut self) {
        self.0.clear();
    }
    /// Whether all of it is there already.
    pub fn is_whole(&self) -> bool {
        !self.0.iter().any(|p| matches!(p, Part::Later(..) | Part::Counted(_)))
    }
    /// Its numbers, if it is nothing but a few numbers: how many.
    pub fn few(&self, out: &mut [u64]) -> Option<usize> {
        let mut count = 0;
        let mut put = |n: u64| {
            *out.get_mut(count)? = n;
            count += 1;
            Some(())
        };
        for part in &self.0 {
            match part {
                Part::Number(n) => put(*n)?,
                Part::Saved(parts) => parts.iter().try_for_each(|part| put(part.as_number()?))?,
                _ => return None,
            }
        }
        Some(count)
    }
    /// Its numbers, if it is nothing but numbers.
    pub fn numbers(&self, out: &mut Vec<u64>) -> bool {
        self.0.iter().all(|part| match part {
            Part::Number(n) => {
                out.push(*n);
                true
            }
            Part::Saved(parts) => parts.iter().all(|part| part.as_number().map(|n| out.push(n)).is_some()),
            _ => false,
        })
    }
    pub fn saved(&self, out: &mut Vec<Saved>) -> Result<()> {
        for part in &self.0 {
            match part {
                Part::Number(n) => out.push(Saved::Number(*n)),
                Part::Values(values) => out.push(Saved::Values(values.to_vec())),
                Part::Later(who, at) => who.tell(*at, out)?,
                Part::Counted(mark) => {
                    let count = out.len();
                    out.push(Saved::Number(0));
                    mark.saved(out)?;
                    out[count] = Saved::Number((out.len() - count - 1) as u64);
                }
                Part::Saved(parts) => out.extend_from_slice(parts),
                Part::Failed(error) => return Err((**error).clone()),
                Part::Again(why) => {
                    why.get().map_or(Ok(()), |why| Err(Error::new(Kind::Precondition, why.as_str())))?;
                }
                Part::Once(_) => {}
                Part::Never(why) => return Err(Error::new(Kind::Precondition, *why)),
            }
        }
        Ok(())
    }
}

impl From<&[Saved]> for Mark {
    fn from(parts: &[Saved]) -> Mark {
        Mark(vec![Part::Saved(parts.into())])
    }
}

/// Reads what was saved. What does not fit is an error: a state may come from anywhere.
pub struct At<'a>(std::slice::Iter<'a, Saved>, bool);

impl<'a> At<'a> {
    pub fn new(parts: &'a [Saved]) -> At<'a> {
        At(parts.iter(), false)
    }
    /// The same where the data is divided among another number of shards by now.
    pub fn resharded(parts: &'a [Saved]) -> At<'a> {
        At(parts.iter(), true)
    }
    /// Whether results that are to be left out are other elements now than they were.
    pub fn is_resharded(&self) -> bool {
        self.1
    }
    /// From here on all is as it was.
    pub fn not_resharded(&mut self) {
        self.1 = false;
    }
    pub fn number(&mut self) -> Result<u64> {
        match self.0.next() {
            Some(Saved::Number(n)) => Ok(*n),
            _ => Err(unfit()),
        }
    }
    /// A number that must not be larger than `most`.
    pub fn up_to(&mut self, most: u64) -> Result<u64> {
        let n = self.number()?;
        if n <= most { Ok(n) } else { Err(unfit()) }
    }
    pub fn flag(&mut self) -> Result<bool> {
        Ok(self.up_to(1)? == 1)
    }
    pub fn values(&mut self) -> Result<&'a [Value]> {
        match self.0.next() {
            Some(Saved::Values(values)) => Ok(values),
            _ => Err(unfit()),
        }
    }
    pub fn json(&mut self) -> Result<&'a Json> {
        match self.0.next() {
            Some(Saved::Json(json)) => Ok(json),
            _ => Err(unfit()),
        }
    }
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        match self.0.next() {
            Some(Saved::Bytes(bytes)) => Ok(bytes),
            _ => Err(unfit()),
        }
    }
    /// The next parts as they are.
    pub fn take(&mut self, parts: u64) -> Result<&'a [Saved]> {
        let all = self.0.as_slice();
        let (taken, rest) = usize::try_from(parts).ok().and_then(|n| all.split_at_checked(n)).ok_or_else(unfit)?;
        self.0 = rest.iter();
        Ok(taken)
    }
    /// What `Mark::counted` wrote.
    pub fn counted(&mut self) -> Result<&'a [Saved]> {
        let parts = self.number()?;
        self.take(parts)
    }
    /// What is left, to be read by several.
    pub fn rest(&self) -> &'a [Saved] {
        self.0.as_slice()
    }
    /// Nothing may be left over.
    pub fn finish(mut self) -> Result<()> {
        if self.0.next().is_none() { Ok(()) } else { Err(unfit()) }
    }
}

/// What stages say of a state that is not theirs.
pub fn unfit() -> Error {
    Error::usage("the state does not fit this dataset: it is damaged, or was made by another version")
}

/// Parts as JSON: numbers as they are, packed ones as text, values spelt out.
pub fn to_json(parts: &[Saved]) -> Result<Json> {
    let part = |part: &Saved| {
        Ok(match part {
            Saved::Number(n) => (*n).into(),
            Saved::Bytes(bytes) => super::pack::to_text(bytes).into(),
            Saved::Values(values) => serde_json::json!({ "values": values }),
            Saved::Json(json) => serde_json::json!({ "json": json }),
        })
    };
    Ok(Json::Array(parts.iter().map(part).collect::<Result<_>>()?))
}

pub fn from_json(json: &Json) -> Result<Vec<Saved>> {
    let part = |part: &Json| match part {
        Json::Number(n) => Ok(Saved::Number(n.as_u64().ok_or_else(unfit)?)),
        Json::String(text) => Ok(Saved::Bytes(super::pack::from_text(text).ok_or_else(unfit)?)),
        Json::Object(map) if map.contains_key("json") => Ok(Saved::Json(map["json"].clone())),
        Json::Object(map) => {
            let values = map.get("values").cloned().ok_or_else(unfit)?;
            Ok(Saved::Values(serde_json::from_value(values).map_err(|_| unfit())?))
        }
        _ => Err(unfit()),
    };
    json.as_array().ok_or_else(unfit)?.iter().map(part).collect()
}
