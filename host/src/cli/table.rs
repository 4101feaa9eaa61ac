//! Tables on a terminal: a faint head, columns as wide as their widest cell.

use std::io;

use super::{Out, paint};

/// How a column is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Set {
    /// Flush left, for words.
    Left,
    /// Flush right, for figures.
    Right,
}

/// Rows of text under named columns.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(String, Set)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[(&str, Set)]) -> Table {
        let columns = columns.iter().map(|(name, set)| ((*name).to_owned(), *set)).collect();
        Table { columns, rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.push(cells.into());
    }

    /// A row with a cell for each column.
    pub(crate) fn push(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Names of the columns.
    pub(crate) fn columns(&self) -> Vec<String> {
        self.columns.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The cells without their styles.
    pub(crate) fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    pub(crate) fn print(&self, out: Out<'_>) -> io::Result<()> {
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, (name, _))| {
                let cells = self.rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count());
                cells.chain([name.chars().count()]).max().unwrap_or(0)
            })
            .collect();
        let names: Vec<String> = self.columns();
        writeln!(out, "{}", paint::faint(self.line(&names, &widths)))?;
        for row in &self.rows {
            writeln!(out, "{}", self.line(row, &widths))?;
        }
        Ok(())
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, width), (_, set)) in cells.iter().zip(widths).zip(&self.columns) {
            let cell = match set {
                Set::Left => format!("{cell:<width$}"),
                Set::Right => format!("{cell:>width$}"),
            };
            line.push_str("  ");
            line.push_str(&cell);
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_the_alphabet() {
        let mut table = Table::new(&[("path", Set::Left), ("p50", Set::Right)]);
        table.row(["shared".into(), "812 ns".into()]);
        table.row(["asked".into(), "1.20 µs".into()]);
        let mut bytes = Vec::new();
        table.print(&mut anstream::StripStream::new(&mut bytes)).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text, "  path        p50\n  shared   812 ns\n  asked   1.20 µs\n");
    }
}
