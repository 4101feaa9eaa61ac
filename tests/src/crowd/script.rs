//! What the header of a call has members do, as bytes.
//!
//! They reach threads and processes alike.

use umbra_core::chain::Node;

/// What user code does besides its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// It fails with this number.
    Fault(u32),
    /// It panics.
    Panic,
    /// It is pending until the call is given up.
    Hang,
    /// It is pending for so many milliseconds.
    Slow(u32),
    /// It does nothing else for so many milliseconds.
    Block(u32),
    /// It answers so many bytes, more than is allowed.
    Excess(u32),
    /// Its member counts for so much more.
    Add(u32),
    /// It says in the upper half of its header how many functions had begun at its process before.
    Stamp,
    /// Everybody below its member counts for so much more.
    Raise(u32),
}

const EVERYBODY: u16 = u16::MAX;
/// Where the number of a child would stand.
const FUNCTION: u16 = u16::MAX;
const ENTRY: usize = 12;

impl Act {
    const fn bytes(self) -> (u8, u32) {
        match self {
            Act::Fault(number) => (1, number),
            Act::Panic => (2, 0),
            Act::Hang => (3, 0),
            Act::Slow(millis) => (4, millis),
            Act::Block(millis) => (5, millis),
            Act::Excess(bytes) => (6, bytes),
            Act::Add(number) => (7, number),
            Act::Stamp => (8, 0),
            Act::Raise(number) => (9, number),
        }
    }

    const fn of(kind: u8, number: u32) -> Option<Act> {
        Some(match kind {
            1 => Act::Fault(number),
            2 => Act::Panic,
            3 => Act::Hang,
            4 => Act::Slow(number),
            5 => Act::Block(number),
            6 => Act::Excess(number),
            7 => Act::Add(number),
            8 => Act::Stamp,
            9 => Act::Raise(number),
            _ => return None,
        })
    }
}

/// Who does what in a call.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Script(pub Vec<u8>);

impl Script {
    /// Everybody does its work.
    #[must_use]
    pub fn new() -> Script {
        Script::default()
    }

    fn entry(mut self, node: u16, child: u16, act: Act) -> Script {
        let (kind, number) = act.bytes();
        self.0.extend_from_slice(&node.to_le_bytes());
        self.0.extend_from_slice(&child.to_le_bytes());
        self.0.extend_from_slice(&u32::from(kind).to_le_bytes());
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// The function of a member does this, unless something was said of it before.
    #[must_use]
    pub fn func(self, node: u32, act: Act) -> Script {
        self.entry(node as u16, FUNCTION, act)
    }

    /// The functions of all members do this of whom nothing was said before.
    #[must_use]
    pub fn everybody(self, act: Act) -> Script {
        self.entry(EVERYBODY, FUNCTION, act)
    }

    /// The callback of a member does this for the answer of a child.
    #[must_use]
    pub fn callback(self, node: u32, child: u32, act: Act) -> Script {
        self.entry(node as u16, child as u16, act)
    }
}

/// What these bytes have a member do: in its function, or with the answer of a child; and for how much more it counts.
#[must_use]
pub fn acts(script: &[u8], node: Node, child: Option<Node>) -> (Option<Act>, u32) {
    let (mut first, mut more) = (None, 0);
    let wanted = child.map_or(FUNCTION, |child| child.0 as u16);
    for entry in script.as_chunks::<ENTRY>().0 {
        let [n0, n1, c0, c1, kind, _, _, _, number @ ..] = *entry;
        let (at, of) = (u16::from_le_bytes([n0, n1]), u16::from_le_bytes([c0, c1]));
        if (at != EVERYBODY && u32::from(at) != node.0) || of != wanted {
            continue;
        }
        match Act::of(kind, u32::from_le_bytes(number)) {
            Some(Act::Add(number)) => more += number,
            act => first = first.or(act),
        }
    }
    (first, more)
}
