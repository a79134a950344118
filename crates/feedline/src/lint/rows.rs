//! Elements that do not come, or not in the shape that is needed.

use super::{Look, Said, before, is_batch, repeats};
use crate::element::Leaf;
use crate::plan::{Card, Plan};
use std::collections::HashSet;

/// FL013: if the predicate rejects everything, the search for an element has no end.
pub fn endless_filter(look: &Look<'_>) -> Option<Said> {
    let node = Some(look.node).filter(|n| n.name() == "filter" && n.inputs[0].card == Card::Infinite)?;
    before(node, |p: &Plan| p.inputs.len() > 1, repeats)?;
    let text = "filter() stands behind an endless repeat(): if it lets nothing pass, the first element never comes, and no \
                end of the data says so";
    Some((text.into(), ".filter(predicate).repeat()".into()))
}

/// FL018: only where it was asked for.
pub fn open_shapes(look: &Look<'_>) -> Option<Said> {
    let root = Some(look.node).filter(|n| look.fixed_shapes && n.same(look.root))?;
    let open = |leaf: &&Leaf| leaf.shape().is_none_or(|s| s.full().is_none());
    let leaf = root.spec.leaves().into_iter().find(open)?;
    let short = |p: &Plan| is_batch(p) && p.param("drop_remainder") == Some(false.into());
    let batch = if short(root) { Some(root.clone()) } else { before(root, |_| false, short) };
    let only_rows = leaf.shape().and_then(|s| s.dims()).is_some_and(|d| d.iter().skip(1).all(|n| n.is_some()));
    Some(match batch.filter(|_| only_rows) {
        Some(_) => (
            format!("the last batch may be smaller than the others ({leaf}), where one shape is needed for all"),
            ".batch(batch_size, drop_remainder=True)".into(),
        ),
        None => (
            format!("elements have shapes that are not known before they come ({leaf}), where one is needed for all"),
            "x = fl.ensure_shape(x, shape)  # in the function that makes it; resize or pad what differs".into(),
        ),
    })
}

/// FL019: a remainder that is everything, or a skip beyond the end.
pub fn nothing_left(look: &Look<'_>) -> Option<Said> {
    let node = Some(look.node).filter(|n| n.card == Card::Known(0))?;
    let Card::Known(n @ 1..) = node.inputs.first()?.card else { return None };
    if is_batch(node) {
        let text = format!("drop_remainder=True leaves nothing: the {n} elements do not make one batch");
        return Some((text, format!(".batch({n})  # or a smaller number, or drop_remainder=False")));
    }
    let count = node.number("count").filter(|c| node.name() == "skip" && *c > 0)?;
    Some((format!("skip({count}) leaves nothing of {n} elements"), format!(".skip({})", n - 1)))
}

/// Operators that say where data end, or that are nothing but numbers: a different length behind them is meant.
const ENDS: [&str; 6] = ["take", "skip", "repeat", "window", "range", "assert_cardinality"];

/// FL050: features and labels that do not belong together. Parts of the same data, and what was cut by hand, are meant.
pub fn unequal_parts(look: &Look<'_>) -> Option<Said> {
    let node = Some(look.node).filter(|n| n.name() == "zip")?;
    let mut lengths = Vec::new();
    let mut sources = HashSet::new();
    for input in &node.inputs {
        let (mut meant, mut own) = (false, HashSet::new());
        input.walk(&mut |p| {
            meant |= ENDS.contains(&p.name());
            if p.inputs.is_empty() {
                own.insert(p.id);
            }
        });
        if meant || own.into_iter().any(|source| !sources.insert(source)) {
            return None;
        }
        lengths.extend(input.card.known());
    }
    let (least, most) = (*lengths.iter().min()?, *lengths.iter().max()?);
    let shown: Vec<String> = lengths.iter().map(|n| n.to_string()).collect();
    (least < most).then(|| {
        let text = format!(
            "its datasets have {} elements, and it ends with the shortest: {} of the longest are never read",
            shown.join(" and "),
            most - least
        );
        (text, format!("datasets of one length; if that is meant, cut the longer ones with .take({least})"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{lint, testing::codes};
    use crate::{Dataset, Result};

    #[test]
    fn filters_stand_before_repeats() -> Result<()> {
        let ds = Dataset::range(9)?;
        assert_eq!(codes(ds.repeat(None)?.filter_fn(|_| Ok(true))), ["FL013"]);
        assert!(codes(ds.filter_fn(|_| Ok(true))?.repeat(None)).is_empty());
        assert!(codes(ds.repeat(Some(3))?.filter_fn(|_| Ok(true))).is_empty());
        assert!(codes(Dataset::counter(0, 1)?.filter_fn(|_| Ok(true))).is_empty(), "numbers go on");
        Ok(())
    }

    #[test]
    fn shapes_are_looked_at_where_it_is_asked() -> Result<()> {
        let found = |ds: Dataset| lint(ds.plan(), true).into_iter().map(|f| (f.code, f.fix)).next();
        assert!(
            found(Dataset::range(9)?.batch(2, false)?).is_some_and(|(c, fix)| c == "FL018" && fix.contains("drop_"))
        );
        assert!(found(Dataset::range(9)?.batch(2, true)?).is_none());
        assert!(codes(Dataset::range(9)?.batch(2, false)).is_empty());
        Ok(())
    }

    #[test]
    fn something_is_left() -> Result<()> {
        assert_eq!(codes(Dataset::range(9)?.batch(10, true)), ["FL019"]);
        assert_eq!(codes(Dataset::range(9)?.skip(9)), ["FL019"]);
        assert!(codes(Dataset::range(9)?.batch(9, true)).is_empty());
        assert!(codes(Dataset::range(0)?.batch(9, true)).is_empty(), "there was nothing before");
        assert!(codes(Dataset::range(9)?.take(0)).is_empty(), "that was asked for");
        Ok(())
    }
}
