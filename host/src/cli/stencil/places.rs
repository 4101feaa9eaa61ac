//! Which files a run reads and writes, and the drawing among them.

use std::io::Write as _;
use std::path::Path;

use umbra::report::Report;

use super::Stencil;
use crate::cli::output::{Output, apart};
use crate::cli::{Failure, paint};

impl Stencil {
    /// Refuses to write over what is read or written, and drawings of no kind that there is.
    pub(super) fn places(&self) -> Result<(), Failure> {
        let read = [&self.input, &self.offsets, &self.order_file, &self.agent];
        apart(&read, &[&self.keep_input, &self.output, &self.plot])?;
        // Pipes have no endings.
        let drawn = self.plot.as_deref().and_then(Path::extension).map(|extension| extension.to_ascii_lowercase());
        if drawn.is_some_and(|kind| kind != "svg" && kind != "html") {
            return Err(Failure::usage("--plot: the file must end with .svg or .html"));
        }
        Ok(())
    }
}

/// Draws what the slots held. A run that was too short for a drawing leaves none, and says so: what it computed counts.
pub(super) fn draw<'a>(mut drawing: Output<'a>, report: &Report) -> Result<Option<Output<'a>>, Failure> {
    let text = match drawing.path().extension() {
        Some(kind) if kind.eq_ignore_ascii_case("html") => Some(report.to_html()),
        _ => report.slots.to_svg(),
    };
    let Some(text) = text else {
        let (no, path) = (paint::bad("not drawn:"), drawing.path().display());
        // Whether it can be said changes nothing.
        let _ = writeln!(anstream::stderr(), "{no} {path}: the run was too short for a clock");
        return Ok(None);
    };
    drawing.write(text)?;
    Ok(Some(drawing))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

    use super::*;

    #[test]
    fn a_run_too_short_for_its_drawing_leaves_none_and_fails_not() {
        let directory = std::env::temp_dir().join(format!("umbra-short-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join("slots.svg");
        let drawing = Output::create("drawing", &path).unwrap();
        assert!(draw(drawing, &Report::default()).unwrap().is_none());
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        std::fs::remove_dir(&directory).unwrap();
    }
}
