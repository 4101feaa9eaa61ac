//! A call as a drawing: a line for each member, a bar for each run.
//!
//! Further lines show what went between the members.

use std::fmt::Write as _;

use umbra::call::probe::Run;
use umbra::quantity::{Nanos, counted};
use umbra_core::chain::Node;

const LEFT: f64 = 70.0;
const WIDTH: f64 = 800.0;
const TOP: f64 = 50.0;
const LINE: f64 = 18.0;
const BAR: f64 = 10.0;
/// A run that takes no time to speak of is seen all the same.
const LEAST: f64 = 1.5;

/// The drawing, as the text of an SVG file.
pub(super) fn draw(function: &str, maker: Node, runs: &[Run]) -> String {
    let mut members: Vec<Node> = Vec::new();
    for run in runs {
        if !members.contains(&run.node) {
            members.push(run.node);
        }
    }
    let first = runs.iter().map(|run| run.began.0).min().unwrap_or(0);
    let last = runs.iter().map(|run| run.ended.0).max().unwrap_or(0);
    let span = last.saturating_sub(first).max(1);
    let x = |time: u64| LEFT + WIDTH * (time.saturating_sub(first) as f64 / span as f64);
    let y = |node: Node| members.iter().position(|&other| other == node).map(|at| TOP + LINE * at as f64 + LINE / 2.0);
    let height = TOP + LINE * members.len() as f64 + 40.0;
    let mut svg = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {:.0} {height:.0}" font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="10" y="22" font-size="14">{} · {}, called by {maker} · {}</text>"##,
        LEFT + WIDTH + 20.0,
        escape(function),
        counted(members.len() as u64, "member", "members"),
        Nanos(span),
    );
    for (at, node) in members.iter().enumerate() {
        let y = TOP + LINE * at as f64 + LINE / 2.0;
        let _ = writeln!(
            svg,
            r##"<text x="{:.1}" y="{:.1}" text-anchor="end" fill="#555">{node}</text><path d="M{LEFT} {y:.1}H{:.1}" stroke="#eee"/>"##,
            LEFT - 8.0,
            y + 4.0,
            LEFT + WIDTH,
        );
    }
    for run in runs {
        let Some(here) = y(run.node) else { continue };
        let ended_before = |node: Node, at: u64| {
            runs.iter().filter(|other| other.node == node && other.ended.0 <= at).map(|other| other.ended.0).max()
        };
        // A function is reached from its parent's, a callback from the child's last run.
        let (from, colour) = match run.child {
            Some(child) => (Some(child), "#c77d2f"),
            None => (run.parent, "#3b6ea5"),
        };
        if let Some((from, there)) = from.and_then(|from| Some((from, y(from)?)))
            && let Some(left) = ended_before(from, run.began.0)
        {
            let (x1, x2) = (x(left), x(run.began.0));
            let _ = writeln!(
                svg,
                r##"<path d="M{x1:.1} {there:.1}L{x2:.1} {here:.1}" stroke="{colour}" stroke-opacity="0.35"/>"##
            );
        }
        let (x1, width) = (x(run.began.0), (x(run.ended.0) - x(run.began.0)).max(LEAST));
        let what = if run.child.is_some() { "callback" } else { "func" };
        let _ = writeln!(
            svg,
            r##"<rect x="{x1:.1}" y="{:.1}" width="{width:.1}" height="{BAR}" fill="{colour}"><title>{} {what}, {}</title></rect>"##,
            here - BAR / 2.0,
            run.node,
            Nanos(run.ended.since(run.began).0),
        );
    }
    let below = height - 14.0;
    let _ = writeln!(
        svg,
        r##"<text x="{LEFT}" y="{below:.1}" fill="#3b6ea5">function, request</text><text x="{:.1}" y="{below:.1}" fill="#c77d2f">callback, answer</text>
</svg>"##,
        LEFT + 120.0,
    );
    svg
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use umbra_core::time::Time;

    use super::*;

    #[test]
    fn every_run_is_a_bar_and_every_edge_a_line() {
        let run = |node, parent, child, began| Run {
            node: Node(node),
            parent,
            child,
            began: Time(began),
            ended: Time(began + 10),
        };
        let runs = [
            run(0, Some(Node(9)), None, 100),
            run(1, Some(Node(0)), None, 200),
            run(0, Some(Node(9)), Some(Node(1)), 300),
        ];
        let svg = draw("a<b", Node(9), &runs);
        assert_eq!(svg.matches("<title>").count(), 3);
        assert_eq!(svg.matches("stroke-opacity").count(), 2, "nothing is known of the one who made the call");
        assert!(svg.contains("a&lt;b") && svg.ends_with("</svg>\n"), "{svg}");
        assert!(draw("none", Node(0), &[]).contains("0 members"));
    }
}
