//! States of all ranks as one, and how ranks of another number go on from it.
//!
//! 1. Where nothing follows `shard` but operators that hold nothing (`ON_SHARDS`), all parts of a state's moment read the same
//!    input, equally far: the state of any of them does for any number of ranks, since `shard` just deals out what follows
//!    among others. That costs nothing.
//! 2. Behind other operators each part holds what is its own: the buffer of a shuffle, the half of a file. Then the states of
//!    all ranks are needed (`State::merge`), and so they are where ranks are not equally far. Whoever goes on from those reads
//!    the rests of **all** parts, in turns (`ops/parts.rs`), and a `shard` on top of that deals out what comes, to as many
//!    ranks as there are now:
//!
//!    ```text
//!    files > shard(3, i) > interleave > shuffle > map > batch              one of three ranks, and, as one of four from there on:
//!    parts[files > shard(3, 0..3) > interleave > shuffle] > shard(4, i) > map > batch
//!    ```
//!
//!    So nothing is lost and nothing comes twice, whatever stands behind `shard`. The rest of that pass costs each rank the
//!    reading of all parts; what stands above the second `shard`, decoding for instance, is done for own elements only. The
//!    next pass is divided as it is written.
//! 3. Where elements failed behind `shard`, or were left out there, nobody can tell by counting results how many elements they
//!    were made of. Then the parts are whole: nothing that could fail stands above the second `shard`.
//! 4. Each part is a copy of its operators, with its seeds; but what stands below `shard` is that of the dataset itself for the
//!    first part, so that all ranks have the same seeds in later passes. A state tells both.
//! 5. What runs then is divided by one `shard`, below operators that hold nothing: a state of it does for any number of ranks.
//!    It says of how many parts it reads the rests, and the plan is made by that.
//! 6. Where `shard` stands above `shard` (nodes, and processes on each), a rank is told from others by the parts of both, and
//!    there is one for each pair. Their parts are those of all ranks alike; the one `shard` on top of them deals out to as many
//!    ranks as there are pairs.

use super::build::{BuildCx, Built};
use super::iter::{Runs, unread};
use super::mark::{At, Mark, Saved, unfit};
use super::seed::random_u64;
use super::stage::{Cx, Pull, Stage};
use super::state::{State, cells, drawn, shards_of};
use super::sync::{Mutex, lock};
use crate::element::Spec;
use crate::error::{Error, Result};
use crate::op::{Op, OpInfo};
use crate::options::{OnError, Options};
use crate::plan::{Becomes, Bound, Card, Copies, Plan};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Operators that hold nothing that belongs to one part: they may stand on a `shard` that gets another number of parts.
const ON_SHARDS: [&str; 6] = ["batch", "map", "padded_batch", "prefetch", "ragged_batch", "with_options"];
/// Those of them in which nothing fails.
const SAFE: [&str; 2] = ["prefetch", "with_options"];
/// What reads the rests of parts.
const PARTS: &str = "parts";
/// What helps where one state does not do.
const DO_MERGE: &str = "take the states of all ranks, in the same step, and go on from fl.merge_states(states). One \
     state does for all only if nothing but map, batch, padded_batch, ragged_batch and prefetch follows shard, and raises no error";
/// Of each part there is a copy of its operators: more are a mistake, or a state that is none of ours.
const MOST: u64 = 1 << 12;

/// The parts that a pass was divided into, whose rests are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rests {
    /// How many each `shard` made of those below it, the topmost first.
    of: Vec<u64>,
    /// With all that stands behind `shard` and can fail.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    whole: bool,
    /// Functions read what is divided, too: in each part that of its rank.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    inside: bool,
}

impl Rests {
    /// How many there are.
    fn parts(&self) -> u64 {
        self.of.iter().fold(1, |parts, of| parts.saturating_mul(*of))
    }
    /// What each `shard` gives in one of them.
    fn part(&self, number: u64) -> Vec<Share> {
        let (mut left, mut part) = (number, vec![]);
        for of in self.of.iter().rev() {
            part.push((left % of, *of));
            left /= of;
        }
        part.reverse();
        part
    }
}

/// What a plan is divided into: states say it.
#[derive(Clone, Debug)]
pub struct Divided {
    /// What each `shard` gives.
    pub shards: Vec<Share>,
    /// Which part it is.
    pub part: Vec<Share>,
    /// Which parts of how many functions read.
    pub inside: Vec<Share>,
}

impl Divided {
    pub fn of(runs: &Runs) -> Divided {
        Divided { shards: shards_of(&runs.bound.plan), part: part_of(&runs.asked), inside: parts_inside(&runs.asked) }
    }
}

/// Which part, and of how many.
pub type Share = (u64, u64);

/// Those parts as one of all that there are, and how many that is.
fn flat(part: &[Share]) -> Option<Share> {
    let one =
        |(index, all): Share, (i, of): &Share| Some((index.checked_mul(*of)?.checked_add(*i)?, all.checked_mul(*of)?));
    part.iter().try_fold((0, 1), one)
}

/// The same without which of them it is.
fn numbers(part: &[Share]) -> Vec<u64> {
    part.iter().map(|(_, of)| *of).collect()
}

/// Which parts of how many the functions of a plan read, in order and each once. (Whether they read the same node as the pipeline is
/// lost where a plan is written and read.)
fn parts_inside(plan: &Plan) -> Vec<Share> {
    let mut parts = BTreeSet::new();
    let mut add = |node: &Plan| parts.extend(node.op.part());
    plan.walk_all(&mut |opener| {
        opener.op.functions().iter().for_each(|f| f.each_dataset(&mut |dataset| dataset.plan.walk(&mut add)));
    });
    parts.into_iter().collect()
}

/// Where the rest of a part begins.
#[derive(Clone, Debug)]
pub enum Begin {
    /// Behind so many results from a mark on.
    At(Vec<Saved>, u64),
    /// Nothing is left of it.
    Ended,
}

/// The operators that hold nothing, from one on, in a plan with these options; `whole` asks for those only in which nothing fails.
fn above<'a>(options: &Options, plan: &'a Plan, whole: bool) -> Vec<&'a Plan> {
    let names: &[&str] = if whole { &SAFE } else { &ON_SHARDS };
    let (mut above, mut on) = (vec![], plan);
    while (names.contains(&on.name()) || does_nothing(options, on)) && !reads_parts(on) {
        above.push(on);
        on = &on.inputs[0];
    }
    above
}

/// Whether an operator does nothing, and is not there when the plan runs: then what stands on both sides of it may run as one,
/// and has one mark.
fn does_nothing(options: &Options, node: &Plan) -> bool {
    options.rewrite != Some(false) && node.op.props().noop && node.inputs.len() == 1 && node.spec == node.inputs[0].spec
}

/// Whether its function reads what `shard` divides.
fn reads_parts(node: &Plan) -> bool {
    let mut reads = false;
    let mut look = |inner: &Plan| reads |= inner.op.part().is_some();
    node.op.functions().iter().for_each(|f| f.each_dataset(&mut |dataset| dataset.plan.walk_all(&mut look)));
    reads
}

/// From the consumer on, the first operator that may not stand on any part: `shard` itself, or what holds elements of one.
fn first_that_holds(plan: &Plan, whole: bool) -> &Plan {
    first_in(&plan.options, plan, whole)
}

fn first_in<'a>(options: &Options, plan: &'a Plan, whole: bool) -> &'a Plan {
    above(options, plan, whole).last().map_or(plan, |last| &last.inputs[0])
}

/// Whether what holds nothing may leave elements out that fail in it.
fn may_leave_out(options: &Options, plan: &Plan) -> bool {
    let policy = |node: &Plan| node.op.on_error().or(options.on_error).unwrap_or_default();
    above(options, plan, false).iter().any(|node| !SAFE.contains(&node.name()) && policy(node) != OnError::Raise)
}

/// Every `shard` that stands below no other one, in what these read.
fn tops<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> Vec<&'a Plan> {
    let (mut seen, mut tops) = (HashSet::new(), vec![]);
    let mut ahead: Vec<&Plan> = plans.into_iter().collect();
    while let Some(node) = ahead.pop() {
        if seen.insert(node.id) {
            match node.op.part() {
                Some(_) => tops.push(node),
                // All ranks read the same there.
                None if node.name() == PARTS => {}
                None => ahead.extend(&node.inputs),
            }
        }
    }
    let below = below(&tops);
    tops.retain(|top| !below.contains(&top.id));
    tops
}

/// Those, then those in what they read, and so on.
fn levels(plan: &Plan) -> Vec<Vec<&Plan>> {
    let (mut levels, mut level) = (vec![], tops([plan]));
    while !level.is_empty() {
        let next = tops(level.iter().flat_map(|top| &top.inputs));
        levels.push(std::mem::replace(&mut level, next));
    }
    levels
}

/// All that these read, inside of functions, too.
fn below(tops: &[&Plan]) -> HashSet<u64> {
    let mut below = HashSet::new();
    tops.iter().flat_map(|top| &top.inputs).for_each(|input| input.walk_all(&mut |p| _ = below.insert(p.id)));
    below
}

/// Which part of how many a plan gives: what `shard` says, and below it the one that it divides, and so on. Where there are
/// several side by side, or inside of functions alone, all of them must say the same: otherwise it is nothing.
fn part_of(plan: &Plan) -> Vec<Share> {
    let common = |parts: &[Share]| parts.first().copied().filter(|first| parts.iter().all(|part| part == first));
    let levels = levels(plan);
    let each = |level: &Vec<&Plan>| common(&level.iter().filter_map(|top| top.op.part()).collect::<Vec<_>>());
    match levels.is_empty() {
        true => common(&parts_inside(plan)).into_iter().collect(),
        false => levels.iter().map(each).collect::<Option<_>>().unwrap_or_default(),
    }
}

/// Every `shard` of a plan that gives something else than where a state was taken, or why one state says nothing of those.
fn differs(plan: &Plan, there: &State) -> Result<HashSet<u64>> {
    let tops: HashSet<u64> = tops([plan]).into_iter().map(|top| top.id).collect();
    let (mut here, mut nodes) = (vec![], vec![]);
    plan.walk(&mut |p| {
        if let Some(part) = p.op.part() {
            here.push(part);
            nodes.push(p.id);
        }
    });
    let both = || here.iter().zip(&there.shards).zip(&nodes);
    let is_clear = !there.part.is_empty() && !part_of(plan).is_empty() && here.len() == there.shards.len();
    if !is_clear || both().any(|((here, there), node)| here.1 != there.1 && !tops.contains(node)) {
        return Err(Error::usage(format!(
            "the state is of {} and this dataset is {}: where shard operators follow each other, only the last may have another \
             number for one state; and those side by side must be of one number and index",
            told_all(&there.shards),
            told_all(&here)
        )));
    }
    Ok(both().filter(|((here, there), _)| here != there).map(|(_, node)| *node).collect())
}

/// What the state of a rank tells of others.
#[derive(Clone, Copy)]
struct Speaks {
    /// Elements have failed.
    has_failed: bool,
    /// Some were left out, or may have been in other ranks.
    has_left_out: bool,
}

impl Speaks {
    /// Whether results do not tell how many elements they were made of.
    fn is_whole(self, options: &Options, plan: &Plan) -> bool {
        self.has_failed || (self.has_left_out && may_leave_out(options, plan))
    }
    /// Why one state of a part cannot speak for another, where these of its shards differ; nothing if it does.
    fn is_only_of_its_part(self, plan: &Plan, differ: &HashSet<u64>) -> Option<String> {
        let mut on = plan;
        loop {
            let held = first_in(&plan.options, on, self.is_whole(&plan.options, on));
            if held.op.part().is_none() {
                let why = match ON_SHARDS.contains(&held.name()) && !reads_parts(held) {
                    true => "elements that fail behind shard are others in each part".to_string(),
                    false => format!("{} behind shard holds what is its own", held.name()),
                };
                return Some(why);
            }
            // Those below are of other parts as well: the same holds for what stands on them.
            if below(&[held]).is_disjoint(differ) {
                return None;
            }
            on = &held.inputs[0];
        }
    }
}

/// What goes on: a plan, where it is, and whether that was of another number of ranks.
pub(super) struct Resumed<'a> {
    pub runs: Cow<'a, Runs>,
    pub state: Cow<'a, State>,
    is_resharded: bool,
}

impl Resumed<'_> {
    pub fn at(&self) -> At<'_> {
        let at = self.state.at.as_deref().unwrap_or_default();
        if self.is_resharded { At::resharded(at) } else { At::new(at) }
    }
}

impl State {
    /// Which part of how many it is of, if that is one number.
    fn pair(&self) -> Option<Share> {
        pair(&self.part)
    }
    /// How many ranks there were.
    fn ranks(&self) -> Option<u64> {
        flat(&self.part).map(|(_, all)| all).filter(|_| !self.part.is_empty())
    }
    /// The state of all ranks of one made of the states of each, in any order. Where a pass is divided by `shard`, any number
    /// of ranks can go on from it, whatever operators follow.
    pub fn merge(states: impl IntoIterator<Item = State>) -> Result<State> {
        let mut states: Vec<State> = states.into_iter().collect();
        states.sort_by(|a, b| a.part.cmp(&b.part));
        let Some(first) = states.first() else {
            return Err(Error::usage("there are no states to merge"));
        };
        // Loaded, and saved again before anything was read.
        if !first.others.is_empty() && states.iter().all(|state| state == first) {
            return Ok(states.swap_remove(0));
        }
        if first.shards.is_empty() && first.inside.is_empty() {
            return Err(Error::usage("the state of a dataset without shard is no rank's: it needs no others"));
        }
        for state in &states {
            if state.part.is_empty() {
                return Err(Error::usage(
                    "its shards are of different numbers or indexes: nobody can tell which part the state is of",
                ));
            }
            let part = told_part(&state.part);
            if !state.others.is_empty() {
                return Err(Error::usage(
                    "one of the states is that of all ranks already, as if nothing had been read since it was loaded: take \
                     the states of all ranks in the same step",
                ));
            }
            state.plan.check(&first.plan).map_err(|e| Error::usage(format!("shard {part}: {}", e.message())))?;
            if state.parts != first.parts {
                return Err(Error::usage(format!(
                    "shard {part} and others have gone on from states of other numbers of ranks: they are not of one pass"
                )));
            }
            if numbers(&state.shards) != numbers(&first.shards) || numbers(&state.part) != numbers(&first.part) {
                return Err(Error::usage(format!(
                    "one of the states is of shard {part}, another of shard {}: they are of other numbers of ranks",
                    told_part(&first.part)
                )));
            }
            if state.epoch != first.epoch {
                return Err(Error::usage(format!(
                    "shard {part} is in pass {}, others are in pass {}: take the states of all ranks in the same pass",
                    state.epoch, first.epoch
                )));
            }
        }
        let of = first.ranks().ok_or_else(unfit)?;
        let parts: Vec<u64> = states.iter().filter_map(|state| Some(flat(&state.part)?.0)).collect();
        if !parts.iter().copied().eq(0..of) {
            return Err(Error::usage(match first.part.len() {
                1 => format!(
                    "the states are of shards {parts:?}, and one of each of the {of} is needed, from 0 to {}",
                    of.saturating_sub(1)
                ),
                _ => {
                    let there: Vec<String> = states.iter().map(|state| told_part(&state.part)).collect();
                    format!(
                        "the states are of shards {}; where shard operators follow each other, one of each of the {of} is \
                         needed, for every index of the one with every index of the other",
                        there.join(", ")
                    )
                }
            }));
        }
        let mut states = states.into_iter();
        let first = states.next().ok_or_else(unfit)?;
        Ok(State { others: states.collect(), ..first })
    }
}

/// What is to run from a state on, and the state of that.
pub(super) fn resumed<'a>(runs: &'a Runs, state: &'a State) -> Result<Resumed<'a>> {
    let mut runs = Cow::Borrowed(runs);
    for rests in &state.parts {
        runs = Cow::Owned(over(&runs, rests.clone(), vec![])?);
    }
    let (plan, asked, part) = (&runs.bound.plan, &runs.asked, part_of(&runs.asked));
    let here = shards_of(plan);
    let as_it_was = |runs, state: &'a State| Resumed { runs, state: Cow::Borrowed(state), is_resharded: false };
    // One rank is all ranks.
    let is_of_all = !state.others.is_empty() || state.ranks() == Some(1);
    let all: Vec<&State> = std::iter::once(state).chain(&state.others).collect();
    if let Some(own) = all.iter().find(|own| own.part == part && own.shards == here) {
        return match own.inside == parts_inside(asked) {
            true => Ok(as_it_was(runs, own)),
            false => Err(others_inside(asked, &own.inside)),
        };
    }
    let inside = reads_own_part_inside(asked, pair(&part), &all)?;
    let differ = differs(plan, state);
    let is_other_number = numbers(&state.shards) != numbers(&here);
    if !is_of_all {
        let speaks = Speaks { has_failed: state.failed > 0, has_left_out: true };
        let why = match inside {
            true => Some("functions read what shard divides".to_string()),
            false => speaks.is_only_of_its_part(plan, &differ?),
        };
        if let Some(why) = why {
            return Err(Error::usage(format!(
                "the state is of shard {} and this dataset is shard {}; {why}: {DO_MERGE}",
                told_part(&state.part),
                told_part(&part)
            )));
        }
        return Ok(Resumed { is_resharded: is_other_number, ..as_it_was(runs, state) });
    }
    if part.len() != state.part.len() || here.len() != state.shards.len() || numbers(&part) == numbers(&state.part) {
        return Err(differ.err().unwrap_or_else(unfit));
    }
    let left_out = |state: &State| state.left_out.iter().any(|one| one.elements > 0);
    let speaks = Speaks {
        has_failed: all.iter().any(|state| state.failed > 0),
        has_left_out: all.iter().any(|state| left_out(state)),
    };
    let is_as_far = |one: &&State| (one.delivered, one.ended) == (state.delivered, state.ended);
    // All ranks must come to the same: for each of them the shards of another may be other ones.
    let is_one_of = |shard: &&Plan| shard.op.part().is_some_and(|(_, of)| of > 1);
    let any = levels(plan).into_iter().flatten().filter(is_one_of).map(|shard| shard.id).collect();
    if all.iter().all(is_as_far) && !inside && differ.is_ok() && speaks.is_only_of_its_part(plan, &any).is_none() {
        return Ok(Resumed { is_resharded: is_other_number, ..as_it_was(runs, state) });
    }
    let whole = speaks.is_whole(&plan.options, plan);
    let rests = Rests { of: numbers(&state.part), whole, inside };
    copies(&runs, &rests)?;
    let begin = all.iter().map(|state| begin_of(&runs, state, whole)).collect::<Result<_>>()?;
    let over = over(&runs, rests, begin)?;
    let state = joined(&runs, &over, &all)?;
    Ok(Resumed { runs: Cow::Owned(over), state: Cow::Owned(state), is_resharded: false })
}

/// Whether functions read the part of whoever runs them. Other parts that they read must have been those for all ranks.
fn reads_own_part_inside(asked: &Plan, part: Option<Share>, all: &[&State]) -> Result<bool> {
    let (here, first) = (parts_inside(asked), all[0]);
    let is_own = all.iter().all(|state| state.pair().is_some_and(|pair| state.inside.contains(&pair)));
    let mut common = first.inside.clone();
    common.retain(|pair| all.iter().all(|state| state.inside.contains(pair)));
    if is_own && all.len() == 1 {
        common.retain(|pair| Some(*pair) != first.pair());
    }
    let read_by = |pair: Option<Share>| {
        let mut parts: BTreeSet<Share> = common.iter().copied().collect();
        parts.extend(pair.filter(|_| is_own));
        parts.into_iter().collect::<Vec<_>>()
    };
    let is_clear = !(is_own && part.is_some_and(|part| common.contains(&part)));
    match is_clear && here == read_by(part) && all.iter().all(|state| state.inside == read_by(state.pair())) {
        true => Ok(is_own),
        false => Err(others_inside(asked, &first.inside)),
    }
}

/// Shards side by side, or in any order.
fn told_all(parts: &[Share]) -> String {
    let each: Vec<String> = parts.iter().map(|(index, of)| format!("{index} of {of}")).collect();
    if each.is_empty() { "no shard".into() } else { format!("shard {}", each.join(", ")) }
}

/// The part of a rank.
fn told_part(part: &[Share]) -> String {
    let each: Vec<String> = part.iter().map(|(index, of)| format!("{index} of {of}")).collect();
    if each.is_empty() { "none".into() } else { each.join(" within ") }
}

fn pair(part: &[Share]) -> Option<Share> {
    if let [part] = part { Some(*part) } else { None }
}

fn others_inside(asked: &Plan, there: &[Share]) -> Error {
    Error::usage(format!(
        "functions of the dataset read {}, and {} where the state was taken: only as many ranks as before can go on, each from its \
         own state or from fl.merge_states of all",
        told_all(&parts_inside(asked)),
        told_all(there)
    ))
}

/// How many copies there will be of what stands behind the first `shard`.
fn copies(runs: &Runs, rests: &Rests) -> Result<u64> {
    let copies = runs.parts.iter().fold(rests.parts(), |copies, before| copies.saturating_mul(before.parts()));
    match copies {
        0 => Err(unfit()),
        copies if copies <= MOST => Ok(copies),
        copies => Err(Error::usage(format!(
            "ranks of another number would take over for the {}. time in this pass, and read the rests of {copies} parts; {MOST} \
             are possible: take states when all ranks have made equally many steps, or go on with as many ranks as before",
            runs.parts.len() + 1
        ))),
    }
}

/// The same for what reads the rests of so many parts, that begin there, or where a state says.
fn over(runs: &Runs, rests: Rests, begin: Vec<Begin>) -> Result<Runs> {
    copies(runs, &rests)?;
    let held = first_that_holds(&runs.asked, rests.whole);
    let (levels, own) = (levels(held), part_of(held));
    let (Some(tops), Some((rank, ranks))) = (levels.first(), flat(&own)) else {
        return Err(Error::usage(format!(
            "the state is of {} shards inside of functions: only as many ranks as before can go on",
            rests.parts()
        )));
    };
    // What functions read is told from what all read alike by the part alone.
    if own.is_empty() || own.len() != rests.of.len() || (rests.inside && own.len() > 1) {
        return Err(unfit());
    }
    let level_of: HashMap<u64, usize> =
        levels.iter().enumerate().flat_map(|(level, nodes)| nodes.iter().map(move |node| (node.id, level))).collect();
    let (below, mut outside, mut divided) = (below(tops), HashSet::new(), HashSet::new());
    held.walk(&mut |node| {
        outside.insert(node.id);
        if level_of.contains_key(&node.id) || node.inputs.iter().any(|input| divided.contains(&input.id)) {
            divided.insert(node.id);
        }
    });
    let part = |number: u64| {
        let shares = rests.part(number);
        // Random functions without a seed have one in each part, which a state says.
        let drawn = random_u64();
        let becomes = |node: &Plan| {
            // What stands below every `shard` is the dataset's own for the first of them: its seeds go on in later passes.
            if number == 0 && below.contains(&node.id) && !divided.contains(&node.id) {
                return Becomes::Itself;
            }
            let is_inside = rests.inside && !outside.contains(&node.id) && node.op.part() == own.first().copied();
            let level = level_of.get(&node.id).copied().or(is_inside.then_some(0));
            let share = level.and_then(|level| shares.get(level));
            share.and_then(|(index, of)| node.op.with_part(*index, *of)).map_or(Becomes::Copied, Becomes::Another)
        };
        Copies::new(&becomes, Some(drawn)).of(held)
    };
    // Of several that make parts, one may make them equal.
    let all = || levels.iter().flatten();
    let shard = all().find(|shard| shard.op.makes_equal_parts()).or(all().next()).ok_or_else(unfit)?;
    let rest = shard.op.rests(begin).ok_or_else(unfit)?;
    let parts = Plan::new(rest, (0..rests.parts()).map(part).collect::<Result<_>>()?)?;
    let dealt = Plan::new(shard.op.with_part(rank, ranks).ok_or_else(unfit)?, vec![parts])?;
    let asked = on_top(&runs.asked, dealt, rests.whole)?;
    Ok(Runs {
        bound: Bound { plan: asked.runs()?, env: runs.bound.env.clone() },
        written: runs.written.clone(),
        asked,
        parts: [&runs.parts[..], &[rests]].concat(),
        own: runs.own.clone().or_else(|| Some(runs.bound.plan.clone())),
    })
}

/// With the operators of a plan on it that hold nothing.
fn on_top(plan: &Plan, input: Plan, whole: bool) -> Result<Plan> {
    above(&plan.options, plan, whole).into_iter().rev().try_fold(input, |input, node| node.with_inputs(vec![input]))
}

/// From where a rank would have gone on, below what holds nothing.
fn begin_of(runs: &Runs, state: &State, whole: bool) -> Result<Begin> {
    if state.ended {
        return Ok(Begin::Ended);
    }
    let told = Arc::new(Mutex::new(Begin::Ended));
    let probe = Probe { told: told.clone(), options: Options::default() };
    let held = first_that_holds(&runs.asked, whole).clone();
    let asked = on_top(&runs.asked, Plan::new(Arc::new(probe), vec![held])?, whole)?;
    let bound = Bound { plan: asked.runs()?, env: runs.bound.env.clone() };
    let mut at = At::resharded(state.at.as_deref().ok_or_else(unfit)?);
    unread(&bound, state.epoch)?.seek(&mut at)?;
    let begin = lock(&told).clone();
    // What stands above and knows that its input has ended may tell more of it.
    if let Begin::At(..) = begin {
        at.finish()?;
    }
    Ok(begin)
}

/// How many of its operators take seeds.
fn seeds_in(plan: &Plan) -> usize {
    let mut count = 0;
    plan.walk_all(&mut |p| count += usize::from(p.op.seeds().is_some()));
    count
}

/// The parts that a plan reads the rests of.
fn parts_in(plan: &Plan) -> Result<&[Plan]> {
    let mut on = *tops([plan]).first().ok_or_else(unfit)?;
    while on.name() != PARTS {
        on = on.inputs.first().ok_or_else(unfit)?;
    }
    Ok(&on.inputs)
}

/// What is in the cells of seeds that nobody gave: in each part what its rank had, and in the dataset's own what the first had.
fn drawn_by(runs: &Runs, over: &Runs, all: &[&State]) -> Result<Vec<u64>> {
    let places: HashMap<*const AtomicU64, usize> =
        drawn(runs.told()).iter().enumerate().map(|(place, cell)| (Arc::as_ptr(cell), place)).collect();
    let seed = |state: &State, place: usize| state.drawn.get(place).copied().ok_or_else(unfit);
    let held = cells(first_that_holds(&runs.asked, over.parts.last().is_some_and(|rests| rests.whole)));
    let mut said = HashMap::new();
    for (state, part) in all.iter().zip(parts_in(&over.asked)?) {
        let copies = cells(part);
        if copies.len() != held.len() {
            return Err(Error::internal("a copy of a part has other functions"));
        }
        for (cell, copy) in held.iter().zip(copies) {
            if let Some(place) = places.get(&Arc::as_ptr(cell)) {
                said.insert(Arc::as_ptr(&copy), seed(state, *place)?);
            }
        }
    }
    for (cell, place) in places {
        said.insert(cell, seed(all[0], place)?);
    }
    let known = |cell: &Arc<AtomicU64>| said.get(&Arc::as_ptr(cell)).copied();
    Ok(drawn(over.told()).iter().map(|cell| known(cell).unwrap_or_else(|| cell.load(Relaxed))).collect())
}

/// The state of what reads the rests of all parts. What is told of a plan is told from the sources on: of a part, that is the
/// beginning of what its state tells, and the end is of what stands above all of them.
fn joined(runs: &Runs, over: &Runs, all: &[&State]) -> Result<State> {
    let (first, mut seeds, mut kept) = (all[0], vec![], vec![]);
    let mut taken = 0;
    for (state, part) in all.iter().zip(parts_in(&over.bound.plan)?) {
        taken = seeds_in(part);
        seeds.extend_from_slice(state.seeds.get(..taken).ok_or_else(unfit)?);
        let mut keeps = 0;
        part.walk(&mut |p| keeps += usize::from(p.op.keeps_passes()));
        kept.extend((0..keeps).map(|i| state.kept.get(i).cloned().flatten()));
    }
    // Behind those of what runs a state tells the dataset's own, if these are others.
    let running = seeds_in(&runs.bound.plan);
    let own = if runs.own.is_some() { running } else { 0 };
    seeds.extend_from_slice(first.seeds.get(taken..running).ok_or_else(unfit)?);
    seeds.extend_from_slice(first.seeds.get(own..).ok_or_else(unfit)?);
    if kept.iter().all(Option::is_none) {
        kept.clear();
    }
    let mut left_out = first.left_out.clone();
    for one in all[1..].iter().flat_map(|state| &state.left_out) {
        match left_out.iter_mut().find(|known| (&known.operator, known.number) == (&one.operator, one.number)) {
            Some(known) => known.elements = known.elements.saturating_add(one.elements),
            None => left_out.push(one.clone()),
        }
    }
    let divided = Divided::of(over);
    Ok(State {
        seeds,
        drawn: drawn_by(runs, over, all)?,
        kept,
        left_out,
        at: None,
        shards: divided.shards,
        inside: divided.inside,
        delivered: all.iter().map(|state| state.delivered).max().unwrap_or(0),
        failed: all.iter().map(|state| state.failed).max().unwrap_or(0),
        ended: all.iter().all(|state| state.ended),
        part: divided.part,
        parts: over.parts.clone(),
        others: vec![],
        ..first.clone()
    })
}

/// Stands above what holds elements of one part, in its place for what stands on it: that tells it where a state went on from.
/// If it tells nothing, that part had ended.
#[derive(Clone, Debug)]
struct Probe {
    told: Arc<Mutex<Begin>>,
    /// As of something that may be there or not: errors are not sieved behind it.
    options: Options,
}

static PROBE: OpInfo =
    OpInfo { name: "probe", doc: "Says where a state goes on from.", params: &[], read: |_| Err(unwritten()) };

fn unwritten() -> Error {
    Error::internal("a probe is not written")
}

impl Op for Probe {
    fn info(&self) -> &'static OpInfo {
        &PROBE
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        inputs.first().map(|held| held.spec.clone()).ok_or_else(unwritten)
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Unknown
    }
    fn options(&self) -> Option<&Options> {
        Some(&self.options)
    }
    fn build(&self, _: &BuildCx, _: &Plan) -> Result<Built> {
        Ok(Built::Stage(Box::new(self.clone())))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Err(unwritten())
    }
    fn show(&self) -> String {
        String::new()
    }
}

impl Stage for Probe {
    fn next(&mut self, _: &mut Cx<'_>, _: usize) -> Pull {
        Pull::End
    }
    fn mark(&mut self, _: &mut Mark) {}
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        let all = at.rest().len() as u64;
        *lock(&self.told) = Begin::At(at.take(all)?.to_vec(), 0);
        Ok(())
    }
    fn pass(&mut self, results: u64) -> bool {
        match &mut *lock(&self.told) {
            Begin::At(_, given) => given.checked_add(results).map(|sum| *given = sum).is_some(),
            Begin::Ended => false,
        }
    }
}
