//! The pass that the elements of a cache come from, and from where its input goes on. A part of `cache`; a snapshot has
//! an origin, too.

use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::runtime::{At, BuildCx, Mark, Saved, Stage, seeds_hash};
use std::sync::Arc;

/// A pass over the input: what it gives depends on its epoch, on the seeds that operators and functions of the input have,
/// and on which of these it began with.
#[derive(Clone, Default, PartialEq)]
pub struct Origin {
    pub epoch: u64,
    /// Which seeds there were. Those that nobody gave are drawn, by each process others; a state brings them along.
    pub seeds: u64,
    pub start: Arc<[Saved]>,
    /// Why there is no telling where it began.
    pub never: Option<&'static str>,
}

impl Origin {
    pub fn of(cx: &BuildCx, plan: &Plan, input: &mut dyn Stage) -> Origin {
        let (mut mark, mut start) = (Mark::default(), Vec::new());
        input.mark(&mut mark);
        let never = mark.saved(&mut start).err().map(|_| NEVER);
        Origin { epoch: cx.epoch, seeds: seeds_hash(plan), start: start.into(), never }
    }
    /// Whether two passes give the same elements.
    #[cfg(feature = "columnar")]
    pub fn is_same(&self, other: &Origin) -> bool {
        (self.epoch, self.seeds, &self.start) == (other.epoch, other.seeds, &other.start)
    }
    /// Refuses to begin it with other seeds than it had.
    pub fn check_seeds(&self, plan: &Plan) -> Result<()> {
        if self.seeds == seeds_hash(plan) || plan.is_pure() {
            return Ok(());
        }
        Err(Error::usage(
            "the state was taken while a cache or snapshot was read that another process had filled, with seeds that it drew, \
             and that is not here: bring it here too, or give shuffles and random functions in front of it seeds",
        ))
    }
    pub fn mark(&self, out: &mut Mark) {
        out.number(self.epoch);
        out.number(self.seeds);
        out.counted(&Mark::from(&*self.start));
        if let Some(why) = self.never {
            out.never(why);
        }
    }
    pub fn read(at: &mut At<'_>) -> Result<Origin> {
        Ok(Origin { epoch: at.number()?, seeds: at.number()?, start: at.counted()?.into(), never: None })
    }
    pub fn to_json(&self) -> Result<serde_json::Value> {
        let start = crate::runtime::parts_to_json(&self.start)?;
        let resumable = self.never.is_none();
        Ok(serde_json::json!({ "epoch": self.epoch, "start": start, "resumable": resumable, "seeds": self.seeds }))
    }
    #[cfg(feature = "columnar")]
    pub fn from_json(json: &serde_json::Value) -> Result<Origin> {
        let start = crate::runtime::parts_from_json(&json["start"])?.into();
        let never = (json["resumable"].as_bool() != Some(true)).then_some(NEVER);
        let number = |key: &str| json[key].as_u64().unwrap_or(0);
        Ok(Origin { epoch: number("epoch"), seeds: number("seeds"), start, never })
    }
}

const NEVER: &str = "an operator before a cache or snapshot cannot be resumed";

/// Where the input was when a part of a pass was committed: behind so many elements, and its mark.
#[cfg(feature = "columnar")]
#[derive(Clone)]
pub struct Step {
    pub elements: u64,
    pub rest: Arc<[Saved]>,
}

/// A pass is gone on with only by the version that began it: marks have no other.
#[cfg(feature = "columnar")]
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Marks of earlier commits are kept within so many bytes: a shuffle's are large, and the last is what is wanted mostly.
#[cfg(feature = "columnar")]
const MOST_STEPS: usize = 256 << 10;

/// The origin of a part that ends with the last of these steps. Of the earlier ones every second goes until they are few.
#[cfg(feature = "columnar")]
pub fn part_to_json(origin: &Origin, steps: &mut Vec<Step>) -> Result<serde_json::Value> {
    let written = |step: Step| -> Result<(Step, serde_json::Value)> {
        let rest = crate::runtime::parts_to_json(&step.rest)?;
        let json = serde_json::json!({ "elements": step.elements, "rest": rest });
        Ok((step, json))
    };
    let mut list = steps.drain(..).map(written).collect::<Result<Vec<_>>>()?;
    let last = list.pop();
    while list.iter().map(|(_, json)| json.to_string().len()).sum::<usize>() > MOST_STEPS {
        list = if list.len() > 1 { list.into_iter().step_by(2).collect() } else { vec![] };
    }
    let written: Vec<serde_json::Value>;
    (*steps, written) = list.into_iter().chain(last).unzip();
    let mut json = origin.to_json()?;
    json["steps"] = written.into();
    json["version"] = VERSION.into();
    Ok(json)
}

/// The steps of a part.
#[cfg(feature = "columnar")]
pub fn part_steps(origin: &serde_json::Value) -> Result<Vec<Step>> {
    if origin["version"].as_str() != Some(VERSION) {
        let version = &origin["version"];
        return Err(crate::Error::data(format!("it was begun by version {version} of feedline, this is {VERSION}")));
    }
    let read = |step: &serde_json::Value| -> Result<Step> {
        let elements = step["elements"].as_u64().ok_or_else(|| crate::Error::data("a step has no number"))?;
        Ok(Step { elements, rest: crate::runtime::parts_from_json(&step["rest"])?.into() })
    };
    origin["steps"].as_array().into_iter().flatten().map(read).collect()
}

#[cfg(all(test, feature = "columnar"))]
mod tests {
    use super::*;

    #[test]
    fn marks_of_earlier_commits_are_few_where_they_are_large() {
        let commits = |numbers: usize| -> Vec<u64> {
            let (mut steps, mut json) = (Vec::new(), serde_json::Value::Null);
            for elements in 1..=100 {
                steps.push(Step { elements, rest: vec![Saved::Number(1 << 40); numbers].into() });
                json = part_to_json(&Origin::default(), &mut steps).unwrap();
            }
            let read = part_steps(&json).unwrap();
            assert!(read.iter().all(|step| step.rest.len() == numbers) && read.len() == steps.len());
            assert!(json.to_string().len() < 2 * MOST_STEPS + numbers * 20);
            read.iter().map(|step| step.elements).collect()
        };
        assert_eq!(commits(1), (1..=100).collect::<Vec<_>>());
        let some = commits(1000);
        assert!((10..30).contains(&some.len()) && some.is_sorted() && some.last() == Some(&100), "{some:?}");
        assert_eq!(some[0], 1, "{some:?}");
        assert_eq!(commits(100_000), [100]);
    }
}
