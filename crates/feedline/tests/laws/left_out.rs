//! Where errors are left out: the same elements and the same counts, whatever workers and chunk sizes there are, and
//! wherever a pass is resumed.

use super::resume::{elsewhere, holds, resumed, towers, ways};
use super::*;
use feedline::{MaxErrors, OnError};

fn leaving_out(plan: &Plan) -> Plan {
    let options = Options { on_error: Some(OnError::Skip), ..Default::default() };
    Dataset::from_plan(plan.clone()).with_options(options).unwrap().plan().clone()
}

/// What came of a pass, and what each operator left out.
fn counted(mut iter: Iter) -> (Vec<Event>, Vec<(&'static str, u64)>) {
    let mut events = Vec::new();
    for event in iter.by_ref() {
        events.push(super::resume::shown(event));
        assert!(events.len() < 2000);
    }
    let tally = |t: &Arc<feedline::runtime::Tally>| (t.op, t.left_out.load(std::sync::atomic::Ordering::Relaxed));
    (events, iter.meters().left_out().iter().map(tally).collect())
}

#[test]
fn every_operator_gives_the_same_in_every_way() {
    let mut left_out = 0;
    each_sample(|what, plan| {
        let plan = leaving_out(plan);
        let ways = ways();
        let first = counted(Iter::new(&elsewhere(&plan, &ways[0]), 0, pool(1)).unwrap());
        left_out += first.1.len();
        for way in &ways[1..] {
            let got = counted(Iter::new(&elsewhere(&plan, way), 0, pool(way.0)).unwrap());
            // Whoever stops early (take) has left out more ahead of its consumer, or less.
            assert_eq!(got.0, first.0, "{what} by {way:?}");
        }
    });
    assert!(left_out > 20, "{left_out}");
}

#[test]
fn every_operator_can_be_resumed() {
    let mut turn = 0;
    each_sample(|what, plan| {
        turn += 1;
        holds(what, &leaving_out(plan), 0, turn, |_| true);
    });
    for (turn, (what, plan)) in towers().into_iter().enumerate() {
        holds(what, &leaving_out(&plan), 1, turn, |_| true);
    }
}

/// Elements that fail in a source's function, in a filter, and in a second function: 4 and 9 of 0, 1, 2, …
fn bad(n: i64) -> Plan {
    let input = failing(n);
    let f = |spec: &Spec, bad: i64| {
        function(&[spec], |b, args| {
            let bad = constant(b, bad);
            let fine = b.call("not_equal", &[args[0], bad], Attrs::default()).unwrap();
            leaf(b.call("ensure", &[args[0], fine], attrs(json!({ "message": "bad" }))).unwrap())
        })
    };
    let shuffled = make("shuffle", json!({ "buffer_size": 5, "seed": 3 }), vec![input]);
    let spec = shuffled.spec.clone();
    make("batch", json!({ "batch_size": 3 }), vec![make("map", json!({ "function": f(&spec, 9) }), vec![shuffled])])
}

#[test]
fn a_pass_that_is_resumed_goes_on_counting() {
    let plan = leaving_out(&bad(40));
    let ways = ways();
    let whole = counted(Iter::new(&elsewhere(&plan, &ways[0]), 0, pool(1)).unwrap());
    assert_eq!(whole.1, [("map", 1), ("map", 1)]);
    assert_eq!(whole.0.len(), 13, "38 elements in batches of 3");
    for (turn, way) in ways.iter().enumerate() {
        for steps in 0..=13 {
            let mut iter = Iter::new(&elsewhere(&plan, way), 0, pool(way.0)).unwrap();
            let mut events: Vec<Event> = iter.by_ref().take(steps).map(super::resume::shown).collect();
            let text = iter.state().unwrap().to_json().unwrap().to_string();
            let next = &ways[(turn + steps) % ways.len()];
            let bound = elsewhere(&plan, next);
            let (rest, counts) = counted(resumed(&bound, &text, next.0, "bad"));
            events.extend(rest);
            assert_eq!((events, counts), whole, "{way:?}, {steps} steps, {next:?}: {text}");
        }
    }
}

#[test]
fn the_bound_is_exceeded_at_the_same_element_in_every_way() {
    let always = |n: i64| {
        let input = range(n);
        let f = function(&[&input.spec], |b, args| {
            let (three, zero) = (constant(b, 3), constant(b, 0));
            let rest = b.call("mod", &[args[0], three], Attrs::default()).unwrap();
            let fine = b.call("not_equal", &[rest, zero], Attrs::default()).unwrap();
            leaf(b.call("ensure", &[args[0], fine], attrs(json!({ "message": "a third" }))).unwrap())
        });
        make("map", json!({ "function": f }), vec![input])
    };
    // A third fails: the fourth of them is element 9, the first over a fifth of a hundred is the hundredth to be seen.
    for (most, before) in [(MaxErrors::Count(3), 6), (MaxErrors::Share(0.2), 66), (MaxErrors::Share(0.5), 200)] {
        let options = Options { on_error: Some(OnError::Skip), max_errors: Some(most), ..Default::default() };
        let plan = Dataset::from_plan(always(300)).with_options(options).unwrap().plan().clone();
        for way in ways() {
            let mut iter = Iter::new(&elsewhere(&plan, &way), 0, pool(way.0)).unwrap();
            let fine = iter.by_ref().take_while(|e| e.is_ok()).count();
            assert_eq!(fine, before, "{most:?} by {way:?}");
            if before < 200 {
                let error = first_error(&plan, &way);
                assert!(error.contains("max_errors=") && error.contains("a third"), "{error}");
            }
        }
    }
}

/// The first error of a pass.
fn first_error(plan: &Plan, way: &(usize, Options)) -> String {
    let iter = Iter::new(&elsewhere(plan, way), 0, pool(way.0)).unwrap();
    iter.filter_map(|e| e.err()).next().unwrap().to_string()
}

#[test]
fn an_operator_decides_for_itself_alone() {
    let input = failing(12);
    let f = function(&[&input.spec], |b, args| {
        let bad = constant(b, 7);
        let fine = b.call("not_equal", &[args[0], bad], Attrs::default()).unwrap();
        leaf(b.call("ensure", &[args[0], fine], attrs(json!({ "message": "seven" }))).unwrap())
    });
    let plan = make("map", json!({ "function": f, "on_error": "skip" }), vec![input]);
    assert_eq!(plan.card, Card::Unknown);
    for way in ways() {
        let events = counted(Iter::new(&elsewhere(&plan, &way), 0, pool(way.0)).unwrap());
        let failed: Vec<&Event> = events.0.iter().filter(|e| matches!(e, Event::Failed(_))).collect();
        assert_eq!(failed.len(), 1, "{events:?}");
        assert!(format!("{failed:?}").contains("four"), "{failed:?}");
        assert_eq!((events.0.len(), events.1), (11, vec![("map", 1)]));
    }
    let holding = make("shuffle", json!({ "buffer_size": 4, "seed": 1 }), vec![plan]);
    holds("a map that skips", &holding, 0, 0, |_| true);
}

#[test]
fn a_quarantine_needs_a_folder() {
    let options = Options { on_error: Some(OnError::Quarantine), ..Default::default() };
    let plan = Dataset::from_plan(failing(3)).with_options(options).unwrap().plan().clone();
    let error = Iter::new(&Bound { plan, env: Arc::new([]) }, 0, pool(1)).err().unwrap().to_string();
    assert!(error.contains("needs a folder"), "{error}");
}
