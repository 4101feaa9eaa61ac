//! The rank of a job: holds a part of the file, and is idle while others read it.

mod holding;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use umbra_core::key::Key;
use umbra_core::peer::{Host, LocalRank, Peer, WorldRank};
use umbra_core::time::Time;
use umbra_core::wire::{Frame, Op, Token};

use super::grid::{self, Grid};
use super::{Step, launcher_link};
use crate::admin::{Body as _, Exported, Failure, Mark, ops};
use crate::config::{ConfigError, Platform};
use crate::driver::{self, Driver, Event, Limits, LinkId};
use crate::link::{Identity, Party, Side};
use crate::secret::{Secret, SecretError};
use crate::session::{GroupHandle, Rdma, Seat, Session, SessionError, Settings};
use crate::stencil::LoadError;
use crate::stencil::field::FieldError;
use crate::sys::segment::SegmentError;
use holding::Holding;
use umbra_core::peer::Incarnation;

/// Why a rank did not come to its end.
#[derive(Debug, thiserror::Error)]
enum RankError {
    #[error("argument {0:?} is not KEY=VALUE, or KEY is unknown")]
    BadArgument(String),
    #[error("argument {0} is missing, or nothing that it can be")]
    Missing(&'static str),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error("input {}: {error}", path.display())]
    Input { path: PathBuf, error: io::Error },
    #[error(
        "no memory for {bytes} bytes that this rank is to hold of {}: share it out among more ranks or hosts, or take less",
        path.display()
    )]
    NoMemory { path: PathBuf, bytes: usize },
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error("brick {number}: {error}")]
    Brick { number: u64, error: LoadError },
    #[error("launcher: {0}")]
    Launcher(String),
}

/// What a rank is told on its command line.
struct Arguments {
    settings: Settings,
    holding: Holding,
}

/// `KEY=VALUE` arguments.
struct Pairs(HashMap<String, OsString>);

impl Pairs {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str()
    }

    /// A path, whose bytes need not be text.
    fn path(&self, key: &'static str) -> Result<PathBuf, RankError> {
        self.0.get(key).map(PathBuf::from).ok_or(RankError::Missing(key))
    }

    fn text(&self, key: &'static str) -> Result<&str, RankError> {
        self.get(key).ok_or(RankError::Missing(key))
    }

    fn number(&self, key: &'static str) -> Result<u64, RankError> {
        self.text(key)?.parse().map_err(|_| RankError::Missing(key))
    }

    fn small(&self, key: &'static str) -> Result<u32, RankError> {
        u32::try_from(self.number(key)?).map_err(|_| RankError::Missing(key))
    }
}

impl Arguments {
    fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Arguments, RankError> {
        let mut pairs = HashMap::new();
        for argument in arguments {
            let bytes = argument.as_bytes();
            let at = bytes.iter().position(|&byte| byte == b'=').and_then(|at| bytes.split_at_checked(at));
            let pair = at.and_then(|(key, value)| Some((str::from_utf8(key).ok()?, value.get(1..)?)));
            let Some((key, value)) = pair else {
                return Err(RankError::BadArgument(argument.to_string_lossy().into_owned()));
            };
            pairs.insert(key.to_owned(), OsStr::from_bytes(value).to_owned());
        }
        let pairs = Pairs(pairs);
        let (text, number, small) = (|key| pairs.text(key), |key| pairs.number(key), |key| pairs.small(key));
        let dpus = text("dpus")?;
        let names: Vec<&str> = dpus.split(',').collect();
        let job = Platform::read(pairs.path("config")?)?.job(&names)?;
        let secret = Secret::read(&pairs.path("secret")?)?;
        let seat = Seat {
            rank: WorldRank(small("rank")?),
            size: small("size")?,
            host: Host(small("host")?),
            local: LocalRank(small("local")?),
            // This rank is one of them.
            n_local: Some(small("n_local")?).filter(|&ranks| ranks > 0).ok_or(RankError::Missing("n_local"))?,
        };
        let rdma = match pairs.get("rdma") {
            None => Rdma::WhereNeeded,
            Some("direct") => Rdma::Direct,
            Some("asked") => Rdma::Asked,
            Some(other) => return Err(RankError::BadArgument(format!("rdma={other}"))),
        };
        let device =
            pairs.get("device").map(|text| text.parse().map_err(|_| RankError::BadArgument(format!("device={text}"))));
        let silence = pairs.get("silence_ms").is_some().then(|| number("silence_ms")).transpose()?;
        let settings = Settings {
            sockets: pairs.path("sockets").ok(),
            shadows: small("shadows")?,
            deadline: Duration::from_millis(number("deadline_ms")?),
            silence: silence.map(Duration::from_millis),
            rdma,
            device: device.transpose()?,
            ..Settings::new(job, secret, seat)
        };
        Ok(Arguments { settings, holding: Holding::parse(&pairs)? })
    }
}

/// Runs a rank of [`run`](super::run()) with `KEY=VALUE` arguments; its standard input is the link to the launcher.
#[must_use]
pub fn rank_main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let result = Arguments::parse(arguments).and_then(|arguments| {
        let mut launcher = Launcher::connect(&arguments.settings)?;
        play(&arguments, &mut launcher).inspect_err(|error| launcher.give_up(error))
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If even this cannot be written, the exit code still tells.
            let _ = writeln!(io::stderr(), "umbra rank: {error}");
            ExitCode::FAILURE
        }
    }
}

fn play(arguments: &Arguments, launcher: &mut Launcher) -> Result<(), RankError> {
    let seat = arguments.settings.seat;
    let mut session = Session::join(arguments.settings.clone())?;
    if let Some(world) = session.world() {
        launcher.full(&session, grid::WORLD, world);
    }
    let key = arguments.holding.export(&mut session)?;
    let (address, len) = match key {
        Some(key) => session.exported(key).ok_or(RankError::Missing("len"))?,
        None => (0, 0),
    };
    launcher.mark(Step::Exported, None, len);
    let grid = Grid { hosts: seat.size / seat.n_local, ranks: seat.n_local };
    let mut groups = Vec::new();
    let (row, column) = ((grid::ROW, seat.rank.0.saturating_sub(seat.local.0)), (grid::COLUMN, seat.local.0));
    for (id, lead) in [row, column].into_iter().filter(|_| arguments.holding.is_on_a_grid()) {
        let (_, members) = grid.group((id, lead)).ok_or(RankError::Missing("n_local"))?;
        let group = session.create_group(id, &members)?;
        launcher.full(&session, (id, lead), group);
        groups.push(group);
    }
    let before = session.wakeups();
    let exported = Exported { key: key.map_or(0, Key::to_bits), address, len, wakeups: 0 };
    launcher.call(ops::EXPORTED, &exported.to_body());
    let token = launcher.wait_for_leave(&mut session)?;
    // Code of ours ran in this process if the system had to wake it, or if the session did anything by itself.
    let wakeups = session.wakeups() - before + launcher.wakeups_while_waiting;
    for group in groups {
        session.free_group(group)?;
    }
    session.leave()?;
    launcher.done(ops::LEAVE, token, &wakeups.to_le_bytes());
    Ok(())
}

/// The rank's end of the link to the launcher.
struct Launcher {
    driver: Driver,
    link: LinkId,
    wakeups_while_waiting: u64,
}

impl Launcher {
    fn connect(settings: &Settings) -> Result<Launcher, RankError> {
        let failed = |e: &dyn std::fmt::Display| RankError::Launcher(e.to_string());
        let peer = Peer::rank(settings.seat.rank).ok_or(RankError::Missing("rank"))?;
        let me = Identity { party: Party::Peer(peer), incarnation: Incarnation(1) };
        let mut driver = Driver::new(me, settings.secret.clone(), Limits::default());
        let socket = launcher_link().map_err(|e| failed(&e))?;
        // The launcher answers when it has started all others; if it gives up, this process ends with it.
        let link = driver.adopt_until(Time::NEVER, socket, true, Side::Initiator).map_err(|e| failed(&e))?;
        let mut frame = Vec::new();
        loop {
            driver.wait(Time::NEVER).map_err(|e| failed(&e))?;
            match driver.next(&mut frame) {
                Some(Event::Up { .. }) => return Ok(Launcher { driver, link, wakeups_while_waiting: 0 }),
                Some(Event::Gone { why, .. }) => return Err(failed(&why)),
                _ => {}
            }
        }
    }

    fn call(&mut self, op: Op, body: &[u8]) {
        // If the launcher is gone, the next wait says so.
        let _ = self.driver.send(self.link, &Frame::Call { op, token: Token(0), body }, Vec::new());
        self.driver.flush();
    }

    fn done(&mut self, op: Op, token: Token, body: &[u8]) {
        let status = umbra_core::error::Status::Ok;
        let _ = self.driver.send(self.link, &Frame::Done { op, token, status, body }, Vec::new());
        self.driver.flush();
    }

    fn mark(&mut self, step: Step, group: Option<(u32, u32)>, value: u64) {
        let mark = Mark { at: driver::now(), step: step as u8, group, value };
        self.call(ops::MARK, &mark.to_body());
    }

    fn full(&mut self, session: &Session, name: (u32, u32), group: GroupHandle) {
        let reader = session.endpoints().reader();
        let bytes = reader.and_then(|r| r.read(group.handle, |table| table.len_bytes()).ok());
        self.mark(Step::Full, Some(name), bytes.unwrap_or(0) as u64);
    }

    fn give_up(&mut self, error: &RankError) {
        let (status, culprit) = match error {
            RankError::Session(error) => (error.status(), error.culprit()),
            _ => (umbra_core::error::Status::Malformed, None),
        };
        self.call(ops::FAILED, &Failure { status, culprit, text: error.to_string() }.to_body());
    }

    /// Sleeps until the launcher says that everything was read. A service process that was started again meanwhile is
    /// told what it must know of this rank.
    fn wait_for_leave(&mut self, session: &mut Session) -> Result<Token, RankError> {
        let (mut frame, mut waits) = (Vec::new(), 0u64);
        let failed = |error: io::Error| RankError::Launcher(error.to_string());
        loop {
            while let Some(event) = self.driver.next(&mut frame) {
                match (event, Frame::parse(&frame)) {
                    (Event::Frame { .. }, Ok(Frame::Call { op: ops::LEAVE, token, .. })) => {
                        // One of the waits ended for this very frame.
                        self.wakeups_while_waiting = waits.saturating_sub(1);
                        return Ok(token);
                    }
                    (Event::Gone { why, .. }, _) => return Err(RankError::Launcher(why.to_string())),
                    _ => {}
                }
            }
            match self.driver.socket(self.link).filter(|_| !self.driver.has_unsent()) {
                Some(socket) if session.sleep(socket)? => session.recover()?,
                Some(_) => self.driver.wait(Time::ZERO).map_err(failed)?,
                None => self.driver.wait(Time::NEVER).map_err(failed)?,
            }
            waits += 1;
        }
    }
}
