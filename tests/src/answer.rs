//! What a command of ours answers with `--json`: one object on one line.

use std::process::Output;

/// The object of a run that must have gone well.
///
/// # Panics
/// If it has not, or said anything else.
#[must_use]
pub fn good(output: &Output) -> String {
    let (text, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {told} {text}", output.status);
    assert!(text.starts_with("{\"ok\":true,") && text.lines().count() == 1, "{text}");
    text.into_owned()
}

/// What stands behind a name of the object, as text.
///
/// ```
/// assert_eq!(umbra_tests::answer::value(r#"{"ok":true,"hash":"9f"}"#, "hash"), r#""9f""#);
/// ```
///
/// # Panics
/// If the name is not there.
#[must_use]
pub fn value<'a>(object: &'a str, name: &str) -> &'a str {
    let (_, rest) = object.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("no {name} in {object}"));
    rest.split([',', '}']).next().unwrap_or(rest)
}

/// A number of the object.
///
/// # Panics
/// If the name is not there, or stands for something else.
#[must_use]
pub fn figure(object: &str, name: &str) -> f64 {
    value(object, name).parse().unwrap_or_else(|_| panic!("{name} is no number in {object}"))
}
