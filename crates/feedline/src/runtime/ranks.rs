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
//! 3. Each part is a copy of its operators, with its seeds; but what stands below `shard` is that of the dataset itself for the
//!    first part, so that all ranks have the same seeds in later passes. A state tells both.
//! 4. What runs then is divided by one `shard`, below operators that hold nothing: a state of it does for any number of ranks.
//!    It says of how many parts it reads the rests, and the plan is made by that.

use super::iter::{Runs, unread};
use super::mark::{At, unfit};
use super::state::{State, drawn, shards_of};
use super::sync::{Mutex, lock};
use crate::error::{Error, Result};
use crate::ops::parts::{Begin, Parts, Probe};
use crate::plan::{Bound, Plan, all_nodes, copy_of_op, inner_plans};
use crate::rewrite::rewrite;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// Operators that hold nothing that belongs to one part: they may stand on a `shard` that gets another number of parts.
const ON_SHARDS: [&str; 6] = ["batch", "map", "padded_batch", "prefetch", "ragged_batch", "with_options"];
/// Of each part there is a copy of its operators: more are a mistake, or a state that is none of ours.
const MOST: u64 = 1 << 12;

/// From the consumer on, the first operator that may not stand on any part: `shard` itself, or what holds elements of one.
pub(super) fn first_that_holds(plan: &Plan) -> &Plan {
    let mut on = plan;
    while ON_SHARDS.contains(&on.name()) {
        on = &on.inputs[0];
    }
    on
}

/// Every `shard` that stands on no path from the consumer below another one.
fn tops(plan: &Plan) -> Vec<&Plan> {
    let (mut seen, mut ahead, mut tops) = (HashSet::new(), vec![plan], vec![]);
    while let Some(node) = ahead.pop() {
        if seen.insert(node.id) {
            match node.op.part() {
                Some(_) => tops.push(node),
                None => ahead.extend(&node.inputs),
            }
        }
    }
    tops
}

/// Which part of how many a plan gives: what `shard` says, and all of them if there are several side by side.
pub(super) fn part_of(plan: &Plan) -> Option<(u64, u64)> {
    let tops = tops(plan);
    let part = tops.first()?.op.part();
    part.filter(|_| tops.iter().all(|top| top.op.part() == part))
}

/// States of other shards fit if only those differ that stand below no other.
pub(super) fn may_differ(plan: &Plan, there: &[u64]) -> Result<()> {
    let tops: HashSet<u64> = tops(plan).into_iter().map(|top| top.id).collect();
    let (mut here, mut below) = (vec![], vec![]);
    plan.walk(&mut |p| {
        if let Some((_, of)) = p.op.part() {
            here.push(of);
            below.push(!tops.contains(&p.id));
        }
    });
    let fits = part_of(plan).is_some() && here.len() == there.len();
    let is_same = |((here, there), below): ((&u64, &u64), &bool)| here == there || !below;
    if fits && here.iter().zip(there).zip(&below).all(is_same) {
        return Ok(());
    }
    Err(Error::usage(format!(
        "the state is of {there:?} shards and this dataset has {here:?}; where shard operators follow each other, only the last \
         may differ, and those side by side must be of one number and index"
    )))
}

impl State {
    /// The state of all ranks of one made of the states of each, in any order. Where a pass is divided by `shard`, any number
    /// of ranks can go on from it, whatever operators follow.
    pub fn merge(states: impl IntoIterator<Item = State>) -> Result<State> {
        let mut states: Vec<State> = states.into_iter().collect();
        states.sort_by_key(|state| state.part);
        let Some(first) = states.first() else {
            return Err(Error::usage("there are no states to merge"));
        };
        let Some(of) = first.shards.last().copied() else {
            return Err(Error::usage("the state of a dataset without shard is no rank's: it needs no others"));
        };
        for state in &states {
            let Some(part) = state.part else {
                return Err(Error::usage(
                    "its shards are of different numbers or indexes: nobody can tell which part the state is of",
                ));
            };
            if !state.others.is_empty() {
                return Err(Error::usage("one of the states is that of all ranks already"));
            }
            state.plan.check(&first.plan).map_err(|e| Error::usage(format!("shard {part}: {}", e.message())))?;
            if state.shards != first.shards || state.parts != first.parts {
                return Err(Error::usage(format!("shard {part} is one of {:?}, others of {of}", state.shards)));
            }
            if state.epoch != first.epoch {
                return Err(Error::usage(format!(
                    "shard {part} is in pass {}, others are in pass {}: take the states of all ranks in the same pass",
                    state.epoch, first.epoch
                )));
            }
        }
        let parts: Vec<u64> = states.iter().filter_map(|state| state.part).collect();
        if !parts.iter().copied().eq(0..of) {
            return Err(Error::usage(format!(
                "the states are of shards {parts:?}, and one of each of the {of} is needed, from 0 to {}",
                of.saturating_sub(1)
            )));
        }
        let mut states = states.into_iter();
        let first = states.next().ok_or_else(unfit)?;
        Ok(State { others: states.collect(), ..first })
    }
}

/// What is to run from a state on, and the state of that.
pub(super) fn resumed<'a>(runs: &'a Runs, state: &'a State) -> Result<(Cow<'a, Runs>, Cow<'a, State>)> {
    let mut runs = Cow::Borrowed(runs);
    for of in &state.parts {
        runs = Cow::Owned(over(&runs, *of, vec![])?);
    }
    // One rank is all ranks.
    let is_of_all = !state.others.is_empty() || (state.part.is_some() && state.shards.last() == Some(&1));
    if !is_of_all {
        return Ok((runs, Cow::Borrowed(state)));
    }
    let all: Vec<&State> = std::iter::once(state).chain(&state.others).collect();
    let plan = &runs.bound.plan;
    may_differ(plan, &state.shards)?;
    if let Some((index, of)) = part_of(plan)
        && of == all.len() as u64
    {
        return Ok((runs, Cow::Borrowed(all[index as usize])));
    }
    let is_as_far = |one: &&State| (one.delivered, one.ended) == (state.delivered, state.ended);
    if all.iter().all(is_as_far) && first_that_holds(plan).op.part().is_some() {
        return Ok((runs, Cow::Borrowed(state)));
    }
    let begin = all.iter().map(|state| begin_of(&runs, state)).collect::<Result<_>>()?;
    let over = over(&runs, all.len() as u64, begin)?;
    let state = joined(&runs, &over, &all)?;
    Ok((Cow::Owned(over), Cow::Owned(state)))
}

/// The same for what reads the rests of so many parts, that begin there, or where a state says.
fn over(runs: &Runs, of: u64, begin: Vec<Begin>) -> Result<Runs> {
    if of > MOST {
        return Err(Error::usage(format!("the state is of {of} shards, and others can go on from {MOST} at most")));
    }
    let held = first_that_holds(&runs.asked);
    let tops = tops(held);
    let (Some(shard), Some(_)) = (tops.first(), part_of(held)) else { return Err(unfit()) };
    let mut below = HashSet::new();
    tops.iter().for_each(|top| top.inputs[0].walk(&mut |p| _ = below.insert(p.id)));
    // What functions read is not divided anew: each rank would have another part of it than those that had begun.
    let mut divides = None;
    held.walk(&mut |node| {
        let own = |inner: &Plan| all_nodes(inner).iter().any(|p| p.op.part() == shard.op.part());
        if !below.contains(&node.id) && inner_plans(node).iter().any(own) {
            divides = Some(node.name());
        }
    });
    if let Some(name) = divides {
        return Err(Error::usage(format!(
            "the state is of {of} shards; ranks of another number cannot go on from it, since the function of {name} reads \
             what shard divides"
        )));
    }
    let part = |index: u64| {
        // What stands below `shard` is the dataset's own for the first of them: its seeds go on in later passes.
        let number = (index > 0).then_some(index);
        held.remade(|node, inputs| {
            if number.is_none() && below.contains(&node.id) {
                return Ok(node.clone());
            }
            let is_top = tops.iter().any(|top| top.id == node.id);
            let part = if is_top { node.op.with_part(index, of) } else { None };
            Plan::new(part.map_or_else(|| copy_of_op(node, number), Ok)?, inputs)
        })
    };
    let parts = Plan::new(Arc::new(Parts { begin }), (0..of).map(part).collect::<Result<_>>()?)?;
    let asked = on_top(&runs.asked, shard.with_inputs(vec![parts])?)?;
    Ok(Runs {
        bound: Bound { plan: rewrite(&asked)?.plan, env: runs.bound.env.clone() },
        written: runs.written.clone(),
        asked,
        parts: [&runs.parts[..], &[of]].concat(),
        own: runs.own.clone().or_else(|| Some(runs.bound.plan.clone())),
    })
}

/// With the operators of a plan on it that hold nothing.
fn on_top(plan: &Plan, input: Plan) -> Result<Plan> {
    let (mut above, mut on) = (vec![], plan);
    while ON_SHARDS.contains(&on.name()) {
        above.push(on);
        on = &on.inputs[0];
    }
    above.into_iter().rev().try_fold(input, |input, node| node.with_inputs(vec![input]))
}

/// From where a rank would have gone on, below what holds nothing.
fn begin_of(runs: &Runs, state: &State) -> Result<Begin> {
    if state.ended {
        return Ok(Begin::Ended);
    }
    let told = Arc::new(Mutex::new(Begin::Ended));
    let probe = Probe { spec: first_that_holds(&runs.asked).spec.clone(), told: told.clone() };
    let asked = on_top(&runs.asked, Plan::new(Arc::new(probe), vec![])?)?;
    let bound = Bound { plan: rewrite(&asked)?.plan, env: runs.bound.env.clone() };
    let mut at = At::resharded(&state.at);
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

/// The state of what reads the rests of all parts. What is told of a plan is told from the sources on: of a part, that is the
/// beginning of what its state tells, and the end is of what stands above all of them.
fn joined(runs: &Runs, over: &Runs, all: &[&State]) -> Result<State> {
    let mut parts = &over.bound.plan;
    while parts.is::<Parts>().is_none() {
        parts = parts.inputs.first().ok_or_else(unfit)?;
    }
    let (first, mut seeds, mut cells, mut kept) = (all[0], vec![], vec![], vec![]);
    let (mut taken, mut known) = (0, 0);
    for (state, part) in all.iter().zip(&parts.inputs) {
        (taken, known) = (seeds_in(part), drawn([part]).len());
        seeds.extend_from_slice(state.seeds.get(..taken).ok_or_else(unfit)?);
        cells.extend_from_slice(state.drawn.get(..known).ok_or_else(unfit)?);
        let mut keeps = 0;
        part.walk(&mut |p| keeps += usize::from(p.op.keeps_passes()));
        kept.extend((0..keeps).map(|i| state.kept.get(i).cloned().flatten()));
    }
    // Behind those of what runs a state tells the dataset's own, if these are others.
    let running = seeds_in(&runs.bound.plan);
    let own = if runs.own.is_some() { running } else { 0 };
    seeds.extend_from_slice(first.seeds.get(taken..running).ok_or_else(unfit)?);
    seeds.extend_from_slice(first.seeds.get(own..).ok_or_else(unfit)?);
    cells.extend_from_slice(first.drawn.get(known..).ok_or_else(unfit)?);
    if kept.iter().all(Option::is_none) {
        kept.clear();
    }
    let mut left_out = first.left_out.clone();
    for one in all[1..].iter().flat_map(|state| &state.left_out) {
        match left_out.iter_mut().find(|known| (&known.operator, known.number) == (&one.operator, one.number)) {
            Some(known) => known.elements += one.elements,
            None => left_out.push(one.clone()),
        }
    }
    Ok(State {
        seeds,
        drawn: cells,
        kept,
        left_out,
        // The plan begins where they are.
        at: vec![],
        shards: shards_of(&over.bound.plan),
        delivered: all.iter().map(|state| state.delivered).max().unwrap_or(0),
        ended: all.iter().all(|state| state.ended),
        part: part_of(&over.bound.plan).map(|(index, _)| index),
        parts: over.parts.clone(),
        others: vec![],
        ..first.clone()
    })
}
