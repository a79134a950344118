//! The written form of a plan: JSON with a list of operators, each with its name, its parameters and the places of its
//! inputs in the list, and the place of the last one. Arrays and Python functions are attachments beside it.

use super::{Bound, Plan};
use crate::element::{
    Attachments, Nested, READ_NESTED, Reader, Value, attach_value, attached, is_compared, with_attachments,
};
use crate::error::{Error, Result};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
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

/// The parameters of its operator alone.
pub(super) fn write_params(plan: &Plan) -> Result<(Json, Attachments)> {
    let (json, attachments) = with_attachments(Reader::Elsewhere, vec![], || plan.op.write());
    Ok((json?, attachments))
}

/// Those of them that can change results.
pub(super) fn write_telling(plan: &Plan) -> Result<(Json, Attachments)> {
    let (json, attachments) = with_attachments(Reader::Nobody, vec![], || params(plan));
    Ok((json?, attachments))
}

fn params(node: &Plan) -> Result<Json> {
    let mut json = node.op.write()?;
    if let Some(map) = json.as_object_mut().filter(|_| is_compared()) {
        node.op.tunables().iter().for_each(|name| drop(map.remove(*name)));
    }
    Ok(json)
}

fn write(plan: &Plan) -> Result<Json> {
    let mut places: HashMap<u64, usize> = HashMap::new();
    let mut nodes: Vec<Result<Json>> = Vec::new();
    plan.walk(&mut |node| {
        let inputs: Vec<usize> = node.inputs.iter().map(|i| places[&i.id]).collect();
        places.insert(node.id, nodes.len());
        nodes.push(params(node).map(|params| match inputs.is_empty() {
            true => json!({ "op": node.name(), "params": params }),
            false => json!({ "op": node.name(), "params": params, "inputs": inputs }),
        }));
    });
    let root = nodes.len() - 1;
    Ok(json!({ "nodes": nodes.into_iter().collect::<Result<Vec<_>>>()?, "root": root }))
}

fn read(json: &Json) -> Result<Plan> {
    let bad = || Error::usage("not a written plan");
    let list = json.get("nodes").and_then(Json::as_array).ok_or_else(bad)?;
    let mut nodes: Vec<Plan> = Vec::with_capacity(list.len());
    // Inputs stand before those who read them.
    let node_at = |nodes: &[Plan], n: &Json| {
        n.as_u64().and_then(|n| nodes.get(usize::try_from(n).ok()?)).cloned().ok_or_else(bad)
    };
    for node in list {
        let name = node.get("op").and_then(Json::as_str).ok_or_else(bad)?;
        let info = crate::ops::find(name)?;
        let params = node.get("params").cloned().ok_or_else(bad)?;
        let inputs = match node.get("inputs") {
            None => vec![],
            Some(list) => list.as_array().ok_or_else(bad)?.iter().map(|n| node_at(&nodes, n)).collect::<Result<_>>()?,
        };
        nodes.push(Plan::new((info.read)(params).map_err(|e| e.in_op(name))?, inputs)?);
    }
    node_at(&nodes, json.get("root").ok_or_else(bad)?)
}

pub(super) fn write_bound(bound: &Bound) -> Result<Json> {
    if let Some(i) = attach_value(Arc::new(bound.clone())) {
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
