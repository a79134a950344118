//! The law of `resume.rs` where it matters: in a process that has not seen the pipeline run. What `fresh` reads anew in the
//! same process could still lean on a table, a seed or a file that the first run left in memory.
//!
//! This program starts itself once more, with a file of plans, the states at all of their positions and what followed. The
//! child resumes every state and prints what differs, and how many it looked at.

use super::resume::{elsewhere, followed, random_chain, rest, resumed, towers, ways};
use super::*;
use feedline::element::Element;
use feedline::ops::from_generator::{Cursor, FromGenerator, Generator};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;

/// Where the child finds its file. Without it this is the parent.
const CASES: &str = "FEEDLINE_LAWS_CASES";
const DIFFERS: &str = "differs: ";
const CHECKED: &str = "checked: ";

/// A pass of a plan: what it gave, the pass behind it, and its state at every position.
#[derive(serde::Serialize, serde::Deserialize)]
struct Case {
    what: String,
    /// Written; `None`: code, which the child has under the same name.
    plan: Option<Json>,
    pass: u64,
    turn: usize,
    events: Vec<(bool, String)>,
    after: Vec<(bool, String)>,
    states: Vec<String>,
}

fn as_pairs(events: Vec<Event>) -> Vec<(bool, String)> {
    let pair = |event| match event {
        Event::Element(text) => (true, text),
        Event::Failed(text) => (false, text),
    };
    events.into_iter().map(pair).collect()
}

impl Case {
    fn new(what: &str, plan: &Plan, turn: usize) -> Case {
        let (taken, pass) = (&ways()[turn % ways().len()], turn as u64 % 2);
        let (events, after, states) = followed(&elsewhere(plan, taken), taken.0, pass, what);
        let (json, attachments) = write_plan(plan).unwrap();
        let plan = attachments.is_empty().then_some(json);
        assert!(plan.is_some() || by_name(what).is_some(), "{what} can neither be written nor made by its name");
        Case { what: what.into(), plan, pass, turn, events: as_pairs(events), after: as_pairs(after), states }
    }
    fn plan(&self) -> Plan {
        match &self.plan {
            Some(json) => read_plan(json, vec![]).unwrap(),
            None => by_name(&self.what).unwrap(),
        }
    }
    /// What is wrong with one of its states, resumed with 1, 2 or 4 workers in turns.
    fn fault(&self, position: usize) -> Option<String> {
        let ways = ways();
        let way = &ways[(self.turn + position) % ways.len()];
        let what = format!("{}, state {position} of pass {}, resumed by {way:?}", self.what, self.pass);
        let checked = catch_unwind(AssertUnwindSafe(|| {
            let bound = elsewhere(&self.plan(), way);
            let got = as_pairs(rest(resumed(&bound, &self.states[position], way.0, &what), &what));
            let behind = as_pairs(rest(Iter::new(&bound, self.pass + 1, pool(way.0)).unwrap(), &what));
            let expected = &self.events[position.min(self.events.len())..];
            if got != expected {
                Some(format!("{got:?} instead of {expected:?}"))
            } else {
                (behind != self.after).then(|| format!("the pass behind it: {behind:?} instead of {:?}", self.after))
            }
        }));
        let fault = checked.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            Some(format!("panicked: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default()))
        });
        fault.map(|fault| format!("{what}: {}", fault.replace('\n', " ")))
    }
}

/// Plans that cannot be written: closures and generators are code.
fn in_code() -> Vec<(&'static str, Plan)> {
    let scalar = || Spec::scalar(DType::Int64);
    let ten = || Dataset::range(10).unwrap();
    let plus = |e: Element, n: i64| -> feedline::Result<Element> {
        match e[0].tensor().item::<i64>() {
            4 => Err(feedline::Error::data("four")),
            x => Ok(smallvec::smallvec![feedline::element::Tensor::scalar(x + n).into()]),
        }
    };
    let some = |e: Element| Dataset::range(e[0].tensor().item::<i64>() % 4)?.shuffle(Some(2), Some(3), true);
    let mapped = ten().map_fn(scalar(), move |e| plus(e, 5)).unwrap();
    let made =
        |n| Dataset::from_plan(Plan::new(Arc::new(FromGenerator(Arc::new(Count(scalar(), n)))), vec![]).unwrap());
    let shuffled = |ds: &Dataset| ds.shuffle(Some(4), Some(7), true).unwrap().repeat(Some(2)).unwrap();
    let all = [
        ("map_fn", mapped.clone()),
        ("map_fn > shuffle > repeat", shuffled(&mapped)),
        (
            "filter_fn > batch",
            ten().filter_fn(|e| Ok(e[0].tensor().item::<i64>() % 3 > 0)).unwrap().batch(2, false).unwrap(),
        ),
        ("take_while_fn", ten().take_while_fn(|e| Ok(e[0].tensor().item::<i64>() < 7)).unwrap()),
        ("flat_map_fn > shuffle > repeat", shuffled(&ten().flat_map_fn(scalar(), some).unwrap())),
        ("interleave_fn", ten().interleave_fn(3, 2, scalar(), some).unwrap()),
        ("from_generator", made(9)),
        (
            "from_generator > map_fn > prefetch",
            made(9).map_fn(scalar(), move |e| plus(e, 1)).unwrap().prefetch(Some(2)).unwrap(),
        ),
        ("from_generator > shuffle > repeat", shuffled(&made(9))),
    ];
    all.into_iter().map(|(what, ds)| (what, ds.into_plan())).collect()
}

fn by_name(name: &str) -> Option<Plan> {
    in_code().into_iter().find(|(what, _)| *what == name).map(|(_, plan)| plan)
}

/// Numbers below another, from a generator that can tell where it is.
#[derive(Debug)]
struct Count(Spec, i64);

struct Counting(i64, i64);

impl Generator for Count {
    fn spec(&self) -> &Spec {
        &self.0
    }
    fn open(&self) -> feedline::Result<Box<dyn Cursor>> {
        Ok(Box::new(Counting(0, self.1)))
    }
    fn open_at(&self, given: u64, state: &Json) -> feedline::Result<Box<dyn Cursor>> {
        assert_eq!(state, &json!({ "at": given }));
        Ok(Box::new(Counting(given as i64, self.1)))
    }
}

impl Cursor for Counting {
    fn scoped(&mut self, body: &mut dyn FnMut(&mut dyn Cursor)) {
        body(self);
    }
    fn next(&mut self) -> feedline::Result<Option<Element>> {
        self.0 += 1;
        Ok((self.0 <= self.1).then(|| smallvec::smallvec![feedline::element::Tensor::scalar(self.0 - 1).into()]))
    }
    fn save(&mut self) -> feedline::Result<Option<Json>> {
        Ok(Some(json!({ "at": self.0 })))
    }
}

/// Chains longer than this are left out: each of their states is resumed.
const MANY: usize = 80;

fn cases() -> Vec<Case> {
    let mut plans: Vec<(String, Plan)> = Vec::new();
    each_sample(|what, plan| plans.push((what.into(), plan.clone())));
    plans.extend(towers().into_iter().map(|(what, plan)| (what.into(), plan)));
    plans.extend(in_code().into_iter().map(|(what, plan)| (what.into(), plan)));
    let (mut draw, mut chains) = (draws(97531), 0);
    while chains < 100 {
        let chain = random_chain(&mut draw, |draw| (0..draw(8) + 1).map(|_| CHAIN[draw(CHAIN.len())]).collect());
        if run(&chain.1, 1, Options::default()).len() <= MANY {
            plans.push(chain);
            chains += 1;
        }
    }
    plans.iter().enumerate().map(|(turn, (what, plan))| Case::new(what, plan, turn)).collect()
}

/// What the child says differs, and how many states it checked.
fn in_another_process(cases: &[Case]) -> (Vec<String>, usize) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cases");
    std::fs::write(&path, serde_json::to_vec(cases).unwrap()).unwrap();
    let test = [module_path!().split_once("::").unwrap().1, "states_go_on_in_a_fresh_process"].join("::");
    let mut command = Command::new(std::env::current_exe().unwrap());
    let out = command.args([&test, "--exact", "--nocapture"]).env(CASES, &path).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    let told = |word: &'static str| said.lines().filter_map(move |line| line.strip_prefix(word)).map(String::from);
    let checked: Vec<String> = told(CHECKED).collect();
    assert!(out.status.success() && checked.len() == 1, "{}\n{said}\n{errors}", out.status);
    (told(DIFFERS).collect(), checked[0].parse().unwrap())
}

fn be_the_child(path: &Path) {
    let cases: Vec<Case> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut checked = 0;
    // The line that names the test is not ended yet.
    println!();
    for case in &cases {
        for position in 0..case.states.len() {
            case.fault(position).iter().for_each(|fault| println!("{DIFFERS}{fault}"));
            checked += 1;
        }
    }
    println!("{CHECKED}{checked}");
}

#[test]
fn states_go_on_in_a_fresh_process() {
    if let Some(path) = std::env::var_os(CASES) {
        return be_the_child(path.as_ref());
    }
    let cases = cases();
    let sent: usize = cases.iter().map(|case| case.states.len()).sum();
    let (differs, checked) = in_another_process(&cases);
    assert!(differs.is_empty(), "{} of {sent}\n{}", differs.len(), differs.join("\n"));
    assert_eq!(checked, sent);
    // Fewer without the operators of the feature "columnar".
    assert!(sent > 4000, "{sent}");
}

/// The child would say so if something differed.
#[test]
fn a_fresh_process_says_what_differs() {
    let mut case = Case::new("shuffle", &resume::sample("shuffle", range(5)), 0);
    case.states[2] = case.states[3].clone();
    let (differs, checked) = in_another_process(&[case]);
    assert_eq!((differs.len(), checked), (1, 7), "{}", differs.join("\n"));
    assert!(differs[0].contains("state 2 of pass 0"), "{}", differs[0]);
}
