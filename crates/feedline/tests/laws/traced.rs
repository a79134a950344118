//! Passes that tell where rows come from give what others give, and tell the truth.

use super::resume::{elsewhere, shown, towers, ways};
use super::*;
use feedline::element::Origin;
use feedline::runtime::{Start, Trace};

fn traced(plan: &Plan, way: &(usize, Options)) -> Iter {
    let bound = elsewhere(plan, way);
    Iter::again(&(&bound).into(), &Start::first(&bound.plan), Arc::new(Trace::default()), pool(way.0)).unwrap()
}

#[test]
fn every_operator_gives_the_same_when_it_is_traced() {
    let mut turn = 0;
    each_sample(|what, plan| {
        turn += 1;
        let way = &ways()[turn % ways().len()];
        let plain: Vec<Event> = Iter::new(&elsewhere(plan, way), 0, pool(way.0)).unwrap().map(shown).collect();
        let again: Vec<Event> = traced(plan, way).map(shown).collect();
        assert_eq!(again, plain, "{what} by {way:?}");
    });
    for (what, plan) in towers().into_iter().filter(|(what, _)| !what.contains("without a seed")) {
        for way in ways() {
            let plain: Vec<Event> = Iter::new(&elsewhere(&plan, &way), 0, pool(way.0)).unwrap().map(shown).collect();
            let again: Vec<Event> = traced(&plan, &way).map(shown).collect();
            assert_eq!(again, plain, "{what} by {way:?}");
        }
    }
}

/// The positions in the source of what an element was made of; `None` where an operator does not tell.
fn positions(origin: &Origin) -> Option<Vec<i64>> {
    let mut all = Some(Vec::new());
    origin.rows(&mut |one| match (one, &mut all) {
        (Origin::Row { position, .. }, Some(all)) => all.push(*position as i64),
        _ => all = None,
    });
    all
}

#[test]
fn rows_of_numbers_come_from_where_the_numbers_were() {
    let on = |name: &str, params: Json, input: Plan| make(name, params, vec![input]);
    let shuffle = |input: Plan| on("shuffle", json!({ "buffer_size": 5, "seed": 3 }), input);
    let filter = |input: Plan| {
        let f = with_constant(&Spec::scalar(DType::Int64), "greater", 1);
        on("filter", json!({ "predicate": f }), input)
    };
    let batch = |n: i64, input: Plan| on("batch", json!({ "batch_size": n }), input);
    let same = |input: Plan| {
        let f = with_constant(&input.spec, "add", 0);
        on("map", json!({ "function": f }), input)
    };
    let plans = [
        ("filter", filter(range(9))),
        ("map > shuffle", shuffle(same(range(20)))),
        ("permutation", on("shuffle", json!({ "seed": 1 }), range(12))),
        ("filter > shuffle > batch", batch(3, shuffle(filter(range(20))))),
        ("permutation > batch > map", same(batch(4, on("shuffle", json!({ "seed": 1 }), range(13))))),
        ("batch by number > permutation", on("shuffle", json!({ "seed": 1 }), batch(4, range(13)))),
        ("batch > unbatch > take", on("take", json!({ "count": 7 }), on("unbatch", json!({}), batch(3, range(20))))),
        (
            "skip > repeat > shuffle",
            shuffle(on("repeat", json!({ "count": 2 }), on("skip", json!({ "count": 3 }), range(9)))),
        ),
        ("concatenate", make("concatenate", json!({}), vec![range(4), filter(range(7))])),
        ("cache > repeat", on("repeat", json!({ "count": 2 }), on("cache", json!({}), filter(range(7))))),
        (
            "prefetch > shard",
            on("shard", json!({ "num_shards": 3, "index": 1 }), on("prefetch", json!({}), filter(range(20)))),
        ),
        ("padded_batch", on("padded_batch", json!({ "batch_size": 3 }), filter(range(11)))),
    ];
    for (what, plan) in plans {
        for way in ways() {
            let mut iter = traced(&plan, &way);
            let mut count = 0;
            loop {
                while let Some((chunk, row)) = iter.next_ready() {
                    let values = chunk.element(row)[0].tensor().items::<i64>().to_vec();
                    let told = chunk.pos.origin(row).and_then(positions);
                    assert_eq!(told, Some(values), "{what} by {way:?}");
                    count += 1;
                }
                if !iter.fetch(&mut || Ok(())).unwrap() {
                    break;
                }
            }
            assert!(count > 2, "{what}");
        }
    }
}

#[test]
fn what_is_located_is_what_was_delivered() {
    let noisy = |ds: &Dataset| {
        let f = graph(&[ds.spec()], |b, args| {
            let shape = b.constant(feedline::element::Tensor::from_items([0], &[] as &[i64]).into()).unwrap();
            let noise = b.call("random.uniform", &[shape], attrs(json!({ "seed": 5, "use": 2, "dtype": "float32" })));
            Tree::tuple(vec![leaf(args[0]), leaf(noise.unwrap())])
        });
        ds.map_graph(f).unwrap()
    };
    let ds = Dataset::range(40).unwrap().shuffle(Some(7), None, true).unwrap();
    let ds = noisy(&ds).batch(4, false).unwrap();
    for pass in 0..3 {
        let batches: Vec<_> = ds.iter().unwrap().map(|e| e.unwrap()).collect();
        let found = ds.locate(5, Some(2)).unwrap();
        let value = batches[5][0].tensor().items::<i64>()[2];
        assert_eq!((found.epoch, found.origins.len()), (pass, 1));
        assert_eq!(positions(&found.origins[0]), Some(vec![value]));
        let names: Vec<&str> = found.stages.iter().map(|s| s.op).collect();
        assert_eq!(names, ["range", "shuffle", "map", "batch"]);
        assert_eq!(found.stages[2].value[1], feedline::element::Value::from(batches[5][1].tensor().row(2)));
        let [draw] = &found.draws[..] else { panic!("{:?}", found.draws) };
        assert_eq!((draw.function, draw.seed, draw.call, draw.position), ("random.uniform", 5, 2, value as u64));
    }
    assert!(ds.locate(99, None).unwrap_err().to_string().contains("10 elements"));
    assert!(ds.locate(0, Some(4)).unwrap_err().to_string().contains("4 rows"));
}

#[test]
fn a_search_does_not_change_the_passes_behind_it() {
    let ds = || Dataset::range(20).unwrap().shuffle(Some(7), Some(1), true).unwrap();
    let pass = |ds: &Dataset| -> Vec<Event> { ds.iter().unwrap().map(shown).collect() };
    let (plain, searched) = (ds(), ds());
    for _ in 0..3 {
        assert_eq!(pass(&plain), pass(&searched));
        searched.locate(3, None).unwrap();
    }
}
