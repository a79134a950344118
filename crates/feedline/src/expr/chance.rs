//! Seeds that nobody gave: each call of a random function without one draws its own when it is traced.
//!
//! Another process draws others. So that a pass can go on there all the same, a drawn seed is not a part of the function but
//! a cell: calls with the same seed share one in a process, also where a function was copied, joined with another or read
//! back. A state has what is in the cells of its plan, in the order of the calls; whoever resumes puts it into its own.

use super::func::Attrs;
use super::funcs::fingerprint64;
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// Says that a seed was drawn. Attributes of calls have it beside `seed`.
const DRAWN: &str = "drawn";
const SEED: &str = "seed";

type Cells = HashMap<u64, Weak<AtomicU64>>;

/// By what was drawn: eight bytes, so that no two are alike.
static CELLS: LazyLock<Mutex<Cells>> = LazyLock::new(Mutex::default);

fn cell(drawn: u64) -> Arc<AtomicU64> {
    let _brief = feedline_io::brief();
    let mut cells = CELLS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(cell) = cells.get(&drawn).and_then(Weak::upgrade) {
        return cell;
    }
    if cells.len() == cells.capacity() {
        cells.retain(|_, cell| cell.strong_count() > 0);
    }
    let cell = Arc::new(AtomicU64::new(drawn));
    cells.insert(drawn, Arc::downgrade(&cell));
    cell
}

/// The seed of a call.
#[derive(Clone)]
pub enum Seed {
    Given(u64),
    Drawn(Arc<AtomicU64>),
}

impl Seed {
    pub fn of(seed: u64, attrs: &Attrs) -> Seed {
        if is_drawn(&attrs.0) { Seed::Drawn(cell(seed)) } else { Seed::Given(seed) }
    }
    pub fn get(&self) -> u64 {
        match self {
            Seed::Given(seed) => *seed,
            Seed::Drawn(cell) => cell.load(Relaxed),
        }
    }
}

pub fn is_drawn(attrs: &Map<String, Json>) -> bool {
    attrs.get(DRAWN).and_then(Json::as_bool) == Some(true)
}

/// Every object with a drawn seed, wherever it lies.
fn each_drawn(json: &mut Json, f: &mut dyn FnMut(&mut Map<String, Json>)) {
    match json {
        Json::Object(map) => {
            if is_drawn(map) {
                f(map);
            }
            map.values_mut().for_each(|value| each_drawn(value, f));
        }
        Json::Array(items) => items.iter_mut().for_each(|item| each_drawn(item, f)),
        _ => {}
    }
}

/// Attributes with the seeds as they are by now.
pub fn now(attrs: Attrs) -> Attrs {
    let mut json = Json::Object(attrs.0);
    each_drawn(&mut json, &mut |map| {
        if let Some(seed) = map.get(SEED).and_then(Json::as_u64) {
            map.insert(SEED.into(), cell(seed).load(Relaxed).into());
        }
    });
    match json {
        Json::Object(map) => Attrs(map),
        _ => Attrs::default(),
    }
}

/// Gives a written plan cells of its own: they hold what a state says, and begin with other seeds for each `copy`.
pub fn redraw(json: &mut Json, copy: u64) {
    each_drawn(json, &mut |map| {
        if let Some(seed) = map.get(SEED).and_then(Json::as_u64) {
            map.insert(SEED.into(), fingerprint64(format!("{seed} {copy}").as_bytes()).into());
        }
    });
}

/// Leaves out of a written plan which seeds were drawn: two plans that differ in nothing else are the same.
pub fn forget(json: &mut Json) {
    each_drawn(json, &mut |map| drop(map.remove(SEED)));
}

/// The cells of a call, behind those that were found before.
pub fn find(attrs: &Attrs, out: &mut Vec<Arc<AtomicU64>>) {
    // Most calls have no such thing, and need no copy.
    let has_any = attrs.0.iter().any(|(key, value)| key == DRAWN || value.is_object() || value.is_array());
    if has_any {
        each_drawn(&mut Json::Object(attrs.0.clone()), &mut |map| {
            out.extend(map.get(SEED).and_then(Json::as_u64).map(cell));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn attrs(json: Json) -> Attrs {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn calls_with_one_seed_share_it() {
        let call = attrs(json!({ "seed": 77_001, "drawn": true, "use": 0 }));
        let (one, other) = (Seed::of(77_001, &call), Seed::of(77_001, &call));
        let given = Seed::of(77_001, &attrs(json!({ "seed": 77_001 })));
        let mut cells = Vec::new();
        find(&call, &mut cells);
        find(&attrs(json!({ "steps": [{ "attrs": { "seed": 77_001, "drawn": true } }] })), &mut cells);
        assert!(cells.len() == 2 && Arc::ptr_eq(&cells[0], &cells[1]));
        cells[0].store(5, Relaxed);
        assert_eq!([one.get(), other.get(), given.get()], [5, 5, 77_001]);
        assert_eq!(now(call.clone()).0["seed"], 5);
        let mut written = json!([{ "attrs": call.0 }, { "seed": 3 }]);
        forget(&mut written);
        assert_eq!(written, json!([{ "attrs": { "drawn": true, "use": 0 } }, { "seed": 3 }]));
    }
}
