//! Names of processes, hosts and places of a job, one type for each kind of number.
//!
//! Upstream used one integer for a service process' job-wide id, its dense id within a group and its id on
//! its DPU, and confused them (spec 1.3, 5.1 B3). Here they do not convert into each other.

use core::fmt;

macro_rules! number {
    ($($(#[doc = $doc:literal])* $name:ident;)*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
            #[cfg_attr(feature = "defmt", derive(defmt::Format))]
            #[repr(transparent)]
            pub struct $name(pub u32);

            impl $name {
                /// The number as an array index.
                #[must_use]
                pub const fn index(self) -> usize {
                    self.0 as usize
                }
            }
            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    self.0.fmt(f)
                }
            }
        )*
    };
}

number! {
    /// A rank within a group, `0..size`.
    Rank;
    /// A rank within the world group; names an application process job-wide.
    WorldRank;
    /// A rank among the ranks on its host, `0..n_local`.
    LocalRank;
    /// A service process job-wide: `dpu_index * service_processes_per_dpu + lid` (spec 1.1).
    Sp;
    /// A service process on its DPU, `0..service_processes_per_dpu`.
    SpLid;
    /// Dense index of a service process among those involved in a group, ordered by [`Sp`].
    SpInGroup;
    /// Dense index of a service process among those of one host involved in a group, ordered by [`Sp`].
    SpOnHostInGroup;
    /// A host job-wide, in configuration order.
    Host;
    /// Dense index of a host among those involved in a group, in configuration order.
    HostInGroup;
    /// A DPU job-wide, in the order of the job's list of DPUs.
    Dpu;
}

/// Any process of the job, in 24 bits: an application process or a service process.
///
/// Bit 23 tells the kind, the lower 23 bits are the [`WorldRank`] or [`Sp`]; the default is rank 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Peer(u32);

impl Peer {
    const SERVICE: u32 = 1 << 23;
    /// The bits that a peer has.
    const BITS: u32 = (1 << 24) - 1;
    /// How many processes of each kind can be named.
    pub const CAPACITY: u32 = Self::SERVICE;

    /// The application process with this world rank, if it can be named in 23 bits.
    #[must_use]
    pub const fn rank(rank: WorldRank) -> Option<Peer> {
        if rank.0 < Self::CAPACITY { Some(Peer(rank.0)) } else { None }
    }

    /// The service process, if it can be named in 23 bits.
    #[must_use]
    pub const fn service(sp: Sp) -> Option<Peer> {
        if sp.0 < Self::CAPACITY { Some(Peer(sp.0 | Self::SERVICE)) } else { None }
    }

    /// The 24-bit wire form.
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// Reads the 24-bit wire form; `None` if a higher bit is set.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Option<Peer> {
        if bits & !Self::BITS == 0 { Some(Peer(bits)) } else { None }
    }

    /// The process that the lower 24 bits name, whatever the others are.
    pub(crate) const fn from_low_bits(bits: u32) -> Peer {
        Peer(bits & Self::BITS)
    }

    /// Which process this is.
    #[must_use]
    pub const fn kind(self) -> PeerKind {
        if self.0 & Self::SERVICE == 0 {
            PeerKind::Rank(WorldRank(self.0))
        } else {
            PeerKind::Service(Sp(self.0 & !Self::SERVICE))
        }
    }
}

/// What a [`Peer`] names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum PeerKind {
    /// An application process.
    Rank(WorldRank),
    /// A service process.
    Service(Sp),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            PeerKind::Rank(r) => write!(f, "rank {r}"),
            PeerKind::Service(s) => write!(f, "service process {s}"),
        }
    }
}
impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Which life of a process: a restarted process has another incarnation, and messages of the old one are
/// refused. Random, never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(transparent)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// No life in particular: of one who has only the key of a region to tell its lives apart. No process is
    /// in this life.
    pub const ANY: Incarnation = Incarnation(0);

    /// Where generations of what this life hands out begin, a number of so many bits, 1 to 32; two lives rarely agree. It is 0
    /// for [`ANY`](Self::ANY).
    pub(crate) const fn first_generation(self, bits: u32) -> u32 {
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - bits)) as u32
    }
}
