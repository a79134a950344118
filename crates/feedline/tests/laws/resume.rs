//! A state taken anywhere, written as text, read elsewhere: what follows is what would have followed, and so is the pass
//! behind it, whatever workers and chunk sizes there were and are.

use super::*;
use feedline::runtime::State;

/// How a pass is run: workers and options.
type Way = (usize, Options);

pub fn ways() -> Vec<Way> {
    let chunks = |workers, chunk_rows| (workers, Options { chunk_rows, ..Default::default() });
    vec![
        chunks(1, Some(1)),
        chunks(2, Some(3)),
        chunks(4, None),
        chunks(1, Some(100)),
        chunks(4, Some(2)),
        (2, Options { prefetch: Some(false), ..Default::default() }),
        (2, Options { memory_limit: Some(1), cpu_budget: Some(1), ..Default::default() }),
        chunks(2, Some(7)),
    ]
}

/// A plan as another process would make it, with the options of that way; without an operator for them if there are none.
pub fn elsewhere(plan: &Plan, way: &Way) -> Bound {
    let mut ds = Dataset::from_plan(fresh(plan));
    if way.1 != Options::default() {
        ds = ds.with_options(way.1.clone()).unwrap();
    }
    Bound { plan: ds.plan().rewritten().unwrap().plan, env: Arc::new([]) }
}

pub fn shown(event: feedline::Result<feedline::element::Element>) -> Event {
    match event {
        Ok(element) => Event::Element(format!("{element:?}")),
        Err(error) => Event::Failed(error.message().to_string()),
    }
}

pub fn rest(iter: Iter, what: &str) -> Vec<Event> {
    let events: Vec<Event> = iter.map(shown).take(2000).collect();
    assert!(events.len() < 2000, "{what} does not end");
    events
}

/// What two passes give, and the state at every position of one of them, as text.
pub fn followed(bound: &Bound, workers: usize, pass: u64, what: &str) -> (Vec<Event>, Vec<Event>, Vec<String>) {
    for before in 0..pass {
        rest(Iter::new(bound, before, pool(workers)).unwrap(), what);
    }
    let mut iter = Iter::new(bound, pass, pool(workers)).unwrap();
    let state = |iter: &mut Iter| iter.state().unwrap_or_else(|e| panic!("{what}: {e}")).to_json().unwrap().to_string();
    let (mut events, mut states) = (Vec::new(), vec![state(&mut iter)]);
    while let Some(event) = iter.next() {
        events.push(shown(event));
        states.push(state(&mut iter));
        assert!(events.len() < 2000, "{what} does not end");
    }
    // The last one is of an iterator that knows that it is at its end.
    states.push(state(&mut iter));
    drop(iter);
    (events, rest(Iter::new(bound, pass + 1, pool(workers)).unwrap(), what), states)
}

pub fn resumed(bound: &Bound, text: &str, workers: usize, what: &str) -> Iter {
    let state = State::from_json(&serde_json::from_str(text).unwrap()).unwrap();
    Iter::resume(bound, &state, pool(workers)).unwrap_or_else(|e| panic!("{what}: {e}; {text}"))
}

/// The law, for a plan: at each of its positions, or at some of them.
pub fn holds(what: &str, plan: &Plan, pass: u64, turn: usize, positions: impl Fn(usize) -> bool) {
    let ways = ways();
    let taken = &ways[turn % ways.len()];
    let (events, after, states) = followed(&elsewhere(plan, taken), taken.0, pass, what);
    for (position, text) in states.iter().enumerate().filter(|(p, _)| positions(*p)) {
        let way = &ways[(turn + position) % ways.len()];
        let what = format!("{what}, state {position} of pass {pass} by {taken:?}, resumed by {way:?}");
        let bound = elsewhere(plan, way);
        let iter = resumed(&bound, text, way.0, &what);
        assert_eq!(rest(iter, &what), events[position.min(events.len())..], "{what}; {text}");
        assert_eq!(rest(Iter::new(&bound, pass + 1, pool(way.0)).unwrap(), &what), after, "{what}, the pass behind it");
    }
}

#[test]
fn every_operator_at_every_position() {
    let mut turn = 0;
    each_sample(|what, plan| {
        turn += 1;
        holds(what, plan, 0, turn, |_| true);
    });
}

#[test]
fn every_operator_in_a_later_pass() {
    let mut turn = 0;
    each_sample(|what, plan| {
        turn += 1;
        holds(what, plan, 2, turn, |p| p % 3 == 1);
    });
}

/// Rows of so many columns that workers take them apart behind a shuffle.
fn wide(rows: i64) -> Plan {
    let items: Vec<_> = (0..9).map(|leaf| json!({ "leaf": leaf })).collect();
    make("zip", json!({ "structure": { "tuple": { "tag": null, "items": items } } }), vec![range(rows); 9])
}

/// The parameters of a cache on disk.
#[cfg(feature = "columnar")]
fn on_disk() -> Json {
    json!({ "filename": own_folder("caches") })
}

/// What single samples do not have: operators that hold rows of others that do.
pub fn towers() -> Vec<(&'static str, Plan)> {
    let on = |name: &str, params: Json, input: Plan| make(name, params, vec![input]);
    let shuffle = |size: i64, input: Plan| {
        on("shuffle", json!({ "buffer_size": size, "seed": 3, "reshuffle_each_iteration": true }), input)
    };
    let by_bytes = |bytes: i64, input: Plan| on("shuffle", json!({ "buffer_bytes": bytes, "seed": 3 }), input);
    let by_chance = |input: Plan| on("shuffle", json!({ "buffer_size": 5 }), input);
    let permuted = |input: Plan| on("shuffle", json!({}), input);
    let lines = || make("text_line", json!({ "files": file("rows.csv", ROWS), "buffer_size": 1 }), vec![]);
    let batch = |n: i64, input: Plan| on("batch", json!({ "batch_size": n }), input);
    let repeat = |n: i64, input: Plan| on("repeat", json!({ "count": n }), input);
    let noisy = |input: Plan| {
        let f = function(&[&input.spec], |b, args| {
            let shape = b.constant(feedline::element::Tensor::from_items([0], &[] as &[i64]).into()).unwrap();
            let _ = args;
            leaf(b.call("random.uniform", &[shape], attrs(json!({ "seed": 5, "dtype": "float32" }))).unwrap())
        });
        on("map", json!({ "function": f }), input)
    };
    let inner_shuffle = |spec: &Spec| {
        function(&[spec], |b, _| {
            let plan = on("shuffle", json!({ "buffer_size": 3, "seed": 11 }), range(4));
            let spec = plan.spec.clone();
            leaf(b.dataset(Bound::nested(plan), spec))
        })
    };
    let inner_repeat = |spec: &Spec| {
        function(&[spec], |b, _| {
            let plan = repeat(3, on("shuffle", json!({ "buffer_size": 3, "seed": 11 }), range(3)));
            let spec = plan.spec.clone();
            leaf(b.dataset(Bound::nested(plan), spec))
        })
    };
    let scalar = Spec::scalar(DType::Int64);
    let filter = |input: Plan| on("filter", json!({ "predicate": with_constant(&scalar, "greater", 1) }), input);
    let groups = |input: Plan| {
        let (key, reduce) = (with_constant(&input.spec, "mod", 3), batch_argument(&input.spec, 1));
        on("group_by_window", json!({ "key": key, "reduce": reduce, "window_size": 4 }), input)
    };
    let pairs = json!({ "structure": { "tuple": { "tag": null, "items": [{ "leaf": 0 }, { "leaf": 1 }] } } });
    vec![
        ("shuffle > repeat", repeat(3, shuffle(4, range(7)))),
        ("repeat > shuffle", shuffle(4, repeat(3, range(7)))),
        // What is read again begins before an inner shuffle did, which takes other seeds each time.
        ("shuffle > repeat > shuffle", shuffle(5, repeat(3, shuffle(4, range(7))))),
        ("shuffle > repeat > shuffle by bytes > batch", batch(3, by_bytes(40, repeat(3, shuffle(4, range(7)))))),
        ("shuffles > concatenate > shuffle > repeat", {
            repeat(2, shuffle(5, make("concatenate", json!({}), vec![shuffle(3, range(6)), shuffle(4, range(8))])))
        }),
        ("flat_map of shuffles > shuffle", {
            let flat = on("flat_map", json!({ "function": inner_shuffle(&scalar) }), range(6));
            repeat(2, shuffle(5, flat))
        }),
        ("interleave of shuffles > shuffle", {
            let params = json!({ "function": inner_shuffle(&scalar), "cycle_length": 2, "block_length": 1 });
            shuffle(5, on("interleave", params, range(6)))
        }),
        ("shuffle > repeat > groups", groups(repeat(3, shuffle(4, range(7))))),
        ("a shuffle without a seed", repeat(2, by_chance(range(12)))),
        ("a permutation without a seed", repeat(2, permuted(range(12)))),
        ("permutation > shuffle", shuffle(3, on("shuffle", json!({ "seed": 4 }), range(12)))),
        ("shuffle of everything", on("shuffle", json!({ "buffer_size": -2, "seed": 1 }), filter(range(15)))),
        ("shuffle > shuffle", shuffle(3, shuffle(4, filter(range(15))))),
        ("lines > shuffle > batch", batch(3, shuffle(4, lines()))),
        ("lines > shuffle by bytes > batch", batch(3, by_bytes(60, repeat(3, lines())))),
        ("filter > shuffle by bytes", by_bytes(24 * 5, filter(range(30)))),
        ("vectors > shuffle by bytes > repeat", repeat(2, by_bytes(130, vectors(range(14))))),
        ("shuffle by bytes > shuffle", shuffle(3, by_bytes(90, filter(range(15))))),
        ("lines > repeat > shuffle", shuffle(5, repeat(3, lines()))),
        ("records > shuffle", shuffle(12, make("tf_record", json!({ "files": long_records() }), vec![]))),
        ("records in small blocks > shard > shuffle > batch", {
            let records = make("tf_record", json!({ "files": long_records(), "buffer_size": 1 }), vec![]);
            batch(3, shuffle(9, on("shard", json!({ "num_shards": 2, "index": 1 }), records)))
        }),
        ("records > repeat > map > shuffle", {
            let records = repeat(2, make("tf_record", json!({ "files": long_records() }), vec![]));
            let f = function(&[&records.spec], |b, args| {
                leaf(b.call("strings.length", &[args[0]], attrs(json!({}))).unwrap())
            });
            shuffle(20, on("map", json!({ "function": f }), records))
        }),
        ("records, some damaged > shuffle", {
            let params = json!({ "files": file("records", &records()), "on_error": "skip" });
            shuffle(9, repeat(3, make("tf_record", params, vec![])))
        }),
        ("records that fail > shuffle", {
            let records = make("tf_record", json!({ "files": file("records", &records()) }), vec![]);
            shuffle(9, repeat(3, records))
        }),
        ("filter > shuffle > batch", batch(4, shuffle(6, filter(range(30))))),
        ("failing > filter > shuffle", shuffle(4, filter(failing(14)))),
        ("batch > filter > shuffle > unbatch", {
            let shuffled = shuffle(3, batch(2, filter(range(20))));
            on("unbatch", json!({}), shuffled)
        }),
        ("prefetch > shuffle", shuffle(4, on("prefetch", json!({ "buffer_size": 3 }), filter(range(20))))),
        ("unique > shuffle", {
            let f = with_constant(&scalar, "mod", 9);
            shuffle(4, on("unique", json!({}), on("map", json!({ "function": f }), range(30))))
        }),
        ("interleave > shuffle", {
            let f = inner_range(&scalar);
            let params = json!({ "function": f, "cycle_length": 3, "num_parallel_calls": 2 });
            shuffle(5, on("interleave", params, range(12)))
        }),
        ("nine columns > shuffle > batch", on("batch", json!({ "batch_size": 4 }), shuffle(6, wide(17)))),
        ("nine columns > shuffle > repeat > shuffle", shuffle(4, repeat(2, shuffle(5, wide(8))))),
        ("shuffle > cache > repeat", repeat(3, on("cache", json!({}), shuffle(4, filter(range(9)))))),
        ("shuffle > repeat > cache", on("cache", json!({}), repeat(3, shuffle(4, filter(range(9)))))),
        ("shuffle > concatenate > cache", {
            let late = make("concatenate", json!({}), vec![shuffle(4, range(5)), shuffle(3, range(6))]);
            on("cache", json!({}), late)
        }),
        ("cache > shuffle > repeat", repeat(3, shuffle(4, on("cache", json!({}), filter(range(9)))))),
        ("shuffle > repeat > cache > repeat > interleave", {
            let params = json!({ "function": inner_range(&scalar), "cycle_length": 2, "block_length": 2 });
            let fixed = json!({ "buffer_size": 4, "seed": 3, "reshuffle_each_iteration": false });
            let kept = on("cache", json!({}), repeat(3, on("shuffle", fixed, range(7))));
            on("interleave", params, repeat(2, kept))
        }),
        ("noise > cache > repeat", repeat(2, on("cache", json!({}), noisy(range(6))))),
        ("shuffle > prefetch > cache > groups", {
            groups(on("cache", json!({}), on("prefetch", json!({ "buffer_size": 3 }), shuffle(9, range(9)))))
        }),
        #[cfg(feature = "columnar")]
        ("noise > cache on disk > repeat", repeat(2, on("cache", on_disk(), noisy(range(6))))),
        #[cfg(feature = "columnar")]
        ("shuffle > cache on disk > shuffle", shuffle(4, on("cache", on_disk(), shuffle(4, filter(range(9)))))),
        // What is random behind it asks for positions, which files must have kept.
        #[cfg(feature = "columnar")]
        (
            "shuffle > cache on disk > noise > repeat",
            repeat(2, noisy(on("cache", on_disk(), shuffle(4, filter(range(9)))))),
        ),
        #[cfg(feature = "columnar")]
        ("snapshot > repeat", {
            let mut params = on_disk();
            params["compression"] = json!("AUTO");
            repeat(2, on("cache", params, shuffle(4, filter(range(9)))))
        }),
        #[cfg(feature = "columnar")]
        ("filter > snapshot in shards > shuffle > repeat", {
            let fives = |b: &mut Builder, x| {
                let five = constant(b, 5);
                b.call("floordiv", &[x, five], Attrs::default()).unwrap()
            };
            repeat(2, shuffle(4, snapshot(filter(range(22)), fives, true)))
        }),
        #[cfg(feature = "columnar")]
        (
            "shuffle > snapshot > cache > repeat",
            repeat(2, on("cache", json!({}), snapshot(shuffle(4, filter(range(9))), |b, _| constant(b, 3), false))),
        ),
        ("noise > repeat > shuffle", shuffle(3, repeat(2, noisy(range(6))))),
        ("flat_map of shuffles", on("flat_map", json!({ "function": inner_shuffle(&scalar) }), range(6))),
        ("interleave of shuffles", {
            let params = json!({ "function": inner_shuffle(&scalar), "cycle_length": 3, "block_length": 2 });
            repeat(2, on("interleave", params, range(7)))
        }),
        ("interleave ahead of shuffles", {
            let f = inner_shuffle(&scalar);
            on("interleave", json!({ "function": f, "cycle_length": 2, "num_parallel_calls": 2 }), range(7))
        }),
        // Whichever of them goes on to its next pass first, each has seeds of its own.
        ("interleave of repeats of shuffles > shuffle", {
            let params = json!({ "function": inner_repeat(&scalar), "cycle_length": 3, "block_length": 2 });
            shuffle(5, on("interleave", params, range(5)))
        }),
        ("interleave ahead of repeats of shuffles > repeat", {
            let f = inner_repeat(&scalar);
            let params = json!({ "function": f, "cycle_length": 2, "num_parallel_calls": 2 });
            repeat(2, on("interleave", params, range(5)))
        }),
        ("zip of streams out of step", {
            let (a, b) = (batch(2, filter(range(25))), batch(3, shuffle(5, filter(range(30)))));
            make("zip", pairs.clone(), vec![a, b])
        }),
        ("zip of a shuffle with itself", {
            let one = shuffle(4, filter(range(12)));
            repeat(2, make("zip", pairs, vec![one.clone(), one]))
        }),
        ("groups > shuffle", shuffle(3, groups(range(25)))),
        ("shuffle > groups", groups(shuffle(6, filter(range(25))))),
        ("windows that overlap", {
            let windows = json!({ "size": 5, "shift": 2, "stride": 2, "drop_remainder": true });
            let windows = on("window", windows, filter(range(20)));
            on("flat_map", json!({ "function": batch_argument(&scalar, 0) }), windows)
        }),
        ("scan > shuffle", {
            let f = function(&[&scalar, &scalar], |b, a| {
                let sum = b.call("add", &[a[0], a[1]], Attrs::default()).unwrap();
                Tree::tuple(vec![leaf(sum), leaf(sum)])
            });
            shuffle(4, on("scan", json!({ "initial": packed(0), "function": f }), filter(range(12))))
        }),
        ("concatenate of shuffles", {
            let one = shuffle(3, filter(range(8)));
            repeat(2, make("concatenate", json!({}), vec![one.clone(), one]))
        }),
        ("sample again and again", {
            let params = json!({ "weights": [0.3, 0.7], "seed": 1, "stop_on_empty_dataset": false,
                                 "rerandomize_each_iteration": true });
            repeat(3, make("sample_from_datasets", params, vec![shuffle(3, range(5)), filter(range(8))]))
        }),
        ("filter > a broken promise > interleave", {
            let params = json!({ "function": inner_range(&scalar), "cycle_length": 3, "num_parallel_calls": 2 });
            on("interleave", params, on("assert_cardinality", json!({ "count": 9 }), filter(range(15))))
        }),
        ("take > shuffle > skip", {
            let taken = on("take", json!({ "count": 9 }), filter(range(40)));
            on("skip", json!({ "count": 2 }), shuffle(4, taken))
        }),
    ]
}

#[test]
fn towers_at_every_position() {
    for (turn, (what, plan)) in towers().into_iter().enumerate() {
        for pass in [0, 1] {
            holds(what, &plan, pass, turn + pass as usize, |_| true);
        }
    }
}

/// Operators that may be done with an input before it ends, or long before whoever reads them is.
const ENDING: [&str; 9] = [
    "cache",
    "choose_from_datasets",
    "concatenate",
    "group_by_reducer",
    "repeat",
    "sample_from_datasets",
    "take",
    "take_while",
    "zip",
];

/// Operators whose states have places behind which their input is read again.
const LOOKING_BACK: [&str; 4] = ["flat_map", "group_by_window", "interleave", "shuffle"];

/// An operator on scalars, so that what comes out of it are scalars again.
fn in_chain(name: &str, input: Plan) -> Plan {
    let scalar = Spec::scalar(DType::Int64);
    match name {
        "zip" => {
            let pairs = json!({ "structure": { "tuple": { "tag": null, "items": [{ "leaf": 0 }, { "leaf": 1 }] } } });
            let sum =
                function(&[&scalar, &scalar], |b, a| leaf(b.call("add", &[a[0], a[1]], Attrs::default()).unwrap()));
            make("map", json!({ "function": sum }), vec![make("zip", pairs, vec![input, range(9)])])
        }
        "group_by_window" => make("unbatch", json!({}), vec![sample(name, input)]),
        _ => sample(name, input),
    }
}

pub fn sample(name: &str, input: Plan) -> Plan {
    SAMPLES.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("there is no sample of {name}")).1(input)
}

/// Whoever is sent back to read something again comes from an end at times.
#[test]
fn what_has_ended_can_be_sent_back() {
    let mut turn = 0;
    for ending in ENDING {
        for before in ["skip", "shuffle"] {
            for between in [None, Some("prefetch")] {
                for behind in LOOKING_BACK {
                    let names = [Some(before), Some(ending), between, Some(behind)];
                    let plan = names.iter().flatten().fold(range(13), |plan, name| in_chain(name, plan));
                    let what = names.into_iter().flatten().collect::<Vec<_>>().join(" > ");
                    holds(&what, &plan, turn as u64 % 2, turn, |_| true);
                    turn += 1;
                }
            }
        }
    }
}

/// A chain of operators by these names.
pub fn random_chain(
    draw: &mut dyn FnMut(usize) -> usize,
    names: impl Fn(&mut dyn FnMut(usize) -> usize) -> Vec<&'static str>,
) -> (String, Plan) {
    let mut plan = if draw(3) == 0 { failing(30) } else { range(30) };
    let mut what = String::new();
    for name in names(draw) {
        plan = in_chain(name, plan);
        what = format!("{what} > {name}");
    }
    (what, plan)
}

/// Chains of operators by these names, at some positions.
fn random_pipelines(seed: u64, turns: usize, names: impl Fn(&mut dyn FnMut(usize) -> usize) -> Vec<&'static str>) {
    let mut draw = draws(seed);
    for turn in 0..turns {
        let (what, plan) = random_chain(&mut draw, &names);
        if run(&plan, 1, Options::default()).len() > 500 {
            continue;
        }
        let some: Vec<usize> = (0..6).map(|_| draw(60)).collect();
        holds(&what, &plan, draw(2) as u64, turn, |p| some.contains(&p));
    }
}

#[test]
fn random_towers_of_what_ends_early_at_random_positions() {
    random_pipelines(1357, 300, |draw| {
        let mut names = Vec::new();
        for _ in 0..draw(3) + 1 {
            names.extend((0..draw(2)).map(|_| CHAIN[draw(CHAIN.len())]));
            names.push(ENDING[draw(ENDING.len())]);
            names.extend((draw(3) == 0).then_some("prefetch"));
            names.push(LOOKING_BACK[draw(LOOKING_BACK.len())]);
        }
        names
    });
}

#[test]
fn random_pipelines_at_random_positions() {
    random_pipelines(4321, 300, |draw| (0..draw(8) + 1).map(|_| CHAIN[draw(CHAIN.len())]).collect());
}

/// Snapshots of one shard between other operators: read or written, they give the same.
#[cfg(feature = "columnar")]
#[test]
fn random_pipelines_with_snapshots_at_random_positions() {
    random_pipelines(2468, 150, |draw| {
        let (many, place) = (draw(5) + 1, draw(5));
        let name = |i| if i == place % many { "snapshot" } else { CHAIN[draw(CHAIN.len())] };
        (0..many).map(name).collect()
    });
}

/// A pass that writes goes on where nothing was written yet, and so do those behind it, whose shards are mixed.
#[cfg(feature = "columnar")]
#[test]
fn a_snapshot_can_be_resumed_where_there_is_none() {
    let scalar = Spec::scalar(DType::Int64);
    let shard = Spec::leaf(Leaf::Dataset(Arc::new(scalar.clone())));
    let shards = Spec::leaf(Leaf::Dataset(Arc::new(shard.clone())));
    let elements = function(&[&shard], |b, args| {
        let k = b.export(args[0]);
        leaf(b.dataset(Bound::nested(make("nested", json!({ "symbol": k, "spec": scalar }), vec![])), scalar.clone()))
    });
    let reader = function(&[&shards], |b, args| {
        let k = b.export(args[0]);
        let all = make("nested", json!({ "symbol": k, "spec": shard }), vec![]);
        let mixed = make("shuffle", json!({ "buffer_size": 3, "seed": 5 }), vec![all]);
        let cycle = json!({ "function": elements, "cycle_length": 2, "num_parallel_calls": 2 });
        leaf(b.dataset(Bound::nested(make("interleave", cycle, vec![mixed])), scalar.clone()))
    });
    let plan = |place: usize| {
        let shuffled = make("shuffle", json!({ "buffer_size": 4, "seed": 3 }), vec![range(19)]);
        let pairs = function(&[&scalar], |b, args| {
            let four = constant(b, 4);
            let number = b.call("mod", &[args[0], four], Attrs::default()).unwrap();
            Tree::tuple(vec![leaf(number), leaf(args[0])])
        });
        let pairs = make("map", json!({ "function": pairs }), vec![shuffled]);
        let path = folder().join("mixed").join(place.to_string());
        let params = json!({ "path": path.to_str().unwrap(), "reader": reader });
        let kept = make("snapshot", params, vec![pairs]);
        let behind = make("shuffle", json!({ "buffer_size": 3, "seed": 1 }), vec![kept]);
        make("repeat", json!({ "count": 3 }), vec![behind])
    };
    let ways = ways();
    for (turn, way) in ways.iter().enumerate() {
        let first = 1000 * turn;
        let bound = elsewhere(&plan(first), way);
        let mut iter = Iter::new(&bound, 0, pool(way.0)).unwrap();
        let (mut events, mut states) = (Vec::new(), Vec::new());
        while let Some(event) = iter.next() {
            events.push(shown(event));
            states.push(iter.state().unwrap().to_json().unwrap().to_string());
        }
        assert_eq!(events.len(), 57);
        for (position, text) in states.iter().enumerate() {
            let next = &ways[(turn + position) % ways.len()];
            let what = format!("state {position} by {way:?}, resumed by {next:?}");
            let here = rest(resumed(&elsewhere(&plan(first), next), text, next.0, &what), &what);
            assert_eq!(here, events[position + 1..], "{what}");
            // What the shuffle behind it holds comes out when the snapshot is whole already: what follows that needs it.
            if position < 19 {
                let there = elsewhere(&plan(first + position + 1), next);
                let mut there = rest(resumed(&there, text, next.0, &what), &what);
                let mut expected = &events[position + 1..];
                let is_none = |event: &Event| matches!(event, Event::Failed(text) if text.contains("here is none"));
                if position >= 14 && there.last().is_some_and(is_none) {
                    there.pop();
                    expected = &events[position + 1..19];
                }
                assert_eq!(there, expected, "{what}, elsewhere");
            }
        }
    }
}

#[test]
fn a_state_that_was_resumed_can_be_resumed() {
    for (what, plan) in towers() {
        let ways = ways();
        let bound = elsewhere(&plan, &ways[0]);
        let expected = rest(Iter::new(&bound, 0, pool(1)).unwrap(), what);
        // A new process for every two elements.
        let (mut got, mut text) = (Vec::new(), None::<String>);
        for turn in 0.. {
            let way = &ways[turn % ways.len()];
            let bound = elsewhere(&plan, way);
            let mut iter = match &text {
                None => {
                    // Without a seed each process has its own order: the first one's goes on in all.
                    if what.contains("without a seed") {
                        break;
                    }
                    Iter::new(&bound, 0, pool(way.0)).unwrap()
                }
                Some(text) => resumed(&bound, text, way.0, what),
            };
            let some: Vec<Event> = iter.by_ref().take(2).map(shown).collect();
            let ended = some.len() < 2;
            got.extend(some);
            text = Some(iter.state().unwrap().to_json().unwrap().to_string());
            if ended {
                assert_eq!(got, expected, "{what}");
                break;
            }
        }
    }
}

#[test]
fn another_plan_is_refused() {
    let bound = |plan: &Plan| elsewhere(plan, &ways()[0]);
    let state = Iter::new(&bound(&batches(range(9))), 0, pool(1)).unwrap().state().unwrap();
    let other = make("batch", json!({ "batch_size": 4 }), vec![range(9)]);
    let error = Iter::resume(&bound(&other), &state, pool(1)).err().unwrap().to_string();
    assert!(error.contains("is batch(batch_size=4) here and was batch(batch_size=3) there"), "{error}");
    let mut json = state.to_json().unwrap();
    json["version"] = 99.into();
    assert!(State::from_json(&json).unwrap_err().to_string().contains("version 99"));
    assert!(State::from_json(&json!({})).unwrap_err().to_string().contains("state_dict"));
}

#[test]
fn a_state_that_was_tampered_with_is_refused_or_runs() {
    let mut state = 7u64;
    let mut draw = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let mut faults = std::collections::BTreeMap::new();
    for (what, plan) in towers() {
        let way = &ways()[1];
        let mut iter = Iter::new(&elsewhere(&plan, way), 0, pool(2)).unwrap();
        (0..5).for_each(|_| drop(iter.next()));
        let json = iter.state().unwrap().to_json().unwrap();
        for _ in 0..20 {
            let mut mutant = json.clone();
            mutate(&mut mutant["at"], &mut draw);
            let text = mutant.to_string();
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let Ok(state) = State::from_json(&mutant) else { return Ok(()) };
                let Ok(mut iter) = Iter::resume(&elsewhere(&plan, way), &state, pool(2)) else { return Ok(()) };
                iter.by_ref()
                    .take(50)
                    .find_map(|e| e.err().filter(|e| e.message().contains("panicked")))
                    .map_or(Ok(()), Err)
            }));
            if !matches!(result, Ok(Ok(()))) {
                faults.insert(format!("{what}: {result:?}"), text);
            }
        }
    }
    assert!(faults.is_empty(), "{} faults: {faults:#?}", faults.len());
}

/// Part `index` of `shards` of what each of them trains on: elements of streams, by number or not, mapped and batched.
fn part(shards: i64, index: i64, equal: Option<&str>, batch: i64) -> Plan {
    let mut params = json!({ "num_shards": shards, "index": index });
    if let Some(equal) = equal {
        params["equal"] = equal.into();
    }
    let shuffled = make("shuffle", json!({ "buffer_size": 5, "seed": 2 }), vec![range(47)]);
    let part = make("shard", params, vec![shuffled]);
    let f = with_constant(&part.spec, "multiply", 2);
    make("batch", json!({ "batch_size": batch }), vec![make("map", json!({ "function": f }), vec![part])])
}

fn numbers(iter: impl Iterator<Item = feedline::Result<feedline::element::Element>>) -> Vec<i64> {
    iter.flat_map(|e| e.unwrap()[0].tensor().items::<i64>().to_vec()).collect()
}

#[test]
fn another_number_of_parts_goes_on_where_all_were() {
    let ways = ways();
    for (turn, (were, are)) in [(1, 3), (3, 1), (3, 4), (4, 3), (4, 1), (2, 2)].into_iter().enumerate() {
        for steps in [0, 1, 2, 3] {
            let (taken, way) = (&ways[turn % ways.len()], &ways[(turn + steps) % ways.len()]);
            let what = format!("{were} parts, {steps} steps, {are} parts");
            let (mut all, mut states) = (Vec::new(), Vec::new());
            for index in 0..were {
                let mut iter = Iter::new(&elsewhere(&part(were, index, None, 2), taken), 0, pool(taken.0)).unwrap();
                all.extend(numbers(iter.by_ref().take(steps)));
                states.push(iter.state().unwrap());
            }
            // Any part's state will do for all.
            for index in 0..are {
                let text = states[index as usize % states.len()].to_json().unwrap().to_string();
                let bound = elsewhere(&part(are, index, None, 2), way);
                all.extend(numbers(resumed(&bound, &text, way.0, &what)));
            }
            all.sort_unstable();
            assert_eq!(all, (0..47).map(|x| 2 * x).collect::<Vec<_>>(), "{what}");
        }
    }
}

#[test]
fn equal_parts_take_equally_many_steps() {
    for (equal, each) in [("drop", 11), ("wrap", 12)] {
        for way in ways() {
            for index in 0..4 {
                let bound = elsewhere(&part(4, index, Some(equal), 1), &way);
                let all = numbers(Iter::new(&bound, 0, pool(way.0)).unwrap());
                assert_eq!(all.len(), each, "{equal}, part {index}, {way:?}");
            }
        }
        for index in 0..4 {
            holds(equal, &part(4, index, Some(equal), 2), 0, index as usize, |_| true);
        }
    }
}

#[test]
fn the_state_of_one_part_does_not_do_for_another_number_where_something_holds_elements() {
    let on = |n: i64| make("shuffle", json!({ "buffer_size": 3, "seed": 1 }), vec![part(n, 0, None, 1)]);
    let way = &ways()[0];
    let state = Iter::new(&elsewhere(&on(2), way), 0, pool(1)).unwrap().state().unwrap();
    let error = Iter::resume(&elsewhere(&on(3), way), &state, pool(1)).err().unwrap().to_string();
    assert!(error.contains("shard 0 of 2 and") && error.contains("shuffle behind shard holds"), "{error}");
    assert!(error.contains("fl.merge_states(states)"), "{error}");
}
