//! Every operator through every law. A sample of each operator stands on an input that is ordinary, empty, a single
//! element, or fails in the middle; what comes out must not depend on workers, chunk sizes or rewrites.

mod calls;
mod caps;
mod fresh_process;
mod left_out;
mod order;
mod panics;
mod passes;
mod random;
mod ranks;
mod resume;
mod traced;

use feedline::element::{DType, Leaf, Spec, Tree};
use feedline::expr::{Attrs, Builder, Graph, NodeId};
use feedline::plan::{Bound, Card, Plan, read_plan, write_plan};
use feedline::runtime::{Iter, Pool, index_of};
use feedline::{Dataset, Options};
use serde_json::{Value as Json, json};
#[cfg(feature = "columnar")]
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

// ---- Making plans ----

fn make(name: &str, params: Json, inputs: Vec<Plan>) -> Plan {
    let op = (feedline::ops::find(name).unwrap().read)(params).unwrap_or_else(|e| panic!("{name}: {e}"));
    Plan::new(op, inputs).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn attrs(json: Json) -> Attrs {
    serde_json::from_value(json).unwrap()
}

fn constant(b: &mut Builder, x: i64) -> NodeId {
    b.constant(feedline::element::Tensor::scalar(x).into()).unwrap()
}

/// A function of the leaves of some specs, as JSON.
fn function(specs: &[&Spec], f: impl FnOnce(&mut Builder, &[NodeId]) -> Tree<NodeId>) -> Json {
    serde_json::to_value(graph(specs, f)).unwrap()
}

fn graph(specs: &[&Spec], f: impl FnOnce(&mut Builder, &[NodeId]) -> Tree<NodeId>) -> Graph {
    let all = Spec::tuple(specs.iter().map(|s| (*s).clone()).collect());
    let mut b = Builder::new(&all);
    let args: Vec<NodeId> = (0..all.leaf_count()).collect();
    let out = f(&mut b, &args);
    b.finish(&out)
}

fn leaf(n: NodeId) -> Tree<NodeId> {
    Tree::Leaf(n)
}

/// `name(x, constant)` as a function of a scalar.
fn with_constant(spec: &Spec, name: &str, x: i64) -> Json {
    function(&[spec], |b, args| {
        let c = constant(b, x);
        leaf(b.call(name, &[args[0], c], Attrs::default()).unwrap())
    })
}

fn range(n: i64) -> Plan {
    Dataset::range(n).unwrap().plan().clone()
}

/// `range(n)` whose element 4 fails.
fn failing(n: i64) -> Plan {
    let input = range(n);
    let f = function(&[&input.spec], |b, args| {
        let four = constant(b, 4);
        let fine = b.call("not_equal", &[args[0], four], Attrs::default()).unwrap();
        leaf(b.call("ensure", &[args[0], fine], attrs(json!({ "message": "four" }))).unwrap())
    });
    make("map", json!({ "function": f }), vec![input])
}

/// Vectors `[x, x, …]` of length x mod 3.
fn vectors(input: Plan) -> Plan {
    let f = function(&[&input.spec], |b, args| {
        let three = constant(b, 3);
        let n = b.call("mod", &[args[0], three], Attrs::default()).unwrap();
        let dims = b.call("stack", &[n], attrs(json!({ "axis": 0 }))).unwrap();
        leaf(b.call("fill", &[dims, args[0]], Attrs::default()).unwrap())
    });
    make("map", json!({ "function": f }), vec![input])
}

/// The folder of this test's files.
fn folder() -> &'static std::path::Path {
    static DIR: OnceLock<tempfile::TempDir> = OnceLock::new();
    DIR.get_or_init(|| tempfile::tempdir().unwrap()).path()
}

/// A folder that no other plan has, of this test or of one beside it: where one iterator writes, passes of others are not
/// kept.
#[cfg(feature = "columnar")]
fn own_folder(kind: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let path = folder().join(kind).join(COUNT.fetch_add(1, Relaxed).to_string());
    path.to_str().unwrap().to_string()
}

/// 25 rows as a file of that format, whose name also is its ending: the parameters of a reader of tables.
fn saved(format: &str, options: Json) -> Json {
    let path = folder().join(format!("rows.{format}")).to_str().unwrap().to_string();
    let target = feedline::save::Target { path: path.clone(), shards: None, overwrite: true };
    // Files appear whole, so that tests side by side may all write it.
    let bound = Bound { plan: range(25), env: Arc::new([]) };
    let open = feedline::save::format(format, &options).unwrap();
    feedline::save::save(&bound, &target, &*open, &mut |_| Ok(())).unwrap();
    json!({ "files": [path] })
}

/// A saved set.
#[cfg(feature = "columnar")]
fn saved_set() -> Json {
    static PATH: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let path = PATH.get_or_init(|| {
        let path = folder().join("set").to_str().unwrap().to_string();
        let bound = Bound { plan: range(25), env: Arc::new([]) };
        feedline::save::save_set(&bound, &path, "none", false, &mut |_| Ok(())).unwrap();
        path
    });
    json!({ "path": path })
}

/// A snapshot in a folder of its own, whose shards are the given function of an element. Read in the order of
/// the shards, one after the other, or by a reader that does the same.
#[cfg(feature = "columnar")]
fn snapshot(input: Plan, number: impl FnOnce(&mut Builder, NodeId) -> NodeId, with_reader: bool) -> Plan {
    snapshot_in(own_folder("snapshots"), input, number, with_reader)
}

/// The same in that folder.
#[cfg(feature = "columnar")]
fn snapshot_in(
    path: String,
    input: Plan,
    number: impl FnOnce(&mut Builder, NodeId) -> NodeId,
    with_reader: bool,
) -> Plan {
    let spec = input.spec.clone();
    let pairs = function(&[&spec], |b, args| {
        let number = number(b, args[0]);
        Tree::tuple(vec![leaf(number), leaf(args[0])])
    });
    let mut params = json!({ "path": path, "compression": "AUTO" });
    if with_reader {
        let shard = Spec::leaf(Leaf::Dataset(Arc::new(spec.clone())));
        let shards = Spec::leaf(Leaf::Dataset(Arc::new(shard.clone())));
        let elements = function(&[&shard], |b, args| {
            let k = b.export(args[0]);
            leaf(b.dataset(Bound::nested(make("nested", json!({ "symbol": k, "spec": spec }), vec![])), spec.clone()))
        });
        params["reader"] = function(&[&shards], |b, args| {
            let k = b.export(args[0]);
            let all = make("nested", json!({ "symbol": k, "spec": shard }), vec![]);
            let cycle = json!({ "function": elements, "cycle_length": 1, "num_parallel_calls": 1 });
            leaf(b.dataset(Bound::nested(make("interleave", cycle, vec![all])), spec.clone()))
        });
    }
    make("snapshot", params, vec![make("map", json!({ "function": pairs, "num_parallel_calls": -1 }), vec![input])])
}

/// A file with these bytes, in a folder of this test's own. Its name as the parameter of a reader.
fn file(name: &str, bytes: &[u8]) -> Json {
    let path = folder().join(name);
    if !path.exists() {
        // Tests run side by side: the file is there whole or not at all.
        let temporary = path.with_extension(format!("{:?}", std::thread::current().id()));
        std::fs::write(&temporary, bytes).unwrap();
        std::fs::rename(&temporary, &path).unwrap();
    }
    files(&[path.to_str().unwrap()])
}

/// File names as the parameter of a reader.
fn files(names: &[&str]) -> Json {
    let names = feedline::element::Tensor::strings([names.len()], names);
    json!({ "values": feedline::element::Packed::from(names) })
}

/// 20 records of growing length, one of them damaged.
fn records() -> Vec<u8> {
    let mut bytes = Vec::new();
    (0..20u8).for_each(|i| feedline_formats::tfrecord::frame(&vec![i; i as usize * 7], &mut bytes));
    bytes[500] ^= 1;
    bytes
}

/// Two files of records, of which some are longer than what lies between them is worth reading.
fn long_records() -> Json {
    let names = ["long-1", "long-2"].map(|name| {
        let mut bytes = Vec::new();
        for i in 0..25usize {
            let len = if i % 3 == 0 { 30_000 + i } else { i * 5 };
            feedline_formats::tfrecord::frame(&vec![(i + name.len()) as u8; len], &mut bytes);
        }
        file(name, &bytes);
        folder().join(name)
    });
    files(&names.each_ref().map(|name| name.to_str().unwrap()))
}

/// Rows of which some are wrong.
const ROWS: &[u8] = b"1,a\r\nx,b\n3,\"c\nd\"\n\n5,\n6,e,f\n7,g\n8,h\n9,i";

/// Samples of which one is incomplete.
fn samples() -> Vec<u8> {
    let mut tar = feedline_formats::tar::Writer::new(Vec::new());
    for i in 0..12usize {
        tar.append(format!("{i}.txt").as_bytes(), &vec![i as u8; i * 50], 0).unwrap();
        if i != 5 {
            tar.append(format!("{i}.cls").as_bytes(), i.to_string().as_bytes(), 0).unwrap();
        }
    }
    tar.finish().unwrap()
}

fn batches(input: Plan) -> Plan {
    make("batch", json!({ "batch_size": 3 }), vec![input])
}

/// A dataset-valued function: `range(x mod 4)`.
fn inner_range(spec: &Spec) -> Json {
    function(&[spec], |b, args| {
        let four = constant(b, 4);
        let n = b.call("mod", &[args[0], four], Attrs::default()).unwrap();
        let k = b.export(n);
        let params = json!({ "start": 0, "stop": { "symbol": k }, "step": 1, "output_type": "int64" });
        let plan = make("range", params, vec![]);
        let spec = plan.spec.clone();
        leaf(b.dataset(Bound::nested(plan), spec))
    })
}

/// The dataset argument of a function, batched by two.
fn batch_argument(spec: &Spec, before: usize) -> Json {
    let dataset = Spec::leaf(Leaf::Dataset(Arc::new(spec.clone())));
    let key = Spec::scalar(DType::Int64);
    let specs: Vec<&Spec> = if before == 1 { vec![&key, &dataset] } else { vec![&dataset] };
    function(&specs, |b, args| {
        let k = b.export(args[before]);
        let nested = make("nested", json!({ "symbol": k, "spec": spec }), vec![]);
        let plan = make("batch", json!({ "batch_size": 2 }), vec![nested]);
        let spec = plan.spec.clone();
        leaf(b.dataset(Bound::nested(plan), spec))
    })
}

fn packed(x: i64) -> Json {
    let tensor = feedline::element::Tensor::scalar(x);
    let spec = Spec::leaf(Leaf::of_tensor(&tensor));
    json!({ "spec": spec, "values": [feedline::element::Value::Tensor(tensor)] })
}

type Sample = fn(Plan) -> Plan;

/// An example of each operator on an input of int64 scalars. Sources leave the input aside.
const SAMPLES: &[(&str, Sample)] = &[
    ("assert_cardinality", |p| make("assert_cardinality", json!({ "count": 10 }), vec![p])),
    ("batch", batches),
    ("cache", |p| make("repeat", json!({ "count": 2 }), vec![make("cache", json!({}), vec![p])])),
    ("choose_from_datasets", |p| {
        let choice =
            make("map", json!({ "function": with_constant(&Spec::scalar(DType::Int64), "mod", 2) }), vec![range(12)]);
        make("choose_from_datasets", json!({ "stop_on_empty_dataset": false }), vec![choice, p, range(3)])
    }),
    ("concatenate", |p| make("concatenate", json!({}), vec![p, range(4)])),
    ("csv", |_| {
        let columns = json!([{ "dtype": "int32" }, { "dtype": "string", "default": "none" }]);
        make("csv", json!({ "files": file("rows.csv", ROWS), "columns": columns, "buffer_size": 1 }), vec![])
    }),
    ("csv", |_| make("csv", json!({ "files": file("learned.csv", b"n,t\n1,a\n2,b\n"), "header": true }), vec![])),
    ("counter", |_| {
        make(
            "take",
            json!({ "count": 20 }),
            vec![make("counter", json!({ "start": 3, "step": 2, "dtype": "int64" }), vec![])],
        )
    }),
    ("enumerate", |p| make("enumerate", json!({ "start": 5 }), vec![p])),
    ("filter", |p| make("filter", json!({ "predicate": with_constant(&p.spec, "greater", 2) }), vec![p])),
    ("fixed_length_record", |_| {
        let params = json!({ "files": file("fixed", &[7; 103]), "record_bytes": 10, "header_bytes": 3, "index": true });
        make("fixed_length_record", params, vec![])
    }),
    ("fixed_length_record", |_| {
        make("fixed_length_record", json!({ "files": file("odd", &[7; 103]), "record_bytes": 10 }), vec![])
    }),
    ("flat_map", |p| make("flat_map", json!({ "function": inner_range(&p.spec) }), vec![p])),
    ("from_list", |_| make("from_list", json!({ "values": [packed(3), packed(1)] }), vec![])),
    ("from_tensor_slices", |_| {
        let t = feedline::element::Tensor::from_items([5, 2], &[1i64, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        let spec = Spec::leaf(Leaf::of_tensor(&t));
        make(
            "from_tensor_slices",
            json!({ "values": { "spec": spec, "values": [feedline::element::Value::Tensor(t)] } }),
            vec![],
        )
    }),
    ("from_tensors", |_| make("from_tensors", json!({ "values": packed(7) }), vec![])),
    ("group_by_reducer", |p| {
        let key = with_constant(&p.spec, "mod", 3);
        let scalar = Spec::scalar(DType::Int64);
        let init = function(&[&scalar], |b, _| leaf(constant(b, 0)));
        let reduce =
            function(&[&scalar, &p.spec], |b, a| leaf(b.call("add", &[a[0], a[1]], Attrs::default()).unwrap()));
        let finalize = function(&[&scalar], |_, a| leaf(a[0]));
        make("group_by_reducer", json!({ "key": key, "init": init, "reduce": reduce, "finalize": finalize }), vec![p])
    }),
    ("group_by_window", |p| {
        let key = with_constant(&p.spec, "mod", 2);
        let reduce = batch_argument(&p.spec, 1);
        make("group_by_window", json!({ "key": key, "reduce": reduce, "window_size": 3 }), vec![p])
    }),
    ("ignore_errors", |p| make("ignore_errors", json!({ "log_warning": false }), vec![p])),
    ("interleave", |p| {
        let f = inner_range(&p.spec);
        make(
            "interleave",
            json!({ "function": f, "cycle_length": 3, "block_length": 2, "num_parallel_calls": 2 }),
            vec![p],
        )
    }),
    ("json_lines", |_| {
        let lines = b"{\"n\":1,\"v\":[1,2]}\n\n{\"n\":2,\"v\":[]}\n{\"n\":\"x\"}\n{\"n\":4,\"v\":[3.5]}";
        make("json_lines", json!({ "files": file("lines.jsonl", lines), "infer_lines": 2 }), vec![])
    }),
    #[cfg(feature = "columnar")]
    ("load", |_| make("load", saved_set(), vec![])),
    ("map", |p| make("map", json!({ "function": with_constant(&p.spec, "multiply", 3) }), vec![p])),
    ("nested", |p| {
        let windows =
            make("window", json!({ "size": 3, "shift": 2, "stride": 1, "drop_remainder": false }), vec![p.clone()]);
        make("flat_map", json!({ "function": batch_argument(&p.spec, 0) }), vec![windows])
    }),
    ("numpy", |_| make("numpy", saved("npy", json!({})), vec![])),
    #[cfg(feature = "columnar")]
    ("arrow", |_| make("arrow", saved("arrow", json!({ "batch_rows": 7 })), vec![])),
    #[cfg(feature = "columnar")]
    ("parquet", |_| make("parquet", saved("parquet", json!({ "row_group_rows": 10 })), vec![])),
    ("padded_batch", |p| {
        make(
            "padded_batch",
            json!({ "batch_size": 4, "padded_shapes": [[null]], "drop_remainder": false }),
            vec![vectors(p)],
        )
    }),
    ("prefetch", |p| make("prefetch", json!({ "buffer_size": 2 }), vec![p])),
    ("ragged_batch", |p| {
        make(
            "ragged_batch",
            json!({ "batch_size": 3, "drop_remainder": false, "row_splits_dtype": "int64" }),
            vec![vectors(p)],
        )
    }),
    ("random", |_| {
        let r = make("random", json!({ "seed": 1, "seed2": 2, "rerandomize_each_iteration": false }), vec![]);
        make("take", json!({ "count": 9 }), vec![r])
    }),
    ("range", |_| make("range", json!({ "start": 9, "stop": -3, "step": -2, "output_type": "int32" }), vec![])),
    ("rebatch", |p| make("rebatch", json!({ "batch_sizes": [2, 3], "drop_remainder": false }), vec![batches(p)])),
    ("repeat", |p| make("repeat", json!({ "count": 3 }), vec![p])),
    ("sample_from_datasets", |p| {
        let params = json!({ "weights": [0.5, 0.5], "seed": 1, "seed2": 2, "stop_on_empty_dataset": false,
                             "rerandomize_each_iteration": false });
        make("sample_from_datasets", params, vec![p, range(6)])
    }),
    ("scan", |p| {
        let scalar = Spec::scalar(DType::Int64);
        let f = function(&[&scalar, &p.spec], |b, a| {
            let sum = b.call("add", &[a[0], a[1]], Attrs::default()).unwrap();
            Tree::tuple(vec![leaf(sum), leaf(sum)])
        });
        make("scan", json!({ "initial": packed(0), "function": f }), vec![p])
    }),
    ("shard", |p| make("shard", json!({ "num_shards": 3, "index": 1 }), vec![p])),
    ("shuffle", |p| {
        make("shuffle", json!({ "buffer_size": 4, "seed": 7, "seed2": 8, "reshuffle_each_iteration": true }), vec![p])
    }),
    ("shuffle", |p| make("shuffle", json!({ "buffer_bytes": 100, "seed": 7 }), vec![vectors(p)])),
    ("skip", |p| make("skip", json!({ "count": 3 }), vec![p])),
    #[cfg(feature = "columnar")]
    ("snapshot", |p| snapshot(p, |b, _| constant(b, 0), false)),
    // Elements that rise stay in their order.
    #[cfg(feature = "columnar")]
    ("snapshot", |p| {
        let quarter = |b: &mut Builder, x| {
            let four = constant(b, 4);
            b.call("floordiv", &[x, four], Attrs::default()).unwrap()
        };
        make("repeat", json!({ "count": 2 }), vec![snapshot(p, quarter, true)])
    }),
    ("sparse_batch", |p| make("sparse_batch", json!({ "batch_size": 3, "row_shape": [5] }), vec![vectors(p)])),
    ("take", |p| make("take", json!({ "count": 7 }), vec![p])),
    ("take_while", |p| make("take_while", json!({ "predicate": with_constant(&p.spec, "less", 8) }), vec![p])),
    ("text_line", |_| make("text_line", json!({ "files": file("rows.csv", ROWS), "buffer_size": 1 }), vec![])),
    ("tf_record", |_| {
        let params = json!({ "files": file("records", &records()), "buffer_size": 1, "on_error": "skip" });
        make("tf_record", params, vec![])
    }),
    ("tf_record", |_| make("tf_record", json!({ "files": file("records", &records()) }), vec![])),
    ("unbatch", |p| make("unbatch", json!({}), vec![batches(p)])),
    ("unique", |p| {
        let f = with_constant(&p.spec, "mod", 4);
        make("unique", json!({}), vec![make("map", json!({ "function": f }), vec![p])])
    }),
    ("web_dataset", |_| make("web_dataset", json!({ "files": file("a.tar", &samples()), "url": true }), vec![])),
    ("web_dataset", |_| {
        let params = json!({ "files": file("a.tar", &samples()), "on_error": "skip", "index": true });
        make("web_dataset", params, vec![])
    }),
    ("window", |p| {
        let windows =
            make("window", json!({ "size": 4, "shift": 3, "stride": 2, "drop_remainder": false }), vec![p.clone()]);
        make("flat_map", json!({ "function": batch_argument(&p.spec, 0) }), vec![windows])
    }),
    ("with_options", |p| make("with_options", json!({ "options": { "deterministic": true } }), vec![p])),
    ("with_origin", |p| make("with_origin", json!({}), vec![p])),
    ("zip", |p| {
        make(
            "zip",
            json!({ "structure": { "tuple": { "tag": null, "items": [{ "leaf": 0 }, { "leaf": 1 }] } } }),
            vec![p, range(8)],
        )
    }),
];

/// Operators without a written form of their own: made by others, or fed from outside.
const NOT_WRITTEN: &[&str] = &["from_generator", "rows"];

// ---- Running them ----

/// The plan anew from its written form: nothing is carried over from another run.
fn fresh(plan: &Plan) -> Plan {
    let (json, attachments) = write_plan(plan).unwrap();
    read_plan(&json, attachments).unwrap()
}

/// Pools are kept: a process has one, and thousands of sleeping threads would only slow the tests down.
fn pool(workers: usize) -> Arc<Pool> {
    static POOLS: OnceLock<[Arc<Pool>; 4]> = OnceLock::new();
    POOLS.get_or_init(|| [1, 2, 3, 4].map(Pool::new))[workers - 1].clone()
}

#[derive(Clone, Debug, PartialEq)]
enum Event {
    Element(String),
    Failed(String),
}

fn run(plan: &Plan, workers: usize, options: Options) -> Vec<Event> {
    let plan = Dataset::from_plan(fresh(plan)).with_options(options).unwrap().plan().rewritten().unwrap().plan;
    let leaves: Vec<Leaf> = plan.spec.leaves().into_iter().cloned().collect();
    let bound = Bound { plan: plan.clone(), env: Arc::new([]) };
    let iter = Iter::new(&bound, 0, pool(workers)).unwrap();
    let mut events = Vec::new();
    for event in iter {
        events.push(match event {
            Ok(element) => {
                for (leaf, value) in leaves.iter().zip(&element) {
                    assert!(leaf.accepts(value), "{plan:?} promised {leaf}, gave {value:?}");
                }
                Event::Element(format!("{element:?}"))
            }
            Err(error) => Event::Failed(error.message().to_string()),
        });
        assert!(events.len() < 10_000, "{plan:?} does not end");
    }
    events
}

fn inputs() -> Vec<(&'static str, Plan)> {
    vec![("ten", range(10)), ("none", range(0)), ("one", range(1)), ("failing", failing(10))]
}

fn each_sample(mut check: impl FnMut(&str, &Plan)) {
    for (name, sample) in SAMPLES {
        for (kind, input) in inputs() {
            check(&format!("{name} on {kind}"), &sample(input));
        }
    }
}

#[test]
fn every_operator_has_a_sample() {
    for info in feedline::ops::OPS {
        let known = SAMPLES.iter().any(|(n, _)| *n == info.name) || NOT_WRITTEN.contains(&info.name);
        assert!(known, "{} has no sample in tests/laws/main.rs", info.name);
    }
}

#[test]
fn workers_and_chunk_sizes_do_not_matter() {
    each_sample(|what, plan| {
        let expected = run(plan, 1, Options { chunk_rows: Some(1), ..Default::default() });
        for workers in [1, 2, 4] {
            for chunk_rows in [None, Some(1), Some(2), Some(3), Some(7), Some(100)] {
                let got = run(plan, workers, Options { chunk_rows, ..Default::default() });
                assert_eq!(got, expected, "{what}, {workers} workers, chunks of {chunk_rows:?}");
            }
        }
    });
}

#[test]
fn rewrites_and_prefetch_do_not_matter() {
    each_sample(|what, plan| {
        let expected = run(plan, 2, Options::default());
        let plain = Options { rewrite: Some(false), prefetch: Some(false), ..Default::default() };
        assert_eq!(run(plan, 2, plain), expected, "{what}");
    });
}

#[test]
fn a_small_memory_limit_does_not_matter() {
    each_sample(|what, plan| {
        let expected = run(plan, 2, Options::default());
        let tight = Options { memory_limit: Some(1), ..Default::default() };
        assert_eq!(run(plan, 2, tight), expected, "{what}");
    });
}

#[test]
fn known_cardinality_is_the_truth() {
    for (name, sample) in SAMPLES {
        for n in [0, 1, 10] {
            let plan = sample(range(n));
            // `assert_cardinality` is the user's word, not ours.
            if let (Card::Known(card), true) = (plan.card, *name != "assert_cardinality") {
                let events = run(&plan, 2, Options::default());
                assert_eq!(events.len() as u64, card, "{name} on {n}: {plan:?}");
            }
        }
    }
}

#[test]
fn the_written_form_reads_back_equal() {
    each_sample(|what, plan| {
        let (json, _) = write_plan(plan).unwrap();
        let (again, _) = write_plan(&fresh(plan)).unwrap();
        assert_eq!(json, again, "{what}");
        assert_eq!(fresh(plan).fingerprint().unwrap(), plan.fingerprint().unwrap());
    });
}

#[test]
fn dropped_anywhere_it_ends() {
    each_sample(|_, plan| {
        let plan = fresh(plan).rewritten().unwrap().plan;
        for taken in 0..4 {
            let bound = Bound { plan: plan.clone(), env: Arc::new([]) };
            let mut iter = Iter::new(&bound, 0, pool(2)).unwrap();
            (0..taken).for_each(|_| drop(iter.next()));
        }
    });
}

#[test]
fn elements_by_number_are_those_of_a_pass() {
    for (name, sample) in SAMPLES {
        for n in [1, 10] {
            let plan = fresh(&sample(range(n)));
            let bound = Bound { plan: plan.clone(), env: Arc::new([]) };
            let Ok(index) = index_of(&bound, 0, pool(1)) else { continue };
            let got: Vec<Event> = (0..index.len())
                .map(|i| match index.get(&[i]) {
                    Ok(chunk) => Event::Element(format!("{:?}", chunk.element(0))),
                    Err(error) => Event::Failed(error.message().to_string()),
                })
                .collect();
            assert_eq!(got, run(&plan, 2, Options::default()), "{name} on {n}");
        }
    }
}

/// Operators that take scalars and give scalars: they can stand in any order.
const CHAIN: [&str; 17] = [
    "cache",
    "concatenate",
    "filter",
    "flat_map",
    "ignore_errors",
    "interleave",
    "map",
    "prefetch",
    "repeat",
    "scan",
    "shard",
    "shuffle",
    "skip",
    "take",
    "take_while",
    "unbatch",
    "unique",
];

/// Numbers below what is asked for, the same in every run.
fn draws(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |n| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    }
}

#[test]
fn a_thousand_random_pipelines_dropped_in_the_middle() {
    let mut draw = draws(12345);
    for _ in 0..1000 {
        let mut plan = if draw(3) == 0 { failing(50) } else { range(50) };
        for _ in 0..draw(5) + 1 {
            let name = CHAIN[draw(CHAIN.len())];
            plan = SAMPLES.iter().find(|(n, _)| *n == name).unwrap().1(plan);
        }
        let options = Options {
            chunk_rows: [None, Some(1), Some(5)][draw(3)],
            memory_limit: [None, Some(1), Some(10_000)][draw(3)],
            ..Default::default()
        };
        let plan = Dataset::from_plan(plan).with_options(options).unwrap().plan().clone();
        let bound = Bound { plan, env: Arc::new([]) };
        let mut iter = Iter::new(&bound, 0, pool([1, 2, 4][draw(3)])).unwrap();
        (0..draw(20)).for_each(|_| drop(iter.next()));
    }
}

// ---- Large plans ----

fn chain(n: usize, on: impl Fn(Plan) -> Plan) -> Plan {
    (1..n).fold(range(3000), |plan, _| on(plan))
}

#[test]
fn a_thousand_operators_in_a_row_work_and_more_are_refused() {
    // Frames of an unoptimised build are several times as large as those that users have.
    let roomy = std::thread::Builder::new().stack_size(64 << 20);
    roomy.spawn(long_chains).unwrap().join().unwrap();
}

fn long_chains() {
    let f = with_constant(&Spec::scalar(DType::Int64), "add", 1);
    let chains: [&dyn Fn(Plan) -> Plan; 7] = [
        &|p| make("skip", json!({ "count": 1 }), vec![p]),
        &|p| make("map", json!({ "function": f, "num_parallel_calls": 2 }), vec![p]),
        &|p| make("prefetch", json!({ "buffer_size": 1 }), vec![p]),
        &|p| make("concatenate", json!({}), vec![range(1), p]),
        &|p| make("unbatch", json!({}), vec![make("batch", json!({ "batch_size": 2 }), vec![p])]),
        &|p| make("repeat", json!({ "count": 1 }), vec![p]),
        &|p| make("ignore_errors", json!({ "log_warning": false }), vec![p]),
    ];
    // Pools of their own: consumers of other tests have smaller stacks, and would help.
    let pools = [1, 4].map(Pool::new);
    for (i, on) in chains.into_iter().enumerate() {
        let plan = chain(if i == 4 { 500 } else { 1000 }, on);
        for rewrite in [true, false] {
            let options = Options { rewrite: Some(rewrite), ..Default::default() };
            let plan = Dataset::from_plan(fresh(&plan)).with_options(options).unwrap().plan().rewritten().unwrap().plan;
            for pool in &pools {
                let bound = Bound { plan: plan.clone(), env: Arc::new([]) };
                let mut iter = Iter::new(&bound, 0, pool.clone()).unwrap();
                iter.next().unwrap().unwrap();
            }
        }
        assert!(!plan.is_symbolic());
        let _ = (format!("{plan:?}"), feedline::plan::explain(&plan, feedline::plan::Format::Text));
    }
    pools.iter().for_each(|pool| pool.stop());
    let longest = chain(1000, chains[0]);
    let error = Plan::new(longest.op.clone(), vec![longest.clone()]).unwrap_err();
    assert!(error.message().contains("operators in a row"), "{error}");
}

#[test]
fn doubled_plans_cost_what_their_distinct_operators_cost() {
    let mut plan = range(1);
    for _ in 0..200 {
        plan = make("concatenate", json!({}), vec![plan.clone(), plan]);
    }
    let plan = fresh(&plan);
    assert!(plan.is_pure() && !plan.is_symbolic());
    let _ = (format!("{plan:?}"), plan.fingerprint().unwrap(), plan.rewritten().unwrap());
    for format in [feedline::plan::Format::Text, feedline::plan::Format::Json] {
        assert!(feedline::plan::explain(&plan, format).len() < 100_000);
    }
    let (json, _) = write_plan(&plan).unwrap();
    let text = json.to_string();
    let again = read_plan(&serde_json::from_str(&text).unwrap(), vec![]).unwrap();
    assert_eq!(again.fingerprint().unwrap(), plan.fingerprint().unwrap());
}

#[test]
fn what_refers_to_a_traced_function_says_so() {
    let symbolic = make("take", json!({ "count": { "symbol": 0 } }), vec![range(3)]);
    assert!(symbolic.is_symbolic() && make("skip", json!({ "count": 1 }), vec![symbolic]).is_symbolic());
    let nested = make("flat_map", json!({ "function": inner_range(&range(3).spec) }), vec![range(3)]);
    assert!(nested.is_symbolic() && !make("skip", json!({ "count": 1 }), vec![range(3)]).is_symbolic());
    let captures =
        graph(&[&range(3).spec], |b, _| leaf(b.capture(0, Leaf::of_tensor(&feedline::element::Tensor::scalar(1i64)))));
    assert!(make("map", json!({ "function": captures }), vec![range(3)]).is_symbolic());
}

// ---- Hostile plans ----

/// Places in a JSON value: the keys and numbers that lead there.
fn places(json: &Json, at: &mut Vec<String>, out: &mut Vec<String>) {
    out.push(at.iter().map(|k| format!("/{k}")).collect());
    let mut below = |key: String, value: &Json| {
        at.push(key);
        places(value, at, out);
        at.pop();
    };
    match json {
        Json::Array(list) => list.iter().enumerate().for_each(|(i, v)| below(i.to_string(), v)),
        Json::Object(map) => map.iter().for_each(|(k, v)| below(k.clone(), v)),
        _ => {}
    }
}

fn mutate(json: &mut Json, draw: &mut impl FnMut(usize) -> usize) {
    let mut all = Vec::new();
    places(json, &mut vec![], &mut all);
    let (place, other) = (&all[draw(all.len())], &all[draw(all.len())]);
    let taken = json.pointer(other).cloned().unwrap_or_default();
    let numbers: [i64; 8] = [0, 1, 2, 3, -1, -2, 7, 64];
    let number = numbers[draw(numbers.len())];
    let words = ["int64", "int32", "float32", "string", "bool", "add", "stack", "range", "batch", "symbol", "map"];
    let word = words[draw(words.len())];
    let (way, pick) = (draw(5), draw(1000));
    let Some(value) = json.pointer_mut(place) else { return };
    match value {
        Json::Number(_) if way < 3 => *value = number.into(),
        Json::String(text) if way < 2 && !text.is_empty() && text.is_ascii() => {
            let at = pick % text.len();
            text.replace_range(at..at + 1, ["0", "1", "f", "_"][pick % 4]);
        }
        Json::String(_) if way < 4 => *value = word.into(),
        Json::Array(list) if way < 3 && !list.is_empty() => {
            let (i, j) = (pick % list.len(), (pick / 7) % list.len());
            match way {
                0 => drop(list.remove(i)),
                1 => list.push(list[i].clone()),
                _ => list.swap(i, j),
            }
        }
        Json::Object(map) if way < 3 && !map.is_empty() => {
            let key = map.keys().nth(pick % map.len()).cloned().unwrap_or_default();
            let removed = map.remove(&key);
            if let (1.., Some(removed)) = (way, removed) {
                map.insert(word.into(), removed);
            }
        }
        value => *value = taken,
    }
}

/// Some elements of a plan, unless it takes too long.
fn run_a_little(plan: &Plan) -> Result<(), String> {
    let bound = Bound { plan: plan.clone(), env: Arc::new([]) };
    let options = Options { prefetch: Some(true), chunk_rows: Some(4), ..Default::default() };
    let bound = match Dataset::from_plan(bound.plan).with_options(options) {
        Ok(ds) => Bound { plan: ds.plan().clone(), env: Arc::new([]) },
        Err(_) => return Ok(()),
    };
    let Ok(mut iter) = Iter::new(&bound, 0, pool(2)) else { return Ok(()) };
    let start = std::time::Instant::now();
    for _ in 0..8 {
        let mut late = || match start.elapsed().as_millis() {
            0..200 => Ok(()),
            _ => Err(feedline::Error::usage("too late")),
        };
        match iter.fetch(&mut late) {
            Ok(true) => {}
            Ok(false) => break,
            Err(e) if e.message().contains("panicked") => return Err(e.to_string()),
            Err(e) if e.message() == "too late" => break,
            Err(_) => {}
        }
    }
    Ok(())
}

fn writes_outside(plan: &Plan) -> bool {
    let mut outside = false;
    plan.walk_all(&mut |p| {
        for path in [p.param("path"), p.param("filename")].into_iter().flatten() {
            outside |= !path.as_str().is_some_and(|path| path.starts_with(folder().to_str().unwrap()));
        }
    });
    outside
}

#[test]
fn a_plan_that_was_tampered_with_is_refused_or_runs() {
    let mut state = 99u64;
    let mut draw = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let mut faults = std::collections::BTreeMap::new();
    let (mut read, mut ran) = (0, 0);
    for (name, sample) in SAMPLES {
        let (json, _) = write_plan(&sample(range(10))).unwrap();
        for _ in 0..100 {
            let mut mutant = json.clone();
            (0..draw(2) + 1).for_each(|_| mutate(&mut mutant, &mut draw));
            let text = mutant.to_string();
            read += 1;
            let result = std::panic::catch_unwind(|| match read_plan(&mutant, vec![]) {
                // Not into folders that nobody removes.
                Ok(plan) if writes_outside(&plan) => Ok(0),
                Ok(plan) => run_a_little(&plan).map(|()| 1),
                Err(_) => Ok(0),
            });
            match result {
                Ok(Ok(n)) => ran += n,
                Ok(Err(error)) => drop(faults.insert(format!("{name}: {error}"), text)),
                Err(_) => drop(faults.insert(format!("{name}: panicked"), text)),
            }
        }
    }
    assert!(faults.is_empty(), "{} faults: {faults:#?}", faults.len());
    assert!(read > 3000 && ran > 100, "{read} read, {ran} ran");
}
