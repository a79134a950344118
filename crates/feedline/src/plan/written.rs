//! The written form of a plan: JSON with an operator's name, its parameters and its inputs. Arrays and Python functions
//! are attachments beside it.

use super::{Bound, Plan};
use crate::element::{Attachments, Nested, READ_NESTED, Reader, Value, attach_live, attached, with_attachments};
use crate::error::{Error, Result};
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// Lets functions that contain datasets be read back; called wherever such a function can be made or read.
pub(super) fn install() {
    let _ = READ_NESTED.set(read_nested);
}

/// The written form and what it refers to, for another process.
pub fn write_plan(plan: &Plan) -> Result<(Json, Attachments)> {
    let (json, attachments) = with_attachments(Reader::Elsewhere, vec![], || write(plan));
    Ok((json?, attachments))
}

/// Reads what `write_plan` wrote, building and checking every operator anew.
pub fn read_plan(json: &Json, attachments: Attachments) -> Result<Plan> {
    install();
    with_attachments(Reader::Elsewhere, attachments, || read(json)).0
}

fn write(plan: &Plan) -> Result<Json> {
    let inputs = plan.inputs.iter().map(write).collect::<Result<Vec<_>>>()?;
    let mut node = serde_json::Map::new();
    node.insert("op".into(), plan.name().into());
    node.insert("params".into(), plan.op.write()?);
    if !inputs.is_empty() {
        node.insert("inputs".into(), inputs.into());
    }
    Ok(Json::Object(node))
}

fn read(json: &Json) -> Result<Plan> {
    let bad = || Error::usage("not a written plan");
    let name = json.get("op").and_then(Json::as_str).ok_or_else(bad)?;
    let info = crate::ops::find(name)?;
    let params = json.get("params").cloned().ok_or_else(bad)?;
    let inputs = match json.get("inputs") {
        None => vec![],
        Some(list) => list.as_array().ok_or_else(bad)?.iter().map(read).collect::<Result<_>>()?,
    };
    Plan::new((info.read)(params).map_err(|e| e.in_op(name))?, inputs)
}

pub(super) fn write_bound(bound: &Bound) -> Result<Json> {
    if let Some(i) = attach_live(Arc::new(bound.clone())) {
        return Ok(json!({ "live": i }));
    }
    Ok(json!({ "plan": write(&bound.plan)?, "env": serde_json::to_value(&*bound.env)? }))
}

fn read_nested(json: &Json) -> Result<Nested> {
    let bad = || Error::usage("not a written dataset");
    if let Some(i) = json.get("live").and_then(Json::as_u64) {
        let object = attached(i as usize).ok_or_else(bad)?;
        let bound = object.downcast::<Bound>().map_err(|_| bad())?;
        return Ok(Nested(bound));
    }
    let plan = read(json.get("plan").ok_or_else(bad)?)?;
    let env: Vec<Value> = serde_json::from_value(json.get("env").cloned().ok_or_else(bad)?)?;
    Ok(Nested(Arc::new(Bound { plan, env: env.into() })))
}
