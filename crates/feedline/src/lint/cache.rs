//! Caches that keep what should change, or more than there is room for.

use super::{Look, Said, before, bytes, element_bytes, is_random, is_shuffle, memory_limit, reshuffles};
use crate::plan::{Card, Plan, label};

fn is_cache(plan: &Plan) -> bool {
    plan.name() == "cache"
}

/// FL006: what is random before a cache is drawn once.
pub fn random_before(look: &Look<'_>) -> Option<Said> {
    let random = Some(look.node).filter(|n| is_cache(n)).and_then(|n| before(n, is_cache, is_random))?;
    let text = format!(
        "{} draws random numbers before cache(): they are drawn in the first epoch, and every later one gets the same",
        label(&random)
    );
    Some((text, ".cache().map(augment)  # first what is the same in each epoch, then what is random".into()))
}

/// FL007: the order of the first pass is kept, and nothing shuffles what comes out.
pub fn shuffle_before(look: &Look<'_>) -> Option<Said> {
    let node = look.node;
    before(Some(node).filter(|n| is_cache(n))?, is_cache, reshuffles)?;
    let mut again = false;
    look.root.walk(&mut |p| again |= is_shuffle(p) && before(p, |_| false, |q| q.same(node)).is_some());
    let text = "shuffle() stands before cache(): the order of the first epoch is kept, and every later one is the same";
    (!again).then(|| (text.into(), ".cache().shuffle(buffer_size)".into()))
}

/// FL014: more than may be held.
pub fn too_large(look: &Look<'_>) -> Option<Said> {
    let input = Some(look.node).filter(|n| is_cache(n) && n.param("filename").is_none())?.inputs.first()?;
    let (Card::Known(n), Some(each)) = (input.card, element_bytes(input)) else { return None };
    let (all, limit) = (n.saturating_mul(each), memory_limit(look.node)?);
    let text = format!("cache() would hold {} of elements in memory; there is room for {}", bytes(all), bytes(limit));
    (all > limit)
        .then(|| (text, ".cache(\"a/folder\")  # or before what makes elements large, such as decoding".into()))
}

/// FL015: it is never full.
pub fn endless(look: &Look<'_>) -> Option<Said> {
    let node = Some(look.node).filter(|n| is_cache(n))?;
    let text = "cache() of endless data is never complete: it grows and is never read";
    (node.inputs.first()?.card == Card::Infinite).then(|| (text.into(), ".cache().repeat()".into()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::codes;
    use crate::element::{DType, Spec};
    use crate::expr::Attrs;
    use crate::{Dataset, Options, Result};

    fn noisy(ds: &Dataset) -> Result<Dataset> {
        let attrs = Attrs(serde_json::Map::from_iter([("shape".into(), serde_json::json!([]))]));
        ds.map(|b, _| b.call("random.bernoulli", &[], attrs))
    }

    #[test]
    fn random_numbers_and_orders_belong_behind_a_cache() -> Result<()> {
        let ds = Dataset::range(10)?;
        assert_eq!(codes(noisy(&ds)?.cache()), ["FL006"]);
        assert!(codes(noisy(&ds.cache()?)).is_empty());
        // Nobody can see what other functions do.
        assert!(codes(ds.map_fn(Spec::scalar(DType::Int64), Ok)?.cache()).is_empty());
        assert_eq!(codes(ds.shuffle(Some(10), None, true)?.cache()), ["FL007"]);
        assert!(codes(ds.shuffle(Some(10), None, false)?.cache()).is_empty(), "that order was to stay");
        assert!(codes(ds.shuffle(Some(10), None, true)?.cache()?.shuffle(Some(10), None, true)).is_empty());
        Ok(())
    }

    #[test]
    fn caches_have_to_fit() -> Result<()> {
        let limited = |limit| {
            let options = Options { memory_limit: Some(limit), ..Options::default() };
            Dataset::range(1000)?.with_options(options)?.cache()
        };
        assert_eq!(codes(limited(7999)), ["FL014"]);
        assert!(codes(limited(8000)).is_empty());
        assert_eq!(codes(Dataset::range(5)?.repeat(None)?.cache()), ["FL015"]);
        assert!(codes(Dataset::range(5)?.repeat(Some(2))?.cache()).is_empty());
        assert!(codes(Dataset::range(5)?.cache()?.repeat(None)).is_empty());
        Ok(())
    }
}
