//! One look at all that processes of this user share, and at their job's agents.

use std::path::Path;
use std::time::Instant;

use umbra::channel::{self, Snapshot as Channel};
use umbra::pool::{Pool, list_in};
use umbra::stream::{self, Snapshot as Streams};

use super::super::{Failure, pool};
use super::agents::{SeenAgent, Watched};

/// What there was at one moment; what went away while it was looked for is left out.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) at: Instant,
    pub(super) pools: Vec<SeenPool>,
    pub(super) channels: Vec<(String, Channel)>,
    pub(super) streams: Vec<(String, Streams)>,
    pub(super) agents: Vec<SeenAgent>,
}

/// A pool that has a name.
#[derive(Debug)]
pub(super) struct SeenPool {
    pub(super) instance: u64,
    pub(super) uses: u64,
    pub(super) is_awaited: bool,
    pub(super) summary: pool::Summary,
}

impl Seen {
    pub(super) fn look(folder: &Path, watched: &mut Watched<'_>) -> Result<Seen, Failure> {
        let look = |name: String| {
            let pool = Pool::inspect(folder, &name).ok()?;
            let (instance, uses, is_awaited) = (pool.instance(), pool.uses(), pool.is_awaited());
            Some(SeenPool { instance, uses, is_awaited, summary: pool::Summary::of(&name, &pool) })
        };
        let at = Instant::now();
        let pools = list_in(folder).map_err(Failure::failed)?.into_iter().filter_map(look).collect();
        let channels = channel::find()?.into_iter().filter_map(|at| Some((at.to_string(), Channel::at(at).ok()?)));
        let streams = stream::find()?.into_iter().filter_map(|at| Some((at.to_string(), Streams::at(at).ok()?)));
        let (channels, streams) = (channels.collect(), streams.collect());
        Ok(Seen { at, pools, channels, streams, agents: watched.look()? })
    }
}
