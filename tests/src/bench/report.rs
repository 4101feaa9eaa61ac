//! Rows of a bench: a JSON object a line, or an aligned table with marked misses.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use super::machine::Machine;

/// One case: our figure, the other's, and how they compare.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What was measured, in a few words; unique within a bench.
    pub case: String,
    /// Our figure.
    pub ours: f64,
    /// The other's figure, in the same unit.
    pub peer: f64,
    /// Who the other is: a crate with its version, a plain copy, a floor.
    pub peer_name: String,
    /// Unit of both figures.
    pub unit: String,
    /// Above 1 we are faster, or smaller.
    pub ratio: f64,
}

/// Which way a figure is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Times and sizes.
    LowerIsBetter,
    /// Rates.
    HigherIsBetter,
}

impl Row {
    /// A row from two figures, where the ratio is just theirs.
    #[must_use]
    pub fn new(case: &str, ours: f64, peer: f64, peer_name: &str, unit: &str, direction: Direction) -> Self {
        let ratio = match direction {
            Direction::LowerIsBetter => peer / ours,
            Direction::HigherIsBetter => ours / peer,
        };
        Self { case: case.to_owned(), ours, peer, peer_name: peer_name.to_owned(), unit: unit.to_owned(), ratio }
    }

    /// The row as one JSON object on one line, without its end; a figure that is not finite is `null`.
    fn json(&self) -> String {
        format!(
            r#"{{"case":{},"ours":{},"peer":{},"peer_name":{},"unit":{},"ratio":{}"#,
            Quoted(&self.case),
            Number(self.ours),
            Number(self.peer),
            Quoted(&self.peer_name),
            Quoted(&self.unit),
            Number(self.ratio),
        )
    }
}

/// Collects rows and prints them: with JSON at once, as a table at the end.
#[derive(Debug)]
#[must_use = "rows of the table are printed by `finish`"]
pub struct Report {
    json: bool,
    filter: Option<String>,
    entries: Vec<Entry>,
    /// What the machine did before, if a bench is to say what it did meanwhile.
    machine: Option<Machine>,
}

/// A row that a report has, with the bar that it was given.
#[derive(Debug)]
struct Entry {
    row: Row,
    bar: Option<f64>,
}

impl Entry {
    fn missed(&self) -> bool {
        // Written so that a ratio which is no number misses too.
        self.bar.is_some_and(|bar| !self.row.ratio.ge(&bar))
    }

    /// The entry as one JSON object on one line: the row, and with a bar that and whether it is reached.
    fn json(&self) -> String {
        let bar =
            self.bar.map_or_else(String::new, |bar| format!(r#","bar":{},"reached":{}"#, Number(bar), !self.missed()));
        format!("{}{bar}}}", self.row.json())
    }
}

/// A row that was added to a report, to which a bar may be given; it is printed when this is gone.
#[derive(Debug)]
pub struct Added<'a> {
    json: bool,
    entry: &'a mut Entry,
}

impl Added<'_> {
    /// The ratio that this row has to reach; below it the row is marked as missed.
    pub fn bar(self, least_ratio: f64) {
        self.entry.bar = Some(least_ratio);
    }
}

impl Drop for Added<'_> {
    fn drop(&mut self) {
        if self.json {
            let mut out = io::stdout().lock();
            // A closed pipe is the reader's wish; the figures still run to the end.
            let _ = writeln!(out, "{}", self.entry.json()).and_then(|()| out.flush());
        } else {
            eprintln!("{} ...", self.entry.row.case);
        }
    }
}

impl Report {
    /// An empty report.
    pub fn new(json: bool) -> Self {
        Self { json, filter: None, entries: Vec::new(), machine: None }
    }

    /// Reads the command line: `--json`, and a word that the names of the wanted cases contain.
    ///
    /// Other options are ignored, because cargo passes some of its own.
    pub fn from_args() -> Self {
        let mut report = Self { machine: Some(Machine::now()), ..Self::new(false) };
        for argument in std::env::args().skip(1) {
            if argument == "--json" {
                report.json = true;
            } else if !argument.starts_with('-') {
                report.filter = Some(argument);
            }
        }
        report
    }

    /// Whether the command line asks for this case; all of them without a filter.
    #[must_use]
    pub fn wants(&self, case: &str) -> bool {
        self.filter.as_deref().is_none_or(|filter| case.contains(filter))
    }

    /// Adds a row; with JSON it is printed as soon as its bar, if any, is known.
    pub fn row(&mut self, row: Row) -> Added<'_> {
        self.entries.push(Entry { row, bar: None });
        let last = self.entries.len() - 1;
        Added { json: self.json, entry: &mut self.entries[last] }
    }

    /// Prints a remark where it can't be taken for a row: on standard error.
    pub fn note(&self, remark: impl fmt::Display) {
        eprintln!("note: {remark}");
    }

    /// Prints the table (or, with JSON, the misses on standard error). What it returns is how a bench has to end: as a failure
    /// if a row missed its bar. A bench also says on standard error how much else the machine did, because that is in all times.
    #[must_use = "a bench whose bar is missed ends as a failure"]
    pub fn finish(self) -> ExitCode {
        if let Some(machine) = self.machine {
            self.note(machine.others());
        }
        if self.json {
            for entry in self.entries.iter().filter(|entry| entry.missed()) {
                eprintln!("missed: {} {}", entry.row.case, verdict(entry));
            }
        } else {
            let mut out = io::stdout().lock();
            let _ = out.write_all(table(&self.entries).as_bytes()).and_then(|()| out.flush());
        }
        if self.entries.iter().any(Entry::missed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

/// What an entry's bar says of it, empty without a bar.
fn verdict(entry: &Entry) -> String {
    match entry.bar {
        None => String::new(),
        Some(bar) if entry.missed() => format!("MISSED, ratio {:.2}, bar {bar:.2}", entry.row.ratio),
        Some(bar) => format!("reached, bar {bar:.2}"),
    }
}

/// The entries in aligned columns, with a heading.
fn table(entries: &[Entry]) -> String {
    let heading = ["case", "ours", "peer", "unit", "ratio", "peer name", ""].map(str::to_owned);
    let cells = |entry: &Entry| {
        let row = &entry.row;
        [
            row.case.clone(),
            format!("{:.2}", row.ours),
            format!("{:.2}", row.peer),
            row.unit.clone(),
            format!("{:.2}", row.ratio),
            row.peer_name.clone(),
            verdict(entry),
        ]
    };
    let lines: Vec<[String; 7]> = std::iter::once(heading).chain(entries.iter().map(cells)).collect();
    let mut widths = [0; 7];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for line in &lines {
        let mut printed = String::new();
        for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
            let figure = matches!(column, 1 | 2 | 4);
            printed += &if figure { format!("{cell:>width$}  ") } else { format!("{cell:<width$}  ") };
        }
        text += printed.trim_end();
        text.push('\n');
    }
    text
}

/// A string as JSON writes it.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for character in self.0.chars() {
            match character {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                control if control.is_control() => write!(f, "\\u{:04x}", u32::from(control))?,
                other => write!(f, "{other}")?,
            }
        }
        f.write_str("\"")
    }
}

/// A number as JSON writes it: shortest form of four decimals, `null` if not finite.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_finite() { write!(f, "{}", (self.0 * 1e4).round() / 1e4) } else { f.write_str("null") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(ours: f64, peer: f64, bar: Option<f64>) -> Entry {
        Entry { row: Row::new("a \"case\"", ours, peer, "peer", "ns", Direction::LowerIsBetter), bar }
    }

    #[test]
    fn json_has_the_six_fields_on_one_line_and_two_more_with_a_bar() {
        let row = r#"{"case":"a \"case\"","ours":2,"peer":3,"peer_name":"peer","unit":"ns","ratio":1.5"#;
        assert_eq!(entry(2.0, 3.0, None).json(), format!("{row}}}"));
        assert_eq!(entry(2.0, 3.0, Some(1.5)).json(), format!(r#"{row},"bar":1.5,"reached":true}}"#));
        assert_eq!(entry(2.0, 3.0, Some(1.6)).json(), format!(r#"{row},"bar":1.6,"reached":false}}"#));
        assert!(entry(0.0, 3.0, None).json().ends_with(r#""ratio":null}"#));
    }

    #[test]
    fn a_bar_is_that_of_the_row_which_was_added_last() {
        let mut report = Report::new(true);
        assert_eq!(Report::new(true).finish(), ExitCode::SUCCESS);
        let row = || Row::new("c", 2.0, 3.0, "p", "ns", Direction::LowerIsBetter);
        report.row(row()).bar(1.0);
        report.row(row());
        report.row(row()).bar(2.0);
        let bars: Vec<Option<f64>> = report.entries.iter().map(|entry| entry.bar).collect();
        assert_eq!((bars, report.finish()), (vec![Some(1.0), None, Some(2.0)], ExitCode::FAILURE));
        let mut report = Report::new(true);
        report.row(row()).bar(1.5);
        assert_eq!(report.finish(), ExitCode::SUCCESS);
    }

    #[test]
    fn a_rate_is_better_when_higher() {
        assert_eq!(Row::new("c", 30.0, 20.0, "p", "GB/s", Direction::HigherIsBetter).ratio, 1.5);
    }

    #[test]
    fn misses_are_marked_and_a_ratio_that_is_no_number_misses() {
        assert!(!entry(2.0, 3.0, None).missed());
        assert!(!entry(2.0, 2.0, Some(1.0)).missed());
        assert!(entry(2.0, 1.9, Some(1.0)).missed());
        assert!(entry(0.0, 0.0, Some(1.0)).missed());
        let text = table(&[entry(2.0, 3.0, None), entry(20.0, 3.0, Some(1.0))]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[2].ends_with("MISSED, ratio 0.15, bar 1.00"), "{text}");
    }
}
