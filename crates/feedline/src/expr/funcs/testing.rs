//! For tests: calls a function of the table, and sees to it that its type, its rows and its single elements agree.

use super::super::{Arg, Attrs, RowAt, RowsAt, Work, run, run_several};
use super::find;
use crate::element::{Column, Leaf, Pos, Tensor, Value};
use crate::error::Error;

pub fn attrs(json: serde_json::Value) -> Attrs {
    serde_json::from_value(json).expect("an object")
}

/// A value as text that tells all values apart, except one NaN from another.
pub fn exactly(v: &Value) -> String {
    match v {
        Value::Tensor(t) => crate::with_item!(t.dtype(),
            T => format!("{} {:?} {:?}", t.dtype(), t.shape(), t.items::<T>());
            String => format!("{:?} {:?}", t.shape(), t.strs().collect::<Vec<_>>())),
        Value::Ragged(r) => format!("ragged {} {:?}", exactly(&Value::Tensor(r.values.clone())), r.splits),
        other => format!("{other:?}"),
    }
}

/// Calls with one element's arguments, and again with them among the rows of chunks.
pub fn call_value(name: &str, args: &[Value], json: serde_json::Value) -> Value {
    let leaves: Vec<Leaf> = args.iter().map(|v| Leaf::of(v).unwrap()).collect();
    let made = (find(name).unwrap().make)(&leaves, &attrs(json.clone())).unwrap_or_else(|e| panic!("{name}: {e}"));
    let value = made.kernel().row(args, RowAt { epoch: 0, pos: 5 }).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(made.spec.accepts(&value), "{name}{json}: {} does not accept {value:?}", made.spec);
    // Each argument the same for all rows, or one for each row; the latter twice, to share memory and not to.
    for mask in 0..1usize << args.len() {
        for share in [false, true] {
            let columns: Vec<Arg> = args
                .iter()
                .enumerate()
                .map(|(i, v)| match mask >> i & 1 {
                    0 => Arg::Same(v.clone()),
                    _ => Arg::Rows(Column::from_values(vec![v.clone(); 3])),
                })
                .collect();
            let hold = share.then(|| columns.clone());
            let pos = Pos::List([5, 5, 5].into());
            let out = run(&**made.kernel(), columns, 3, RowsAt { epoch: 0, pos: &pos }, None);
            let out = out.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(out.rows(), 3, "{name}{json} with rows for {mask:b}");
            for row in 0..3 {
                assert_eq!(exactly(&out.get(row)), exactly(&value), "{name}{json} with rows for {mask:b}");
            }
            drop(hold);
        }
    }
    // Unknown shapes must lead to a promise that is still kept.
    let vague: Vec<Leaf> = leaves
        .iter()
        .map(|l| match l {
            Leaf::Tensor { dtype, .. } => Leaf::tensor(*dtype, crate::element::Dims::unknown()),
            other => other.clone(),
        })
        .collect();
    let half: Vec<Leaf> = leaves
        .iter()
        .map(|l| match l {
            Leaf::Tensor { dtype, shape } => {
                Leaf::tensor(*dtype, crate::element::Dims::of(vec![None; shape.rank().unwrap()]))
            }
            other => other.clone(),
        })
        .collect();
    for leaves in [vague, half] {
        // Some functions must know a rank: they may refuse, but not promise what they do not keep.
        if let Ok(made) = (find(name).unwrap().make)(&leaves, &attrs(json.clone())) {
            assert!(made.spec.accepts(&value), "{name}{json}: {} does not accept {value:?}", made.spec);
            let again = made.kernel().row(args, RowAt { epoch: 0, pos: 5 }).unwrap();
            assert_eq!(exactly(&again), exactly(&value), "{name}{json} with unknown shapes");
        }
    }
    value
}

pub fn call(name: &str, args: &[Tensor], json: serde_json::Value) -> Tensor {
    let args: Vec<Value> = args.iter().cloned().map(Value::Tensor).collect();
    call_value(name, &args, json).tensor().clone()
}

/// Calls a function of several results with each of these rows of arguments, one by one and all at once.
pub fn call_several(name: &str, rows: &[Vec<Value>], json: serde_json::Value) -> Vec<Vec<Value>> {
    let args = rows[0].len();
    let column = |i: usize| rows.iter().map(|row| row[i].clone()).collect::<Vec<_>>();
    let joined = |values: Vec<Value>| {
        values.iter().map(|v| Leaf::of(v).unwrap()).reduce(|a, b| a.join(&b).unwrap()).expect("there are rows")
    };
    let leaves: Vec<Leaf> = (0..args).map(|i| joined(column(i))).collect();
    let made = (find(name).unwrap().make)(&leaves, &attrs(json.clone())).unwrap_or_else(|e| panic!("{name}: {e}"));
    let one_by_one: Vec<Vec<Value>> = rows
        .iter()
        .map(|row| {
            let results = made.work.row(row, RowAt { epoch: 0, pos: 5 }).unwrap_or_else(|e| panic!("{name}: {e}"));
            results.into_vec()
        })
        .collect();
    let Work::Several(specs, kernel) = &made.work else { panic!("{name} has one result") };
    for (results, row) in one_by_one.iter().zip(rows) {
        for (spec, value) in specs.iter().zip(results) {
            assert!(spec.accepts(value), "{name}{json}: {spec} does not accept {value:?} of {row:?}");
        }
    }
    // Values that travel one by one come out the same.
    for stack in [true, false] {
        let columns = (0..args).map(|i| match stack {
            true => Arg::Rows(Column::from_values(column(i))),
            false => Arg::Rows(Column::Rows(column(i).into(), 0..rows.len())),
        });
        let at = RowsAt { epoch: 0, pos: &Pos::Run(0) };
        let got = run_several(&**kernel, columns.collect(), specs.len(), rows.len(), at);
        let got = got.unwrap_or_else(|e| panic!("{name}: {e}"));
        for (row, want) in one_by_one.iter().enumerate() {
            for (column, want) in got.iter().zip(want) {
                assert_eq!(column.rows(), rows.len());
                assert_eq!(exactly(&column.get(row)), exactly(want), "{name}{json} row {row}");
            }
        }
    }
    one_by_one
}

/// The error with which tracing refuses these arguments.
pub fn refused(name: &str, args: &[Tensor], json: serde_json::Value) -> Error {
    let leaves: Vec<Leaf> = args.iter().map(Leaf::of_tensor).collect();
    match (find(name).unwrap().make)(&leaves, &attrs(json)) {
        Ok(made) => panic!("{name} was not refused: {}", made.spec),
        Err(e) => e,
    }
}

/// The error with which computing fails, when nothing was known of the shapes.
pub fn fails(name: &str, args: &[Tensor], json: serde_json::Value) -> Error {
    let leaves: Vec<Leaf> = args.iter().map(|t| Leaf::tensor(t.dtype(), crate::element::Dims::unknown())).collect();
    let made = (find(name).unwrap().make)(&leaves, &attrs(json)).unwrap();
    let values: Vec<Value> = args.iter().cloned().map(Value::Tensor).collect();
    let columns = values.iter().map(|v| Arg::Rows(Column::from_values(vec![v.clone()]))).collect();
    let rows = run(&**made.kernel(), columns, 1, RowsAt { epoch: 0, pos: &Pos::Run(0) }, None);
    assert!(rows.is_err(), "{name} did not fail for rows");
    match made.kernel().row(&values, RowAt { epoch: 0, pos: 0 }) {
        Ok(v) => panic!("{name} did not fail: {v:?}"),
        Err(e) => e,
    }
}
