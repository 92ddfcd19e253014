//! Tables as kubectl prints them: no borders, three spaces between columns, headings in capitals.

use unicode_width::UnicodeWidthStr;

use super::paint::{Paint, Tone};
use super::plain;

/// One field of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Cell {
    pub(super) text: String,
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

impl Cell {
    /// Its text in its color.
    pub(crate) fn painted(&self, paint: Paint) -> String {
        paint.text(self.tone, &self.text)
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
    widths: Vec<usize>,
    paint: Paint,
}

/// No field shows more characters: one long message would make every line of its table as long.
const LENGTH_MAX: usize = 1000;
/// Between columns.
const GAP: usize = 3;

impl Table {
    pub(crate) fn new(headings: &[&'static str], paint: Paint) -> Self {
        Self { headings: Some(headings.to_vec()), widths: Vec::new(), paint }
    }

    /// Without headings.
    pub(crate) fn bare(paint: Paint) -> Self {
        Self { headings: None, widths: Vec::new(), paint }
    }

    /// These rows as text; the headings before the first. A line is as long as it is: who wants it shorter has a terminal
    /// that wraps, and programs that read it are not told one row as two.
    pub(crate) fn rows(&mut self, rows: impl IntoIterator<Item = Vec<Cell>>) -> String {
        let mut rows: Vec<Vec<Cell>> = rows.into_iter().collect();
        if rows.is_empty() {
            return String::new();
        }
        if let Some(headings) = self.headings.take() {
            rows.insert(0, headings.iter().map(Cell::from).collect());
        }
        for row in &rows {
            self.widths.resize(self.widths.len().max(row.len()), 0);
            for (known, cell) in self.widths.iter_mut().zip(row) {
                *known = cell.text.width().max(*known);
            }
        }
        let mut text = String::new();
        for row in &rows {
            // Spaces are written once something follows them.
            let mut spaces = 0;
            for (cell, width) in row.iter().zip(&self.widths) {
                if !cell.text.is_empty() {
                    text.extend(std::iter::repeat_n(' ', spaces));
                    text.push_str(&self.paint.text(cell.tone, &cell.text));
                    spaces = 0;
                }
                spaces += width - cell.text.width() + GAP;
            }
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
    fn wide_and_invisible_letters_are_measured_as_a_terminal_shows_them_and_no_line_is_wrapped() {
        let long = "word ".repeat(60);
        let row = |name: &str| vec![name.into(), Cell::default(), long.as_str().into()];
        let text = Table::bare(paint(Color::Never)).rows([row("名前"), row("name"), row("e\u{301}tat")]);
        let expected = |name: &str| format!("{name}      {}\n", long.trim_end());
        assert_eq!(text, expected("名前") + &expected("name") + &expected("e\u{301}tat"));
    }

    #[test]
    fn a_table_without_rows_has_no_headings() {
        assert_eq!(Table::new(&["NAME"], paint(Color::Never)).rows([]), "");
    }
}
