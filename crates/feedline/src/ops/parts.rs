//! The rests of the parts that ranks had begun, in turns: what ranks of another number go on with. Rows have the numbers that
//! they had in their part, so that random functions behind it draw what they would have drawn. Not an operator that anybody
//! calls: `runtime/ranks.rs` puts it into plans.

use super::Open;
use super::weave::{Picked, Source, collected};
use crate::element::Spec;
use crate::error::{Error, Result};
use crate::op::{Op, OpInfo, Props, read};
use crate::plan::{Card, Plan};
use crate::runtime::{At, Begin, BuildCx, Built, Cx, Given, Mark, Pull, Stage};
use serde::{Deserialize, Serialize};

static INFO: OpInfo = OpInfo {
    name: "parts",
    doc: "What was left of the parts of another number of ranks, in turns.",
    params: &[],
    read: read::<Parts>,
};

/// Each input is one part.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// Where each of them begins; nothing if a state says it.
    #[serde(skip)]
    pub begin: Vec<Begin>,
}

impl Op for Parts {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        inputs.first().map(|part| part.spec.clone()).ok_or_else(|| Error::internal("parts of nothing"))
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Unknown
    }
    fn props(&self) -> Props {
        Props { carries: true, partial: true, ..Props::default() }
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let start = |(number, plan): (usize, &Plan)| {
            let stage = cx.stage(plan)?;
            let mut part = Open::new(cx, std::slice::from_ref(plan), Source::new(stage, vec![]));
            match self.begin.get(number) {
                None => {}
                Some(Begin::Ended) => _ = part.set_open(false)?,
                Some(Begin::At(mark, given)) => {
                    let mut at = vec![Given::of_all(*given).saved()];
                    at.extend_from_slice(mark);
                    let mut at = At::new(&at);
                    part.set_open(true)?.into_iter().try_for_each(|part| part.seek(&mut at))?;
                    at.finish()?;
                }
            }
            Ok(part)
        };
        let sources = node.inputs.iter().enumerate().map(start).collect::<Result<Vec<_>>>()?;
        Ok(Built::Stage(Box::new(PartsStage { sources, turn: 0, picked: Picked::new(), failed: None })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

struct PartsStage {
    sources: Vec<Open<Source>>,
    /// Whose turn it is.
    turn: usize,
    picked: Picked,
    failed: Option<Error>,
}

impl PartsStage {
    /// The next result of whoever has one, of which so many more may be wanted; something else is returned.
    fn step(&mut self, cx: &mut Cx<'_>, want: usize) -> Option<Pull> {
        let Some(source) = self.sources[self.turn].get() else {
            self.pass_on();
            return None;
        };
        if source.left() == 0 {
            match source.pull(cx, want) {
                None => {}
                Some(Pull::Pending) => return Some(Pull::Pending),
                Some(Pull::End) => {
                    self.sources[self.turn].end();
                    self.pass_on();
                    return None;
                }
                Some(other) => {
                    self.pass_on();
                    return Some(other);
                }
            }
        }
        self.picked.pick(source, 1);
        self.pass_on();
        None
    }
    fn pass_on(&mut self) {
        self.turn = (self.turn + 1) % self.sources.len();
    }
}

impl Stage for PartsStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        if let Some(error) = self.failed.take() {
            return Pull::Fail(error);
        }
        let want = want.min(4096);
        let mut stop = Pull::End;
        while self.picked.rows() < want {
            let open = self.sources.iter().filter(|source| source.is_open()).count();
            if open == 0 || cx.is_cancelled() {
                break;
            }
            if let Some(pull) = self.step(cx, (want - self.picked.rows()).div_ceil(open)) {
                stop = pull;
                break;
            }
        }
        if cx.is_cancelled() {
            return Pull::End;
        }
        collected(self.picked.take_as_numbered(), stop, &mut self.failed)
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.turn as u64);
        for source in &mut self.sources {
            out.flag(source.is_open());
            if let Some(source) = source.if_open() {
                source.mark(out);
            }
            source.below.mark(out);
        }
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.turn = at.up_to(self.sources.len() as u64 - 1)? as usize;
        (self.picked, self.failed) = (Picked::new(), None);
        for source in &mut self.sources {
            if let Some(source) = source.set_open(at.flag()?)? {
                source.seek(at)?;
            }
            source.below.seek(at)?;
        }
        Ok(())
    }
    fn is_settled(&self) -> bool {
        self.failed.is_none()
    }
    fn replays(&self) -> bool {
        true
    }
}
