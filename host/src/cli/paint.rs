//! The few styles of the output: what is good, what is bad, what matters less.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};
use clap::builder::Styles;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const STRONG: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const NAME: Style = AnsiColor::Cyan.on_default();

/// The styles of clap's help and errors.
pub(crate) const HELP: Styles = Styles::styled()
    .header(AnsiColor::Yellow.on_default().bold())
    .usage(AnsiColor::Yellow.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Applies `--color` to everything printed from now on.
pub(crate) fn choose(choice: clap::ColorChoice) {
    match choice {
        clap::ColorChoice::Auto => anstream::ColorChoice::Auto,
        clap::ColorChoice::Always => anstream::ColorChoice::Always,
        clap::ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

/// The text without its styles where `--color` or the terminal wants none; for what is printed past `anstream`.
pub(crate) fn for_stderr(text: String) -> String {
    match anstream::stderr().current_choice() {
        anstream::ColorChoice::Never => anstream::adapter::strip_str(&text).to_string(),
        _ => text,
    }
}

fn with(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Text in which a name stands that anybody may have given, without what could move the cursor.
pub(crate) fn clean(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// As it should be.
pub(crate) fn good(text: impl Display) -> String {
    with(GOOD, text)
}

/// Not as it should be.
pub(crate) fn bad(text: impl Display) -> String {
    with(BAD, text)
}

/// What the eye should find first.
pub(crate) fn strong(text: impl Display) -> String {
    with(STRONG, text)
}

/// What may be skipped.
pub(crate) fn faint(text: impl Display) -> String {
    with(FAINT, text)
}

/// A name that the user may type.
pub(crate) fn name(text: impl Display) -> String {
    with(NAME, text)
}

/// The block of examples at the end of a help: `"what to type" "what it does";` a line.
macro_rules! examples {
    ($($line:literal $does:literal;)+) => {
        concat!(
            "\u{1b}[1m\u{1b}[33mExamples:\u{1b}[0m",
            $("\n  \u{1b}[36m", $line, "\u{1b}[0m\n      ", $does,)+
        )
    };
}
pub(crate) use examples;
