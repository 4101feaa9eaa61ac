//! Starting ranks: what each is told on its command line.

use std::ffi::OsString;

use umbra_core::peer::{Peer, WorldRank};

use super::super::{DataPath, JobError, Options};
use super::Launcher;
use crate::session::{Rdma, Seat, Settings};
use crate::stencil::field::Spread;

/// What a rank holds.
enum Part {
    /// Bytes of the file.
    Slice { offset: u64, len: u64 },
    /// Bricks of the field that the file is.
    Bricks { edges: [u32; 3], holder: u32, holders: u32 },
}

impl Launcher {
    /// Starts a rank that holds its slice of the file.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn start_rank(&mut self, rank: WorldRank) -> Result<u32, JobError> {
        let (offset, len) = self.slice(rank);
        let seat = self.site.seat(rank, self.options.ranks).ok_or(JobError::NoSuchProcess)?;
        self.start_seated(seat, &Part::Slice { offset, len })
    }

    /// Starts a rank that holds bricks of the field that the file is, as the holder with this number.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn start_holder(&mut self, seat: Seat, spread: &Spread, holder: u32) -> Result<u32, JobError> {
        self.start_seated(seat, &Part::Bricks { edges: spread.bricks.edges(), holder, holders: spread.holders })
    }

    /// What this process needs to know to be a rank of the job itself.
    #[must_use]
    pub fn settings(&self, seat: Seat) -> Settings {
        let Options { shadows, deadline, silence, device, data_path, .. } = &self.options;
        Settings {
            sockets: Some(self.directory.path().to_owned()),
            shadows: *shadows,
            deadline: *deadline,
            silence: *silence,
            rdma: data_path.rdma().unwrap_or_default(),
            device: device.clone(),
            ..Settings::new(self.site.job().clone(), self.site.secret().clone(), seat)
        }
    }

    fn start_seated(&mut self, seat: Seat, part: &Part) -> Result<u32, JobError> {
        let peer = Peer::rank(seat.rank).ok_or(JobError::NoSuchProcess)?;
        let shadows = self.site.job().shadows(seat.host, seat.local, 1).ok();
        let first = shadows.and_then(|shadows| shadows.first().copied()).ok_or(JobError::NoSuchProcess)?;
        let memory = if self.options.data_path == DataPath::Cma { "heap" } else { "segment" };
        let mut arguments: Vec<OsString> = vec!["rank".into()];
        let mut pair = |key: &str, value: OsString| {
            let mut argument = OsString::from(key);
            argument.push("=");
            argument.push(value);
            arguments.push(argument);
        };
        pair("config", self.directory.config().into());
        pair("dpus", self.site.dpus().join(",").into());
        pair("secret", self.directory.secret().into());
        // All shadows of a rank are on one DPU.
        if self.site.starts(first) {
            pair("sockets", self.directory.path().into());
        }
        pair("input", self.input.clone().into());
        pair("memory", memory.into());
        if let Some(rdma) = self.options.data_path.rdma() {
            pair("rdma", if rdma == Rdma::Direct { "direct" } else { "asked" }.into());
        }
        if let Some(device) = &self.options.device {
            pair("device", device.to_string().into());
        }
        let mut number = |key: &str, value: u64| pair(key, value.to_string().into());
        number("rank", u64::from(seat.rank.0));
        number("host", u64::from(seat.host.0));
        number("local", u64::from(seat.local.0));
        number("n_local", u64::from(seat.n_local));
        number("size", u64::from(seat.size));
        number("shadows", u64::from(self.options.shadows));
        number("deadline_ms", u64::try_from(self.options.deadline.as_millis().max(1)).unwrap_or(u64::MAX));
        if let Some(silence) = self.options.silence {
            number("silence_ms", u64::try_from(silence.as_millis().max(1)).unwrap_or(u64::MAX));
        }
        match *part {
            Part::Slice { offset, len } => {
                number("offset", offset);
                number("len", len);
            }
            Part::Bricks { edges, holder, holders } => {
                number("holder", u64::from(holder));
                number("holders", u64::from(holders));
                pair("bricks", edges.map(|edge| edge.to_string()).join(",").into());
            }
        }
        let program = self.programs.rank.clone();
        self.spawn(peer, &program, arguments)
    }
}
