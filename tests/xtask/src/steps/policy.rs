//! The file that says what may stand on what.

use crate::step::Failure;
use crate::workspace::Workspace;

/// Where the policy lies.
const PATH: &str = "tests/xtask/policy.txt";

/// A section: its heading in words, and its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    /// `[layers core/src]` is `layers`, `core/src`.
    pub(super) heading: Vec<String>,
    /// Lines with content, trimmed.
    pub(super) lines: Vec<String>,
}

impl Section {
    /// Lines of the form `NAME: WORD WORD`, in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        let entry = |line: &'_ str| -> Option<(usize, usize)> { line.find(':').map(|colon| (colon, colon + 1)) };
        self.lines.iter().filter_map(move |line| {
            let (end, start) = entry(line)?;
            Some((line[..end].trim(), line[start..].split_whitespace().collect()))
        })
    }
}

/// Reads the sections whose heading begins with this word.
pub(super) fn sections(workspace: &Workspace, kind: &str) -> Result<Vec<Section>, Failure> {
    let sections = parse(&workspace.read(PATH)?)?;
    Ok(sections.into_iter().filter(|section| section.heading.first().is_some_and(|word| word == kind)).collect())
}

fn parse(text: &str) -> Result<Vec<Section>, Failure> {
    let mut sections: Vec<Section> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if let Some(heading) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let heading = heading.split_whitespace().map(str::to_owned).collect();
            sections.push(Section { heading, lines: Vec::new() });
        } else if let Some(section) = sections.last_mut() {
            section.lines.push(line.to_owned());
        } else {
            return Err(Failure::new(format!("{PATH}:{}: a line before the first heading", index + 1)));
        }
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_entries_and_remarks_are_told_apart() {
        let sections = parse("# remark\n[layers a/src]\nlow: x y # why\nhigh:\n[unsafe]\na/b.rs\n").unwrap();
        assert_eq!(sections[0].heading, ["layers", "a/src"]);
        let entries: Vec<_> = sections[0].entries().collect();
        assert_eq!(entries, [("low", vec!["x", "y"]), ("high", vec![])]);
        assert_eq!(sections[1].lines, ["a/b.rs"]);
        assert!(parse("stray").is_err());
    }
}
