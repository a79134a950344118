//! What a plan does, short enough to be kept with a state: a line for each operator, and a hash of all that can change
//! results. Two plans can be told apart by it, and the difference said in words.

use super::{Fnv, Plan, written};
use crate::element::{DType, Tensor};
use crate::error::{Error, Result};
use crate::expr::{HostAttachment, chance};
use crate::options::{OnError, Options};
use crate::runtime::Errors;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Operators that are told apart by name. Of more, only the hash is kept.
const MOST_LINES: usize = 100;
const MOST_CHARS: usize = 72;
/// Arrays up to this size are hashed as a whole; larger ones at so many places: a state must not take seconds to make.
const WHOLE_BYTES: usize = 1 << 20;
const PLACES: usize = 256;
const PLACE_BYTES: usize = 256;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outline {
    fingerprint: String,
    operators: Vec<Line>,
    /// It ran as it was written: other operators than those of its rewritten form have marks, also inside of functions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    as_written: bool,
    /// The code of host functions, with the operators that call them: apart from the rest, since not every process can be
    /// compared with every other by it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    functions: Vec<Code>,
}

/// The number of an operator, and the code of its functions as `HostFn::code` says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Code(usize, Vec<String>);

/// An operator as people read it, and the hash of its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Line(String, String);

/// What is kept of a node: its line, and the code of its functions.
#[derive(Debug)]
pub(super) struct Lined {
    line: Line,
    codes: Vec<String>,
}

impl Outline {
    /// Of a plan as it was written, which runs with these options.
    pub fn of(plan: &Plan, options: &Options) -> Result<Outline> {
        let mut known: HashMap<u64, u64> = HashMap::new();
        let (mut operators, mut functions) = (Vec::new(), Vec::new());
        let mut failed = None;
        plan.walk(&mut |node| {
            // Options say how to run, not what comes out; those that do are added below.
            if node.op.options().is_some() {
                known.insert(node.id, known[&node.inputs[0].id]);
                return;
            }
            match line(node) {
                Ok(Lined { line, codes }) => {
                    let mut hash = Fnv::new();
                    hash.write(line.1.as_bytes());
                    node.inputs.iter().for_each(|i| hash.write(&known.get(&i.id).unwrap_or(&0).to_le_bytes()));
                    known.insert(node.id, hash.0);
                    if operators.len() < MOST_LINES {
                        if !codes.is_empty() {
                            functions.push(Code(operators.len(), codes.clone()));
                        }
                        operators.push(line.clone());
                    }
                }
                Err(error) => failed = failed.take().or(Some(error)),
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let mut hash = Fnv(known[&plan.id]);
        hash.write(&[options.deterministic.unwrap_or(true).into()]);
        // With others left out or kept, other elements come.
        if options.on_error.is_some_and(|e| e != OnError::Raise) {
            hash.write(b"leaves out errors");
        }
        if Errors::are_left_out(plan, options) {
            // What stands between maps cannot be between those that became one.
            plan.walk_all(&mut |node| {
                if node.op.options().is_none() {
                    hash.write(&node.op.num_parallel_calls().unwrap_or(0).to_le_bytes());
                }
            });
        }
        let as_written = options.rewrite == Some(false);
        Ok(Outline { fingerprint: format!("{:016x}", hash.0), operators, as_written, functions })
    }
    pub fn is_as_written(&self) -> bool {
        self.as_written
    }
    /// Refuses another plan, with the first difference in words.
    pub fn check(&self, here: &Outline) -> Result<()> {
        if self.as_written != here.as_written {
            let way = |as_written| if as_written { "with rewrite=False" } else { "without rewrite=False" };
            return Err(Error::usage(format!(
                "the state was taken {} and is gone on with {}: that is another plan; other options may differ, this one \
                 must be the same",
                way(self.as_written),
                way(here.as_written)
            )));
        }
        if self.fingerprint == here.fingerprint {
            return self.check_functions(here);
        }
        let both = self.operators.iter().zip(&here.operators);
        // Parameters that may differ are in the texts, too.
        let text = match both.enumerate().find(|(_, (was, is))| was.1 != is.1) {
            Some((i, (Line(was, _), Line(is, _)))) if was != is => {
                format!("operator {} is {is} here and was {was} there", i + 1)
            }
            Some((i, (Line(is, _), _))) => format!("operator {}, {is}, has another function or other data", i + 1),
            None => match (self.operators.get(here.operators.len()), here.operators.get(self.operators.len())) {
                (Some(Line(was, _)), _) => format!("{was} was there and is missing here"),
                (_, Some(Line(is, _))) => format!("{is} is here and was not there"),
                _ => "its operators are the same, but connected or run in another way (where errors are left out, \
                      num_parallel_calls must be the same, too)"
                    .into(),
            },
        };
        Err(Error::usage(format!("the state was taken from another dataset: {text}")))
    }
    /// Refuses other code. What was told by another version of an interpreter says nothing.
    fn check_functions(&self, here: &Outline) -> Result<()> {
        let is_other = |(was, is): (&String, &String)| {
            let (was, is) = (was.rsplit_once(' '), is.rsplit_once(' '));
            was.zip(is).is_some_and(|((with, was), (against, is))| with == against && was != is)
        };
        for (Code(at, was), Code(here_at, is)) in self.functions.iter().zip(&here.functions) {
            if at == here_at && was.len() == is.len() && was.iter().zip(is).any(is_other) {
                let line = here.operators.get(*at).map_or("", |line| &line.0);
                return Err(Error::usage(format!(
                    "the state was taken from another dataset: operator {}, {line}, calls other code than it did there; \
                     begin anew, or resume with the program that the state is from",
                    at + 1
                )));
            }
        }
        Ok(())
    }
}

fn line(node: &Plan) -> Result<&Lined> {
    if let Some(line) = node.outlined.get() {
        return Ok(line);
    }
    let (mut json, attachments) = written::write_telling(node)?;
    // A state has those.
    chance::forget(&mut json);
    let mut hash = Fnv::new();
    hash.write(node.name().as_bytes());
    hash.write(json.to_string().as_bytes());
    let mut codes: Vec<String> = node.op.code().into_iter().collect();
    for object in attachments {
        if let Some(tensor) = object.downcast_ref::<Tensor>() {
            sample(tensor, &mut hash);
        }
        if let Some(HostAttachment(function)) = object.downcast_ref() {
            codes.extend(function.code());
        }
    }
    let mut text = format!("{}({})", node.name(), node.op.show());
    if text.chars().count() > MOST_CHARS {
        text = text.chars().take(MOST_CHARS).chain(['…']).collect();
    }
    let line = Line(text, format!("{:016x}", hash.0));
    let _brief = feedline_io::brief();
    Ok(node.outlined.get_or_init(|| Lined { line, codes }))
}

fn sample(tensor: &Tensor, hash: &mut Fnv) {
    tensor.shape().iter().for_each(|n| hash.write(&n.to_le_bytes()));
    if tensor.dtype() == DType::String {
        let step = tensor.len().div_ceil(WHOLE_BYTES / 16).max(1);
        return tensor.strs().step_by(step).for_each(|s| hash.write(&s[..s.len().min(WHOLE_BYTES)]));
    }
    let bytes = tensor.bytes();
    if bytes.len() <= WHOLE_BYTES {
        return hash.write(bytes);
    }
    let last = bytes.len() - PLACE_BYTES;
    for i in 0..PLACES {
        let at = (last as u128 * i as u128 / (PLACES - 1) as u128) as usize;
        hash.write(&bytes[at..at + PLACE_BYTES]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dataset, Options};

    fn refusal(was: &Dataset, is: &Dataset) -> String {
        let outline = |ds: &Dataset| Outline::of(ds.plan(), &ds.plan().options).unwrap();
        outline(was).check(&outline(is)).map_or_else(|e| e.to_string(), |()| String::new())
    }

    #[test]
    fn differences_are_said_in_words() {
        let range = |n| Dataset::range(n).unwrap();
        let batch = range(5).batch(2, false).unwrap();
        assert_eq!(refusal(&batch, &range(5).batch(2, false).unwrap()), "");
        let text = refusal(&batch, &range(5).batch(3, false).unwrap());
        assert!(text.contains("operator 2 is batch(batch_size=3) here and was batch(batch_size=2) there"), "{text}");
        let text = refusal(&batch, &range(5));
        assert!(text.contains("batch(batch_size=2) was there and is missing here"), "{text}");
        let text = refusal(&batch, &batch.skip(1).unwrap());
        assert!(text.contains("skip(count=1) is here and was not there"), "{text}");
        let scaled = |k: i64| {
            let f = move |b: &mut crate::expr::Builder, x: &[usize]| {
                let k = b.constant(Tensor::scalar(k).into())?;
                b.call("multiply", &[x[0], k], Default::default())
            };
            range(3).map(f).unwrap()
        };
        let text = refusal(&scaled(2), &scaled(3));
        assert!(text.contains("operator 2 is map(multiply(x, 3)) here"), "{text}");
    }

    #[test]
    fn what_cannot_change_results_does_not_matter() {
        let ds = Dataset::range(5).unwrap();
        let options = Options { chunk_rows: Some(3), memory_limit: Some(1000), ..Options::default() };
        assert_eq!(refusal(&ds, &ds.with_options(options).unwrap()), "");
        let written = ds.with_options(Options { rewrite: Some(false), ..Options::default() }).unwrap();
        let text = refusal(&ds, &written);
        assert!(text.contains("taken without rewrite=False") && text.contains("must be the same"), "{text}");
        assert_eq!(refusal(&written, &written), "");
        let free = ds.with_options(Options { deterministic: Some(false), ..Options::default() }).unwrap();
        assert_ne!(refusal(&ds, &free), "");
    }

    #[test]
    fn code_is_compared_where_it_can_be() {
        let outline = |code: &str| Outline {
            functions: vec![Code(1, vec![code.into()])],
            ..Outline::of(Dataset::range(5).unwrap().batch(2, false).unwrap().plan(), &Options::default()).unwrap()
        };
        let refused = |was: &str, is: &str| outline(was).check(&outline(is)).err().map(|e| e.to_string());
        assert_eq!((refused("v1 a", "v1 a"), refused("v1 a", "v2 b"), refused("a", "b")), (None, None, None));
        let text = refused("v1 a", "v1 b").unwrap();
        assert!(text.contains("operator 2, batch(batch_size=2), calls other code"), "{text}");
        // States of before say nothing of code.
        let mut was = outline("v1 a");
        was.functions.clear();
        assert!(was.check(&outline("v1 b")).is_ok());
    }

    #[test]
    fn large_arrays_are_told_apart_quickly() {
        let array = |last: u8| {
            let mut bytes = vec![1u8; 8 << 20];
            *bytes.last_mut().unwrap() = last;
            Dataset::from_tensors(Tensor::from_items([bytes.len()], &bytes)).unwrap()
        };
        assert_eq!(refusal(&array(1), &array(1)), "");
        assert!(refusal(&array(1), &array(2)).contains("other data"));
    }
}
