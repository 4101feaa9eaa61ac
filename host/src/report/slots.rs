//! What the slots of a cache hold over time, and how often content is used again.
//!
//! Above, how many slots are being filled, in use, idle and empty. Below, a line a slot: each bar is the stay of one
//! content, the darker the more often it was used.

use super::svg::{Drawing, Point};
use crate::quantity::{Count, Nanos};

const LEFT: f64 = 150.0;
const WIDTH: f64 = 860.0;
const AREA: f64 = 220.0;
const REUSE: f64 = 90.0;
const GAP: f64 = 46.0;
/// Slots that get a line of their own.
pub const LINES_MAX: usize = 96;

/// What the slots held at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlotSample {
    /// Since the start, in nanoseconds.
    pub at_ns: u64,
    /// Slots that are being filled, in use, idle with content, and empty.
    pub slots: [u32; 4],
    /// Uses so far.
    pub uses: u64,
    /// Loads so far.
    pub loads: u64,
}

/// One content in one slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stay {
    /// The slot.
    pub slot: u32,
    /// The content.
    pub data: u64,
    /// Since the start, in nanoseconds.
    pub from_ns: u64,
    /// When the next content came, or the end.
    pub until_ns: u64,
    /// How many points were computed from it.
    pub uses: u32,
}

/// What the slots of a cache held over time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SlotUse {
    /// In order of time.
    pub samples: Vec<SlotSample>,
    /// Stays in the first slots.
    pub stays: Vec<Stay>,
}

/// Names of the four kinds, with the number of their colour.
const KINDS: [(&str, usize); 4] = [("being loaded", 2), ("in use", 1), ("idle", 3), ("empty", 0)];

impl SlotUse {
    /// The drawing as a file of its own; `None` if there is nothing to draw.
    #[must_use]
    pub fn to_svg(&self) -> Option<String> {
        let style = include_str!("style.css");
        let drawing = draw(self)?;
        let (head, body) = drawing.split_once('\n')?;
        let head = head.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1);
        let font = "svg { background: var(--page); font-family: system-ui, sans-serif; }";
        Some(format!("{head}\n<style>\n{style}{font}\n</style>\n{body}"))
    }
}

/// Draws it; `None` without two samples.
pub(super) fn draw(of: &SlotUse) -> Option<String> {
    let end = of.samples.last().map(|sample| sample.at_ns).filter(|&end| end > 0 && of.samples.len() > 1)?;
    let total = of.samples.iter().map(|sample| sample.slots.iter().sum::<u32>()).max().filter(|&total| total > 0)?;
    let x = |ns: u64| LEFT + WIDTH * ns as f64 / end as f64;
    let mut drawing = Drawing::new();
    drawing.cover(Point { x: 0.0, y: 0.0 }, 0.0);
    drawing.cover(Point { x: LEFT + WIDTH + 24.0, y: 0.0 }, 0.0);
    let mut at = LEFT;
    for (name, colour) in KINDS {
        drawing.push(format_args!(
            r#"<rect class="phase phase-{colour}" x="{at:.1}" y="2" width="12" height="12" rx="3"/>"#
        ));
        drawing.text("legend", Point { x: at + 18.0, y: 8.5 }, "start", name);
        at += 40.0 + 7.0 * name.len() as f64;
    }
    let (top, bottom) = (34.0, 34.0 + AREA);
    areas(&mut drawing, of, total, bottom, &x);
    drawing.text("lane", Point { x: LEFT - 12.0, y: top + AREA / 2.0 }, "end", "slots");
    drawing.text("tick", Point { x: LEFT - 12.0, y: top }, "end", &Count(u64::from(total)).to_string());
    let bottom = reuse(&mut drawing, of, bottom + GAP, &x);
    let bottom = stays(&mut drawing, &of.stays, bottom + GAP, &x);
    for quarter in 0..=4 {
        let ns = end / 4 * quarter;
        drawing.text("tick", Point { x: x(ns), y: bottom + 14.0 }, "middle", &Nanos(ns).to_string());
    }
    drawing.cover(Point { x: LEFT, y: bottom + 22.0 }, 0.0);
    Some(drawing.finish("slots of the cache over time"))
}

/// The kinds on top of each other, in steps: what a sample tells holds until the next one.
fn areas(drawing: &mut Drawing, of: &SlotUse, total: u32, bottom: f64, x: &impl Fn(u64) -> f64) {
    let height = |slots: u32| AREA * f64::from(slots) / f64::from(total);
    for (kind, (name, colour)) in KINDS.iter().enumerate() {
        let level = |sample: &SlotSample, kinds: usize| bottom - height(sample.slots[..kinds].iter().sum());
        let over = of.samples.iter().map(|sample| format!("H{:.1}V{:.1}", x(sample.at_ns), level(sample, kind + 1)));
        let under = of.samples.iter().rev().map(|sample| format!("V{:.1}H{:.1}", level(sample, kind), x(sample.at_ns)));
        let path: String = over.chain(under).collect();
        drawing.push(format_args!(
            r#"<path class="phase-{colour}" d="M{LEFT} {bottom:.1}{path}Z"><title>{name}</title></path>"#
        ));
    }
    drawing.push(format_args!(r#"<path class="axis" d="M{LEFT} {bottom:.1} h{WIDTH}"/>"#));
}

/// Uses for each load, in each stretch of time; returns where it ends.
fn reuse(drawing: &mut Drawing, of: &SlotUse, top: f64, x: &impl Fn(u64) -> f64) -> f64 {
    let bottom = top + REUSE;
    let share = |pair: &[SlotSample]| {
        let [before, after] = pair else { return None };
        let (uses, loads) = (after.uses - before.uses, after.loads - before.loads);
        (uses > 0).then(|| (before.at_ns, after.at_ns, 1.0 - loads as f64 / uses.max(loads) as f64))
    };
    // A stretch has one share; where nothing was used there is none.
    let mut end = None;
    let mut path = String::new();
    for (from, to, share) in of.samples.windows(2).filter_map(share) {
        let y = bottom - REUSE * share;
        let joined = if end == Some(from) { format!("V{y:.1}") } else { format!("M{:.1} {y:.1}", x(from)) };
        path += &format!("{joined}H{:.1}", x(to));
        end = Some(to);
    }
    drawing.push(format_args!(r#"<path class="axis" d="M{LEFT} {bottom:.1} h{WIDTH}"/>"#));
    drawing.push(format_args!(r#"<path class="grid" d="M{LEFT} {top:.1} h{WIDTH}"/>"#));
    if !path.is_empty() {
        drawing.push(format_args!(r#"<path class="extent phase-5" style="fill:none" d="{path}"/>"#));
    }
    drawing.text("lane", Point { x: LEFT - 12.0, y: top + REUSE / 2.0 }, "end", "found in a slot");
    drawing.text("tick", Point { x: LEFT - 12.0, y: top }, "end", "100 %");
    drawing.text("tick", Point { x: LEFT - 12.0, y: bottom }, "end", "0 %");
    bottom
}

/// A line a slot; returns where it ends.
fn stays(drawing: &mut Drawing, stays: &[Stay], top: f64, x: &impl Fn(u64) -> f64) -> f64 {
    let lines = stays.iter().map(|stay| stay.slot as usize + 1).max().unwrap_or(0).min(LINES_MAX);
    let most = stays.iter().map(|stay| stay.uses).max().unwrap_or(1).max(1);
    let thick = if lines > 48 { 5.0 } else { 9.0 };
    for stay in stays.iter().filter(|stay| (stay.slot as usize) < lines) {
        let (from, until) = (x(stay.from_ns), x(stay.until_ns));
        let shade = 0.2 + 0.8 * f64::from(stay.uses) / f64::from(most);
        drawing.push(format_args!(
            r#"<rect class="phase-{}" x="{from:.1}" y="{:.1}" width="{:.1}" height="{:.1}" opacity="{shade:.2}"><title>slot {}: input {}, used {} times</title></rect>"#,
            1 + stay.data % 7,
            top + thick * f64::from(stay.slot),
            (until - from - 0.4).max(0.6),
            thick - 1.0,
            stay.slot,
            stay.data,
            stay.uses,
        ));
    }
    if lines > 0 {
        let middle = top + thick * lines as f64 / 2.0;
        drawing.text("lane", Point { x: LEFT - 12.0, y: middle }, "end", &format!("slots 0 to {}", lines - 1));
    }
    top + thick * lines as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_has_its_areas_and_its_stays() {
        let sample = |at_ns, slots, uses, loads| SlotSample { at_ns, slots, uses, loads };
        let of = SlotUse {
            samples: vec![
                sample(0, [1, 0, 0, 3], 0, 1),
                sample(50, [1, 2, 1, 0], 9, 4),
                sample(100, [0, 0, 4, 0], 20, 5),
            ],
            stays: vec![Stay { slot: 0, data: 7, from_ns: 0, until_ns: 100, uses: 3 }],
        };
        let svg = of.to_svg().unwrap();
        assert!(svg.starts_with("<svg xmlns=") && svg.contains("input 7, used 3 times") && svg.contains("<style>"));
        assert_eq!(svg.matches("<path class=\"phase-").count(), 4);
        // Two of four slots are idle from half of the time on, and none before: a step, not a ramp.
        let area = r#"<path class="phase-2" d="M150 254.0H150.0V199.0H580.0V199.0H1010.0V254.0V254.0H1010.0"#;
        assert!(svg.contains(area), "{svg}");
        let share = |svg: &str| {
            let (_, path) = svg.split_once(r#"<path class="extent phase-5" style="fill:none" d=""#).unwrap();
            path.split('"').next().unwrap().to_owned()
        };
        assert!(!share(&svg).contains('L') && share(&svg).matches('M').count() == 1, "{}", share(&svg));
        // Nothing is told of a stretch without uses.
        let later = [sample(150, [0, 0, 4, 0], 20, 5), sample(200, [0, 0, 4, 0], 30, 5)];
        let quiet = SlotUse { samples: [&of.samples[..], &later].concat(), ..SlotUse::default() }.to_svg().unwrap();
        assert_eq!(share(&quiet).matches('M').count(), 2, "{}", share(&quiet));
        assert_eq!(SlotUse::default().to_svg(), None);
    }
}
