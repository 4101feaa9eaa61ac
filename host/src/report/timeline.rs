//! What each process went through, on one axis of time.
//!
//! One lane a process while they fit; beyond that, ranks share a lane with the others of their service process, and
//! service processes with their neighbours. A shared lane shows medians as bars and extremes as thin lines.

use super::svg::{Drawing, Point};
use super::{Lane, LaneKind, Phase};
use crate::quantity::Nanos;

const LEFT: f64 = 150.0;
const WIDTH: f64 = 860.0;
const LANES_MAX: usize = 48;
/// Lanes of service processes that are kept apart.
const SERVICE_LANES_MAX: usize = 32;
/// Colours that the style sheet knows as `phase-0`, `phase-1`, ...
const COLOURS: usize = 8;

/// Several phases of one name, folded.
struct Band {
    colour: usize,
    name: String,
    earliest: u64,
    from: u64,
    until: u64,
    latest: u64,
}

struct Row {
    name: String,
    bands: Vec<Band>,
    is_rank: bool,
}

/// Draws the lanes; `None` if no lane has a phase.
pub(super) fn draw(lanes: &[Lane]) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for phase in lanes.iter().flat_map(|lane| &lane.phases) {
        if !names.contains(&phase.name.as_str()) {
            names.push(&phase.name);
        }
    }
    let end = lanes.iter().flat_map(|lane| &lane.phases).map(|p| p.until_ns).max().filter(|&end| end > 0)?;
    let rows = rows(lanes, &names);

    let mut drawing = Drawing::new();
    let x = |ns: u64| LEFT + WIDTH * ns as f64 / end as f64;
    legend(&mut drawing, &names);
    let height = match rows.len() {
        0..=16 => 24.0,
        17..=32 => 19.0,
        _ => 15.0,
    };
    let top = 34.0;
    let bottom = top + height * rows.len() as f64;
    for tick in ticks(end) {
        let at = x(tick);
        drawing.push(format_args!(r#"<path class="grid" d="M{at:.1} {top} V{bottom:.1}"/>"#));
        drawing.text("tick", Point { x: at, y: bottom + 14.0 }, "middle", &Nanos(tick).to_string());
    }
    for (i, row) in rows.iter().enumerate() {
        let y = top + height * (i as f64 + 0.5);
        let class = if row.is_rank { "lane rank-lane" } else { "lane" };
        drawing.text(class, Point { x: LEFT - 12.0, y }, "end", &row.name);
        let thick = height * 0.62;
        for band in row.bands.iter().filter(|band| band.earliest < band.from || band.until < band.latest) {
            drawing.push(format_args!(
                r#"<path class="extent phase-{}" d="M{:.1} {y:.1} H{:.1}"/>"#,
                band.colour % COLOURS,
                x(band.earliest),
                x(band.latest),
            ));
        }
        for band in &row.bands {
            let colour = band.colour % COLOURS;
            let (from, until) = (x(band.from), x(band.until));
            let title = format!("{}: {} in {} to {}", row.name, band.name, Nanos(band.from), Nanos(band.until));
            let title = super::svg::escape(&title);
            drawing.push(format_args!(
                r#"<rect class="phase phase-{colour}" x="{from:.1}" y="{:.1}" width="{:.1}" height="{thick:.1}" rx="2.5"><title>{title}</title></rect>"#,
                y - thick / 2.0,
                (until - from).max(1.5),
            ));
        }
    }
    drawing.cover(Point { x: 0.0, y: top }, 0.0);
    drawing.cover(Point { x: LEFT + WIDTH, y: bottom + 20.0 }, 0.0);
    Some(drawing.finish("phases of every process over time"))
}

fn legend(drawing: &mut Drawing, names: &[&str]) {
    let mut at = LEFT;
    for (i, name) in names.iter().enumerate() {
        let colour = i % COLOURS;
        drawing.push(format_args!(
            r#"<rect class="phase phase-{colour}" x="{at:.1}" y="2" width="12" height="12" rx="3"/>"#
        ));
        drawing.text("legend", Point { x: at + 18.0, y: 8.5 }, "start", name);
        at += 40.0 + 7.0 * name.chars().count() as f64;
    }
}

fn rows(lanes: &[Lane], names: &[&str]) -> Vec<Row> {
    let (services, ranks): (Vec<&Lane>, Vec<&Lane>) =
        lanes.iter().partition(|lane| lane.kind == LaneKind::ServiceProcess);
    if lanes.len() <= LANES_MAX {
        return lanes.iter().map(|lane| row(lane.name.clone(), &[lane], names)).collect();
    }
    let mut shadows: Vec<u32> = ranks.iter().filter_map(|lane| shadow(lane)).collect();
    shadows.sort_unstable();
    shadows.dedup();
    let share = services.len().div_ceil(SERVICE_LANES_MAX).max(1);
    let mut rows: Vec<Row> = services.chunks(share).map(|chunk| row(range_name(chunk), chunk, names)).collect();
    let share = shadows.len().div_ceil(LANES_MAX.saturating_sub(rows.len()).max(1)).max(1);
    for chunk in shadows.chunks(share) {
        let members: Vec<&Lane> =
            ranks.iter().copied().filter(|lane| shadow(lane).is_some_and(|s| chunk.contains(&s))).collect();
        let name = match chunk {
            [only] => format!("{} ranks of sp {only}", members.len()),
            [first, .., last] => format!("{} ranks of sp {first}–{last}", members.len()),
            [] => continue,
        };
        rows.push(row(name, &members, names));
    }
    rows
}

fn shadow(lane: &Lane) -> Option<u32> {
    match lane.kind {
        LaneKind::Rank(sp) => Some(sp),
        LaneKind::ServiceProcess => None,
    }
}

fn range_name(chunk: &[&Lane]) -> String {
    match chunk {
        [] => String::new(),
        [only] => only.name.clone(),
        [first, .., last] => format!("{} … {}", first.name, last.name),
    }
}

fn row(name: String, lanes: &[&Lane], names: &[&str]) -> Row {
    let median = |mut values: Vec<u64>| {
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    };
    let mut bands = Vec::new();
    for (colour, wanted) in names.iter().enumerate() {
        let phases: Vec<&Phase> = lanes.iter().flat_map(|l| &l.phases).filter(|p| p.name == *wanted).collect();
        if lanes.len() == 1 {
            bands.extend(phases.iter().map(|p| Band {
                colour,
                name: p.name.clone(),
                earliest: p.from_ns,
                from: p.from_ns,
                until: p.until_ns,
                latest: p.until_ns,
            }));
        } else if let (Some(earliest), Some(latest)) =
            (phases.iter().map(|p| p.from_ns).min(), phases.iter().map(|p| p.until_ns).max())
        {
            let from = median(phases.iter().map(|p| p.from_ns).collect());
            let until = median(phases.iter().map(|p| p.until_ns).collect()).max(from);
            bands.push(Band { colour, name: (*wanted).to_owned(), earliest, from, until, latest });
        }
    }
    let is_rank = lanes.first().is_some_and(|lane| lane.kind != LaneKind::ServiceProcess);
    Row { name, bands, is_rank }
}

/// Round points of time from zero to `end`, at most ten.
fn ticks(end: u64) -> Vec<u64> {
    let mut step = 1_u64;
    while end / step > 9 {
        // 1, 2, 5, 10, 20, 50, ...
        step = match step.to_string().starts_with('2') {
            true => step / 2 * 5,
            false => step.saturating_mul(2),
        };
    }
    (0..=end / step).map(|i| i * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(7), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(ticks(42_000_000), [0, 5, 10, 15, 20, 25, 30, 35, 40].map(|ms| ms * 1_000_000));
        for end in [1, 9, 10, 99, 12_345, u64::MAX / 2] {
            assert!(ticks(end).len() <= 10, "{end}");
        }
    }

    #[test]
    fn many_lanes_fold_to_what_fits_and_no_process_is_lost() {
        let lane = |kind, name: String| Lane {
            name,
            kind,
            phases: vec![Phase { name: "full".into(), from_ns: 1, until_ns: 5 }],
        };
        let mut lanes: Vec<Lane> = (0..32).map(|i| lane(LaneKind::ServiceProcess, format!("sp {i}"))).collect();
        lanes.extend((0..512).map(|i| lane(LaneKind::Rank(i % 32), format!("rank {i}"))));
        let rows = rows(&lanes, &["full"]);
        assert!(rows.len() <= LANES_MAX, "{}", rows.len());
        let ranks: usize = rows
            .iter()
            .filter_map(|row| row.name.split_once(" ranks").and_then(|(n, _)| n.parse::<usize>().ok()))
            .sum();
        assert_eq!(ranks, 512);
    }
}
