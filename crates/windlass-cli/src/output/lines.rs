//! The lines that trees are drawn with, in the characters that the terminal has.

use std::env;

/// What lines are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Characters for drawing boxes.
    Unicode,
    /// For locales that have none.
    Ascii,
}

impl Lines {
    /// Those of the locale: by the first of its variables that is set, as `setlocale(3)` has it.
    pub(crate) fn of_locale() -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|it| env::var(it).ok().filter(|it| !it.is_empty()));
        Self::of(locale.as_deref().unwrap_or("C"))
    }

    fn of(locale: &str) -> Self {
        let locale = locale.to_ascii_lowercase();
        if locale.contains("utf-8") || locale.contains("utf8") { Self::Unicode } else { Self::Ascii }
    }

    /// Before one of several.
    fn fork(self) -> &'static str {
        match self {
            Self::Unicode => "├── ",
            Self::Ascii => "|-- ",
        }
    }

    /// Before the last.
    fn last(self) -> &'static str {
        match self {
            Self::Unicode => "└── ",
            Self::Ascii => "`-- ",
        }
    }

    /// Before what is below one of several.
    fn beside(self) -> &'static str {
        match self {
            Self::Unicode => "│   ",
            Self::Ascii => "|   ",
        }
    }

    /// Before the cause of what stands above.
    pub(crate) fn arrow(self) -> &'static str {
        match self {
            Self::Unicode => "└─> ",
            Self::Ascii => "`-> ",
        }
    }
}

/// Something with things below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) text: String,
    pub(crate) below: Vec<Branch>,
}

impl Branch {
    /// With nothing below it.
    pub(crate) fn leaf(text: impl Into<String>) -> Self {
        Self { text: text.into(), below: Vec::new() }
    }

    /// The tree, a line each.
    pub(crate) fn draw(&self, lines: Lines) -> String {
        let mut drawn = format!("{}\n", self.text);
        self.draw_below(lines, "", &mut drawn);
        drawn
    }

    fn draw_below(&self, lines: Lines, before: &str, drawn: &mut String) {
        for (index, branch) in self.below.iter().enumerate() {
            let (own, below) = match index + 1 == self.below.len() {
                true => (lines.last(), "    "),
                false => (lines.fork(), lines.beside()),
            };
            drawn.push_str(&format!("{before}{own}{}\n", branch.text));
            branch.draw_below(lines, &format!("{before}{below}"), drawn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_drawn_in_the_characters_of_the_locale() {
        let pod = Branch { text: "web".into(), below: vec![Branch::leaf("data"), Branch::leaf("settings")] };
        let tree = Branch { text: "node".into(), below: vec![pod, Branch::leaf("db")] };
        assert_eq!(tree.draw(Lines::of("de_DE.UTF-8")), "node\n├── web\n│   ├── data\n│   └── settings\n└── db\n");
        assert_eq!(tree.draw(Lines::of("C")), "node\n|-- web\n|   |-- data\n|   `-- settings\n`-- db\n");
    }
}
