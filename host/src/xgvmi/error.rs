//! Why the card did not do it.

use std::io;

use umbra_core::error::Status;

/// The commands that this module sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Which function this is.
    Query,
    /// An indirect key over registered memory.
    CreateMkey,
    /// Others may use that key.
    Allow,
    /// An alias of another function's key.
    CreateAlias,
    /// The end of one of the above.
    Destroy,
}

impl std::fmt::Display for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Command::Query => "QUERY_HCA_CAP",
            Command::CreateMkey => "CREATE_MKEY",
            Command::Allow => "ALLOW_OTHER_VHCA_ACCESS",
            Command::CreateAlias => "CREATE_GENERAL_OBJECT of an alias",
            Command::Destroy => "destroying an object",
        })
    }
}

/// Why memory was not exported, or not imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XgvmiError {
    /// The firmware refused a command.
    #[error("card refused {command} with status {status:#x} ({}), syndrome {syndrome:#010x}", meaning(*status))]
    Refused {
        /// Which.
        command: Command,
        /// `status` of its answer.
        status: u8,
        /// `syndrome` of its answer, which the card's maker can explain.
        syndrome: u32,
    },
    /// The command did not reach the firmware, or its answer not us.
    #[error("{command} did not come through: {error}")]
    Call {
        /// Which.
        command: Command,
        /// Why.
        error: io::Error,
    },
    /// An answer is too short for what it must hold.
    #[error("answer to {command} ends after {len} bytes")]
    Short {
        /// To which command.
        command: Command,
        /// Bytes of it.
        len: usize,
    },
    /// An answer holds a number that no object can have.
    #[error("answer to {command} names object {number:#x}, which no memory key can be")]
    Nonsense {
        /// To which command.
        command: Command,
        /// The number.
        number: u64,
    },
    /// The alias was made, but cannot be used.
    #[error("alias was made in state {0}, it cannot be used: is the exporter still there, and its firmware as new?")]
    BadAlias(u8),
    /// The memory lies behind another card.
    #[error("memory lies behind card {theirs:#018x}, this one is {ours:#018x}: only functions of one card share keys")]
    OtherCard {
        /// The exporter's.
        theirs: u64,
        /// The importer's.
        ours: u64,
    },
    /// The ticket names no memory that can be reached this way.
    #[error("ticket has no key of a function of a card: ask its owner for another data path")]
    NoKey,
    /// The range does not lie in the memory that is to be exported.
    #[error("range lies outside the registered memory")]
    OutOfBounds,
    /// There are as many aliases in use as there is room for.
    #[error("no room for another alias: drop an import first")]
    Full,
    /// The card made an alias for somebody who did not know the key.
    #[error("card does not check access keys: use another data path")]
    Unguarded,
}

/// What the firmware's statuses mean: `MLX5_CMD_STAT_*` of Linux' driver.
const fn meaning(status: u8) -> &'static str {
    match status {
        0x01 => "internal error",
        0x02 => "unknown command: the firmware is too old",
        0x03 => "bad parameter: the key or its number may be wrong",
        0x04 => "system state forbids it",
        0x05 => "no such resource: it was revoked, or the number is wrong",
        0x06 => "resource busy",
        0x08 => "limit exceeded",
        0x09 => "resource is in a wrong state",
        0x0a => "bad index",
        0x0f => "no resources left",
        0x50 => "bad length of the command",
        0x51 => "bad length of the answer",
        _ => "unknown status",
    }
}

impl XgvmiError {
    /// What importers and exporters are told over a link.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            XgvmiError::NoKey => Status::Malformed,
            XgvmiError::OutOfBounds => Status::OutOfBounds,
            XgvmiError::Full => Status::Full,
            _ => Status::CopyFailed,
        }
    }
}
