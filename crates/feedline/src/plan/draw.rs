//! A plan as a picture: for Graphviz, for Mermaid, and as a page that needs nothing else (an SVG and a table).

use super::explain::{cut, limit_text, rate, time, times};
use super::{Plan, model};
use crate::runtime::{Meter, Meters};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// An operator to draw.
struct Shape {
    id: u64,
    inputs: Vec<u64>,
    title: String,
    /// What its elements are, or what it cost.
    detail: String,
    /// Holds the others back.
    holds: bool,
    /// Of all the work, from 0 to 1.
    share: f64,
    cells: Vec<String>,
}

/// The operators of a plan, inputs first, with what the pass measured if there was one.
fn shapes(plan: &Plan, meters: Option<&Meters>) -> Vec<Shape> {
    let mut nodes = Vec::new();
    plan.walk(&mut |p| nodes.push(p.clone()));
    let holder = meters.and_then(|m| model(plan, m).bounds().first().map(|b| b.id));
    let found: Vec<Option<Arc<Meter>>> = nodes.iter().map(|p| meters.and_then(|m| m.get(p.id))).collect();
    let busy = |m: &Option<Arc<Meter>>| m.as_ref().map_or(0, |m| m.busy_ns.load(Relaxed));
    let total: u64 = found.iter().map(busy).sum::<u64>().max(1);
    let draw = |(plan, meter): (&Plan, &Option<Arc<Meter>>)| {
        let spec = plan.spec.to_string();
        let mut cells =
            vec![cut(&format!("{}({})", plan.name(), plan.op.show()), 120), spec.clone(), plan.card.to_string()];
        let share = busy(meter) as f64 / total as f64;
        let detail = match meter {
            None => cut(&spec, 60),
            Some(m) => {
                let rows = m.rows.load(Relaxed);
                let each = busy(meter).checked_div(rows).map_or("-".into(), time);
                cells.extend([rows.to_string(), each.clone(), format!("{:.0} %", share * 100.0)]);
                format!("{rows} rows, {each} each, {:.0} %", share * 100.0)
            }
        };
        let inputs = plan.inputs.iter().map(|i| i.id).collect();
        let title = cut(&format!("{}({})", plan.name(), plan.op.show()), 40);
        Shape { id: plan.id, inputs, title, detail, holds: holder == Some(plan.id), share, cells }
    };
    nodes.iter().zip(&found).map(draw).collect()
}

/// For Graphviz: `dot -Tsvg`.
pub fn dot(plan: &Plan, meters: Option<&Meters>) -> String {
    let quoted = |s: &str| s.replace('\\', "\\\\").replace('"', "\\\"");
    let mut out = String::from("digraph pipeline {\n  node [shape=box, style=rounded, fontname=\"sans-serif\"]\n");
    for shape in shapes(plan, meters) {
        let mark = if shape.holds { ", color=red, penwidth=2" } else { "" };
        let label = format!("{}\\n{}", quoted(&shape.title), quoted(&shape.detail));
        let _ = writeln!(out, "  n{} [label=\"{label}\"{mark}]", shape.id);
        shape.inputs.iter().for_each(|i| out.push_str(&format!("  n{i} -> n{}\n", shape.id)));
    }
    out + "}\n"
}

/// For Mermaid, which many pages with notes and code draw.
pub fn mermaid(plan: &Plan, meters: Option<&Meters>) -> String {
    let quoted = |s: &str| escaped(s).replace('#', "#35;").replace('&', "#").replace('\n', " ");
    let mut out = String::from("flowchart TD\n");
    for shape in shapes(plan, meters) {
        let _ = writeln!(out, "  n{}[\"{}<br/>{}\"]", shape.id, quoted(&shape.title), quoted(&shape.detail));
        shape.inputs.iter().for_each(|i| out.push_str(&format!("  n{i} --> n{}\n", shape.id)));
        if shape.holds {
            let _ = writeln!(out, "  style n{} stroke:#c00,stroke-width:3px", shape.id);
        }
    }
    out
}

/// Text that is no markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const WIDTH: f64 = 330.0;
const HEIGHT: f64 = 46.0;
const GAP: f64 = 22.0;
/// More operators than this are easier to read in the table alone.
const MOST: usize = 60;

/// An SVG and a table, in the colours of the page around it.
pub fn html(plan: &Plan, meters: Option<&Meters>) -> String {
    let shapes = shapes(plan, meters);
    let mut out = String::from("<div style=\"font-family:sans-serif;font-size:13px\">");
    if shapes.len() <= MOST {
        svg(&mut out, &shapes);
    }
    if let Some(meters) = meters {
        let model = model(plan, meters);
        if let Some(bound) = model.bounds().first() {
            let text = match model.is_consumer_bound() {
                true => format!(
                    "the consumer is the limit: input has {} x headroom",
                    times(model.headroom().unwrap_or(1.0))
                ),
                false => format!("held by {}: {}", bound.name, limit_text(bound.limit)),
            };
            let _ = write!(out, "<p>at best {} a second; {}</p>", rate(model.ceiling()), escaped(&text));
        }
    }
    let run = if meters.is_some() { "<th>rows</th><th>per row</th><th>share</th>" } else { "" };
    let _ = write!(out, "<table><tr><th>operator</th><th>elements</th><th>count</th>{run}</tr>");
    for shape in &shapes {
        out.push_str("<tr>");
        shape.cells.iter().for_each(|c| out.push_str(&format!("<td>{}</td>", escaped(c))));
        out.push_str("</tr>");
    }
    out + "</table></div>"
}

/// Sources above, the end below; what has several inputs stands in the middle under them.
fn svg(out: &mut String, shapes: &[Shape]) {
    let mut at: HashMap<u64, (f64, f64)> = HashMap::new();
    let mut columns = 0.0;
    for shape in shapes {
        let above: Vec<(f64, f64)> = shape.inputs.iter().filter_map(|i| at.get(i).copied()).collect();
        let place = match above.as_slice() {
            [] => {
                columns += 1.0;
                (columns - 1.0, 0.0)
            }
            above => {
                let x = above.iter().map(|p| p.0).sum::<f64>() / above.len() as f64;
                (x, above.iter().map(|p| p.1).fold(0.0, f64::max) + 1.0)
            }
        };
        at.insert(shape.id, place);
    }
    let rows = at.values().map(|p| p.1).fold(0.0, f64::max) + 1.0;
    let corner = |p: (f64, f64)| (p.0 * (WIDTH + GAP) + 2.0, p.1 * (HEIGHT + GAP) + 2.0);
    let (width, height) = (columns.max(1.0) * (WIDTH + GAP), rows * (HEIGHT + GAP));
    let _ = write!(
        out,
        "<svg role=\"img\" aria-label=\"the pipeline\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         style=\"max-width:100%\" fill=\"none\" stroke=\"currentColor\">"
    );
    for shape in shapes {
        let (x, y) = corner(at[&shape.id]);
        for input in &shape.inputs {
            let (a, b) = corner(at[input]);
            let (x1, y1, x2) = (a + WIDTH / 2.0, b + HEIGHT, x + WIDTH / 2.0);
            let _ = write!(out, "<path d=\"M{x1} {y1}L{x2} {y}\"></path>");
        }
        let (stroke, pen) = if shape.holds { ("#c62828", 2.5) } else { ("currentColor", 1.0) };
        let (fill, opacity) = ("#f9a825", shape.share * 0.6);
        let _ = write!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"6\" stroke=\"{stroke}\" \
             stroke-width=\"{pen}\" fill=\"{fill}\" fill-opacity=\"{opacity:.2}\"></rect>"
        );
        for (line, text) in [(19.0, &shape.title), (37.0, &shape.detail)] {
            let (x, y) = (x + 10.0, y + line);
            let _ = write!(
                out,
                "<text x=\"{x}\" y=\"{y}\" fill=\"currentColor\" stroke=\"none\" font-size=\"12\">{}</text>",
                escaped(&cut(text, 48))
            );
        }
    }
    out.push_str("</svg>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dataset;

    #[test]
    fn all_operators_are_drawn_and_text_stays_text() {
        let ds = Dataset::from_tensor_slices(crate::element::Tensor::strings([1], &["<b>\"x\""])).unwrap();
        let ds = ds.concatenate(&ds).unwrap().batch(2, false).unwrap();
        let (dot, mermaid, html) = (dot(ds.plan(), None), mermaid(ds.plan(), None), html(ds.plan(), None));
        for name in ["from_tensor_slices", "concatenate", "batch"] {
            assert!([&dot, &mermaid, &html].iter().all(|text| text.contains(name)), "{name}");
        }
        assert_eq!(dot.matches(" -> ").count(), 3);
        assert_eq!(mermaid.matches(" --> ").count(), 3);
        assert_eq!(escaped("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
        assert!(html.starts_with("<div") && html.ends_with("</div>") && !html.contains("<b>"));
    }

    #[test]
    fn what_holds_it_is_marked() {
        let ds = Dataset::range(1000).unwrap().batch(2, false).unwrap();
        assert_eq!(ds.iter().unwrap().count(), 500);
        let (runs, meters) = (ds.plan().runs().unwrap(), ds.plan().meters().unwrap());
        assert!(dot(&runs, Some(&meters)).contains("color=red"));
        assert!(mermaid(&runs, Some(&meters)).contains("stroke:#c00"));
        assert!(html(&runs, Some(&meters)).contains("at best"));
    }
}
