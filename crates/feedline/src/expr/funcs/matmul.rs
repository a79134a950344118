//! Matrix products, with NumPy's rules for vectors and batches.

use super::super::{Arg, Attrs, Func, Kernel, Made, RowAt, RowsAt, arity, dense};
use super::broadcast::{broadcast_dims, broadcast_shape, room, zip_index};
use super::cast::{cast, relabel};
use super::lead::View;
use super::number::{inner_dtype, numbers, promote, signless};
use crate::element::{Column, DType, Dims, Leaf, Shape, Tensor, Value};
use crate::error::{Error, Result};
use smallvec::SmallVec;

pub static FUNCS: &[Func] = &[Func {
    name: "matmul",
    doc: "The matrix product of the last two axes; the axes before them broadcast. A vector stands for a row on the left and a column on the right.",
    make,
    pure: true,
}];

struct MatMul {
    dtype: DType,
    transpose: [bool; 2],
}

/// A matrix, or several, and whether it was a vector.
struct Side {
    t: Tensor,
    vector: bool,
}

impl MatMul {
    /// An argument as matrices in the dtype of the result. `lead` axes in front are rows of a chunk.
    fn side(&self, k: usize, t: &Tensor, lead: usize) -> Result<Side> {
        let vector = t.rank() == lead + 1;
        if t.rank() < lead + 1 {
            return Err(Error::data("a scalar has no matrix product; multiply instead"));
        }
        let t = relabel(cast(t.clone(), inner_dtype(self.dtype))?, signless(inner_dtype(self.dtype)))?;
        if vector {
            let mut shape: Shape = t.shape().into();
            shape.insert(if k == 0 { lead } else { lead + 1 }, 1);
            return Ok(Side { t: t.into_reshaped(shape), vector });
        }
        if !self.transpose[k] {
            return Ok(Side { t, vector });
        }
        let mut view = View::of(&t);
        let rank = view.axes.len();
        view.axes.swap(rank - 1, rank - 2);
        Ok(Side { t: view.copy(&t)?, vector })
    }

    fn product(&self, a: Side, b: Side) -> Result<Tensor> {
        let (x, y) = (a.t.shape(), b.t.shape());
        let ([front_a @ .., m, k], [front_b @ .., l, n]) = (x, y) else {
            return Err(Error::internal("matrices have two axes"));
        };
        let (m, k, n) = (*m, *k, *n);
        if k != *l {
            return Err(Error::data(format!("matrices of shapes {m}×{k} and {l}×{n} have no product")));
        }
        let front = broadcast_shape(front_a, front_b)
            .ok_or_else(|| Error::data(format!("shapes {front_a:?} and {front_b:?} do not broadcast")))?;
        let mut shape = front.clone();
        shape.extend([m, n]);
        let dtype = a.t.dtype();
        let mut out = room(dtype, &shape)?;
        if !out.is_empty() {
            out.bytes_mut().fill(0);
        }
        if !out.is_empty() && k > 0 {
            let mut pairs: SmallVec<[(usize, usize); 8]> = SmallVec::new();
            zip_index(front_a, front_b, |i, j| pairs.push((i, j)))?;
            numbers!(dtype, T => signless {
                let (x, y) = (a.t.items::<T>(), b.t.items::<T>());
                for (to, (i, j)) in out.items_mut::<T>().chunks_exact_mut(m * n).zip(pairs) {
                    one(&x[i * m * k..][..m * k], &y[j * k * n..][..k * n], n, to, |s, p: T, q| s.wrapping_add(p.wrapping_mul(q)));
                }
                Ok(())
            }; float {
                let (x, y) = (a.t.items::<T>(), b.t.items::<T>());
                for (to, (i, j)) in out.items_mut::<T>().chunks_exact_mut(m * n).zip(pairs) {
                    one(&x[i * m * k..][..m * k], &y[j * k * n..][..k * n], n, to, |s, p: T, q| s + p * q);
                }
                Ok(())
            })?;
        }
        let mut shape = front;
        if !a.vector {
            shape.push(m);
        }
        if !b.vector {
            shape.push(n);
        }
        cast(relabel(out.into_reshaped(shape), inner_dtype(self.dtype))?, self.dtype)
    }
}

/// Adds a product to `to`. Row by row of `b`: the innermost loop runs along memory.
fn one<T: Copy>(a: &[T], b: &[T], n: usize, to: &mut [T], step: impl Fn(T, T, T) -> T) {
    let k = b.len() / n;
    for (line, to) in a.chunks_exact(k).zip(to.chunks_exact_mut(n)) {
        for (x, row) in line.iter().zip(b.chunks_exact(n)) {
            for i in 0..n {
                to[i] = step(to[i], *x, row[i]);
            }
        }
    }
}

impl Kernel for MatMul {
    fn row(&self, args: &[Value], _: RowAt) -> Result<Value> {
        let (a, b) = (self.side(0, args[0].tensor(), 0)?, self.side(1, args[1].tensor(), 0)?);
        Ok(Value::Tensor(self.product(a, b)?))
    }

    fn rows(&self, args: &mut [Arg], rows: usize, _: RowsAt<'_>) -> Result<Option<Column>> {
        let side = |k: usize| match &args[k] {
            Arg::Rows(Column::Dense(t)) => self.side(k, t, 1).ok().map(|s| (s, 1)),
            Arg::Same(Value::Tensor(t)) => self.side(k, t, 0).ok().map(|s| (s, 0)),
            _ => None,
        };
        let (Some((mut a, lead_a)), Some((mut b, lead_b))) = (side(0), side(1)) else { return Ok(None) };
        if lead_a + lead_b == 0 || rows == 0 {
            return Ok(None);
        }
        // Batches align from the right, rows stay in front.
        let rank = (a.t.rank() - lead_a).max(b.t.rank() - lead_b);
        for (side, lead) in [(&mut a, lead_a), (&mut b, lead_b)] {
            let mut shape: Shape = side.t.shape().into();
            let missing = rank + lead - shape.len();
            if lead == 1 {
                (0..missing).for_each(|_| shape.insert(1, 1));
                side.t = side.t.reshaped(shape);
            }
        }
        Ok(self.product(a, b).ok().map(Column::Dense))
    }
}

fn make(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    arity::<2>(args)?;
    let ((a, da), (b, db)) = (dense(args, 0)?, dense(args, 1)?);
    let dtype = promote(a, b)?;
    if !dtype.is_numeric() {
        return Err(Error::usage(format!("expects numbers, not {dtype}")));
    }
    let transpose = [attrs.bool("transpose_a")?.unwrap_or(false), attrs.bool("transpose_b")?.unwrap_or(false)];
    if da.is_scalar() || db.is_scalar() {
        return Err(Error::usage("a scalar has no matrix product; use multiply"));
    }
    let split = |dims: &Dims, k: usize| -> Option<(Dims, Option<usize>, Option<usize>, bool)> {
        match dims.dims()? {
            [n] if k == 0 => Some((Dims::scalar(), Some(1), *n, true)),
            [n] => Some((Dims::scalar(), *n, Some(1), true)),
            [front @ .., m, n] => {
                let (m, n) = if transpose[k] { (n, m) } else { (m, n) };
                Some((Dims::of(front.iter().copied()), *m, *n, false))
            }
            [] => None,
        }
    };
    let dims = match (split(da, 0), split(db, 1)) {
        (Some((fa, m, k, va)), Some((fb, l, n, vb))) => {
            if k.zip(l).is_some_and(|(k, l)| k != l) {
                return Err(Error::usage(format!("shapes {da} and {db} have no product: the inner sizes differ")));
            }
            match broadcast_dims(&fa, &fb)?.0 {
                None => Dims::unknown(),
                Some(mut d) => {
                    d.extend((!va).then_some(m));
                    d.extend((!vb).then_some(n));
                    Dims(Some(d))
                }
            }
        }
        _ => Dims::unknown(),
    };
    Made::new(Leaf::tensor(dtype, dims), MatMul { dtype, transpose })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, fails, refused};
    use super::*;
    use serde_json::json;

    #[test]
    fn products() {
        let a = Tensor::from_items([2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let b = Tensor::from_items([3, 2], &[1f32, 0.0, 0.0, 1.0, 1.0, 1.0]);
        let ab = call("matmul", &[a.clone(), b.clone()], json!({}));
        assert_eq!(ab, Tensor::from_items([2, 2], &[4f32, 5.0, 10.0, 11.0]));
        let t = call("matmul", &[a.clone(), a.clone()], json!({"transpose_b": true}));
        assert_eq!(t.items::<f32>(), [14.0, 32.0, 32.0, 77.0]);
        let v = Tensor::from_items([3], &[1f32, 1.0, 1.0]);
        assert_eq!(call("matmul", &[a.clone(), v.clone()], json!({})), Tensor::from_items([2], &[6f32, 15.0]));
        assert_eq!(call("matmul", &[v.clone(), b.clone()], json!({})), Tensor::from_items([2], &[2f32, 2.0]));
        assert_eq!(call("matmul", &[v.clone(), v.clone()], json!({})).item::<f32>(), 3.0);
        let many = Tensor::from_items([2, 1, 3], &[1i64, 2, 3, 4, 5, 6]);
        let m = call("matmul", &[many.clone(), b.clone()], json!({}));
        assert_eq!(m, Tensor::from_items([2, 1, 2], &[4f64, 5.0, 10.0, 11.0]));
        let batch = call("matmul", &[many, v], json!({}));
        assert_eq!(batch, Tensor::from_items([2, 1], &[6f64, 15.0]));
        assert!(refused("matmul", &[a.clone(), a.clone()], json!({})).message().contains("inner sizes"));
        fails("matmul", &[a.clone(), a], json!({}));
        let empty = Tensor::from_items([2, 0], &[0i32; 0]);
        let none = Tensor::from_items([0, 2], &[0i32; 0]);
        assert_eq!(call("matmul", &[empty, none], json!({})).items::<i32>(), [0; 4]);
        let i = Tensor::from_items([1, 1], &[-3i8]);
        assert_eq!(call("matmul", &[i.clone(), i], json!({})).item::<i8>(), 9);
    }
}
