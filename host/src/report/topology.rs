//! The job as a ring: its hosts, their service processes, and their ranks.
//!
//! Hosts are sectors, service processes lie on the inner band, their ranks on the outer one. Chords join service
//! processes that exchanged parts of the table. What would become too small to tell apart is drawn in aggregate: ranks
//! as a number, service processes as one node a host, hosts beyond [`HOSTS_MAX`] as one node.

use super::Report;
use super::svg::{Drawing, Point};

/// Hosts that are drawn one by one.
const HOSTS_MAX: usize = 20;
/// Radius on which the service processes sit.
const RING: f64 = 190.0;
/// Service processes closer than this, in units of the drawing, are drawn as one node a host.
const TOO_CLOSE: f64 = 11.0;
/// The same, where the ranks behind them are told as a number.
const TOO_CLOSE_FOR_COUNTS: f64 = 32.0;
/// Rows of ranks behind one service process.
const ROWS_MAX: usize = 8;

/// One node on the ring.
struct Node {
    label: String,
    /// Names of the ranks behind it.
    ranks: Vec<u32>,
    /// Service processes that it stands for.
    numbers: Vec<u32>,
    degrees: f64,
    /// Stands for hosts that are not drawn.
    folded: bool,
}

struct Sector {
    label: String,
    from: usize,
    until: usize,
    centre: f64,
}

struct Ring {
    nodes: Vec<Node>,
    sectors: Vec<Sector>,
    /// Degrees between two nodes of one sector.
    pitch: f64,
}

impl Ring {
    /// Units between two nodes of one sector.
    fn spacing(&self) -> f64 {
        2.0 * RING * (self.pitch / 2.0).to_radians().sin()
    }
}

/// Draws the topology; `None` if there is no host.
pub(super) fn draw(report: &Report) -> Option<String> {
    let fitted = |merge| {
        let ring = layout(report, merge)?;
        let spacing = ring.spacing();
        let node_radius = (0.40 * spacing).clamp(3.0, 16.0);
        let ranks = RankGrid::fitting(&ring, node_radius);
        let too_close = spacing < if ranks.radius == 0.0 { TOO_CLOSE_FOR_COUNTS } else { TOO_CLOSE };
        Some((ring, node_radius, ranks, too_close))
    };
    let (ring, node_radius, ranks) = match fitted(false)? {
        (_, _, _, true) => fitted(true).map(|(ring, radius, ranks, _)| (ring, radius, ranks))?,
        (ring, radius, ranks, false) => (ring, radius, ranks),
    };
    let inner = RING - node_radius - 9.0;
    let middle = RING + node_radius + 9.0;
    let outer = middle + ranks.depth() + 8.0;

    let mut drawing = Drawing::new();
    for sector in &ring.sectors {
        let half = ring.pitch * (sector.until - sector.from) as f64 / 2.0;
        band(&mut drawing, "dpu", (inner, middle), sector.centre, half);
        band(&mut drawing, "host", (middle, outer), sector.centre, half);
        let at = Point::polar(outer + 16.0, sector.centre);
        let anchor = match sector.centre.to_radians().cos() {
            c if c > 0.25 => "start",
            c if c < -0.25 => "end",
            _ => "middle",
        };
        drawing.text("name", at, anchor, &sector.label);
    }
    links(&mut drawing, report, &ring, inner);
    for node in &ring.nodes {
        ranks.draw(&mut drawing, node, middle + 8.0);
        let at = Point::polar(RING, node.degrees);
        drawing.push(format_args!(
            r#"<circle class="sp" cx="{:.1}" cy="{:.1}" r="{node_radius:.1}"><title>{}</title></circle>"#,
            at.x,
            at.y,
            describe(node)
        ));
        drawing.cover(at, node_radius);
        if node_radius >= 8.0 {
            let class = if node_radius >= 11.0 { "sp-number" } else { "sp-number small" };
            drawing.text(class, at, "middle", &node.label);
        }
    }
    Some(drawing.finish("hosts, service processes and ranks of the job"))
}

fn describe(node: &Node) -> String {
    let ranks = match node.ranks.as_slice() {
        [] => "no ranks".to_owned(),
        [one] => format!("rank {one}"),
        [first, .., last] => format!("{} ranks, {first} to {last}", node.ranks.len()),
    };
    match node.numbers.as_slice() {
        [number] => format!("service process {number}: {ranks}"),
        numbers => format!("{} service processes: {ranks}", numbers.len()),
    }
}

fn layout(report: &Report, merge: bool) -> Option<Ring> {
    let shown = if report.hosts.len() > HOSTS_MAX { HOSTS_MAX - 1 } else { report.hosts.len() };
    let (single, rest) = report.hosts.split_at_checked(shown)?;
    let places = shown + usize::from(!rest.is_empty());
    let widest = single.iter().map(|h| h.service_processes.len()).max()?.max(1);
    let pitch_of = |nodes: usize| (360.0 / places as f64 / (nodes as f64 + 0.5)).min(30.0);
    let pitch = pitch_of(if merge { 1 } else { widest });
    // Two hosts stand left and right, any other number starts at the top.
    let start = if places == 2 { 180.0 } else { -90.0 };

    let (mut nodes, mut sectors) = (Vec::new(), Vec::new());
    for (h, host) in single.iter().enumerate() {
        let centre = start + 360.0 * h as f64 / places as f64;
        let from = nodes.len();
        if merge {
            nodes.push(Node {
                label: host.service_processes.len().to_string(),
                ranks: host.service_processes.iter().flat_map(|sp| sp.ranks.iter().copied()).collect(),
                numbers: host.service_processes.iter().map(|sp| sp.number).collect(),
                degrees: centre,
                folded: false,
            });
        } else {
            let count = host.service_processes.len() as f64;
            nodes.extend(host.service_processes.iter().enumerate().map(|(i, sp)| Node {
                label: sp.number.to_string(),
                ranks: sp.ranks.clone(),
                numbers: vec![sp.number],
                degrees: centre + pitch * (i as f64 - (count - 1.0) / 2.0),
                folded: false,
            }));
        }
        let until = nodes.len();
        sectors.push(Sector { label: format!("host {h}"), from, until: until.max(from + 1), centre });
    }
    if !rest.is_empty() {
        let centre = start + 360.0 * shown as f64 / places as f64;
        let all = || rest.iter().flat_map(|h| &h.service_processes);
        let from = nodes.len();
        nodes.push(Node {
            label: "…".to_owned(),
            ranks: all().flat_map(|sp| sp.ranks.iter().copied()).collect(),
            numbers: all().map(|sp| sp.number).collect(),
            degrees: centre,
            folded: true,
        });
        sectors.push(Sector { label: format!("+{} hosts", rest.len()), from, until: from + 1, centre });
    }
    Some(Ring { nodes, sectors, pitch })
}

/// A piece of a ring between two radii, `half` degrees to either side of `centre`.
fn band(drawing: &mut Drawing, class: &str, (inner, outer): (f64, f64), centre: f64, half: f64) {
    let (a, b) = (centre - half, centre + half);
    let large = u8::from(2.0 * half > 180.0);
    drawing.push(format_args!(
        r#"<path class="{class}" d="M{} A{outer:.1} {outer:.1} 0 {large} 1 {} L{} A{inner:.1} {inner:.1} 0 {large} 0 {} Z"/>"#,
        Point::polar(outer, a),
        Point::polar(outer, b),
        Point::polar(inner, b),
        Point::polar(inner, a),
    ));
    for degrees in [a, centre, b] {
        drawing.cover(Point::polar(outer, degrees), 0.0);
        drawing.cover(Point::polar(inner, degrees), 0.0);
    }
}

fn links(drawing: &mut Drawing, report: &Report, ring: &Ring, radius: f64) {
    let place = |number: u32| ring.nodes.iter().position(|node| node.numbers.contains(&number));
    let mut pairs: Vec<(usize, usize)> = report
        .links
        .iter()
        .filter_map(|&(a, b)| Some((place(a)?, place(b)?)))
        .filter(|(a, b)| a != b)
        .map(|(a, b)| (a.min(b), a.max(b)))
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    for (a, b) in pairs {
        let (Some(a), Some(b)) = (ring.nodes.get(a), ring.nodes.get(b)) else { continue };
        let (from, to) = (Point::polar(radius, a.degrees), Point::polar(radius, b.degrees));
        // The chord bends towards the centre, neighbours only a little.
        let apart = ((a.degrees - b.degrees).to_radians() / 2.0).sin().abs();
        let pull = 1.0 - 0.35 - 0.6 * apart;
        let mid = Point { x: (from.x + to.x) / 2.0, y: (from.y + to.y) / 2.0 };
        let bend = if apart > 0.97 { mid } else { Point { x: mid.x * pull, y: mid.y * pull } };
        drawing.push(format_args!(r#"<path class="link" d="M{from} Q{bend} {to}"/>"#));
        drawing.cover(bend, 0.0);
    }
}

/// How the ranks of a node are laid out behind it.
struct RankGrid {
    radius: f64,
    step: f64,
    columns: usize,
    rows: usize,
    numbered: bool,
}

impl RankGrid {
    fn fitting(ring: &Ring, node_radius: f64) -> RankGrid {
        // The node of the hosts that are not drawn shows a number in any case.
        let most = ring.nodes.iter().filter(|n| !n.folded).map(|n| n.ranks.len()).max().unwrap_or(0);
        let width = (RING + node_radius + 17.0) * (ring.pitch * 0.9).to_radians();
        let largest = ring.nodes.iter().flat_map(|node| node.ranks.iter().copied()).max().unwrap_or(0);
        let fit = |radius: f64, step: f64| {
            let fitting = ((width / step).floor() as usize).clamp(1, 8).min(most.max(1));
            let rows = most.div_ceil(fitting);
            // As few columns as give the same number of rows: rows are then equally full.
            RankGrid { radius, step, columns: most.div_ceil(rows.max(1)).max(1), rows, numbered: radius > 8.0 }
        };
        let numbered = fit(10.0, 24.0);
        if numbered.rows <= 3 && largest < 1000 && width >= 24.0 {
            return numbered;
        }
        let fits = |grid: &RankGrid| grid.rows <= ROWS_MAX && width >= grid.step;
        let even = |grid: &RankGrid| most == grid.columns * grid.rows;
        let sizes =
            || [(4.0, 11.0), (3.0, 8.2), (2.5, 6.8)].map(|(radius, step)| fit(radius, step)).into_iter().filter(fits);
        // Full rows look better than large dots.
        sizes().find(even).or_else(|| sizes().next()).unwrap_or(RankGrid {
            radius: 0.0,
            step: 22.0,
            columns: 1,
            rows: 1,
            numbered: false,
        })
    }

    fn depth(&self) -> f64 {
        self.step * self.rows as f64 + 6.0
    }

    fn draw(&self, drawing: &mut Drawing, node: &Node, from: f64) {
        if self.radius == 0.0 || node.folded {
            if !node.ranks.is_empty() {
                let at = Point::polar(from + self.depth() / 2.0 - 4.0, node.degrees);
                drawing.text("rank-count", at, "middle", &format!("×{}", node.ranks.len()));
            }
            return;
        }
        for (i, rank) in node.ranks.iter().enumerate() {
            let (row, column) = (i / self.columns, i % self.columns);
            let in_row = self.columns.min(node.ranks.len() - row * self.columns) as f64;
            let radius = from + self.step * (row as f64 + 0.5);
            // Columns keep their distance in units, so rows further out do not spread.
            let degrees = node.degrees + (column as f64 - (in_row - 1.0) / 2.0) * (self.step / radius).to_degrees();
            let at = Point::polar(radius, degrees);
            drawing.push(format_args!(
                r#"<circle class="rank" cx="{:.1}" cy="{:.1}" r="{:.1}"><title>rank {rank}</title></circle>"#,
                at.x, at.y, self.radius
            ));
            if self.numbered {
                drawing.text("rank-number", at, "middle", &rank.to_string());
            }
        }
    }
}
