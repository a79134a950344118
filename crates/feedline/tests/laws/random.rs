//! Towers of operators by chance: whatever stands on what, a state taken anywhere goes on with what would have followed, and
//! none of it depends on workers or chunk sizes. Later passes are as without a break, too.
//!
//! `FEEDLINE_TOWERS=10000` runs so many of each kind, from the number in `FEEDLINE_FIRST_TOWER` on. What fails is made as
//! small as it still fails, and said with its number.

use super::passes::{above, ahead, all, cache, chosen, in_turns, next, on, repeat, sum, take, until, zip};
use super::resume::{elsewhere, resumed, shown, ways};
use super::*;

/// An operator, and the numbers that its parameters follow from.
#[derive(Clone, Debug)]
pub struct Part {
    pub name: &'static str,
    n: i64,
    m: i64,
}

/// Operators on a source, and what is done with them.
#[derive(Clone, Debug)]
struct Tower {
    rows: i64,
    fails: bool,
    parts: Vec<Part>,
    /// How many elements of each pass before are taken until it is left; `None`: it is read to its end.
    before: Vec<Option<usize>>,
    turn: usize,
}

/// Operators that take scalars and give scalars: they can stand in any order.
pub const ALL: &[&str] = &[
    "batch",
    "cache",
    "choose",
    "concatenate",
    "endless",
    "enumerate",
    "filter",
    "flat_map",
    "groups",
    "ignore_errors",
    "interleave",
    "map",
    "noise",
    "padded_batch",
    "prefetch",
    "ragged_batch",
    "rebatch",
    "reduced",
    "repeat",
    "sample",
    "scan",
    "shard",
    "shuffle",
    "shuffle by bytes",
    "skip",
    "take",
    "take_while",
    "unique",
    "window",
    "zip",
];

/// Operators that may be done with an input before it ends, or long before whoever reads them is.
const ENDING: &[&str] =
    &["cache", "choose", "concatenate", "endless", "reduced", "repeat", "sample", "take", "take_while", "zip"];

/// Operators whose states have places behind which their input is read again.
const LOOKING_BACK: &[&str] = &["flat_map", "groups", "interleave", "shuffle"];

/// Operators that keep elements for later passes.
#[cfg(feature = "columnar")]
const KEEPING: &[&str] = &["cache", "cache on disk", "snapshot", "snapshot in shards"];

impl Part {
    pub fn any(names: &[&'static str], draw: &mut dyn FnMut(usize) -> usize) -> Part {
        Part { name: names[draw(names.len())], n: draw(60) as i64, m: draw(60) as i64 }
    }
    fn shuffle(&self, input: Plan) -> Plan {
        let (size, reshuffle) = (self.n % 7 + 2, self.m % 4 > 0);
        let params = json!({ "buffer_size": size, "seed": self.m, "reshuffle_each_iteration": reshuffle });
        on("shuffle", params, input)
    }
    /// Another dataset beside the input, or the input once more.
    fn other(&self, input: &Plan) -> Plan {
        let rows = range(self.n % 13);
        match self.m % 6 {
            0 => rows,
            1 => self.shuffle(rows),
            2 => cache(self.shuffle(rows)),
            3 => repeat(2, cache(self.shuffle(rows))),
            4 => input.clone(),
            _ => on("skip", json!({ "count": 2 }), repeat(2, input.clone())),
        }
    }
    /// A dataset for each element of the input.
    fn inner(&self) -> Plan {
        let rows = range(self.n % 5);
        match self.m % 6 {
            0 => rows,
            1 | 2 => self.shuffle(rows),
            3 => repeat(2, self.shuffle(rows)),
            4 => cache(self.shuffle(rows)),
            _ => take(3, repeat(-1, cache(self.shuffle(range(2))))),
        }
    }
    /// The operator on an input. `root` is the folder for what is kept on disk.
    pub fn put(&self, input: Plan, root: &str, place: usize) -> Plan {
        let (n, m, scalar) = (self.n, self.m, Spec::scalar(DType::Int64));
        let unbatch = |input: Plan| on("unbatch", json!({}), input);
        let summed = |input: Plan| {
            let f =
                function(&[&input.spec], |b, args| leaf(b.call("reduce_sum", &[args[0]], Attrs::default()).unwrap()));
            on("map", json!({ "function": f }), input)
        };
        let batch =
            |size: i64, input: Plan| on("batch", json!({ "batch_size": size, "drop_remainder": m % 3 == 0 }), input);
        let kept = format!("{root}/{place}");
        match self.name {
            "batch" if m % 2 == 0 => unbatch(batch(n % 5 + 1, input)),
            "batch" => unbatch(self.shuffle(batch(n % 3 + 1, input))),
            "cache" => cache(input),
            "cache on disk" => on("cache", json!({ "filename": kept }), input),
            "choose" => {
                let other = self.other(&input);
                chosen(n % 2 == 0, vec![input, other])
            }
            "concatenate" => {
                let other = self.other(&input);
                let both = if n % 2 == 0 { vec![input, other] } else { vec![other, input] };
                make("concatenate", json!({}), both)
            }
            "endless" => {
                let endless = repeat(-1, input);
                let between = match m % 4 {
                    0 => endless,
                    1 => ahead(endless),
                    2 => self.shuffle(endless),
                    _ => next(endless),
                };
                take(n % 30, between)
            }
            "enumerate" => sum(on("enumerate", json!({ "start": n }), input)),
            "filter" => above(n % 4, input),
            "flat_map" | "interleave" if self.reads_input_in_function() => {
                in_turns(self.name, input.clone(), take(3, input))
            }
            "flat_map" | "interleave" => in_turns(self.name, self.inner(), input),
            "groups" => {
                let (key, reduce) = (with_constant(&scalar, "mod", n % 3 + 1), batch_argument(&scalar, 1));
                unbatch(on("group_by_window", json!({ "key": key, "reduce": reduce, "window_size": m % 5 + 1 }), input))
            }
            "map" => next(input),
            "noise" => {
                // A number that depends on the position.
                let f = function(&[&scalar], |b, args| {
                    let shape = b.constant(feedline::element::Tensor::from_items([0], &[0i64; 0]).into()).unwrap();
                    let params = attrs(json!({ "seed": n, "dtype": "int64", "minval": 0, "maxval": 50 }));
                    let drawn = b.call("random.uniform", &[shape], params).unwrap();
                    leaf(b.call("add", &[args[0], drawn], Attrs::default()).unwrap())
                });
                on("map", json!({ "function": f, "num_parallel_calls": if m % 2 == 0 { -1 } else { 2 } }), input)
            }
            "padded_batch" => {
                let params =
                    json!({ "batch_size": n % 4 + 1, "padded_shapes": [[null]], "drop_remainder": m % 3 == 0 });
                summed(unbatch(on("padded_batch", params, vectors(input))))
            }
            "prefetch" => ahead(input),
            "ragged_batch" => {
                let params =
                    json!({ "batch_size": n % 4 + 1, "drop_remainder": m % 3 == 0, "row_splits_dtype": "int64" });
                summed(unbatch(on("ragged_batch", params, vectors(input))))
            }
            "rebatch" => {
                let params = json!({ "batch_sizes": [n % 4 + 1, m % 3], "drop_remainder": m % 4 == 0 });
                unbatch(on("rebatch", params, batch(m % 5 + 1, input)))
            }
            "repeat" => repeat(n % 2 + 2, input),
            "sample" => {
                let params = json!({ "weights": [0.5, 0.5], "seed": n, "seed2": 2, "stop_on_empty_dataset": n % 2 == 0,
                                     "rerandomize_each_iteration": n % 3 == 0 });
                let other = self.other(&input);
                make("sample_from_datasets", params, vec![input, other])
            }
            "shard" => on("shard", json!({ "num_shards": 2, "index": n % 2 }), input),
            "shuffle" if n % 8 == 0 => on("shuffle", json!({ "buffer_size": m % 7 + 2 }), input),
            "shuffle" => self.shuffle(input),
            "shuffle by bytes" => on("shuffle", json!({ "buffer_bytes": 8 * n + 1, "seed": m }), input),
            "skip" => on("skip", json!({ "count": n % 6 }), input),
            #[cfg(feature = "columnar")]
            "snapshot" | "snapshot in shards" => {
                let shards = if self.name == "snapshot" { 1 } else { 3 };
                let number = |b: &mut Builder, x| {
                    let shards = constant(b, shards);
                    b.call("mod", &[x, shards], Attrs::default()).unwrap()
                };
                snapshot_in(kept, input, number, m % 3 == 0)
            }
            "take" => take(n % 25, input),
            "take_while" => until(n % 12, input),
            "window" => {
                let params =
                    json!({ "size": n % 4 + 1, "shift": m % 4 + 1, "stride": 1, "drop_remainder": n % 3 == 0 });
                let windows = on("window", params, input);
                unbatch(on("flat_map", json!({ "function": batch_argument(&scalar, 0) }), windows))
            }
            "zip" => {
                let other = self.other(&input);
                sum(zip(if n % 2 == 0 { vec![input, other] } else { vec![other, input] }))
            }
            "reduced" => super::resume::sample("group_by_reducer", input),
            name => super::resume::sample(name, input),
        }
    }
    /// Whether its function gives the input, once more for each element.
    fn reads_input_in_function(&self) -> bool {
        matches!(self.name, "flat_map" | "interleave") && self.m % 7 == 0
    }
    /// Whether other processes draw other numbers.
    pub fn is_by_chance(&self) -> bool {
        self.name == "shuffle" && self.n % 8 == 0
    }
}

impl Tower {
    fn plan(&self, root: &str) -> Plan {
        let source = if self.fails { failing(self.rows) } else { range(self.rows) };
        self.parts.iter().enumerate().fold(source, |plan, (place, part)| part.put(plan, root, place))
    }
    fn is_on_disk(&self) -> bool {
        self.parts.iter().any(|part| part.name == "cache on disk") || self.has_snapshots()
    }
    fn has_snapshots(&self) -> bool {
        self.parts.iter().any(|part| part.name.starts_with("snapshot"))
    }
    /// Whether a function reads what is kept on disk: with its files elsewhere that is another function.
    fn reads_files_in_functions(&self) -> bool {
        let on_disk = |part: &Part| part.name == "cache on disk" || part.name.starts_with("snapshot");
        let first = self.parts.iter().position(on_disk).unwrap_or(self.parts.len());
        self.parts[first..].iter().any(Part::reads_input_in_function)
    }
    /// Towers that are a little smaller.
    fn smaller(&self) -> Vec<Tower> {
        let mut all = Vec::new();
        let mut with = |change: &dyn Fn(&mut Tower)| {
            let mut tower = self.clone();
            change(&mut tower);
            all.push(tower);
        };
        (0..self.parts.len()).for_each(|i| with(&|tower| _ = tower.parts.remove(i)));
        (0..self.before.len()).for_each(|i| with(&|tower| tower.before.truncate(i)));
        if self.fails {
            with(&|tower| tower.fails = false);
        }
        if self.rows > 3 {
            with(&|tower| tower.rows /= 2);
            with(&|tower| tower.rows -= 1);
        }
        all
    }
}

/// More than this is not looked at.
const MANY: usize = 120;

/// All of a pass; `None` if it is long.
fn some(bound: &Bound, pass: u64, workers: usize) -> Option<Vec<Event>> {
    let events: Vec<Event> = Iter::new(bound, pass, pool(workers)).unwrap().map(shown).take(MANY).collect();
    (events.len() < MANY).then_some(events)
}

/// A folder that is gone with this.
fn root() -> tempfile::TempDir {
    tempfile::tempdir_in(folder()).unwrap()
}

fn name(root: &tempfile::TempDir) -> &str {
    root.path().to_str().unwrap()
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    // What is not there any more when it is its turn was on its way out.
    let Ok(entries) = std::fs::read_dir(from) else { return };
    for entry in entries.flatten() {
        let to = to.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => {
                std::fs::create_dir_all(&to).unwrap();
                copy(&entry.path(), &to);
            }
            _ => drop(std::fs::copy(entry.path(), &to)),
        }
    }
}

/// The same plan with its files elsewhere.
fn moved(plan: &Plan, from: &str, to: &str) -> Plan {
    let (json, attachments) = write_plan(plan).unwrap();
    read_plan(&serde_json::from_str(&json.to_string().replace(from, to)).unwrap(), attachments).unwrap()
}

fn passes_before(tower: &Tower, bound: &Bound, workers: usize) -> Option<()> {
    for (pass, left) in (0..).zip(&tower.before) {
        match left {
            None => {
                some(bound, pass, workers)?;
            }
            Some(left) => {
                Iter::new(bound, pass, pool(workers)).unwrap().take(*left).count();
            }
        }
    }
    Some(())
}

/// The law, for a tower.
fn check(tower: &Tower) -> Result<(), String> {
    let (ways, home) = (ways(), root());
    let taken = &ways[tower.turn % ways.len()];
    let plan = tower.plan(name(&home));
    let bound = elsewhere(&plan, taken);
    if passes_before(tower, &bound, taken.0).is_none() {
        return Ok(());
    }
    let pass = tower.before.len() as u64;
    let mut iter = Iter::new(&bound, pass, pool(taken.0)).unwrap();
    let (mut events, mut states) = (Vec::new(), Vec::new());
    for position in 0.. {
        let text = iter.state().map_err(|e| format!("state {position}: {e}"))?.to_json().unwrap().to_string();
        // Where the process is killed at that moment.
        let there = (tower.is_on_disk() && !tower.reads_files_in_functions()).then(root);
        there.iter().for_each(|there| copy(home.path(), there.path()));
        states.push((text, there));
        match iter.next() {
            Some(event) => events.push(shown(event)),
            None => break,
        }
        if events.len() >= MANY {
            return Ok(());
        }
    }
    // The last one is of an iterator that knows that it is at its end.
    states.push((iter.state().unwrap().to_json().unwrap().to_string(), None));
    drop(iter);
    let behind = [1, 2].map(|n| some(&bound, pass + n, taken.0));
    let [Some(one), Some(two)] = behind else { return Ok(()) };
    if !tower.parts.iter().any(Part::is_by_chance) {
        let (way, other) = (&ways[(tower.turn + 3) % ways.len()], root());
        let bound = elsewhere(&tower.plan(name(&other)), way);
        passes_before(tower, &bound, way.0);
        for (n, expected) in [&events, &one, &two].into_iter().enumerate() {
            let got = all(&bound, pass + n as u64, way.0);
            same(&format!("pass {} by {way:?} instead of {taken:?}", pass + n as u64), &got, expected)?;
        }
    }
    let step = events.len() / 30 + 1;
    for (position, (text, there)) in states.iter().enumerate() {
        if position % step != tower.turn % step && position + 2 < states.len() {
            continue;
        }
        let way = &ways[(tower.turn + position) % ways.len()];
        let nowhere = root();
        let mut places = vec![("the same place", plan.clone())];
        places.extend(there.as_ref().map(|there| ("what was there then", moved(&plan, name(&home), name(there)))));
        // What was read of a snapshot needs the snapshot.
        if tower.is_on_disk() && !tower.has_snapshots() && !tower.reads_files_in_functions() {
            places.push(("a place without files", moved(&plan, name(&home), name(&nowhere))));
        }
        for (place, plan) in places {
            let what = format!("state {position} of pass {pass} by {taken:?}, resumed by {way:?} in {place}");
            let bound = elsewhere(&plan, way);
            let rest: Vec<Event> = resumed(&bound, text, way.0, &what).map(shown).take(MANY).collect();
            same(&format!("{what}; {text}"), &rest, &events[position.min(events.len())..])?;
            // By now they have been there, and left their files.
            let behind =
                [(1, &one), (2, &two)].into_iter().filter(|_| !tower.is_on_disk() || place != "the same place");
            for (n, expected) in behind {
                let got = all(&bound, pass + n, way.0);
                same(&format!("{what}, pass {n} behind it; {text}"), &got, expected)?;
            }
        }
    }
    Ok(())
}

fn same(what: &str, got: &[Event], expected: &[Event]) -> Result<(), String> {
    let numbers = |events: &[Event]| -> Vec<String> {
        let number = |text: &str| text.chars().filter(|c| c.is_ascii_digit() || *c == '-').collect::<String>();
        let one = |event: &Event| match event {
            Event::Element(text) => number(text.rsplit('[').next().unwrap_or(text)),
            Event::Failed(_) => "!".into(),
        };
        events.iter().map(one).collect()
    };
    match got == expected {
        true => Ok(()),
        false => Err(format!("{what}:\n  got      {:?}\n  expected {:?}", numbers(got), numbers(expected))),
    }
}

/// What is wrong with a tower, be it a panic.
fn fault(tower: &Tower) -> Option<String> {
    let checked = std::panic::catch_unwind(|| check(tower));
    match checked {
        Ok(result) => result.err(),
        Err(panic) => Some(match panic.downcast_ref::<String>() {
            Some(text) => format!("panicked: {text}"),
            None => format!("panicked: {:?}", panic.downcast_ref::<&str>()),
        }),
    }
}

/// The same fault in a smaller tower. Some come by chance: each is tried more than once.
fn smallest(tower: Tower, fault_of_it: String) -> (Tower, String) {
    let again = |tower: Tower| (0..3).find_map(|_| fault(&tower)).map(|fault| (tower, fault));
    match tower.smaller().into_iter().find_map(again) {
        Some((smaller, fault)) => smallest(smaller, fault),
        None => (tower, fault_of_it),
    }
}

pub fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// `faulty`: those that once failed.
fn random_towers(seed: u64, few: u64, faulty: &[u64], parts: impl Fn(&mut dyn FnMut(usize) -> usize) -> Vec<Part>) {
    let many = number_of("FEEDLINE_TOWERS");
    let first = number_of("FEEDLINE_FIRST_TOWER").unwrap_or(0);
    let mut faults = Vec::new();
    let faulty = faulty.iter().copied().filter(|_| many.is_none());
    for number in (first..first + many.unwrap_or(few)).chain(faulty) {
        let mut draw = draws((seed + number).wrapping_mul(0x9e3779b97f4a7c15));
        let tower = Tower {
            rows: draw(14) as i64,
            fails: draw(6) == 0,
            before: (0..[0, 0, 1, 2][draw(4)]).map(|_| (draw(3) == 0).then(|| draw(9))).collect(),
            turn: draw(1000),
            parts: parts(&mut draw),
        };
        if let Some(fault) = fault(&tower) {
            let (small, fault) = smallest(tower, fault);
            let text = format!("tower {number}: {small:?}\n{fault}\n");
            // Somebody who runs many wants to see them as they come.
            if many.is_some() {
                eprintln!("{text}");
            }
            faults.push(text);
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn towers_of_anything() {
    random_towers(1_000_000, 12, &[466], |draw| (0..draw(8) + 1).map(|_| Part::any(ALL, draw)).collect());
}

#[test]
fn towers_of_what_ends_early() {
    random_towers(2_000_000, 12, &[3798, 4006, 10421], |draw| {
        let mut parts = Vec::new();
        for _ in 0..draw(3) + 1 {
            parts.extend((0..draw(2)).map(|_| Part::any(ALL, draw)));
            parts.push(Part::any(ENDING, draw));
            parts.extend((draw(3) == 0).then(|| Part::any(&["prefetch"], draw)));
            parts.push(Part::any(LOOKING_BACK, draw));
        }
        parts
    });
}

#[cfg(feature = "columnar")]
#[test]
fn towers_that_keep_elements() {
    random_towers(3_000_000, 10, &[104, 488, 849, 1035, 2340, 2451], |draw| {
        let mut parts: Vec<Part> = (0..draw(3)).map(|_| Part::any(ALL, draw)).collect();
        parts.extend((draw(2) == 0).then(|| Part::any(&["shuffle"], draw)));
        parts.push(Part::any(KEEPING, draw));
        parts.extend((0..draw(4)).map(|_| Part::any(if draw(2) == 0 { ENDING } else { ALL }, draw)));
        parts
    });
}

#[test]
fn two_who_fill_a_cache_go_on_with_their_own_seeds() {
    let part = |name, n, m| Part { name, n, m };
    for (inner, turn) in [("flat_map", 0), ("flat_map", 1), ("interleave", 2), ("interleave", 3)] {
        let parts = vec![part(inner, 24, 31), part("cache", 51, 51), part("choose", 11, 59)];
        let tower = Tower { rows: 3, fails: false, parts, before: vec![], turn };
        assert_eq!(fault(&tower), None, "{tower:?}");
    }
}

#[test]
fn what_runs_inside_of_a_function_tells_its_seeds_last() {
    let part = |name, n, m| Part { name, n, m };
    let nested = vec![part("flat_map", 8, 31), part("batch", 11, 27), part("flat_map", 14, 14)];
    let kept = vec![part("cache", 1, 37), part("flat_map", 39, 13), part("prefetch", 14, 41), part("shuffle", 17, 27)];
    for (parts, turn) in [(&nested, 0), (&nested, 1), (&nested, 2), (&kept, 531)] {
        let tower = Tower { rows: 6, fails: false, parts: parts.clone(), before: vec![], turn };
        assert_eq!(fault(&tower), None, "{tower:?}");
    }
}

/// The end of a snapshot is seen by one operator, and matters to another that begins later: in between, a state tells it.
#[cfg(feature = "columnar")]
#[test]
fn the_end_of_a_snapshot_is_not_forgotten() {
    let shards = ("snapshot in shards", 0, 1);
    let towers: &[&[(&'static str, i64, i64)]] = &[
        // A buffer is given when its input has ended; three passes.
        &[shards, ("shuffle", 5, 3), ("repeat", 1, 0)],
        &[shards, ("batch", 3, 4), ("repeat", 1, 0)],
        &[shards, ("groups", 0, 5), ("repeat", 1, 0)],
        // What follows has nothing of it; and then it comes again.
        &[shards, ("concatenate", 6, 0), ("repeat", 1, 0)],
        &[shards, ("concatenate", 7, 0), ("repeat", 1, 0)],
        &[shards, ("interleave", 4, 1), ("repeat", 1, 0)],
        &[shards, ("sample", 9, 0), ("repeat", 1, 0)],
        &[shards, ("choose", 11, 0), ("repeat", 1, 0)],
        // It counts only for whoever is above that end: a part that is left early is begun anew.
        &[shards, ("endless", 15, 0), ("endless", 23, 2)],
        // What was built for the start of a pass lets go of the snapshot before it is built for the middle of one.
        &[("shuffle", 1, 1), shards, ("endless", 14, 2), ("cache", 0, 0)],
    ];
    for parts in towers {
        let parts = parts.iter().map(|&(name, n, m)| Part { name, n, m }).collect();
        let tower = Tower { rows: 5, fails: false, parts, before: vec![], turn: 2 };
        assert_eq!(check(&tower).err(), None, "{tower:?}");
    }
}
