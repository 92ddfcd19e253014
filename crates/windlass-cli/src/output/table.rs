//! Tables as kubectl prints them: no borders, three spaces between columns, headings in capitals.

use comfy_table::{ColumnConstraint, Width, presets};

use super::{
    paint::{Paint, Tone},
    plain,
};

/// One field of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// With the color of a state.
    pub(crate) fn toned(text: impl AsRef<str>, tone: Tone) -> Self {
        let mut text = plain(text.as_ref());
        if let Some((end, _)) = text.char_indices().nth(LENGTH_MAX) {
            text.truncate(end);
            text.push('…');
        }
        Self { text, tone }
    }

    /// A state or reason in its color.
    pub(crate) fn state(code: &str) -> Self {
        Self::toned(code, Tone::of(code))
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

/// A table that can grow: rows that are printed later stand below the earlier ones.
#[derive(Debug)]
pub(crate) struct Table {
    /// Printed with the first rows, and then no more.
    headings: Option<Vec<&'static str>>,
    widths: Vec<u16>,
    paint: Paint,
}

/// No field shows more characters: one long message would make every line of its table as long.
const LENGTH_MAX: usize = 1000;
/// Between columns.
const GAP: u16 = 3;

impl Table {
    pub(crate) fn new(headings: &[&'static str], paint: Paint) -> Self {
        Self { headings: Some(headings.to_vec()), widths: Vec::new(), paint }
    }

    /// Without headings.
    pub(crate) fn bare(paint: Paint) -> Self {
        Self { headings: None, widths: Vec::new(), paint }
    }

    /// These rows as text; the headings before the first.
    pub(crate) fn rows(&mut self, rows: impl IntoIterator<Item = Vec<Cell>>) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return String::new();
        }
        if let Some(headings) = self.headings.take() {
            table.set_header(headings);
        }
        for row in rows {
            table.add_row(row.iter().map(|it| self.paint.mark(it.tone, &it.text)).collect::<Vec<_>>());
        }
        let widths = table.column_max_content_widths();
        self.widths.resize(widths.len().max(self.widths.len()), 0);
        for (known, new) in self.widths.iter_mut().zip(widths) {
            *known = new.max(*known);
        }
        for (column, width) in table.column_iter_mut().zip(&self.widths) {
            column.set_padding((0, GAP));
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width.saturating_add(GAP))));
        }
        let mut text = String::new();
        for line in table.lines() {
            text.push_str(self.paint.marked(line.trim_end()).trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Color, Look};

    fn paint(color: Color) -> Paint {
        Paint::of(&Look { color })
    }

    #[test]
    fn columns_are_three_spaces_apart_and_lines_have_no_end_of_spaces() {
        let mut table = Table::new(&["NAME", "STATUS", "AGE"], paint(Color::Never));
        let row = |name: &str, status: &str| vec![name.into(), Cell::state(status), "5s".into()];
        let text = table.rows([row("web", "Mounted"), row("longer-name", "Hung")]);
        assert_eq!(
            text,
            "NAME          STATUS    AGE\n\
             web           Mounted   5s\n\
             longer-name   Hung      5s\n"
        );
        // What comes later stands below, and has no headings.
        assert_eq!(table.rows([row("db", "Hung")]), "db            Hung      5s\n");
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let text = Table::bare(paint(Color::Never)).rows([vec!["ü".repeat(70_000).into(), "5s".into()]]);
        assert_eq!(text, format!("{}…   5s\n", "ü".repeat(LENGTH_MAX)));
    }

    #[test]
    fn color_takes_no_room() {
        let row = || vec![Cell::state("Mounted"), "5s".into()];
        let bare = Table::bare(paint(Color::Never)).rows([row()]);
        let painted = Table::bare(paint(Color::Always)).rows([row()]);
        assert_eq!(bare, "Mounted   5s\n");
        assert_eq!(painted, "\u{1b}[32mMounted\u{1b}[0m   5s\n");
    }

    #[test]
    fn a_table_without_rows_has_no_headings() {
        assert_eq!(Table::new(&["NAME"], paint(Color::Never)).rows([]), "");
    }
}
