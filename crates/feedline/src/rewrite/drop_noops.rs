//! Leaves out operators that do nothing with their parameters: `skip(0)`, `repeat(1)`, an identity map.

use super::Rule;

pub static RULE: Rule = Rule {
    name: "drop_noops",
    why: "first, so that the other rules see neighbours that matter",
    apply: |node| {
        let drop = node.op.props().noop && node.inputs.len() == 1 && node.spec == node.inputs[0].spec;
        Ok(drop.then(|| node.inputs[0].clone()))
    },
};
