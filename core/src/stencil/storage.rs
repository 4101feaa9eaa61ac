//! What a stencil cache is lent.

use super::group::{Group, Reference};
use super::input::Input;
use crate::cache::Slot;

/// All that a [`Stencil`](super::Stencil) works in; each may be an array, a vector or a slice.
#[derive(Clone, Debug)]
pub struct Storage<S, B, I, G, R> {
    /// A record for each slot.
    pub slots: S,
    /// Buckets of the calendar of next uses: a power of two up to 4096 is used.
    pub buckets: B,
    /// A record for each input, with how often it is used.
    pub inputs: I,
    /// A record for each group that is submitted and not yet freed.
    pub groups: G,
    /// As many for each group as a group has members at most.
    pub references: R,
}

/// The parts that something lends.
pub type Parts<L> = Storage<
    <L as Lent>::Slots,
    <L as Lent>::Buckets,
    <L as Lent>::Inputs,
    <L as Lent>::Groups,
    <L as Lent>::References,
>;

/// The types within a [`Storage`].
pub trait Lent: Sized {
    /// Records of slots.
    type Slots: AsRef<[Slot]> + AsMut<[Slot]>;
    /// Words of the calendar.
    type Buckets: AsRef<[u32]> + AsMut<[u32]>;
    /// Records of inputs.
    type Inputs: AsRef<[Input]> + AsMut<[Input]>;
    /// Records of groups.
    type Groups: AsRef<[Group]> + AsMut<[Group]>;
    /// References of groups.
    type References: AsRef<[Reference]> + AsMut<[Reference]>;

    /// The parts themselves.
    fn into_storage(self) -> Parts<Self>;
}

impl<S, B, I, G, R> Lent for Storage<S, B, I, G, R>
where
    S: AsRef<[Slot]> + AsMut<[Slot]>,
    B: AsRef<[u32]> + AsMut<[u32]>,
    I: AsRef<[Input]> + AsMut<[Input]>,
    G: AsRef<[Group]> + AsMut<[Group]>,
    R: AsRef<[Reference]> + AsMut<[Reference]>,
{
    type Slots = S;
    type Buckets = B;
    type Inputs = I;
    type Groups = G;
    type References = R;

    fn into_storage(self) -> Self {
        self
    }
}
