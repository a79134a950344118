//! `feedline top`: what the pipelines of a running process do, on the terminal.
//!
//! The process samples itself while somebody asks (`feedline/live`); here its numbers become lines, cut to the size of the
//! terminal. Without a terminal they are printed once.

use crate::attach::{self, Process};
use crate::session::{Session, bytes, count};
use crate::terminal::Terminal;
use clap::Args;
use feedline::Result;
use feedline::plan::time_text;
use serde_json::Value as Json;
use std::time::{Duration, Instant};

/// Show what the pipelines of a running process do
///
/// Rates, costs and memory of every operator, the one that holds the pipeline back, and recent errors, once a second.
/// The process must let itself be looked at: by fl.dashboard() or fl.serve(), or FEEDLINE_SERVE=1 in its environment.
/// Keys: q ends it, Tab shows the next pipeline, p pauses. Without a terminal, or with --json, one look is printed.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  feedline top            the only process of yours that can be looked at
  feedline top 4711       one of several
  feedline top --json     one look, for scripts")]
pub struct Top {
    /// Number of the process; not needed if there is only one
    pid: Option<u32>,
}

const EVERY: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(100);

impl Top {
    pub fn run(self, session: &Session<'_>) -> Result<bool> {
        let process = attach::find(self.pid)?;
        let first = look(&process)?;
        if session.json {
            return session.document(&first).map(|()| true);
        }
        match Terminal::take() {
            Some(terminal) => {
                let last_words = watch(session, &process, first, &terminal)?;
                drop(terminal);
                if let Some(text) = last_words {
                    session.remark(text);
                }
                Ok(true)
            }
            None => {
                // Rates need two looks.
                std::thread::sleep(EVERY);
                let state = look(&process)?;
                for shown in 0..pipelines(&state).len().max(1) {
                    lines(&state, shown, 200, usize::MAX, false).iter().try_for_each(|l| session.line(l))?;
                }
                Ok(true)
            }
        }
    }
}

/// What the process tells now.
fn look(process: &Process) -> Result<Json> {
    process.ask("/state?most=1")
}

/// Draws until a key, a signal or the end of the process says to stop. Gives what is to be said when the screen is as it
/// was.
fn watch(session: &Session<'_>, process: &Process, mut state: Json, terminal: &Terminal) -> Result<Option<String>> {
    // The newest pipeline is the one that somebody is waiting for.
    let mut shown = pipelines(&state).len().saturating_sub(1);
    let (mut paused, mut trouble, mut asked) = (false, None, Instant::now());
    let mut drawn = None;
    loop {
        session.go_on()?;
        if asked.elapsed() >= EVERY && !paused {
            asked = Instant::now();
            drawn = None;
            match look(process) {
                Ok(new) => (state, trouble) = (new, None),
                Err(_) if !process.lives() => {
                    return Ok(Some(format!("process {} has ended", process.pid)));
                }
                Err(error) => trouble = Some(error.message().to_owned()),
            }
        }
        let (columns, rows) = terminal.size();
        if drawn != Some((columns, rows)) {
            drawn = Some((columns, rows));
            let mut page = lines(&state, shown, columns, rows.saturating_sub(1), true);
            let keys = if paused { "paused; p: go on   q: quit" } else { "q: quit   Tab: next pipeline   p: pause" };
            page.push(cut(trouble.as_deref().unwrap_or(keys), columns));
            terminal.draw(&page);
        }
        match terminal.key(LOOK) {
            Some(Some(b'q' | b'Q') | None) => return Ok(None),
            Some(Some(b'\t')) => shown = (shown + 1) % pipelines(&state).len().max(1),
            Some(Some(b'p')) => paused = !paused,
            _ => continue,
        }
        drawn = None;
    }
}

fn pipelines(state: &Json) -> &[Json] {
    state["pipelines"].as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Json) -> f64 {
    value.as_f64().unwrap_or(0.0)
}
fn whole(value: &Json) -> u64 {
    number(value) as u64
}
/// Text of another process: nothing in it may steer the terminal.
fn text(value: &Json) -> String {
    value.as_str().unwrap_or("").chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// One pipeline in at most so many lines.
fn lines(state: &Json, shown: usize, columns: usize, most: usize, color: bool) -> Vec<String> {
    let process = &state["process"];
    let mut out = vec![format!(
        "feedline {} · {} · process {} · {} workers · {}",
        text(&process["version"]),
        text(&process["program"]),
        whole(&process["pid"]),
        whole(&process["cpu_budget"]),
        bytes(whole(&process["memory"]))
    )];
    let all = pipelines(state);
    let Some((pipeline, sample)) = all.get(shown).and_then(|p| Some((p, p["samples"].as_array()?.last()?))) else {
        out.push("no pipeline runs in this process yet".into());
        return out.iter().take(most).map(|l| cut(l, columns)).collect();
    };
    let running = pipeline["alive"] == true && sample["ended"] != true;
    out.push(format!(
        "{} · pass {}, {} {:.0} s{}",
        text(&pipeline["name"]),
        whole(&pipeline["passes"]),
        if running { "for" } else { "ended after" },
        number(&sample["seconds"]),
        if all.len() > 1 { format!(" · {} of {}", shown + 1, all.len()) } else { String::new() }
    ));
    let nodes = sample["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    out.push(format!(
        "{} elements/s · your loop waits {:.0} % · {} delivered · {} buffered",
        rate(&sample["rate"]),
        number(&sample["waited"]) * 100.0,
        count(whole(&sample["delivered"])),
        bytes(whole(&sample["held"]))
    ));
    for left in pipeline["left_out"].as_array().map_or(&[][..], Vec::as_slice) {
        out.push(format!("{} left out {} elements", text(&left["operator"]), count(whole(&left["elements"]))));
    }
    let shape = pipeline["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let holding = sample["holding"].as_u64().map(|i| i as usize);
    out.push(match holding.and_then(|i| shape.get(i)) {
        Some(node) => match text(&sample["limit"]).as_str() {
            "" => format!("the pipeline is the limit: {} holds it", text(&node["op"])),
            how => format!("the pipeline is the limit: {} holds it: {how}", text(&node["op"])),
        },
        None if sample["holding"] == "consumer" => "your loop is the limit: the pipeline keeps up with it".into(),
        None => "nothing is known yet".into(),
    });
    out.push(String::new());
    let mut out: Vec<String> = out.iter().map(|l| cut(l, columns)).collect();

    // Sources first, as data flows.
    let name_columns = columns.saturating_sub(2 + 5 * 11).clamp(8, 60);
    let row = |mark: &str, name: &str, cells: [String; 5]| {
        let cells: String = cells.iter().map(|c| format!("{c:>11}")).collect();
        cut(&format!("{mark} {:<name_columns$}{cells}", cut(name, name_columns)), columns)
    };
    out.push(row(" ", "operator", ["rows/s", "a row", "cores", "held", "errors"].map(String::from)));
    for (i, (node, n)) in shape.iter().zip(nodes).enumerate().rev() {
        let params = text(&node["params"]);
        let name = text(&node["op"]) + &if params.is_empty() { String::new() } else { format!("({params})") };
        let cells = [
            rate(&n["rate"]),
            n["row_ns"].as_f64().map_or("-".into(), |ns| time_text(ns as u64)),
            format!("{:.2}", number(&n["busy"])),
            bytes(whole(&n["held"])).to_string(),
            count(whole(&n["errors"])).to_string(),
        ];
        let holds = holding == Some(i);
        let line = row(if holds { ">" } else { " " }, &name, cells);
        out.push(if holds && color { format!("\x1b[1;33m{line}\x1b[0m") } else { line });
    }
    let errors = state["errors"].as_array().map_or(&[][..], Vec::as_slice);
    if !errors.is_empty() {
        out.push(String::new());
        let now = number(&process["time"]);
        let lines = errors.iter().rev().take(8);
        out.extend(
            lines.map(|e| cut(&format!("{:.0} s ago: {}", now - number(&e["time"]), text(&e["text"])), columns)),
        );
    }
    out.truncate(most);
    out
}

/// A number of things a second.
fn rate(value: &Json) -> String {
    match number(value) {
        n if n < 9.95 => format!("{n:.1}"),
        n => count(n.round() as u64).to_string(),
    }
}

fn cut(text: &str, columns: usize) -> String {
    match text.chars().count() > columns {
        false => text.to_owned(),
        true => text.chars().take(columns.saturating_sub(1)).chain(Some('…').filter(|_| columns > 0)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn state() -> Json {
        json!({
            "process": { "pid": 7, "program": "train.py", "version": "1", "cpu_budget": 2, "memory": 5000000, "time": 100.0 },
            "pipelines": [{
                "name": "range → map", "passes": 2, "alive": true,
                "nodes": [{ "op": "map", "params": "x\u{1b}[2J", "inputs": [1] }, { "op": "range", "params": "", "inputs": [] }],
                "samples": [{
                    "seconds": 3.0, "delivered": 1234567, "rate": 99.6, "waited": 0.5, "holding": 0, "ended": false,
                    "nodes": [
                        { "rate": 3.0, "busy": 1.5, "row_ns": 2000.0, "held": 1000, "errors": 3 },
                        { "rate": 0.0, "busy": 0.0, "row_ns": null, "held": 0, "errors": 0 },
                    ],
                }],
            }],
            "errors": [{ "time": 90.0, "text": "too much" }],
        })
    }

    #[test]
    fn a_look_is_readable() {
        let page = lines(&state(), 0, 100, 100, false).join("\n");
        assert!(page.contains("range → map · pass 2, for 3 s"), "{page}");
        assert!(page.contains("100 elements/s · your loop waits 50 % · 1,234,567 delivered"), "{page}");
        assert!(
            page.contains("map holds it") && page.contains("> map(x [2J)") && page.contains("10 s ago: too much"),
            "{page}"
        );
        let (range, map) = (page.find("  range").unwrap(), page.find("> map").unwrap());
        assert!(range < map, "sources first");
    }

    #[test]
    fn it_fits_any_terminal() {
        for columns in [0, 1, 5, 20, 60, 80, 200] {
            for most in [0, 1, 3, 50] {
                let page = lines(&state(), 0, columns, most, false);
                assert!(page.len() <= most.max(1));
                assert!(page.iter().all(|l| l.chars().count() <= columns), "{columns}: {page:?}");
            }
        }
    }

    #[test]
    fn whatever_a_process_tells_is_survived() {
        for odd in [
            json!(null),
            json!({}),
            json!({ "pipelines": 3 }),
            json!({ "pipelines": [{ "samples": [{ "nodes": 1, "holding": 99 }] }] }),
        ] {
            assert!(!lines(&odd, 0, 80, 24, true).is_empty());
        }
    }
}
