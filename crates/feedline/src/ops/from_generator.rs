//! `from_generator(generator)`: elements from a Python (or any other) generator, one after the other.

use crate::element::{Chunk, Element, Pos, Spec};
use crate::error::{Error, Kind, Result};
use crate::op::{Op, OpInfo, Param, Props};
use crate::options::OnError;
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Mark, Pull, Saved, Stage, unfit};
use serde_json::Value as Json;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

pub static INFO: OpInfo = OpInfo {
    name: "from_generator",
    doc: "Elements from a generator function, called anew for each pass.",
    params: &[
        Param::new("generator", "", "a callable that returns an iterator"),
        Param::new("output_signature", "", "the spec of what it yields"),
    ],
    read,
};

/// Something that can be gone through again and again.
pub trait Generator: Send + Sync + fmt::Debug + std::any::Any {
    fn spec(&self) -> &Spec;
    /// What tells it from another generator, in later processes too; `None` if nothing does.
    fn identity(&self) -> Option<Vec<u8>> {
        Some(vec![])
    }
    /// The same without what passes may change: see `HostFn::code`.
    fn code(&self) -> Option<String> {
        None
    }
    /// What messages call it, if it has a name.
    fn name(&self) -> Option<String> {
        None
    }
    fn open(&self) -> Result<Box<dyn Cursor>>;
    /// A pass that goes on where another one was, after so many elements: `state` is what its cursor saved.
    fn open_at(&self, _given: u64, _state: &Json) -> Result<Box<dyn Cursor>> {
        Err(unfit())
    }
}

/// One pass of a generator.
pub trait Cursor: Send {
    /// Runs `body` with whatever a row of calls needs around it (the interpreter lock), once.
    fn scoped(&mut self, body: &mut dyn FnMut(&mut dyn Cursor));
    /// The next element; an error stands in the place of one; `None` is the end.
    fn next(&mut self) -> Result<Option<Element>>;
    /// Where it is; `None` if it cannot tell.
    fn save(&mut self) -> Result<Option<Json>> {
        Ok(None)
    }
}

/// Why a pass over a plain generator has no state. A pipeline may have several: the name tells which.
fn plain(generator: &dyn Generator) -> String {
    let name = generator.name().map_or(String::new(), |name| format!("({name})"));
    format!(
        "from_generator{name}: nobody can tell where a plain Python generator is, so it cannot be resumed; let the \
         function return an object with state_dict() and load_state_dict(), or pass resume="
    )
}

#[derive(Clone, Debug)]
pub struct FromGenerator(pub Arc<dyn Generator>);

/// A generator among the attachments of a written plan.
pub struct GeneratorAttachment(pub Arc<dyn Generator>);

fn read(json: serde_json::Value) -> Result<Arc<dyn Op>> {
    let found = json.get("generator").and_then(|i| i.as_u64()).and_then(|i| crate::element::attached(i as usize));
    let found = found.ok_or_else(|| Error::usage("a generator cannot be written, only pickled"))?;
    let generator = found.downcast_ref::<GeneratorAttachment>().ok_or_else(|| Error::usage("not a generator"))?;
    Ok(Arc::new(FromGenerator(generator.0.clone())))
}

impl Op for FromGenerator {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        Ok(self.0.spec().clone())
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Unknown
    }
    fn props(&self) -> Props {
        Props { host: true, pure: false, ..Props::default() }
    }
    /// A generator that raised is over: to leave that out would be to lose the rest of the data without a word.
    fn on_error(&self) -> Option<OnError> {
        Some(OnError::Raise)
    }
    fn build(&self, _: &BuildCx, _: &Plan) -> Result<Built> {
        Ok(Built::Stage(Box::new(GeneratorStage {
            generator: self.0.clone(),
            cursor: None,
            at: 0,
            next: None,
            ended: false,
            saved: None,
            plain: Arc::default(),
        })))
    }
    fn code(&self) -> Option<String> {
        self.0.code()
    }
    fn write(&self) -> Result<serde_json::Value> {
        let i = crate::element::attach(Arc::new(GeneratorAttachment(self.0.clone())))
            .ok_or_else(|| Error::usage("a generator cannot be written, only pickled"))?;
        Ok(serde_json::json!({ "generator": i }))
    }
    fn show(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Rows are collected for at most this long: a slow generator's elements are delivered as they come.
const COLLECT_NS: u128 = 200_000;

struct GeneratorStage {
    generator: Arc<dyn Generator>,
    cursor: Option<Box<dyn Cursor>>,
    at: u64,
    /// An error that came after rows that had to be delivered first.
    next: Option<Error>,
    ended: bool,
    /// Where the cursor is, once it was asked.
    saved: Option<Mark>,
    /// Why it cannot tell that, if so: known when it was opened.
    plain: Arc<OnceLock<String>>,
}

impl GeneratorStage {
    /// Asks the cursor, which may have to call Python: once for each place.
    fn save(&mut self) -> &Mark {
        let GeneratorStage { generator, saved, cursor, .. } = self;
        saved.get_or_insert_with(|| {
            let mut mark = Mark::default();
            let mut found = Ok(None);
            if let Some(cursor) = cursor {
                cursor.scoped(&mut |cursor| found = cursor.save());
            }
            match found {
                Ok(Some(state)) => mark = Mark::from(&[Saved::Json(state)][..]),
                Ok(None) => mark.failed(Error::new(Kind::Precondition, plain(&**generator))),
                Err(error) => mark.failed(error),
            }
            mark
        })
    }
}

impl Stage for GeneratorStage {
    fn next(&mut self, _: &mut Cx<'_>, want: usize) -> Pull {
        if let Some(error) = self.next.take() {
            return Pull::Fail(error);
        }
        if self.ended {
            return Pull::End;
        }
        self.saved = None;
        if self.cursor.is_none() {
            match self.generator.open() {
                Ok(mut cursor) => {
                    cursor.scoped(&mut |cursor| {
                        if matches!(cursor.save(), Ok(None)) {
                            let _ = self.plain.set(plain(&*self.generator));
                        }
                    });
                    self.cursor = Some(cursor);
                }
                Err(error) => {
                    self.ended = true;
                    return Pull::Fail(error);
                }
            }
        }
        let cursor = self.cursor.as_mut().expect("opened above");
        let mut rows = Vec::new();
        let mut stop: Option<Result<()>> = None;
        let start = Instant::now();
        cursor.scoped(&mut |cursor| {
            while rows.len() < want && (rows.is_empty() || start.elapsed().as_nanos() < COLLECT_NS) {
                match cursor.next() {
                    Ok(Some(element)) => rows.push(element),
                    Ok(None) => {
                        stop = Some(Ok(()));
                        return;
                    }
                    Err(error) => {
                        stop = Some(Err(error));
                        return;
                    }
                }
            }
        });
        let first = self.at;
        self.at += rows.len() as u64;
        match stop {
            None => {}
            Some(Ok(())) => {
                self.ended = true;
                self.cursor = None;
            }
            Some(Err(error)) => {
                let error = error.at_element(self.at);
                self.at += 1;
                if rows.is_empty() {
                    return Pull::Fail(error);
                }
                self.next = Some(error);
            }
        }
        match rows.is_empty() {
            true => Pull::End,
            false => Pull::Rows(Chunk::from_elements(Pos::Run(first), rows)),
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.at);
        out.flag(self.ended);
        out.flag(self.cursor.is_some());
        if self.cursor.is_some() {
            out.extend(self.save());
        } else if !self.ended {
            // It can be called once more, and gives whatever it gives then.
            out.once(self.plain.clone());
        }
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.at = at.number()?;
        self.ended = at.flag()?;
        self.saved = None;
        self.next = None;
        self.cursor = match at.flag()? {
            true => Some(self.generator.open_at(self.at, at.json()?)?),
            false => None,
        };
        Ok(())
    }
    fn is_settled(&self) -> bool {
        self.next.is_none()
    }
    fn replays(&self) -> bool {
        true
    }
}
