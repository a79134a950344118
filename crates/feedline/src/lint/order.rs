//! Orders that are not what they seem: shuffles in the wrong place, of the wrong size, or not the same where they should be.

use super::{Look, Said, before, bytes, element_bytes, is_batch, is_shuffle, memory_limit, repeats, reshuffles};
use crate::plan::{Card, Plan};
use crate::runtime::streams;

/// Several inputs are mixed on purpose: what comes before is not one stream.
fn mixes(plan: &Plan) -> bool {
    plan.inputs.len() > 1
}

fn is_seeded(plan: &Plan) -> bool {
    plan.param("seed").is_some() || plan.param("seed2").is_some()
}

/// FL008: batches are moved as they are; what is in them stays together.
pub fn shuffled_batches(look: &Look<'_>) -> Option<Said> {
    let node = Some(look.node).filter(|n| is_shuffle(n))?;
    let apart = |p: &Plan| matches!(p.name(), "unbatch" | "flat_map" | "interleave" | "window") || is_shuffle(p);
    let several = |p: &Plan| is_batch(p) && p.number("batch_size") != Some(1);
    let batch = before(node, apart, several)?;
    // Elements that were mixed before may be mixed again as batches.
    before(&batch, |_| false, is_shuffle).is_none().then(|| {
        let text = "shuffle() stands behind a batch: whole batches change places, and the same elements stay together";
        (text.into(), ".shuffle(buffer_size).batch(batch_size)".into())
    })
}

/// FL009: a buffer holds elements of two epochs where they meet.
pub fn mixed_epochs(look: &Look<'_>) -> Option<Said> {
    let node = Some(look.node).filter(|n| is_shuffle(n))?;
    before(node, |p| mixes(p) || is_shuffle(p) || is_batch(p), repeats)?;
    let text = "repeat() stands before shuffle(): where epochs meet, some elements come twice before others come once";
    Some((text.into(), ".shuffle(buffer_size).repeat()".into()))
}

/// Fewer elements than this are few enough to be looked at one by one.
const MANY: u64 = 1000;

/// FL010: elements move no further than the buffer reaches.
pub fn small_buffer(look: &Look<'_>) -> Option<Said> {
    let node = Some(look.node).filter(|n| is_shuffle(n))?;
    let input = node.inputs.first()?;
    let size = u64::try_from(node.number("buffer_size")?).ok()?;
    let Card::Known(n) = input.card else { return None };
    if n < MANY || size.saturating_mul(100) >= n || before(node, |_| false, is_shuffle).is_some() {
        return None;
    }
    let text = format!(
        "shuffle({size}) chooses from less than a hundredth of the {n} elements: they stay near their places, so data \
         that are sorted stay sorted"
    );
    let fix = match streams(input) {
        None => ".shuffle()  # all elements by number, without a buffer".into(),
        Some(_) => format!(".shuffle({})", n.div_ceil(10)),
    };
    Some((text, fix))
}

/// FL011: each pass leaves out other elements, so the two parts of a split overlap.
pub fn leaking_split(look: &Look<'_>) -> Option<Said> {
    let node = Some(look.node).filter(|n| n.name() == "skip" && n.number("count") != Some(0))?;
    before(node, |p| is_batch(p) || !p.op.props().carries || mixes(p), reshuffles)?;
    let text = "skip() stands behind a shuffle that gives another order in each pass: each pass leaves out other elements, \
                and what take() gave to one part of a split comes in the other too";
    Some((
        text.into(),
        ".shuffle(buffer_size, seed=1, reshuffle_each_iteration=False)  # or split first, then shuffle".into(),
    ))
}

/// FL012: every process draws an order of its own.
pub fn overlapping_shards(look: &Look<'_>) -> Option<Said> {
    let node = Some(look.node).filter(|n| n.name() == "shard" && n.number("num_shards") != Some(1))?;
    before(node, |_| false, |p| is_shuffle(p) && !is_seeded(p))?;
    let text = "shard() stands behind a shuffle without a seed: each process has an order of its own, so shards overlap \
                and some elements are in none";
    Some((text.into(), ".shard(num_shards, index).shuffle(buffer_size)  # or give the shuffle a seed".into()))
}

/// FL016: more than may be held.
pub fn large_buffer(look: &Look<'_>) -> Option<Said> {
    let node = Some(look.node).filter(|n| is_shuffle(n))?;
    let input = node.inputs.first()?;
    let rows = match (node.number("buffer_size")?, input.card) {
        (-2, Card::Known(n)) => n,
        (size, Card::Known(n)) => u64::try_from(size).ok()?.min(n),
        (size, _) => u64::try_from(size).ok()?,
    };
    let (all, limit) = (rows.saturating_mul(element_bytes(input)?), memory_limit(node)?);
    let text = format!("shuffle() would hold {} of elements; there is room for {}", bytes(all), bytes(limit));
    let fix = ".shuffle(buffer_size) before what makes elements large, such as decoding; .shuffle() holds none at all";
    (all > limit).then(|| (text, fix.into()))
}

/// FL017: features and labels, each in its own order.
pub fn shuffled_apart(look: &Look<'_>) -> Option<Said> {
    let node = Some(look.node).filter(|n| n.name() == "zip")?;
    let shuffled: Vec<(&Plan, Plan)> = (node.inputs.iter())
        .filter_map(|i| Some((i, if is_shuffle(i) { i.clone() } else { before(i, mixes, is_shuffle)? })))
        .collect();
    let seeds = |p: &Plan| (p.param("seed"), p.param("seed2"), p.param("buffer_size"));
    // Two shuffles of the same kind of elements are pairs at random, which may be what is wanted.
    let apart = shuffled.windows(2).any(|w| {
        let ((a, one), (b, other)) = (&w[0], &w[1]);
        a.spec != b.spec && !(is_seeded(one) && seeds(one) == seeds(other))
    });
    let text = "zip() of datasets that are shuffled each by itself: what belongs together comes in different orders";
    apart.then(|| (text.into(), "fl.Dataset.zip((features, labels)).shuffle(buffer_size)".into()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::codes;
    use crate::element::Tree;
    use crate::{Dataset, Options, Result};

    fn range(n: i64) -> Dataset {
        Dataset::range(n).unwrap()
    }
    fn shuffled(n: i64) -> Dataset {
        range(n).shuffle(Some(n), None, true).unwrap()
    }

    #[test]
    fn batches_are_shuffled_only_on_purpose() -> Result<()> {
        assert_eq!(codes(range(9).batch(3, false)?.shuffle(Some(9), None, true)), ["FL008"]);
        assert!(codes(shuffled(9).batch(3, false)).is_empty());
        assert!(codes(range(9).batch(1, false)?.shuffle(Some(9), None, true)).is_empty(), "an element each");
        assert!(codes(range(9).batch(3, false)?.shuffle(Some(1), None, true)).is_empty(), "all stay in their places");
        assert!(codes(shuffled(9).batch(3, false)?.shuffle(Some(3), None, true)).is_empty());
        assert!(codes(range(9).batch(3, false)?.unbatch()?.shuffle(Some(9), None, true)).is_empty());
        Ok(())
    }

    #[test]
    fn epochs_are_shuffled_one_by_one() -> Result<()> {
        assert_eq!(codes(range(9).repeat(None)?.shuffle(Some(9), None, true)), ["FL009"]);
        assert!(codes(shuffled(9).repeat(None)).is_empty());
        assert!(codes(range(9).repeat(Some(1))?.shuffle(Some(9), None, true)).is_empty());
        Ok(())
    }

    #[test]
    fn buffers_are_neither_small_nor_large() -> Result<()> {
        assert_eq!(codes(range(100_000).shuffle(Some(999), None, true)), ["FL010"]);
        assert!(codes(range(100_000).shuffle(Some(1000), None, true)).is_empty());
        assert!(codes(range(999).shuffle(Some(1), None, true)).is_empty());
        assert!(codes(range(100_000).shuffle(None, None, true)).is_empty());
        let options = Options { memory_limit: Some(7999), ..Options::default() };
        let limited = range(1000).with_options(options)?;
        assert_eq!(codes(limited.shuffle(Some(5000), None, true)), ["FL016"]);
        assert!(codes(limited.shuffle(Some(900), None, true)).is_empty());
        Ok(())
    }

    #[test]
    fn parts_of_one_order_do_not_overlap() -> Result<()> {
        assert_eq!(codes(shuffled(9).skip(3)), ["FL011"]);
        assert!(codes(shuffled(9).take(3)).is_empty(), "a look at some elements");
        assert!(codes(range(9).shuffle(Some(9), Some(1), false)?.skip(3)).is_empty());
        assert!(codes(range(9).skip(3)?.shuffle(Some(6), None, true)).is_empty());
        assert_eq!(codes(shuffled(9).shard(2, 0)), ["FL012"]);
        assert!(codes(range(9).shuffle(Some(9), Some(1), true)?.shard(2, 0)).is_empty());
        assert!(codes(range(9).shard(2, 0)?.shuffle(Some(9), None, true)).is_empty());
        Ok(())
    }

    #[test]
    fn what_belongs_together_is_shuffled_together() -> Result<()> {
        let zip = |a: Dataset, b: Dataset| Dataset::zip(&Tree::tuple(vec![Tree::Leaf(a), Tree::Leaf(b)]));
        let labels = || range(9).batch(1, true).unwrap();
        assert_eq!(codes(zip(shuffled(9), labels().shuffle(Some(9), None, true)?)), ["FL017"]);
        assert!(codes(zip(shuffled(9), shuffled(9))).is_empty(), "pairs at random");
        assert!(codes(zip(range(9), labels())?.shuffle(Some(9), None, true)).is_empty());
        Ok(())
    }
}
