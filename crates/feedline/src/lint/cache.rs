//! Caches that keep what should change, or more than there is room for.

use super::{Look, Said, before, before_or_inside, bytes, element_bytes, memory_limit};
use super::{is_random, is_shuffle, may_be_random, reorders};
use crate::plan::{Bound, Card, Plan, label};

fn is_cache(plan: &Plan) -> bool {
    plan.name() == "cache"
}

/// Whether later passes get what the first one made.
fn keeps(plan: &Plan) -> bool {
    is_cache(plan) || plan.name() == "snapshot"
}

/// In whose function an operator stands, if it does, for a sentence about it.
fn place(of: Option<&Plan>) -> String {
    of.map_or(String::new(), |of| format!(" in the function of {}", of.name()))
}

/// FL006: what is random before a cache is drawn once.
pub fn random_before(look: &Look<'_>) -> Option<Said> {
    let node = Some(look.node).filter(|n| keeps(n))?;
    // What stands right before a snapshot chooses shards, which may well be at random.
    let from = if is_cache(node) { node } else { node.inputs.first()? };
    let sure = before_or_inside(from, keeps, is_random).map(|found| (found, "draws random numbers"));
    // Host code is read, not called.
    let ((random, of), what) = sure.or_else(|| {
        let found = before_or_inside(from, keeps, may_be_random)?;
        Some((found, "may draw random numbers in its function"))
    })?;
    let (name, path) = (node.name(), if is_cache(node) { "" } else { "path" });
    let text = format!(
        "{}{} {what} before {name}(): they are drawn in the first epoch, and every later one gets the same",
        label(&random),
        place(of.as_ref())
    );
    let fix = format!(".{name}({path}).map(augment)  # first what is the same in each epoch, then what is random");
    Some((text, fix))
}

/// FL007: the order of the first pass is kept, and nothing shuffles what comes out.
pub fn shuffle_before(look: &Look<'_>) -> Option<Said> {
    let node = look.node;
    // A reader may have an order of its own.
    let kept = Some(node).filter(|n| keeps(n) && n.op.functions().is_empty())?;
    let (order, of) = before_or_inside(kept, keeps, reorders)?;
    let mut again = false;
    // Windows of what comes out may be shuffled in a function.
    let shuffles = |p: &Plan| {
        let mut any = is_shuffle(p);
        let mut inside = |dataset: &Bound| dataset.plan.walk_all(&mut |q| any |= is_shuffle(q));
        p.op.functions().iter().for_each(|function| function.each_dataset(&mut inside));
        any
    };
    look.root.walk(&mut |p| again |= shuffles(p) && before(p, |_| false, |q| q.same(node)).is_some());
    let (name, path) = (node.name(), if is_cache(node) { "" } else { "path" });
    let text = format!(
        "{}(){} stands before {name}(): the order of the first epoch is kept, and every later one is the same",
        order.name(),
        place(of.as_ref())
    );
    let fix = match is_shuffle(&order) {
        true => format!(".{name}({path}).shuffle(buffer_size)"),
        // The parts are the same in each epoch, their turns are not.
        false => format!("sample_from_datasets([part.{name}({path}), ...])  # or shuffle behind {name}()"),
    };
    (!again).then_some((text, fix))
}

/// FL014: more than may be held.
pub fn too_large(look: &Look<'_>) -> Option<Said> {
    let input = Some(look.node).filter(|n| is_cache(n) && n.param("filename").is_none())?.inputs.first()?;
    let (Card::Known(n), Some(each)) = (input.card, element_bytes(input)) else { return None };
    let (all, limit) = (n.saturating_mul(each), memory_limit(look.node));
    let text = format!("cache() would hold {} of elements in memory; there is room for {}", bytes(all), bytes(limit));
    (all > limit)
        .then(|| (text, ".cache(\"a/folder\")  # or before what makes elements large, such as decoding".into()))
}

/// FL015: it is never full.
pub fn endless(look: &Look<'_>) -> Option<Said> {
    let node = Some(look.node).filter(|n| keeps(n))?;
    let (name, path) = (node.name(), if is_cache(node) { "" } else { "path" });
    let text = format!("{name}() of endless data is never complete: it grows and is never read");
    (node.inputs.first()?.card == Card::Infinite).then(|| (text, format!(".{name}({path}).repeat()")))
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
        // Nobody can see what closures do.
        assert!(codes(ds.map_fn(Spec::scalar(DType::Int64), Ok)?.cache()).is_empty());
        assert_eq!(codes(ds.shuffle(Some(10), None, true)?.cache()), ["FL007"]);
        assert!(codes(ds.shuffle(Some(10), None, false)?.cache()).is_empty(), "that order was to stay");
        assert!(codes(ds.shuffle(Some(10), None, true)?.cache()?.shuffle(Some(10), None, true)).is_empty());
        Ok(())
    }

    #[test]
    fn functions_are_looked_into() -> Result<()> {
        let ds = Dataset::range(10)?;
        let opened = |inner: Result<Dataset>| {
            let nested = crate::plan::Bound::nested(inner?.plan().clone());
            ds.flat_map(|b, _| Ok(b.dataset(nested, Spec::scalar(DType::Int64))))
        };
        let three = || Dataset::range(3);
        let noise = three()?.map(|b, _| {
            let attrs = Attrs(serde_json::Map::from_iter([("shape".into(), serde_json::json!([]))]));
            let drawn = b.call("random.bernoulli", &[], attrs)?;
            b.call("cast", &[drawn], serde_json::from_value(serde_json::json!({ "dtype": "int64" }))?)
        })?;
        let found = super::super::lint(opened(Ok(noise.clone()))?.cache()?.plan(), false);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].code, "FL006");
        assert!(found[0].text.contains(" in the function of flat_map draws random numbers"), "{}", found[0].text);
        let inner = opened(Ok(noise.clone()))?;
        assert_eq!(codes(opened(Ok(inner))?.cache()), ["FL006"], "functions of functions");
        assert!(codes(opened(noise.cache())).is_empty(), "a cache of its own, which nobody keeps");
        assert!(codes(opened(Ok(noise))).is_empty());
        assert_eq!(codes(opened(three()?.shuffle(Some(3), None, true))?.cache()), ["FL007"]);
        assert!(codes(opened(three()?.shuffle(Some(3), None, false))?.cache()).is_empty());
        let again = opened(three()?.shuffle(Some(3), None, true))?.cache()?.shuffle(Some(9), None, true);
        assert!(codes(again).is_empty());
        Ok(())
    }

    #[test]
    fn host_code_says_whether_it_may_draw() -> Result<()> {
        #[derive(Debug)]
        struct Draws(bool);
        impl crate::expr::HostFn for Draws {
            fn name(&self) -> String {
                "draws".into()
            }
            fn may_draw(&self) -> bool {
                self.0
            }
            fn call(&self, args: crate::element::Element) -> Result<crate::element::Element> {
                Ok(args)
            }
            fn parallel(&self) -> bool {
                true
            }
        }
        let ds = Dataset::range(10)?;
        let mapped = |draws| {
            let number = Spec::scalar(DType::Int64);
            ds.map_graph(crate::expr::Graph::host(ds.spec(), std::sync::Arc::new(Draws(draws)), number))
        };
        let found = super::super::lint(mapped(true)?.cache()?.plan(), false);
        assert!(found[0].text.contains("may draw random numbers"), "{}", found[0].text);
        assert_eq!(found[0].code, "FL006");
        assert!(codes(mapped(false)?.cache()).is_empty());
        assert!(codes(mapped(true)).is_empty());
        Ok(())
    }

    #[cfg(feature = "columnar")]
    #[test]
    fn snapshots_are_like_caches() -> Result<()> {
        let attrs = || Attrs(serde_json::Map::from_iter([("shape".into(), serde_json::json!([]))]));
        let first = |b: &mut crate::expr::Builder, _: &[usize]| b.constant(crate::element::Tensor::scalar(0i64).into());
        let kept = |ds: &Dataset| ds.snapshot_in_shards("x", "", first, None);
        let ds = Dataset::range(10)?;
        assert_eq!(codes(kept(&noisy(&ds)?)), ["FL006"]);
        assert_eq!(codes(kept(&ds.repeat(None)?)), ["FL015"]);
        let shuffled = ds.shuffle(Some(10), None, true)?;
        assert_eq!(codes(kept(&shuffled)), ["FL007"]);
        let reader = |shards: &Dataset| shards.flat_map_fn(Spec::scalar(DType::Int64), |_| Dataset::range(1));
        assert!(codes(shuffled.snapshot_in_shards("x", "", first, Some(&reader))).is_empty(), "it may shuffle");
        let by_chance = ds.snapshot_in_shards(
            "x",
            "",
            |b, _| {
                let drawn = b.call("random.bernoulli", &[], attrs())?;
                let to = serde_json::from_value(serde_json::json!({ "dtype": "int64" }))?;
                b.call("cast", &[drawn], to)
            },
            None,
        );
        assert!(codes(by_chance).is_empty());
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
