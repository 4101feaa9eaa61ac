//! Scripts: what happens to a machine, as bytes.

use umbra_core::peer::{Incarnation, Peer, Sp, WorldRank};
use umbra_core::time::Lapse;

use super::LINKS;

const LINK: u8 = 0;
const GONE: u8 = 1;
const FRAME: u8 = 2;
const PASS: u8 = 3;
const OWN: u8 = 4;
const KINDS: u8 = 5;

/// From here on a byte names a service process, below a rank.
const SERVICES: u8 = 128;

/// One thing that happens.
pub(super) enum Step<'b> {
    /// A link comes up.
    Link(usize, Peer, Incarnation),
    /// A link goes down.
    Gone(usize),
    /// Bytes come over a link.
    Frame(usize, &'b [u8]),
    /// Time passes.
    Pass(Lapse),
    /// What only this machine knows.
    Own(u8, u8),
}

/// Reads a script, whatever its bytes.
pub(super) struct Script<'b>(pub(super) &'b [u8]);

impl<'b> Script<'b> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }
}

impl<'b> Iterator for Script<'b> {
    type Item = Step<'b>;

    fn next(&mut self) -> Option<Step<'b>> {
        let [kind] = self.bytes()?;
        match kind % KINDS {
            LINK => {
                let [link, who, life] = self.bytes()?;
                let peer = match who.checked_sub(SERVICES) {
                    Some(sp) => Peer::service(Sp(u32::from(sp))),
                    None => Peer::rank(WorldRank(u32::from(who))),
                };
                Some(Step::Link(usize::from(link) % LINKS, peer?, Incarnation(u64::from(life) + 1)))
            }
            GONE => {
                let [link] = self.bytes()?;
                Some(Step::Gone(usize::from(link) % LINKS))
            }
            FRAME => {
                let [link, low, high] = self.bytes()?;
                let len = usize::from(u16::from_le_bytes([low, high])).min(self.0.len());
                let (frame, rest) = self.0.split_at(len);
                self.0 = rest;
                Some(Step::Frame(usize::from(link) % LINKS, frame))
            }
            PASS => {
                let millis = u16::from_le_bytes(self.bytes()?);
                Some(Step::Pass(Lapse::from_millis(u64::from(millis))))
            }
            _ => {
                let [what, which] = self.bytes()?;
                Some(Step::Own(what, which))
            }
        }
    }
}

/// Writes a script.
#[derive(Clone, Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn rank(&mut self, link: u8, rank: u8, life: u8) {
        self.0.extend([LINK, link, rank, life]);
    }

    pub(super) fn service(&mut self, link: u8, sp: u8, life: u8) {
        self.0.extend([LINK, link, SERVICES + sp, life]);
    }

    pub(super) fn gone(&mut self, link: u8) {
        self.0.extend([GONE, link]);
    }

    pub(super) fn frame(&mut self, link: u8, frame: &[u8]) {
        let len = u16::try_from(frame.len()).expect("the frame of a seed is short");
        self.0.extend([FRAME, link]);
        self.0.extend(len.to_le_bytes());
        self.0.extend(frame);
    }

    pub(super) fn pass(&mut self, millis: u16) {
        self.0.push(PASS);
        self.0.extend(millis.to_le_bytes());
    }

    pub(super) fn own(&mut self, what: u8, which: u8) {
        self.0.extend([OWN, what, which]);
    }
}
