//! Passes over one dataset, one after the other: which orders they have follows from what the consumer did, and not from
//! how far workers were, where somebody stops reading before the end.

use super::resume::{elsewhere, holds, shown, ways};
use super::*;

pub fn on(name: &str, params: Json, input: Plan) -> Plan {
    make(name, params, vec![input])
}

fn shuffle(input: Plan) -> Plan {
    on("shuffle", json!({ "buffer_size": 6, "seed": 1, "reshuffle_each_iteration": true }), input)
}

/// `range(6)`, shuffled, for each element.
fn shuffles(input: Plan) -> (Json, Plan) {
    let f = function(&[&input.spec], |b, _| {
        let plan = shuffle(range(6));
        let spec = plan.spec.clone();
        leaf(b.dataset(Bound::nested(plan), spec))
    });
    (f, input)
}

fn many() -> Plan {
    let (function, input) = shuffles(range(40));
    on("flat_map", json!({ "function": function }), input)
}

fn endless() -> Plan {
    on("repeat", json!({ "count": -1 }), shuffle(range(6)))
}

pub fn next(input: Plan) -> Plan {
    let f = with_constant(&input.spec, "add", 1);
    on("map", json!({ "function": f, "num_parallel_calls": -1 }), input)
}

pub fn above(limit: i64, input: Plan) -> Plan {
    let f = with_constant(&input.spec, "greater", limit);
    on("filter", json!({ "predicate": f }), input)
}

pub fn until(x: i64, input: Plan) -> Plan {
    let f = with_constant(&input.spec, "not_equal", x);
    on("take_while", json!({ "predicate": f }), input)
}

pub fn take(n: i64, input: Plan) -> Plan {
    on("take", json!({ "count": n }), input)
}

pub fn ahead(input: Plan) -> Plan {
    on("prefetch", json!({ "buffer_size": 4 }), input)
}

pub fn zip(inputs: Vec<Plan>) -> Plan {
    let pairs = json!({ "tuple": { "tag": null, "items": [{ "leaf": 0 }, { "leaf": 1 }] } });
    make("zip", json!({ "structure": pairs }), inputs)
}

fn left_early() -> Vec<(&'static str, Plan)> {
    let interleave = |calls: Json| {
        let (function, input) = shuffles(range(40));
        let params = json!({ "function": function, "cycle_length": 3, "num_parallel_calls": calls });
        on("interleave", params, input)
    };
    let turns = on("map", json!({ "function": with_constant(&Spec::scalar(DType::Int64), "mod", 2) }), range(100));
    let choose = |one: Plan, other: Plan| {
        make("choose_from_datasets", json!({ "stop_on_empty_dataset": true }), vec![turns.clone(), one, other])
    };
    let batch = |n: i64, input: Plan| on("batch", json!({ "batch_size": n }), input);
    let repeat = |n: i64, input: Plan| on("repeat", json!({ "count": n }), input);
    vec![
        ("shuffle > repeat > take", take(9, endless())),
        ("shuffle > repeat > prefetch > take", take(9, ahead(endless()))),
        ("shuffle > repeat > batch > prefetch > take", take(4, ahead(batch(2, endless())))),
        ("shuffle > repeat > map > filter > take", take(9, above(0, next(endless())))),
        ("flat_map > map > take", take(9, next(many()))),
        ("flat_map > filter > take", take(9, above(2, many()))),
        ("flat_map > take_while", until(5, many())),
        ("flat_map > shuffle > take", take(9, shuffle(many()))),
        ("interleave > take_while", until(5, interleave(Json::Null))),
        ("interleave ahead > take_while", until(5, interleave(json!(2)))),
        ("interleave ahead > take", take(7, interleave(json!(2)))),
        ("zip with a shorter one", zip(vec![range(5), ahead(next(many()))])),
        ("choose until one is empty", choose(ahead(many()), range(5))),
        ("take > repeat", repeat(3, take(9, above(0, next(endless()))))),
        ("take_while > flat_map", {
            let f = function(&[&Spec::scalar(DType::Int64)], |b, _| {
                let plan = until(3, many());
                let spec = plan.spec.clone();
                leaf(b.dataset(Bound::nested(plan), spec))
            });
            on("flat_map", json!({ "function": f }), range(4))
        }),
        ("concatenate > map > take", take(8, next(make("concatenate", json!({}), vec![shuffle(range(6)); 3])))),
        ("take > take_while", until(3, ahead(take(30, next(many()))))),
    ]
}

pub fn all(bound: &Bound, pass: u64, workers: usize) -> Vec<Event> {
    Iter::new(bound, pass, pool(workers)).unwrap().map(shown).collect()
}

#[test]
fn passes_do_not_depend_on_how_far_workers_were() {
    for (what, plan) in left_early() {
        let mut first = None;
        for turn in 0..3 {
            for way in ways() {
                let bound = elsewhere(&plan, &way);
                let passes: Vec<Vec<Event>> = (0..3).map(|pass| all(&bound, pass, way.0)).collect();
                let first = first.get_or_insert_with(|| passes.clone());
                assert_eq!(passes, *first, "{what}, by {way:?}, turn {turn}");
            }
        }
        let [one, two, ..] = &first.unwrap()[..] else { unreachable!() };
        assert_ne!(one, two, "{what}: another pass has another order");
    }
}

#[test]
fn an_iterator_that_is_left_early_counts_as_one_pass() {
    for (what, plan) in left_early() {
        let mut first = None;
        for (turn, way) in ways().into_iter().enumerate() {
            let bound = elsewhere(&plan, &way);
            let mut iter = Iter::new(&bound, 0, pool(way.0)).unwrap();
            // However long workers have had.
            (0..turn % 3).for_each(|_| drop(iter.next()));
            drop(iter);
            let then = all(&bound, 1, way.0);
            assert_eq!(then, *first.get_or_insert_with(|| then.clone()), "{what}, by {way:?}");
        }
    }
}

/// The folder of a cache is not there where the state comes to.
#[cfg(feature = "columnar")]
#[test]
fn a_later_pass_over_a_cache_on_disk_can_be_resumed_without_it() {
    let plan = || on("cache", json!({ "filename": own_folder("caches") }), take(30, many()));
    let (here, ways) = (elsewhere(&plan(), &ways()[0]), ways());
    all(&here, 0, 2);
    let mut iter = Iter::new(&here, 1, pool(2)).unwrap();
    let mut states = vec![iter.state().unwrap()];
    let mut events = Vec::new();
    while let Some(event) = iter.next() {
        events.push(shown(event));
        states.push(iter.state().unwrap());
    }
    for (i, state) in states.iter().enumerate() {
        let way = &ways[i % ways.len()];
        let text = state.to_json().unwrap().to_string();
        let there = elsewhere(&plan(), way);
        let rest: Vec<Event> = super::resume::resumed(&there, &text, way.0, "elsewhere").map(shown).collect();
        assert_eq!(rest, events[i..], "state {i}, by {way:?}");
        assert_eq!(all(&there, 2, way.0), events, "the pass behind it reads what is kept by now");
    }
}

#[test]
fn states_of_what_is_left_early() {
    for (turn, (what, plan)) in left_early().into_iter().enumerate() {
        for pass in [0, 1] {
            holds(what, &plan, pass, turn + pass as usize, |_| true);
        }
    }
}

/// What keeps elements for later passes, each time where nothing is kept yet.
type Keeper = (&'static str, fn() -> Plan);

pub fn cache(input: Plan) -> Plan {
    on("cache", json!({}), input)
}

#[cfg(feature = "columnar")]
fn in_folder(input: Plan) -> Plan {
    on("cache", json!({ "filename": own_folder("caches") }), input)
}

/// In three shards, which a later pass reads one after the other.
#[cfg(feature = "columnar")]
fn in_shards(input: Plan) -> Plan {
    let thirds = |b: &mut Builder, x| {
        let three = constant(b, 3);
        b.call("mod", &[x, three], Attrs::default()).unwrap()
    };
    snapshot(input, thirds, false)
}

/// With a number that depends on the position.
fn noise(input: Plan) -> Plan {
    let f = function(&[&input.spec], |b, args| {
        let shape = b.constant(feedline::element::Tensor::from_items([0], &[0i64; 0]).into()).unwrap();
        let drawn = b.call("random.uniform", &[shape], attrs(json!({ "seed": 5, "dtype": "float32" }))).unwrap();
        Tree::tuple(vec![leaf(args[0]), leaf(drawn)])
    });
    on("map", json!({ "function": f }), input)
}

pub fn repeat(n: i64, input: Plan) -> Plan {
    on("repeat", json!({ "count": n }), input)
}

pub fn sum(input: Plan) -> Plan {
    let scalar = Spec::scalar(DType::Int64);
    let f = function(&[&scalar, &scalar], |b, a| leaf(b.call("add", &[a[0], a[1]], Attrs::default()).unwrap()));
    on("map", json!({ "function": f }), input)
}

/// The elements of that plan for each of those of the input.
pub fn in_turns(name: &str, plan: Plan, input: Plan) -> Plan {
    let f = function(&[&input.spec], |b, _| {
        let spec = plan.spec.clone();
        leaf(b.dataset(Bound::nested(plan), spec))
    });
    let params = match name {
        "interleave" => json!({ "function": f, "cycle_length": 2, "num_parallel_calls": 2 }),
        _ => json!({ "function": f }),
    };
    on(name, params, input)
}

pub fn chosen(stop: bool, inputs: Vec<Plan>) -> Plan {
    let turns = on("map", json!({ "function": with_constant(&range(1).spec, "mod", 2) }), range(100));
    let inputs = std::iter::once(turns).chain(inputs).collect();
    make("choose_from_datasets", json!({ "stop_on_empty_dataset": stop }), inputs)
}

fn keepers() -> Vec<Keeper> {
    vec![
        ("cache", || cache(shuffle(range(9)))),
        ("cache > repeat > take", || take(22, repeat(-1, cache(shuffle(range(6)))))),
        ("cache > take > repeat", || repeat(3, take(6, ahead(cache(shuffle(range(6))))))),
        ("cache > take_while", || until(5, ahead(cache(shuffle(range(6)))))),
        ("cache > take beyond", || take(7, ahead(cache(shuffle(range(6)))))),
        ("zip with a shorter one", || zip(vec![range(4), ahead(cache(shuffle(range(9))))])),
        ("zip with one as long", || zip(vec![range(6), ahead(cache(shuffle(range(6))))])),
        ("zip with one as long, the other way", || zip(vec![ahead(next(cache(shuffle(range(6))))), next(range(6))])),
        ("zip with a longer one", || zip(vec![ahead(cache(shuffle(range(5)))), ahead(next(range(6)))])),
        ("zip with itself", || {
            let one = cache(shuffle(range(6)));
            zip(vec![one.clone(), ahead(one)])
        }),
        ("zip with itself, again and again", || {
            let one = cache(shuffle(range(6)));
            zip(vec![repeat(3, one.clone()), on("skip", json!({ "count": 2 }), repeat(3, one))])
        }),
        ("concatenate a part of it and it", || {
            let one = cache(shuffle(range(6)));
            make("concatenate", json!({}), vec![take(3, ahead(one.clone())), one])
        }),
        ("choose until one is empty", || chosen(true, vec![ahead(cache(shuffle(range(9)))), range(4)])),
        ("choose until both are empty", || chosen(false, vec![ahead(cache(shuffle(range(9)))), range(4)])),
        ("choose of one", || {
            let one = cache(shuffle(range(6)));
            chosen(false, vec![repeat(2, one.clone()), repeat(3, one)])
        }),
        ("choose of one, far ahead", || {
            let one = cache(shuffle(range(6)));
            chosen(false, vec![one.clone(), next(repeat(4, one))])
        }),
        ("sample of one, far ahead", || {
            let one = cache(shuffle(range(6)));
            let weights = json!({ "weights": [0.5, 0.5], "seed": 3, "stop_on_empty_dataset": false });
            make("sample_from_datasets", weights, vec![repeat(2, one.clone()), next(repeat(4, one))])
        }),
        ("interleave of a cache", || in_turns("interleave", cache(shuffle(range(5))), range(6))),
        ("interleave of repeated caches", || in_turns("interleave", repeat(2, cache(shuffle(range(5)))), range(4))),
        ("flat_map of a cache", || in_turns("flat_map", cache(shuffle(range(5))), range(4))),
        ("flat_map of what it reads", || {
            let one = cache(shuffle(range(5)));
            in_turns("flat_map", one.clone(), one)
        }),
        #[cfg(feature = "columnar")]
        ("cache on disk", || in_folder(shuffle(range(9)))),
        #[cfg(feature = "columnar")]
        ("cache on disk > noise > repeat > take", || take(22, repeat(-1, noise(in_folder(shuffle(range(6))))))),
        #[cfg(feature = "columnar")]
        ("zip with a cache on disk", || zip(vec![range(4), ahead(in_folder(shuffle(range(9))))])),
        #[cfg(feature = "columnar")]
        ("snapshot", || in_shards(range(9))),
        #[cfg(feature = "columnar")]
        ("shuffle > snapshot > noise", || noise(in_shards(shuffle(range(9))))),
        #[cfg(feature = "columnar")]
        ("filter > snapshot > noise", || noise(in_shards(above(3, range(14))))),
        #[cfg(feature = "columnar")]
        ("snapshot > repeat > take", || take(22, repeat(-1, in_shards(shuffle(range(6)))))),
        #[cfg(feature = "columnar")]
        ("snapshot > repeat > batch", || on("batch", json!({ "batch_size": 4 }), repeat(3, in_shards(range(6))))),
        #[cfg(feature = "columnar")]
        ("snapshot > take", || take(4, ahead(in_shards(shuffle(range(9)))))),
        #[cfg(feature = "columnar")]
        ("zip with a snapshot as long", || zip(vec![range(6), ahead(in_shards(shuffle(range(6))))])),
        #[cfg(feature = "columnar")]
        ("zip with a longer snapshot", || sum(zip(vec![range(6), ahead(in_shards(shuffle(range(7))))]))),
        #[cfg(feature = "columnar")]
        ("snapshot > cache", || cache(shuffle(in_shards(shuffle(range(6)))))),
        #[cfg(feature = "columnar")]
        ("snapshot that fails", || in_shards(failing(9))),
    ]
}

/// How many elements of each pass are taken before it is left; `None`: it is read to its end.
const LEFT: [[Option<usize>; 4]; 5] = [
    [Some(0), None, None, None],
    [Some(1), Some(3), None, None],
    [Some(6), None, Some(2), None],
    [None, Some(2), None, None],
    [Some(9), Some(0), Some(22), None],
];

#[test]
fn what_is_kept_does_not_depend_on_how_far_workers_were() {
    for (what, plan) in keepers() {
        for (script, left) in LEFT.iter().enumerate() {
            let mut first = None;
            for (turn, way) in ways().into_iter().enumerate() {
                // Once workers have no time, once they have some.
                for patient in [false, true] {
                    let bound = elsewhere(&plan(), &way);
                    let passes: Vec<Vec<Event>> = (0..)
                        .zip(left)
                        .map(|(pass, left)| {
                            let mut iter = Iter::new(&bound, pass, pool(way.0)).unwrap();
                            let read = iter.by_ref().take(left.unwrap_or(1000)).map(shown).collect();
                            if patient && left.is_some() {
                                std::thread::sleep(std::time::Duration::from_millis(3));
                            }
                            read
                        })
                        .collect();
                    let first = first.get_or_insert_with(|| passes.clone());
                    assert_eq!(passes, *first, "{what}, by {way:?}, script {script}, turn {turn}, {patient}");
                }
            }
        }
    }
}

/// A pass that was left without its end is gone on with, and read once the end was seen.
#[cfg(feature = "columnar")]
#[test]
fn states_of_passes_over_what_nobody_read_to_the_end() {
    let ways = ways();
    for (turn, way) in ways.iter().enumerate() {
        for seen in [0, 3, 9] {
            let made = || noise(in_shards(shuffle(range(9))));
            let plan = made();
            let bound = elsewhere(&plan, way);
            assert_eq!(Iter::new(&bound, 0, pool(way.0)).unwrap().take(seen).count(), seen);
            let mut iter = Iter::new(&bound, 1, pool(way.0)).unwrap();
            let (mut events, mut states) = (Vec::new(), vec![iter.state().unwrap()]);
            while let Some(event) = iter.next() {
                events.push(shown(event));
                states.push(iter.state().unwrap());
            }
            let after = all(&bound, 2, way.0);
            assert_ne!(after, events);
            for (position, state) in states.iter().enumerate() {
                let text = state.to_json().unwrap().to_string();
                let other = &ways[(turn + position) % ways.len()];
                // Where the snapshot is, and where it is not.
                for there in [elsewhere(&plan, other), elsewhere(&made(), other)] {
                    let rest: Vec<Event> = super::resume::resumed(&there, &text, other.0, "it").map(shown).collect();
                    assert_eq!(rest, events[position..], "{seen} seen, state {position}, by {way:?}, {other:?}");
                    if position < 9 {
                        assert_eq!(all(&there, 2, other.0), after, "{seen} seen, state {position}, the pass behind it");
                    }
                }
            }
        }
    }
}
