//! Cells of the tables: how they are shown, and how they are sorted.

use std::cmp::Ordering;
use std::fmt;

use umbra::quantity::{Bytes, Count, Rate};

use super::super::table::Set;

/// One cell.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Cell {
    Text(String),
    Count(u64),
    Bytes(u64),
    /// Of a hundred.
    Percent(f64),
    /// Times a second; none if there was no look before.
    Rate(Option<f64>),
    /// Bytes a second.
    ByteRate(Option<f64>),
}

impl Cell {
    pub(super) fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// What stands for it among its like.
    fn number(&self) -> Option<f64> {
        match self {
            Cell::Text(_) => None,
            Cell::Count(number) | Cell::Bytes(number) => Some(*number as f64),
            Cell::Percent(number) => Some(*number),
            Cell::Rate(rate) | Cell::ByteRate(rate) => Some(rate.unwrap_or(-1.0)),
        }
    }

    /// Text in the order of its letters, but numbers in it by their value; figures by theirs.
    pub(super) fn order(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Text(one), Cell::Text(other)) => natural(one, other),
            (one, other) => one.number().partial_cmp(&other.number()).unwrap_or(Ordering::Equal),
        }
    }
}

/// The order in which `9:3` comes before `10:3`.
fn natural(one: &str, other: &str) -> Ordering {
    let key = |text: &str| {
        let mut parts: Vec<(u64, String)> = Vec::new();
        for letter in text.chars() {
            match (letter.to_digit(10), parts.last_mut()) {
                (Some(digit), Some((number, rest))) if rest.is_empty() => {
                    *number = number.saturating_mul(10).saturating_add(digit.into());
                }
                (Some(digit), _) => parts.push((digit.into(), String::new())),
                (None, Some((_, rest))) => rest.push(letter),
                (None, None) => parts.push((u64::MAX, letter.to_string())),
            }
        }
        parts
    };
    key(one).cmp(&key(other)).then_with(|| one.cmp(other))
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Text(text) => f.write_str(text),
            Cell::Count(count) => Count(*count).fmt(f),
            Cell::Bytes(bytes) => Bytes(*bytes).fmt(f),
            Cell::Percent(percent) => write!(f, "{percent:.0} %"),
            Cell::Rate(None) | Cell::ByteRate(None) => f.write_str(""),
            Cell::Rate(Some(rate)) if *rate > 0.0 && *rate < 10.0 => write!(f, "{rate:.1}"),
            Cell::Rate(Some(rate)) => Count(rate.round() as u64).fmt(f),
            Cell::ByteRate(Some(rate)) => Rate(*rate).fmt(f),
        }
    }
}

/// A table: what it is about, its columns, its rows.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) columns: &'static [(&'static str, Set)],
    pub(super) rows: Vec<Vec<Cell>>,
}

impl Section {
    /// Sorts its rows by a column; rows that are equal there keep their order.
    pub(super) fn sort(&mut self, column: usize, is_reversed: bool) {
        self.rows.sort_by(|one, other| {
            let order = match (one.get(column), other.get(column)) {
                (Some(one), Some(other)) => one.order(other),
                _ => Ordering::Equal,
            };
            if is_reversed { order.reverse() } else { order }
        });
    }

    /// The text of all cells, and how wide each column is.
    pub(super) fn cells(&self) -> (Vec<Vec<String>>, Vec<usize>) {
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(Cell::to_string).collect()).collect();
        let wide = |(at, (name, _)): (usize, &(&str, Set))| {
            let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
            cells.chain([name.chars().count()]).max().unwrap_or(0)
        };
        let widths = self.columns.iter().enumerate().map(wide).collect();
        (rows, widths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_sorted_by_value_and_names_as_people_do() {
        let mut section = Section {
            title: "",
            columns: &[("name", Set::Left), ("rate", Set::Right)],
            rows: vec![
                vec![Cell::text("10:3"), Cell::Rate(Some(9.0))],
                vec![Cell::text("9:12"), Cell::Rate(None)],
                vec![Cell::text("9:3"), Cell::Rate(Some(100.0))],
            ],
        };
        let names = |section: &Section| section.rows.iter().map(|row| row[0].to_string()).collect::<Vec<_>>();
        section.sort(0, false);
        assert_eq!(names(&section), ["9:3", "9:12", "10:3"]);
        section.sort(1, true);
        assert_eq!(names(&section), ["9:3", "10:3", "9:12"]);
        section.sort(7, false);
        assert_eq!(names(&section), ["9:3", "10:3", "9:12"], "no such column");
    }

    #[test]
    fn cells_are_short() {
        let shown = [Cell::Rate(Some(0.25)), Cell::Rate(Some(1234.4)), Cell::Percent(99.7), Cell::Rate(None)];
        assert_eq!(shown.map(|cell| cell.to_string()), ["0.2", "1,234", "100 %", ""]);
    }
}
