//! What a report is drawn as: a page or a picture, as the name of its file ends.
//!
//! ```
//! use std::path::Path;
//! use umbra::report::Form;
//! assert_eq!(Form::of(Path::new("blobs.png"))?, Form::Picture);
//! assert_eq!(Form::of(Path::new("/dev/stdout"))?, Form::Page, "a pipe has no ending");
//! let refused = Form::of(Path::new("blobs.gif")).unwrap_err().to_string();
//! assert_eq!(refused, "nothing is drawn as .gif: the name of the file must end with .html or .png");
//! # Ok::<(), umbra::report::FormError>(())
//! ```

use std::io;
use std::path::Path;

use super::Report;

/// What a report is drawn as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A page, in HTML.
    Page,
    /// A picture, as PNG.
    Picture,
}

/// The name of a file ends like no drawing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("nothing is drawn as .{0}: the name of the file must end with .html or .png")]
pub struct FormError(String);

impl Form {
    /// The form of a file with this name; a page if the name has no ending.
    ///
    /// # Errors
    /// [`FormError`] names the ending.
    pub fn of(path: &Path) -> Result<Form, FormError> {
        let Some(ending) = path.extension() else { return Ok(Form::Page) };
        let lower = ending.to_ascii_lowercase();
        match lower.to_str() {
            Some("html") => Ok(Form::Page),
            Some("png") => Ok(Form::Picture),
            _ => Err(FormError(ending.to_string_lossy().into_owned())),
        }
    }

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Form::Page => "page",
            Form::Picture => "picture",
        }
    }
}

impl Report {
    /// The report in a form, ready to be written to a file.
    ///
    /// # Errors
    /// As [`to_png`](Self::to_png).
    pub fn draw(&self, form: Form) -> io::Result<Vec<u8>> {
        match form {
            Form::Page => Ok(self.to_html().into_bytes()),
            Form::Picture => self.to_png(),
        }
    }
}
