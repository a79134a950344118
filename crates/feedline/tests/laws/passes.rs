//! Passes over one dataset, one after the other: which orders they have follows from what the consumer did, and not from
//! how far workers were, where somebody stops reading before the end.

use super::resume::{elsewhere, holds, shown, ways};
use super::*;

fn on(name: &str, params: Json, input: Plan) -> Plan {
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

fn next(input: Plan) -> Plan {
    let f = with_constant(&input.spec, "add", 1);
    on("map", json!({ "function": f, "num_parallel_calls": -1 }), input)
}

fn above(limit: i64, input: Plan) -> Plan {
    let f = with_constant(&input.spec, "greater", limit);
    on("filter", json!({ "predicate": f }), input)
}

fn until(x: i64, input: Plan) -> Plan {
    let f = with_constant(&input.spec, "not_equal", x);
    on("take_while", json!({ "predicate": f }), input)
}

fn take(n: i64, input: Plan) -> Plan {
    on("take", json!({ "count": n }), input)
}

fn ahead(input: Plan) -> Plan {
    on("prefetch", json!({ "buffer_size": 4 }), input)
}

fn zip(inputs: Vec<Plan>) -> Plan {
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

fn all(bound: &Bound, pass: u64, workers: usize) -> Vec<Event> {
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
