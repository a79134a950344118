//! Ranks take over from ranks of another number, wherever each of those was: all that they would have given comes once,
//! whatever operators stand behind `shard`, workers and chunk sizes whatever.
//!
//! `FEEDLINE_TOWERS=10000` runs so many, from the number in `FEEDLINE_FIRST_TOWER` on.

use super::random::{ALL, Part, number_of};
use super::resume::{shown, ways};
use super::*;
use feedline::runtime::{Runs, State};

/// Operators in front of `shard`, behind it, and above those that hold elements of one part.
#[derive(Clone, Debug)]
struct Case {
    rows: i64,
    fails: bool,
    before: Vec<Part>,
    /// Where ranks are divided into nodes and these into processes: what stands between.
    between: Option<Vec<Part>>,
    behind: Vec<Part>,
    above: usize,
    /// Numbers of ranks that take over from each other, and from which draws it follows how far each rank gets.
    worlds: Vec<u64>,
    seed: u64,
}

const FUNCTIONS: &str = "functions of the dataset read";
/// More than this is not looked at.
const MANY: usize = 150;

impl Case {
    fn plan(&self, of: u64, index: u64) -> Plan {
        let put = |plan, (place, part): (usize, &Part)| part.put(plan, "", place);
        let source = if self.fails { failing(self.rows) } else { range(self.rows) };
        let whole = self.before.iter().enumerate().fold(source, put);
        let shard = |of: u64, index: u64, plan| make("shard", json!({ "num_shards": of, "index": index }), vec![plan]);
        let part = match &self.between {
            None => shard(of, index, whole),
            Some(between) => {
                let each = if of.is_multiple_of(2) { 2 } else { 1 };
                let node = shard(of / each, index / each, whole);
                shard(each, index % each, between.iter().enumerate().fold(node, put))
            }
        };
        let behind = self.behind.iter().enumerate().fold(part, put);
        let doubled = with_constant(&behind.spec, "multiply", 2);
        match self.above {
            0 => behind,
            1 => make("map", json!({ "function": doubled }), vec![behind]),
            _ => {
                let mapped = make("map", json!({ "function": doubled }), vec![behind]);
                let ahead = make("prefetch", json!({ "buffer_size": 2 }), vec![mapped]);
                // Of elements that fail a batch would lose those beside them.
                if self.fails { ahead } else { make("batch", json!({ "batch_size": 2 }), vec![ahead]) }
            }
        }
    }
    fn runs(&self, of: u64, index: u64, way: &(usize, Options)) -> Runs {
        let ds = Dataset::from_plan(fresh(&self.plan(of, index))).with_options(way.1.clone()).unwrap();
        let asked = ds.plan().clone();
        let bound = Bound { plan: asked.rewritten().unwrap().plan, env: Arc::new([]) };
        Runs::new(bound, asked.clone(), asked)
    }
    /// What comes, as numbers in their order; elements that fail as such.
    fn seen(iter: impl Iterator<Item = feedline::Result<feedline::element::Element>>) -> Vec<String> {
        iter.flat_map(|event| match event {
            Ok(element) => {
                let tensor = element[0].tensor().clone();
                tensor.items::<i64>().iter().map(i64::to_string).collect()
            }
            Err(error) => match shown(Err(error)) {
                Event::Failed(text) | Event::Element(text) => vec![text],
            },
        })
        .collect()
    }
    fn check(&self) -> Result<(), String> {
        let (ways, mut draw) = (ways(), draws(self.seed));
        // Each rank meets the errors of what all of them read.
        let elements =
            |seen: &[String]| seen.iter().filter(|one| one.parse::<i64>().is_ok()).cloned().collect::<Vec<_>>();
        let first = self.worlds[0];
        let mut expected = Vec::new();
        for index in 0..first {
            let some = Case::seen(Iter::new(self.runs(first, index, &ways[0]), 0, pool(1)).unwrap().take(MANY));
            if some.len() >= MANY {
                return Ok(());
            }
            expected.extend(elements(&some));
        }
        let (mut got, mut state, mut log) = (Vec::new(), None::<String>, Vec::new());
        for (hop, &world) in self.worlds.iter().enumerate() {
            let mut states = Vec::new();
            // Behind the first hop all stands on one `shard`: equally far, each rank can speak for all.
            let alone = (hop > 0 && self.between.is_none() && !self.fails && draw(2) == 0).then(|| draw(8));
            let alike = alone.or_else(|| (draw(4) == 0).then(|| draw(8)));
            for index in 0..world {
                let way = &ways[draw(ways.len())];
                let runs = self.runs(world, index, way);
                let mut iter = match &state {
                    None => Iter::new(runs, 0, pool(way.0)).unwrap(),
                    Some(text) => {
                        let state = State::from_json(&serde_json::from_str(text).unwrap()).unwrap();
                        match Iter::resume(runs, &state, pool(way.0)) {
                            // Of several indexes nobody can tell which are those of the rank there.
                            Err(e) if self.between.is_some() && index == 0 && e.message().contains(FUNCTIONS) => {
                                return Ok(());
                            }
                            resumed => resumed.map_err(|e| format!("rank {index} of {world}: {e}"))?,
                        }
                    }
                };
                let steps = if hop + 1 == self.worlds.len() { 100 * MANY } else { alike.unwrap_or_else(|| draw(8)) };
                let some = Case::seen(iter.by_ref().take(steps));
                got.extend(elements(&some));
                log.push(format!("rank {index} of {world}: {some:?}"));
                states.push(iter.state().map_err(|e| format!("rank {index} of {world}: {e}"))?);
            }
            if alone.is_some() {
                let one = states.swap_remove(draw(world as usize));
                state = Some(one.to_json().unwrap().to_string());
                continue;
            }
            // In whatever order they arrive.
            states.rotate_left(hop % world as usize);
            let merged = State::merge(states).map_err(|e| e.to_string())?;
            state = Some(merged.to_json().unwrap().to_string());
        }
        got.sort_unstable();
        expected.sort_unstable();
        if got == expected { Ok(()) } else { Err(format!("{got:?}\ninstead of\n{expected:?}\n{}", log.join("\n"))) }
    }
}

/// An operator by chance. Without a seed each rank would have its own order of what is divided, and another `shard` on top
/// would be the one that divides.
fn any(names: &[&'static str], draw: &mut dyn FnMut(usize) -> usize) -> Part {
    loop {
        let part = Part::any(names, draw);
        if part.name != "shard" && !part.is_by_chance() {
            return part;
        }
    }
}

fn worlds(draw: &mut dyn FnMut(usize) -> usize) -> Vec<u64> {
    let all: [&[u64]; 6] = [&[1, 3], &[3, 1], &[3, 4, 1], &[4, 3], &[2, 3, 2], &[1, 4, 3]];
    all[draw(all.len())].to_vec()
}

/// Each operator behind `shard`, alone.
#[test]
fn every_operator_of_one_part_goes_on_with_any_number_of_parts() {
    let mut draw = draws(99);
    for name in ALL.iter().filter(|name| **name != "shard") {
        for turn in 0..6 {
            let case = Case {
                rows: 23,
                fails: turn % 3 == 2,
                before: vec![],
                between: None,
                behind: vec![any(&[name], &mut draw)],
                above: turn % 3,
                worlds: worlds(&mut draw),
                seed: turn as u64,
            };
            case.check().unwrap_or_else(|e| panic!("{case:?}: {e}"));
        }
    }
}

#[test]
fn random_pipelines_go_on_with_any_number_of_parts() {
    let (first, count) = (number_of("FEEDLINE_FIRST_TOWER").unwrap_or(0), number_of("FEEDLINE_TOWERS").unwrap_or(300));
    for tower in first..first + count {
        let mut draw = draws(tower.wrapping_mul(7919) + 5);
        let parts = |most: usize, draw: &mut dyn FnMut(usize) -> usize| -> Vec<Part> {
            (0..draw(most)).map(|_| any(ALL, draw)).collect()
        };
        let case = Case {
            rows: draw(30) as i64,
            fails: draw(4) == 0,
            before: parts(3, &mut draw),
            between: (draw(3) == 0).then(|| parts(3, &mut draw)),
            behind: parts(5, &mut draw),
            above: draw(3),
            worlds: worlds(&mut draw),
            seed: tower,
        };
        case.check().unwrap_or_else(|e| panic!("tower {tower}, {case:?}: {e}"));
    }
}

/// States of all ranks come from anywhere, as others do.
#[test]
fn a_state_of_all_ranks_that_was_tampered_with_is_refused_or_runs() {
    let (mut draw, mut faults) = (draws(4711), std::collections::BTreeMap::new());
    for tower in 0..12 {
        let behind: Vec<Part> = (0..1 + draw(2)).map(|_| any(ALL, &mut draw)).collect();
        let case = Case {
            rows: 17,
            fails: false,
            before: vec![],
            between: None,
            behind,
            above: 1,
            worlds: vec![2],
            seed: tower,
        };
        let way = &ways()[1];
        let state_of = |runs: &dyn Fn(u64) -> Iter| {
            let states = (0..2).map(|index| {
                let mut iter = runs(index);
                (0..=index).for_each(|_| drop(iter.next()));
                iter.state().unwrap()
            });
            State::merge(states.collect::<Vec<_>>()).unwrap()
        };
        let first = state_of(&|index| Iter::new(case.runs(2, index, way), 0, pool(1)).unwrap());
        // And one of ranks that had taken over.
        let three: Vec<State> = (0..3)
            .map(|index| Iter::resume(case.runs(3, index, way), &first, pool(1)).unwrap().state().unwrap())
            .collect();
        for state in [first, State::merge(three).unwrap()] {
            let json = state.to_json().unwrap();
            for _ in 0..60 {
                let mut mutant = json.clone();
                let keys: Vec<String> = mutant.as_object().unwrap().keys().cloned().collect();
                mutate(&mut mutant[&keys[draw(keys.len())]], &mut draw);
                let text = mutant.to_string();
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    let Ok(state) = State::from_json(&mutant) else { return Ok(()) };
                    let Ok(mut iter) = Iter::resume(case.runs(2, 0, way), &state, pool(2)) else { return Ok(()) };
                    iter.by_ref()
                        .take(50)
                        .find_map(|e| e.err().filter(|e| e.message().contains("panicked")))
                        .map_or(Ok(()), Err)
                }));
                if !matches!(result, Ok(Ok(()))) {
                    faults.insert(format!("{case:?}: {result:?}"), text);
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults: {faults:#?}", faults.len());
}
