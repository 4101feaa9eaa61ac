//! The frame of the page: headline, figures, sections, tables.

use std::fmt::Write as _;

use super::svg::escape;
use super::{Report, Table, Verdict, latency, motion, slots, timeline, topology};
use crate::quantity::Count;

const STYLE: &str = include_str!("style.css");

pub(super) fn render(report: &Report) -> String {
    let mut page = String::with_capacity(64 << 10);
    let title = escape(&report.title);
    // Writing to a `String` cannot fail, here and below.
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
    );
    headline(&mut page, report);
    section(&mut page, "Topology", TOPOLOGY, topology::draw(report));
    section(&mut page, "Bootstrap", TIMELINE, timeline::draw(&report.lanes));
    section(&mut page, "Latency of reads", LATENCY, latency::draw(&report.paths));
    section(&mut page, "Slots", SLOTS, slots::draw(&report.slots));
    section(&mut page, "Motion", MOTION, motion::draw(&report.motion));
    for table in &report.tables {
        tabulate(&mut page, table);
    }
    let version = env!("CARGO_PKG_VERSION");
    let _ = write!(page, "<footer>umbra {version}</footer>\n</main>\n</body>\n</html>\n");
    page
}

const TOPOLOGY: &str = "Each sector is a host. Its inner band holds the service processes, its outer band the ranks that \
    each of them shadows first. Chords join service processes that exchange their parts of the endpoint cache.";
const TIMELINE: &str = "From the start of the job until every process holds the full endpoint cache. Where processes share \
    a lane, bars are medians and thin lines reach to the extremes.";
const SLOTS: &str = "What the slots hold over time, and which share of the inputs of points was found in one. Each bar below is the \
    stay of one input in a slot, the darker the more points used it.";
const MOTION: &str = "The first field over time. Blocks that have it are filled in the colour of their rank; all others keep no memory \
    for it, and send a bit where they would send a strip.";
const LATENCY: &str = "One panel a data path, from the request of an agent until its bytes have landed.";

fn headline(page: &mut String, report: &Report) {
    let (class, verdict) = match &report.verdict {
        Verdict::Agreed => ("good", "all bytes agree".to_owned()),
        Verdict::Differed(1) => ("bad", "1 read differs".to_owned()),
        Verdict::Differed(n) => ("bad", format!("{} reads differ", Count(*n))),
        Verdict::Failed(_) => ("bad", "failed".to_owned()),
        Verdict::Unchecked => ("", "not checked".to_owned()),
    };
    let _ = write!(
        page,
        "<header>\n<h1>{} <span class=\"verdict {class}\">{verdict}</span></h1>\n<p>{}</p>\n",
        escape(&report.title),
        escape(&report.subtitle)
    );
    if let Verdict::Failed(reason) = &report.verdict {
        let _ = writeln!(page, "<p class=\"reason\">{}</p>", escape(reason));
    }
    page.push_str("</header>\n");
    if !report.figures.is_empty() {
        page.push_str("<dl class=\"figures\">\n");
        for (what, value) in &report.figures {
            let _ = writeln!(page, "<div><dt>{}</dt><dd>{}</dd></div>", escape(what), escape(value));
        }
        page.push_str("</dl>\n");
    }
}

fn section(page: &mut String, title: &str, caption: &str, drawing: Option<String>) {
    if let Some(drawing) = drawing {
        let _ = write!(
            page,
            "<section>\n<h2>{title}</h2>\n<p>{caption}</p>\n<div class=\"drawing\">{drawing}</div>\n</section>\n"
        );
    }
}

fn tabulate(page: &mut String, table: &Table) {
    let figures: Vec<bool> = (0..table.columns.len())
        .map(|column| {
            let cells = || table.rows.iter().filter_map(|row| row.get(column));
            cells().next().is_some() && cells().all(|cell| cell.starts_with(|c: char| c.is_ascii_digit() || c == '–'))
        })
        .collect();
    let class = |column: usize| if figures.get(column) == Some(&true) { " class=\"figure\"" } else { "" };
    let _ = write!(page, "<section>\n<h2>{}</h2>\n<div class=\"drawing\"><table>\n<thead><tr>", escape(&table.title));
    for (column, name) in table.columns.iter().enumerate() {
        let _ = write!(page, "<th{}>{}</th>", class(column), escape(name));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        page.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(page, "<td{}>{}</td>", class(column), escape(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n</section>\n");
}
