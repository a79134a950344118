//! What was asked: an immutable tree of operators, typed and checked as it is built.

mod card;
mod copies;
mod draw;
mod explain;
mod model;
mod outline;
mod tuning;
mod written;

pub use crate::runtime::bytes_text;
pub use card::Card;
pub use copies::{Becomes, Copies};
pub use explain::{Format, ceiling_json, explain, explain_pass, label, limit_text, rate, time as time_text, times};
pub use model::{all_nodes, inner_plans, model};
pub use outline::Outline;
pub use written::{read_plan, write_plan};

use crate::element::{Buf, Nested, NestedDataset, Spec, Value};
use crate::error::{Error, Result};
use crate::op::Op;
use crate::options::Options;
use crate::rewrite::{Log, Rewritten, rewrite};
use crate::runtime::Meters;
use feedline_io::brief;
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

/// A dataset's description. Cloning shares it.
#[derive(Clone)]
pub struct Plan(Arc<Node>);

pub struct Node {
    pub op: Arc<dyn Op>,
    pub inputs: Vec<Plan>,
    pub spec: Spec,
    pub card: Card,
    /// What `with_options` asked for, here and below.
    pub options: Options,
    /// Distinguishes nodes of this process: meters are kept by it.
    pub id: u64,
    /// Operators in the longest row that ends here.
    pub depth: usize,
    /// Answers to `is_pure` and `is_symbolic`, once they were asked.
    pure: OnceLock<bool>,
    symbolic: OnceLock<bool>,
    /// How many passes were started over this dataset: each is an epoch of its own.
    passes: AtomicU64,
    /// What the last pass counted, for `explain`.
    last: Mutex<Option<Arc<Meters>>>,
    /// The plan as it runs, made at the first pass. `None` inside: as it is (a plan must not hold itself).
    rewritten: OnceLock<(Option<Plan>, Log)>,
    /// Whether somebody was told of the mistakes in it.
    told: AtomicBool,
    outlined: OnceLock<outline::Lined>,
}

/// What a dataset inside of an element takes by itself: a plan with what is remembered of it.
const NODE_BYTES: usize = 1 << 10;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Operators in a row at most: each is a call inside the next one's, and stacks end.
pub const MAX_DEPTH: usize = 1000;

impl Plan {
    /// Puts an operator on its inputs, checking what can be checked before data flows.
    pub fn new(op: Arc<dyn Op>, inputs: Vec<Plan>) -> Result<Plan> {
        let name = op.info().name;
        let depth = 1 + inputs.iter().map(|i| i.depth).max().unwrap_or(0);
        // Options cost no stack, and each pass may come with its own.
        if depth > MAX_DEPTH + usize::from(op.options().is_some()) {
            crate::bail!(
                Usage,
                "{name} would be number {depth} of the operators in a row; {MAX_DEPTH} are possible: use one operator in \
                 place of many alike, such as one map that does it all, or skip(n) for n times skip(1)"
            );
        }
        crate::ops::check_inputs(name, inputs.len())?;
        let spec = op.spec(&inputs).map_err(|e| e.in_op(name))?;
        let card = op.cardinality(&inputs);
        let mut options = Options::default();
        inputs.iter().for_each(|i| options.merge(&i.options));
        if let Some(own) = op.options() {
            options.merge(own);
        }
        let id = NEXT_ID.fetch_add(1, Relaxed);
        let (pure, symbolic) = Default::default();
        let (passes, last, rewritten, told, outlined) = Default::default();
        let node = Node {
            op,
            inputs,
            spec,
            card,
            options,
            id,
            depth,
            pure,
            symbolic,
            passes,
            last,
            rewritten,
            told,
            outlined,
        };
        Ok(Plan(Arc::new(node)))
    }
    /// The same operator on other inputs of the same specs: what rewrites make.
    pub fn with_inputs(&self, inputs: Vec<Plan>) -> Result<Plan> {
        Plan::new(self.op.clone(), inputs)
    }
    /// The number of the pass that starts now.
    pub fn next_pass(&self) -> u64 {
        self.passes.fetch_add(1, Relaxed)
    }
    /// The number of the pass that comes next.
    pub fn set_next_pass(&self, pass: u64) {
        self.passes.store(pass, Relaxed);
    }
    /// The plan as it runs and the rules that made it so.
    pub fn rewritten(&self) -> Result<Rewritten> {
        if self.rewritten.get().is_none() {
            let Rewritten { plan, log } = rewrite(self)?;
            let _brief = brief();
            let _ = self.rewritten.set(((!plan.same(self)).then_some(plan), log));
        }
        let (plan, log) = self.rewritten.get().expect("set above");
        Ok(Rewritten { plan: plan.clone().unwrap_or_else(|| self.clone()), log: log.clone() })
    }
    /// The plan as it runs.
    pub fn runs(&self) -> Result<Plan> {
        match self.rewritten.get() {
            Some((plan, _)) => Ok(plan.clone().unwrap_or_else(|| self.clone())),
            None => Ok(self.rewritten()?.plan),
        }
    }
    /// The plan as the last pass ran it.
    pub fn ran(&self) -> Result<Plan> {
        self.meters().and_then(|meters| meters.ran.get().cloned()).map_or_else(|| self.runs(), Ok)
    }
    /// Whether it says by itself how much lies ready at its end: a queue behind that one would hold more than was asked for.
    pub fn has_last_queue(&self) -> bool {
        self.op.is_queue() || self.op.options().is_some() && self.inputs.first().is_some_and(Plan::has_last_queue)
    }
    /// How many passes were started.
    pub fn passes(&self) -> u64 {
        self.passes.load(Relaxed)
    }
    /// True once: whoever asks first tells what is wrong with it.
    pub fn tell(&self) -> bool {
        !self.told.swap(true, Relaxed)
    }
    /// Remembers the meters of the pass that starts now.
    pub fn set_meters(&self, meters: Arc<Meters>) {
        let _brief = brief();
        *self.last.lock().unwrap_or_else(|e| e.into_inner()) = Some(meters);
    }
    /// The meters of the last pass.
    pub fn meters(&self) -> Option<Arc<Meters>> {
        let _brief = brief();
        self.last.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
    pub fn same(&self, other: &Plan) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    pub fn name(&self) -> &'static str {
        self.op.info().name
    }
    /// The operator's parameters, if it is that operator.
    pub fn is<O: Op>(&self) -> Option<&O> {
        (&*self.op as &dyn Any).downcast_ref::<O>()
    }
    /// A parameter as it is written; `None` if it is not given. For operators whose parameters are small.
    pub fn param(&self, name: &str) -> Option<serde_json::Value> {
        self.op.write().ok()?.get_mut(name).map(serde_json::Value::take).filter(|v| !v.is_null())
    }
    /// A parameter that is a number now.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.param(name)?.as_i64()
    }
    /// This node and all below it, inputs first, each once.
    pub fn walk(&self, f: &mut impl FnMut(&Plan)) {
        fn visit(plan: &Plan, seen: &mut HashSet<u64>, f: &mut impl FnMut(&Plan)) {
            if seen.insert(plan.id) {
                plan.inputs.iter().for_each(|i| visit(i, seen, f));
                f(plan);
            }
        }
        visit(self, &mut HashSet::new(), f);
    }
    /// The same for the operators of datasets inside functions, too.
    pub fn walk_all(&self, f: &mut impl FnMut(&Plan)) {
        fn visit(plan: &Plan, seen: &mut HashSet<u64>, f: &mut impl FnMut(&Plan)) {
            if seen.insert(plan.id) {
                plan.inputs.iter().for_each(|i| visit(i, seen, f));
                for function in plan.op.functions() {
                    function.each_dataset(&mut |dataset| visit(&dataset.plan, seen, f));
                }
                f(plan);
            }
        }
        visit(self, &mut HashSet::new(), f);
    }
    /// Whether all of it gives the same elements in each pass.
    pub fn is_pure(&self) -> bool {
        *self.pure.get_or_init(|| self.op.props().pure && self.inputs.iter().all(|i| i.is_pure()))
    }
    /// Whether passes differ by what is drawn for them. What host code does is its own affair.
    pub fn varies(&self) -> bool {
        let mut varies = false;
        self.walk_all(&mut |p| {
            varies |= p.op.seeds().is_some_and(|seeds| seeds.differ());
            p.op.functions().iter().for_each(|f| f.0.calls(&mut |func, _| varies |= !func.pure));
        });
        varies
    }
    /// Whether it refers to values of a function that is being traced. References inside its functions count too.
    pub fn is_symbolic(&self) -> bool {
        fn refers(json: &serde_json::Value) -> bool {
            match json {
                serde_json::Value::Array(list) => list.iter().any(refers),
                serde_json::Value::Object(map) => {
                    map.iter().any(|(k, v)| matches!(k.as_str(), "symbol" | "symbols" | "capture") || refers(v))
                }
                _ => false,
            }
        }
        let own = || written::write_params(self).is_ok_and(|(json, _)| refers(&json));
        *self.symbolic.get_or_init(|| self.inputs.iter().any(|i| i.is_symbolic()) || own())
    }
    /// A hash of the written form: equal plans have equal fingerprints, in every process.
    pub fn fingerprint(&self) -> Result<String> {
        // A node's hash is made of its operator and of its inputs' hashes, so that it does not matter which are shared.
        let mut known: HashMap<u64, u64> = HashMap::new();
        let mut failed = None;
        self.walk(&mut |plan| match written::write_params(plan) {
            Ok((json, attachments)) => {
                let mut hash = Fnv::new();
                hash.write(plan.name().as_bytes());
                hash.write(json.to_string().as_bytes());
                for object in attachments {
                    if let Some(t) = object.downcast_ref::<crate::element::Tensor>() {
                        match t.dtype() {
                            crate::element::DType::String => t.strs().for_each(|s| hash.write(s)),
                            _ => hash.write(t.bytes()),
                        }
                    }
                }
                plan.inputs.iter().for_each(|i| hash.write(&known.get(&i.id).unwrap_or(&0).to_le_bytes()));
                known.insert(plan.id, hash.0);
            }
            Err(error) => failed = failed.take().or(Some(error)),
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(format!("{:016x}", known[&self.id])),
        }
    }
}

/// FNV-1a: small, stable, and good enough to tell plans apart.
struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xcbf29ce484222325)
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = (self.0 ^ u64::from(*b)).wrapping_mul(0x100000001b3);
        }
    }
}

impl std::ops::Deref for Plan {
    type Target = Node;
    fn deref(&self) -> &Node {
        &self.0
    }
}

impl fmt::Debug for Plan {
    /// As a chain: `range(10) > map > batch(3)`. What stands there already is not spelt out again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn show(plan: &Plan, seen: &mut HashSet<u64>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let again = !seen.insert(plan.id) && !plan.inputs.is_empty();
            match plan.inputs.as_slice() {
                [] => {}
                _ if again => f.write_str("… > ")?,
                [one] => {
                    show(one, seen, f)?;
                    f.write_str(" > ")?;
                }
                many => {
                    for (i, input) in many.iter().enumerate() {
                        f.write_str(if i == 0 { "[" } else { ", " })?;
                        show(input, seen, f)?;
                    }
                    f.write_str("] > ")?;
                }
            }
            write!(f, "{}({})", plan.name(), plan.op.show())
        }
        show(self, &mut HashSet::new(), f)
    }
}

/// A plan with the values of its symbols: a dataset inside an element, or a template waiting for them.
#[derive(Clone)]
pub struct Bound {
    pub plan: Plan,
    pub env: Arc<[Value]>,
}

impl Bound {
    pub fn nested(plan: Plan) -> Nested {
        written::install();
        Nested(Arc::new(Bound { plan, env: Arc::new([]) }))
    }
    /// The operators of a dataset that a function made, and whether nobody else has them.
    fn made(dataset: &Nested) -> Result<Vec<(&Plan, bool)>> {
        let mut all = vec![(&Bound::inside(dataset)?.plan, true)];
        let mut at = 0;
        while let Some(&(plan, is_own)) = all.get(at) {
            let is_own = is_own && Arc::strong_count(&plan.0) == 1;
            all[at].1 = is_own;
            all.extend(plan.inputs.iter().map(|input| (input, is_own)));
            at += 1;
        }
        Ok(all)
    }
    /// The memory of values that the operators of a dataset were given.
    pub fn given(dataset: &Nested) -> Result<Vec<&Buf>> {
        Ok(Bound::made(dataset)?.iter().flat_map(|(plan, _)| plan.op.given()).collect())
    }
    /// For a dataset that a function made: operators that nobody else has go with it, and as many bytes of a block that they
    /// were given as `own_bytes` says. It is told of the others' blocks, too.
    pub fn claim(dataset: &Nested, mut own_bytes: impl FnMut(&Buf, bool) -> usize) -> Result<()> {
        for (plan, is_own) in Bound::made(dataset)? {
            let bytes = plan.op.given().into_iter().map(|block| own_bytes(block, is_own)).sum();
            if is_own {
                plan.op.claim(bytes);
            }
        }
        Ok(())
    }
    /// Bytes of data that its operators carry.
    fn carried_bytes(&self) -> usize {
        let mut plan = &self.plan;
        let mut bytes = plan.op.held_bytes();
        while let [input] = &plan.inputs[..] {
            plan = input;
            bytes += plan.op.held_bytes();
        }
        // Inputs of several may be the same.
        let (mut left, mut seen) = (plan.inputs.iter().collect::<Vec<_>>(), std::collections::HashSet::new());
        while let Some(plan) = left.pop() {
            if seen.insert(plan.id) {
                bytes += plan.op.held_bytes();
                left.extend(&plan.inputs);
            }
        }
        bytes
    }
    fn inside(dataset: &Nested) -> Result<&Bound> {
        dataset.0.as_any().downcast_ref().ok_or_else(|| Error::internal("an unknown kind of dataset"))
    }
    pub fn of(value: &Value) -> Result<&Bound> {
        match value {
            Value::Dataset(n) => Bound::inside(n),
            other => Err(Error::func(format!("the function must return a dataset, not {other:?}"))),
        }
    }
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plan.fmt(f)
    }
}

impl NestedDataset for Bound {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn spec(&self) -> &Spec {
        &self.plan.spec
    }
    fn bind(&self, env: Vec<Value>) -> Nested {
        env.iter().for_each(|v| v.freeze());
        Nested(Arc::new(Bound { plan: self.plan.clone(), env: env.into() }))
    }
    fn nbytes(&self) -> usize {
        NODE_BYTES + self.carried_bytes() + self.env.iter().map(|v| v.nbytes()).sum::<usize>()
    }
    fn own_bytes(&self) -> usize {
        self.carried_bytes() + self.env.iter().map(Value::own_bytes).sum::<usize>()
    }
    fn write(&self) -> Result<serde_json::Value> {
        written::write_bound(self)
    }
}
