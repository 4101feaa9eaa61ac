//! The view on a terminal: five stacked tables, and keys that change their look.

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Row, Table, TableState};

use super::super::table::Set;
use super::row::Section;

const KEYS: &str = " q end   arrows table, row   s S sort by   r turn round   space stop";
/// How many tables there are.
const TABLES: usize = 5;

/// Whether the view goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    Stay,
    End,
}

/// How one table is shown.
#[derive(Clone, Copy, Default, Debug)]
struct Shown {
    column: usize,
    is_reversed: bool,
    row: usize,
}

/// What the keys change.
#[derive(Debug)]
pub(super) struct Screen {
    has_colors: bool,
    chosen: usize,
    tables: [Shown; TABLES],
    /// How many columns and rows each table had when it was drawn.
    sizes: [(usize, usize); TABLES],
    /// Whether what is shown stays as it is.
    pub(super) is_stopped: bool,
}

impl Screen {
    pub(super) fn new(has_colors: bool) -> Screen {
        Screen { has_colors, chosen: 0, tables: [Shown::default(); TABLES], sizes: [(0, 0); TABLES], is_stopped: false }
    }

    pub(super) fn on_key(&mut self, key: KeyEvent) -> Next {
        let (Some(table), Some(&(columns, rows))) = (self.tables.get_mut(self.chosen), self.sizes.get(self.chosen))
        else {
            return Next::Stay;
        };
        let step = |at: usize, by: usize, of: usize| if of == 0 { 0 } else { (at + by) % of };
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Next::End,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Next::End,
            KeyCode::Char('s') => table.column = step(table.column, 1, columns),
            KeyCode::Char('S') => table.column = step(table.column, columns.saturating_sub(1), columns),
            KeyCode::Char('r') => table.is_reversed = !table.is_reversed,
            KeyCode::Char(' ') => self.is_stopped = !self.is_stopped,
            KeyCode::Down => table.row = (table.row + 1).min(rows.saturating_sub(1)),
            KeyCode::Up => table.row = table.row.min(rows).saturating_sub(1),
            KeyCode::Home => table.row = 0,
            KeyCode::End => table.row = rows.saturating_sub(1),
            KeyCode::Right | KeyCode::Tab => self.chosen = step(self.chosen, 1, TABLES),
            KeyCode::Left | KeyCode::BackTab => self.chosen = step(self.chosen, TABLES - 1, TABLES),
            _ => {}
        }
        Next::Stay
    }

    fn styled(&self, style: Style) -> Style {
        // Bold, faint and reversed text needs no colours.
        if self.has_colors { style } else { Style { fg: None, bg: None, ..style } }
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>, about: &str, sections: [Section; TABLES]) {
        let area = frame.area();
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
        let stopped = if self.is_stopped { "   stopped" } else { "" };
        let strong = Style::new().add_modifier(Modifier::BOLD);
        let title = [Span::styled(" umbra top", strong), Span::raw(format!("   {about}{stopped}"))];
        frame.render_widget(Line::from_iter(title), head);
        frame.render_widget(Line::styled(KEYS, Style::new().add_modifier(Modifier::DIM)), foot);
        let wanted = sections.each_ref().map(|section| rows_of(section) + 1);
        let heights = share(body.height, wanted, self.chosen);
        let mut top = body.y;
        for (at, (section, height)) in sections.into_iter().zip(heights).enumerate() {
            let place = Rect { y: top, height, ..body };
            top += height;
            if height > 0 {
                self.table(frame, place, at, section);
            }
        }
    }

    fn table(&mut self, frame: &mut Frame<'_>, place: Rect, at: usize, mut section: Section) {
        let (Some(shown), Some(size)) = (self.tables.get_mut(at), self.sizes.get_mut(at)) else { return };
        *size = (section.columns.len(), section.rows.len());
        shown.row = shown.row.min(section.rows.len().saturating_sub(1));
        let (shown, is_chosen) = (*shown, at == self.chosen);
        section.sort(shown.column, shown.is_reversed);
        let (rows, mut widths) = section.cells();
        // Room for the mark of the column that it is sorted by.
        if let Some(width) = widths.get_mut(shown.column) {
            *width = (*width).max(section.columns.get(shown.column).map_or(0, |(name, _)| name.chars().count()) + 2);
        }
        // A figure of which a part is cut off is another one: columns are shown whole or not at all.
        let ends = widths.iter().scan(0, |end, width| {
            *end += width + 2;
            Some(*end - 2)
        });
        let fit = ends.take_while(|&end| end <= usize::from(place.width)).count().max(1);
        let set = |text: &str, at: usize| {
            let (width, set) = (widths.get(at).copied().unwrap_or(0), section.columns.get(at).map(|(_, set)| *set));
            if set == Some(Set::Right) { format!("{text:>width$}") } else { text.to_owned() }
        };
        let mark = |(at, (name, _)): (usize, &(&str, Set))| match (at == shown.column, shown.is_reversed) {
            (false, _) => set(name, at),
            (true, false) => set(&format!("{name} ▲"), at),
            (true, true) => set(&format!("{name} ▼"), at),
        };
        let head: Vec<String> = section.columns.iter().enumerate().take(fit).map(mark).collect();
        let bad = self.styled(Style::new().fg(Color::Red));
        let line = |cells: &Vec<String>| {
            let style = if cells.iter().any(|cell| is_bad(cell)) { bad } else { Style::new() };
            Row::new(cells.iter().enumerate().take(fit).map(|(at, cell)| set(cell, at))).style(style)
        };
        let title_style = if is_chosen {
            self.styled(Style::new().fg(Color::Cyan)).add_modifier(Modifier::BOLD)
        } else {
            Style::new()
        };
        let title = Line::styled(format!(" {} {} ", section.title, rows.len()), title_style);
        let faint = Style::new().add_modifier(Modifier::DIM);
        let block = Block::new().borders(Borders::TOP).border_style(faint).title(title);
        let columns =
            widths.iter().take(fit).map(|&width| Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX)));
        let mut table = Table::new(rows.iter().map(line), columns).column_spacing(2).block(block);
        if !rows.is_empty() {
            table = table.header(Row::new(head).style(faint));
        }
        let mut state = TableState::default().with_selected((is_chosen && !rows.is_empty()).then_some(shown.row));
        let table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, place, &mut state);
    }
}

/// Lines of a table below its title.
fn rows_of(section: &Section) -> u16 {
    let rows = u16::try_from(section.rows.len()).unwrap_or(u16::MAX - 2);
    if rows == 0 { 0 } else { rows.saturating_add(1) }
}

/// Whether a row holds something that somebody should look at.
fn is_bad(cell: &str) -> bool {
    matches!(cell, "no answer" | "stopped" | "is dead" | "gone" | "nobody needs it" | "destroyed")
}

/// Divides lines among tables that want so many: the chosen one is served first beyond an equal part each.
fn share(lines: u16, wanted: [u16; TABLES], chosen: usize) -> [u16; TABLES] {
    let part = lines / TABLES as u16;
    let mut given = wanted.map(|wanted| wanted.min(part));
    let mut left = lines.saturating_sub(given.iter().sum());
    let order = std::iter::once(chosen).chain((0..TABLES).filter(|&at| at != chosen));
    for at in order {
        if let (Some(given), Some(&wanted)) = (given.get_mut(at), wanted.get(at)) {
            let more = wanted.saturating_sub(*given).min(left);
            *given += more;
            left -= more;
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::row::Cell;
    use super::*;

    fn sections() -> [Section; TABLES] {
        let pool = |name: &str, rate| vec![Cell::text(name), Cell::Rate(Some(rate))];
        let columns = &[("pool", Set::Left), ("alloc/s", Set::Right)];
        let empty = |title| Section { title, columns, rows: Vec::new() };
        let pools = Section { title: "pools", columns, rows: vec![pool("sums", 5.0), pool("maps", 12_345.0)] };
        [pools, empty("channels"), empty("streams"), empty("processes"), empty("agents")]
    }

    fn drawn(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame, "every 1.00 s", sections())).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    fn press(screen: &mut Screen, code: KeyCode) -> Next {
        screen.on_key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn tables_stand_one_above_the_other_with_their_keys_below() {
        let shown = drawn(&mut Screen::new(true), 40, 12);
        let expected = [
            " umbra top   every 1.00 s",
            " pools 2 ───────────────────────────────",
            "pool ▲  alloc/s",
            "maps     12,345",
            "sums        5.0",
            " channels 0 ────────────────────────────",
            " streams 0 ─────────────────────────────",
            " processes 0 ───────────────────────────",
            " agents 0 ──────────────────────────────",
        ];
        assert_eq!(shown[..9], expected);
        assert!(shown[11].starts_with(" q end   arrows"), "{shown:?}");
    }

    #[test]
    fn keys_sort_and_choose_and_end() {
        let mut screen = Screen::new(false);
        let first = |screen: &mut Screen| drawn(screen, 40, 12)[3].clone();
        assert!(first(&mut screen).starts_with("maps"));
        press(&mut screen, KeyCode::Char('s'));
        assert!(first(&mut screen).starts_with("sums"), "the lowest rate");
        press(&mut screen, KeyCode::Char('r'));
        assert!(first(&mut screen).starts_with("maps"), "the highest");
        for _ in 0..5 {
            press(&mut screen, KeyCode::Down);
        }
        drawn(&mut screen, 40, 12);
        assert_eq!(screen.tables[0].row, 1, "there is no third row");
        press(&mut screen, KeyCode::Right);
        press(&mut screen, KeyCode::Down);
        assert_eq!((screen.chosen, screen.tables[1].row), (1, 0));
        press(&mut screen, KeyCode::Left);
        press(&mut screen, KeyCode::Left);
        assert_eq!(screen.chosen, 4);
        assert_eq!(press(&mut screen, KeyCode::Char('q')), Next::End);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.on_key(interrupt), Next::End);
    }

    #[test]
    fn any_size_will_do() {
        assert_eq!(drawn(&mut Screen::new(true), 12, 12)[3], "maps", "no room for the rate");
        for (width, height) in [(1, 1), (3, 2), (10, 3), (200, 4), (2, 60)] {
            drawn(&mut Screen::new(true), width, height);
        }
        assert_eq!(share(20, [30, 1, 1, 1, 1], 0), [16, 1, 1, 1, 1]);
        assert_eq!(share(20, [30, 30, 30, 30, 30], 2), [4, 4, 4, 4, 4]);
        assert_eq!(share(22, [30, 1, 30, 30, 30], 3), [4, 1, 4, 9, 4]);
    }
}
