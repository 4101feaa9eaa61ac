//! How a call is treated.
//!
//! Some of it matters only where the call is made, and is not sent.

bitflags::bitflags! {
    /// How a call is to be treated, at every member.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
    pub struct Mode: u16 {
        /// Go on after failures and report all of them; without it the first failure answers at once.
        const COLLECT = 1;
        /// After a failure, tell those who have not answered to stop.
        const CANCEL_ON_FAIL = 2;
        /// Combine answers in the order of the children, not in that of their arrival.
        const ORDERED = 4;
        /// Send the request on before the function runs.
        const CUT_THROUGH = 8;
        /// The data is a span that lies elsewhere.
        const SPAN = 16;
        /// A member that is listed again counts once, where it is listed first; without it such a call is refused. Positions of a
        /// stated tree are those of the list that is left. It is asked where the call is made, and not sent.
        const DEDUP = 32;
        /// Replies are not in answers: their data stays with whoever drives the machine that wrote it, and an answer has the
        /// span where it lies, or nothing if there is none. [`Work::with_data`](super::Work::with_data) tells more.
        const RENDEZVOUS = 64;
        /// Members that are known to be dead where the call is made are left out of it, and named as not reached; without it such a
        /// call is refused. A stated tree is one over all of the list: whoever hangs below a member that is left out hangs below the
        /// nearest one above it that is not. It is asked where the call is made, and not sent.
        const SKIP_DEAD = 128;
        /// Every member is given the whole list in addition to its own part of it ([`Work::full_list`](super::Work::full_list)), so
        /// each request is as long as the list of the call.
        const FULL_LIST = 256;
        /// Functions may replace the header for the children of their members
        /// ([`Work::rewrite_header`](super::Work::rewrite_header)), so it goes on when they are done: a call that is
        /// [cut through](Mode::CUT_THROUGH) cannot have this.
        const REWRITE = 512;
    }
}

impl Mode {
    /// What matters not only where the call is made.
    pub(super) const KEPT: Mode = Mode::all().difference(Mode::DEDUP.union(Mode::SKIP_DEAD));
    /// What is in the flags of messages; requests say the rest with their list.
    pub(super) const FLAGS: Mode = Mode::KEPT.difference(Mode::BESIDE);
    const BESIDE: Mode = Mode::FULL_LIST.union(Mode::REWRITE);
    /// Where the bits of these are in the byte of a request that says what its list is: 2 and 4.
    const SHIFT: u32 = 7;

    /// What a request says with its list.
    pub(super) const fn beside(self) -> u8 {
        (self.intersection(Mode::BESIDE).bits() >> Mode::SHIFT) as u8
    }

    /// With what a request says so.
    pub(super) const fn with_beside(self, said: u8) -> Mode {
        self.union(Mode::from_bits_retain((said as u16) << Mode::SHIFT).intersection(Mode::BESIDE))
    }
}

/// The flags of a message are a byte, which is the first one of a mode.
const _: () = assert!(Mode::FLAGS.bits() <= u8::MAX as u16 && Mode::KEPT.difference(Mode::FLAGS).bits() as u8 == 0);
