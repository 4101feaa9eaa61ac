//! A validated view of the bytes of a group table.

use core::fmt;

/// Why bytes are not a group table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TableError {
    /// The bytes do not start like a table.
    NotATable,
    /// Another version of the format.
    UnknownVersion(u16),
    /// There are fewer or more bytes than the header's counts ask for.
    WrongLength,
    /// The checksum does not match: bytes were changed or lost.
    Damaged,
    /// The checksum matches, but this part contradicts the rest.
    Malformed(&'static str),
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::NotATable => f.write_str("bytes are not a group table"),
            TableError::UnknownVersion(version) => write!(f, "group table has version {version}: this is version 1"),
            TableError::WrongLength => f.write_str("group table is shorter or longer than its header says"),
            TableError::Damaged => f.write_str("group table is damaged: its checksum does not match"),
            TableError::Malformed(what) => write!(f, "group table contradicts itself: {what}"),
        }
    }
}
impl core::error::Error for TableError {}
