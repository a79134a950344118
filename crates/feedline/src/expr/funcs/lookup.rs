//! Tables of constants: from keys to values.

use super::super::{Arg, Attrs, Func, Kernel, Made, RowAt, RowsAt, dense};
use super::broadcast::Tensors;
use super::lead::integers;
use crate::element::{Column, DType, Leaf, Tensor, Value};
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

pub static FUNCS: &[Func] = &[Func {
    name: "lookup.static",
    doc: "The value of each key in a table of keys and values; the default for other keys, or an error if there is none.",
    make,
    pure: true,
}];

/// Where each key's value lies.
enum Places {
    Ints(HashMap<i64, usize>),
    Strings(HashMap<Box<[u8]>, usize>),
}

struct Table {
    /// What it was made from: the same memory means the same table.
    from: Tensors,
    places: Places,
    /// The values and, last, the default.
    values: Tensor,
}

struct Lookup {
    default: bool,
    /// Made when it is first needed: the constants are not known when the call is traced.
    table: OnceLock<Arc<Table>>,
}

fn address(t: &Tensor) -> (usize, usize) {
    match (t.dtype(), t.len()) {
        (_, 0) => (0, 0),
        (DType::String, n) => (t.str_at(n - 1).as_ptr() as usize, n),
        (_, n) => (t.bytes().as_ptr() as usize, n),
    }
}

impl Table {
    fn new(args: &[Tensor]) -> Result<Table> {
        let (keys, values) = (&args[0], &args[1]);
        if keys.len() != values.len() {
            return Err(Error::data(format!("{} keys and {} values", keys.len(), values.len())));
        }
        if args.get(2).is_some_and(|d| d.len() != 1) {
            return Err(Error::data("the default must be a scalar"));
        }
        let twice = |k: &dyn std::fmt::Debug| Error::data(format!("key {k:?} appears twice with different values"));
        let same =
            |i: usize, j: usize| values.reshaped([values.len()]).row(i) == values.reshaped([values.len()]).row(j);
        let places = if keys.dtype() == DType::String {
            let mut map: HashMap<Box<[u8]>, usize> = HashMap::with_capacity(keys.len());
            for (i, key) in keys.strs().enumerate() {
                if let Some(j) = map.insert(key.into(), i)
                    && !same(i, j)
                {
                    return Err(twice(&String::from_utf8_lossy(key)));
                }
            }
            Places::Strings(map)
        } else {
            let mut map = HashMap::with_capacity(keys.len());
            for (i, key) in integers(keys)?.into_iter().enumerate() {
                if let Some(j) = map.insert(key, i)
                    && !same(i, j)
                {
                    return Err(twice(&key));
                }
            }
            Places::Ints(map)
        };
        let parts = args[1..].iter();
        let n = args[1..].iter().map(|t| t.len()).sum::<usize>();
        let all = Tensor::join(values.dtype(), [n], parts);
        Ok(Table { from: args.iter().cloned().collect(), places, values: all })
    }

    fn is_from(&self, args: &[Tensor]) -> bool {
        self.from.iter().map(address).eq(args.iter().map(address))
    }

    fn get(&self, x: &Tensor, default: bool) -> Result<Tensor> {
        let missing = if default { Some(self.values.len() - 1) } else { None };
        let fail = |key: &dyn std::fmt::Debug| Error::data(format!("key {key:?} is not in the table"));
        let index: Vec<usize> = match &self.places {
            Places::Ints(map) => integers(x)?
                .iter()
                .map(|k| map.get(k).copied().or(missing).ok_or_else(|| fail(k)))
                .collect::<Result<_>>()?,
            Places::Strings(map) => x
                .strs()
                .map(|k| map.get(k).copied().or(missing).ok_or_else(|| fail(&String::from_utf8_lossy(k))))
                .collect::<Result<_>>()?,
        };
        Ok(self.values.take(&index).into_reshaped(x.shape()))
    }
}

impl Lookup {
    fn table(&self, args: &[Tensor]) -> Result<Arc<Table>> {
        if let Some(table) = self.table.get().filter(|t| t.is_from(args)) {
            return Ok(table.clone());
        }
        let table = Arc::new(Table::new(args)?);
        let _brief = feedline_io::brief();
        let _ = self.table.set(table.clone());
        Ok(table)
    }
}

impl Kernel for Lookup {
    fn row(&self, args: &[Value], _: RowAt) -> Result<Value> {
        let table: Tensors = args[1..].iter().map(|v| v.tensor().clone()).collect();
        Ok(Value::Tensor(self.table(&table)?.get(args[0].tensor(), self.default)?))
    }
    fn rows(&self, args: &mut [Arg], _: usize, _: RowsAt<'_>) -> Result<Option<Column>> {
        let Arg::Rows(Column::Dense(x)) = &args[0] else { return Ok(None) };
        let mut table = Tensors::new();
        for arg in &args[1..] {
            match arg {
                Arg::Same(Value::Tensor(t)) => table.push(t.clone()),
                _ => return Ok(None),
            }
        }
        // A key that is missing is found again in its own row.
        Ok(self.table(&table)?.get(x, self.default).ok().map(Column::Dense))
    }
}

fn make(args: &[Leaf], _: &Attrs) -> Result<Made> {
    if args.len() != 3 && args.len() != 4 {
        return Err(Error::usage("takes x, keys, values and, if there is one, a default"));
    }
    let ((x, shape), (keys, _), (values, _)) = (dense(args, 0)?, dense(args, 1)?, dense(args, 2)?);
    if !(x == keys || x.is_int() && keys.is_int()) || !(x.is_int() || x == DType::String) {
        return Err(Error::usage(format!(
            "keys must be strings or integers, as what is looked up: they are {keys} and {x}"
        )));
    }
    if let Some(Leaf::Tensor { dtype, shape }) = args.get(3)
        && (*dtype != values || shape.rank().is_some_and(|r| r > 0))
    {
        return Err(Error::usage(format!("the default must be a scalar of dtype {values}, not {}", args[3])));
    }
    let spec = Leaf::tensor(values, shape.clone());
    Made::new(spec, Lookup { default: args.len() == 4, table: OnceLock::new() })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, fails, refused};
    use super::*;
    use serde_json::json;

    #[test]
    fn finds_values() {
        let keys = Tensor::strings([2], &["a", "b"]);
        let values = Tensor::from_items([2], &[10i64, 20]);
        let x = Tensor::strings([2, 2], &["b", "a", "z", "b"]);
        let r = call("lookup.static", &[x.clone(), keys.clone(), values.clone(), Tensor::scalar(-1i64)], json!({}));
        assert_eq!(r, Tensor::from_items([2, 2], &[20i64, 10, -1, 20]));
        assert!(fails("lookup.static", &[x, keys, values.clone()], json!({})).message().contains("\"z\""));
        let names = Tensor::strings([2], &["ten", "twenty"]);
        let r = call("lookup.static", &[Tensor::scalar(20i32), values.clone(), names, Tensor::string(b"?")], json!({}));
        assert_eq!(r, Tensor::string(b"twenty"));
        let floats = Tensor::scalar(1f32);
        refused("lookup.static", &[floats, values.clone(), values], json!({}));
        let twice = Tensor::from_items([2], &[1i64, 1]);
        let e = fails("lookup.static", &[Tensor::scalar(1i64), twice, Tensor::from_items([2], &[1i64, 2])], json!({}));
        assert!(e.message().contains("twice"));
    }
}
