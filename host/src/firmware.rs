//! Firmware beside this host: attach, let it serve memory, look endpoints up.
//!
//! The image of `dpu/firmware` runs on a board whose memory is a file of the host. Whoever holds that file maps the
//! [window](umbra_core::window) in it ([`Map`]) and attaches ([`Firmware`]) as a rank, which exports memory, or as a
//! service process, which reads and writes it. Every call has a deadline, and the heartbeat in the window is watched
//! while it waits: firmware that stops is an error that says which and since when, not a wait until the deadline.
//!
//! ```no_run
//! use umbra::firmware::{Firmware, Map, Patience};
//! use umbra_core::key::{Access, Span};
//! use umbra_core::peer::{Peer, Sp, WorldRank};
//! let map = Map::open("/proc/4711/fd/3".as_ref())?;
//! let mut rank = Firmware::attach(&map, Peer::rank(WorldRank(0)).ok_or("rank")?, Patience::default())?;
//! rank.share().write(0, b"hello")?;
//! let region = rank.export(0, 4096, Access::READ)?;
//!
//! let mut service = Firmware::attach(&map, Peer::service(Sp(1)).ok_or("service")?, Patience::default())?;
//! let mut bytes = [0; 5];
//! service.read(Span { key: region.key, offset: 0, len: 5 }, &mut bytes)?;
//! assert_eq!(&bytes, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! When firmware has stopped, the endpoint cache in the window is still there: [`Firmware::lookup`] falls back to it
//! and says so. Bytes are not read past stopped firmware: nobody is left who may say whether a key still holds.

mod calls;
mod error;
mod lane;
mod map;
mod watch;

use std::time::Duration;

use umbra_core::cell::BytesMut;
use umbra_core::peer::{Incarnation, Peer};
use umbra_core::region::{Entry, Regions};
use umbra_core::window::{Beat, Window};

pub use calls::{Found, From, WISH, Wish};
pub use error::FirmwareError;
pub use map::{GUEST_BYTES, GuestMemory, Map, WINDOW_AT};

use lane::Attached;
use watch::Watch;

/// Regions that one attached process can export.
const REGIONS: usize = 64;

/// How long to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// For an answer, or for firmware to start.
    pub deadline: Duration,
    /// For the next heartbeat, before the firmware counts as stopped.
    pub silence: Duration,
}

impl Default for Patience {
    /// Ten seconds for an answer, two without a heartbeat: on a busy machine an emulated board is late, too.
    fn default() -> Self {
        Patience { deadline: Duration::from_secs(10), silence: Duration::from_secs(2) }
    }
}

/// This process, attached to firmware; detaches when dropped.
#[derive(Debug)]
pub struct Firmware<'m> {
    window: Window<'m>,
    attached: Attached<'m>,
    watch: Watch<'m>,
    me: Peer,
    life: Incarnation,
    regions: Regions<Vec<Entry>>,
}

impl<'m> Firmware<'m> {
    /// Attaches as `me`, waiting until the firmware serves.
    ///
    /// # Errors
    /// [`FirmwareError`]; [`FirmwareError::Layout`] if the image was built from other sources.
    pub fn attach(map: &'m Map, me: Peer, patience: Patience) -> Result<Self, FirmwareError> {
        let window = watch::serving(map, patience)?;
        let mut watch = Watch::new(window.state()?, patience);
        let life = Incarnation(u64::from_le_bytes(crate::secret::random().map_err(FirmwareError::Random)?) | 1);
        let attached = Attached::claim(&window, me, life, &mut watch)?;
        let regions = Regions::new(vec![Entry::VACANT; REGIONS]);
        Ok(Firmware { window, attached, watch, me, life, regions })
    }

    /// The name of the board that the firmware runs on.
    #[must_use]
    pub fn board(&self) -> String {
        self.watch.board()
    }

    /// Which life of the firmware this is attached to.
    #[must_use]
    pub const fn life(&self) -> Incarnation {
        self.watch.life()
    }

    /// The last heartbeat.
    #[must_use]
    pub fn beat(&self) -> Beat {
        self.watch.beat()
    }

    /// Bytes of the firmware's stack, and how many of them it ever used.
    #[must_use]
    pub fn stack(&self) -> (u64, u64) {
        self.watch.stack()
    }

    /// Transfers that the firmware ended well, and requests that it refused.
    #[must_use]
    pub fn counters(&self) -> (u64, u64) {
        self.watch.counters()
    }

    /// The memory that this process can export; others read it while it is exported.
    #[must_use]
    pub const fn share(&self) -> BytesMut<'m> {
        self.attached.share()
    }
}
