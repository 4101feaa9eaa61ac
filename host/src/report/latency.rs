//! How long reads took, one panel a data path, on one logarithmic axis.

use super::Path;
use super::svg::{Drawing, Point};
use crate::quantity::{Bytes, Count, Nanos};

const LEFT: f64 = 150.0;
const WIDTH: f64 = 860.0;
const PANEL: f64 = 130.0;
const GAP: f64 = 30.0;
const PER_DECADE: u32 = 20;
/// Percentiles with a mark, and the row on which their label stands.
const MARKS: [(f64, &str); 3] = [(0.50, "p50"), (0.90, "p90"), (0.99, "p99")];

/// Draws the panels; `None` if no path has a value.
pub(super) fn draw(paths: &[Path]) -> Option<String> {
    let low = paths.iter().filter_map(|p| p.latency.min()).min()?.max(1);
    let high = paths.iter().filter_map(|p| p.latency.max()).max()?.max(low + 1);
    let first = (low as f64).log10().floor();
    let last = (high as f64).log10().ceil().max(first + 1.0);
    let x = |exponent: f64| LEFT + WIDTH * (exponent - first) / (last - first);

    let mut drawing = Drawing::new();
    let shown: Vec<&Path> = paths.iter().filter(|p| p.latency.total() > 0).collect();
    let bottom_of = |i: usize| (PANEL + GAP) * i as f64 + PANEL;
    let floor = bottom_of(shown.len() - 1);
    let mut decade = first as i32;
    while f64::from(decade) <= last {
        let at = x(f64::from(decade));
        drawing.push(format_args!(r#"<path class="grid" d="M{at:.1} 0 V{floor:.1}"/>"#));
        drawing.text("tick", Point { x: at, y: floor + 16.0 }, "middle", &round(decade));
        for digit in 2..10 {
            let at = x(f64::from(decade) + f64::from(digit).log10());
            if f64::from(decade) < last {
                drawing.push(format_args!(r#"<path class="minor" d="M{at:.1} {:.1} v5"/>"#, floor));
            }
        }
        decade += 1;
    }
    for (i, path) in shown.iter().enumerate() {
        panel(&mut drawing, path, i, bottom_of(i), &x);
    }
    drawing.cover(Point { x: 0.0, y: 0.0 }, 0.0);
    drawing.cover(Point { x: LEFT + WIDTH + 24.0, y: floor + 22.0 }, 0.0);
    Some(drawing.finish("latency of reads by data path"))
}

/// A power of ten of nanoseconds, without digits that say nothing.
fn round(decade: i32) -> String {
    let units = ["ns", "µs", "ms", "s"];
    let unit = usize::try_from(decade.div_euclid(3)).unwrap_or(0).min(units.len() - 1);
    let rest = decade - 3 * unit as i32;
    format!("{} {}", 10_u64.pow(rest.unsigned_abs()), units[unit])
}

fn panel(drawing: &mut Drawing, path: &Path, index: usize, bottom: f64, x: &impl Fn(f64) -> f64) {
    let bins = path.latency.logarithmic(PER_DECADE);
    let most = bins.iter().map(|&(_, count)| count).max().unwrap_or(1).max(1);
    let colour = index % 8;
    let per_decade = f64::from(PER_DECADE);
    drawing.push(format_args!(r#"<path class="axis" d="M{LEFT} {bottom:.1} h{WIDTH}"/>"#));
    for (bin, count) in bins.iter().filter(|&&(_, count)| count > 0) {
        let (from, until) = (x(*bin as f64 / per_decade), x((*bin + 1) as f64 / per_decade));
        let height = ((PANEL - 44.0) * *count as f64 / most as f64).max(1.5);
        drawing.push(format_args!(
            r#"<rect class="bar phase-{colour}" x="{:.1}" y="{:.1}" width="{:.1}" height="{height:.1}" rx="1"><title>{} reads around {}</title></rect>"#,
            from + 0.5,
            bottom - height,
            (until - from - 1.0).max(1.0),
            Count(*count),
            Nanos(10_f64.powf((*bin as f64 + 0.5) / per_decade) as u64),
        ));
    }
    for (row, (fraction, name)) in MARKS.iter().enumerate() {
        let Some(value) = path.latency.quantile(*fraction) else { continue };
        let at = x((value.max(1) as f64).log10());
        let y = bottom - PANEL + 12.0 + 14.0 * row as f64;
        drawing.push(format_args!(r#"<path class="mark" d="M{at:.1} {bottom:.1} V{:.1}"/>"#, y));
        let label = format!("{name} {}", Nanos(value));
        let (at, anchor) = if at > LEFT + WIDTH - 110.0 { (at - 6.0, "end") } else { (at + 6.0, "start") };
        drawing.text("mark-label", Point { x: at, y }, anchor, &label);
    }
    let side = LEFT - 14.0;
    drawing.text("lane", Point { x: side, y: bottom - 52.0 }, "end", &path.name);
    drawing.text("tick", Point { x: side, y: bottom - 34.0 }, "end", &format!("{} reads", Count(path.reads)));
    drawing.text("tick", Point { x: side, y: bottom - 18.0 }, "end", &Bytes(path.bytes).to_string());
}
