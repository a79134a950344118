//! Leaves out columns that the map behind a source does not look at, also through operators in between that only carry
//! them. A column that is not read cannot fail any more: a null or a damaged page in it is not noticed.

use super::Rule;
use crate::error::Result;
use crate::op::Function;
use crate::ops::map::Map;
use crate::plan::Plan;
use std::sync::Arc;

pub static RULE: Rule = Rule {
    name: "narrow_columns",
    why: "after maps are fused, so that what a second one does not use of the first is known",
    apply: |node| {
        let Some(map) = node.is::<Map>() else { return Ok(None) };
        let graph = &map.function.0;
        let reads = graph.reads();
        if reads.iter().all(|read| *read) {
            return Ok(None);
        }
        let Some((input, kept)) = narrowed(&node.inputs[0], &reads)? else { return Ok(None) };
        let narrow = Map { function: Function::new(graph.of_leaves(&kept)), ..map.clone() };
        Plan::new(Arc::new(narrow), vec![input]).map(Some)
    },
};

/// The input with less in its sources, and the places that what is left had. All of its sources must leave out the same.
fn narrowed(input: &Plan, reads: &[bool]) -> Result<Option<(Plan, Vec<usize>)>> {
    if !input.op.props().carries || input.inputs.is_empty() {
        let Some((source, kept)) = input.op.narrowed(reads)? else { return Ok(None) };
        return Ok(Some((Plan::new(source, input.inputs.clone())?, kept)));
    }
    let (mut inputs, mut common) = (Vec::new(), None);
    for below in &input.inputs {
        let Some((below, kept)) = narrowed(below, reads)? else { return Ok(None) };
        if common.get_or_insert_with(|| kept.clone()) != &kept {
            return Ok(None);
        }
        inputs.push(below);
    }
    let input = input.with_inputs(inputs)?;
    Ok(common.map(|kept| (input, kept)))
}

#[cfg(test)]
mod tests {
    use crate::Dataset;
    use crate::element::Tree;
    use crate::expr::{Attrs, Builder};
    use feedline_formats::npy;

    #[test]
    fn columns_that_nobody_reads_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        let mut bytes = npy::header("[('a', '<i8'), ('b', '<i8'), ('c', '<i8')]", 4, &[]);
        (0..12i64).for_each(|n| bytes.extend(n.to_le_bytes()));
        std::fs::write(&path, bytes).unwrap();
        let source = Dataset::numpy(&[path.to_str().unwrap()], None).unwrap();
        let carried = source.shuffle(Some(3), Some(1), false).unwrap().skip(1).unwrap().repeat(Some(2)).unwrap();
        let mapped = |node: usize| {
            let mut b = Builder::new(carried.spec());
            let out = b.call("add", &[node, node], Attrs::default()).unwrap();
            carried.map_graph(b.finish(&Tree::Leaf(out))).unwrap()
        };
        let ds = mapped(2);
        let runs = ds.plan().rewritten().unwrap();
        assert_eq!(runs.log[0].0, "narrow_columns");
        let mut read = String::new();
        runs.plan.walk(&mut |p| read += &if p.inputs.is_empty() { p.op.show() } else { String::new() });
        assert!(read.ends_with("columns=[\"c\"]"), "{read}");
        let got: Vec<i64> = ds.iter().unwrap().map(|e| e.unwrap()[0].tensor().item()).collect();
        let wide = carried.iter().unwrap().map(|e| 2 * e.unwrap()[2].tensor().item::<i64>());
        assert_eq!(got, wide.collect::<Vec<_>>());
        // All of it is needed: nothing to do.
        let all = carried.map_fn(carried.spec().clone(), Ok).unwrap();
        assert!(all.plan().rewritten().unwrap().log.is_empty());
    }
}
