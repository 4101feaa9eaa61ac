//! The rank of a job: holds a slice of the file, and does nothing while others read it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

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
use crate::sys::segment::{Segment, SegmentError};
use umbra_core::peer::Incarnation;

/// Why a rank did not come to its end.
#[derive(Debug, thiserror::Error)]
enum RankError {
    #[error("argument {0:?} is not KEY=VALUE, or KEY is unknown")]
    BadArgument(String),
    #[error("argument {0} is missing or no number")]
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
    #[error("launcher: {0}")]
    Launcher(String),
}

/// Where the slice is held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Segment,
    Heap,
}

/// What a rank is told on its command line.
struct Arguments {
    settings: Settings,
    input: PathBuf,
    offset: u64,
    len: u64,
    held: Held,
}

impl Arguments {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Arguments, RankError> {
        let mut pairs = std::collections::HashMap::new();
        for argument in arguments {
            let Some((key, value)) = argument.split_once('=') else { return Err(RankError::BadArgument(argument)) };
            pairs.insert(key.to_owned(), value.to_owned());
        }
        let text = |key: &'static str| pairs.get(key).cloned().ok_or(RankError::Missing(key));
        let number = |key: &'static str| text(key)?.parse::<u64>().map_err(|_| RankError::Missing(key));
        let small = |key: &'static str| u32::try_from(number(key)?).map_err(|_| RankError::Missing(key));
        let dpus = text("dpus")?;
        let names: Vec<&str> = dpus.split(',').collect();
        let job = Platform::read(text("config")?)?.job(&names)?;
        let secret = Secret::read(text("secret")?.as_ref())?;
        let seat = Seat {
            rank: WorldRank(small("rank")?),
            size: small("size")?,
            host: Host(small("host")?),
            local: LocalRank(small("local")?),
            n_local: small("n_local")?,
        };
        let held = match text("memory")?.as_str() {
            "segment" => Held::Segment,
            "heap" => Held::Heap,
            other => return Err(RankError::BadArgument(format!("memory={other}"))),
        };
        let rdma = match pairs.get("rdma").map(String::as_str) {
            None => Rdma::WhereNeeded,
            Some("direct") => Rdma::Direct,
            Some("asked") => Rdma::Asked,
            Some(other) => return Err(RankError::BadArgument(format!("rdma={other}"))),
        };
        let device =
            pairs.get("device").map(|text| text.parse().map_err(|_| RankError::BadArgument(format!("device={text}"))));
        let silence = pairs.contains_key("silence_ms").then(|| number("silence_ms")).transpose()?;
        let settings = Settings {
            sockets: pairs.get("sockets").map(PathBuf::from),
            shadows: small("shadows")?,
            deadline: Duration::from_millis(number("deadline_ms")?),
            silence: silence.map(Duration::from_millis),
            rdma,
            device: device.transpose()?,
            ..Settings::new(job, secret, seat)
        };
        let (offset, len) = (number("offset")?, number("len")?);
        Ok(Arguments { settings, input: text("input")?.into(), offset, len, held })
    }
}

/// Runs a rank of [`run`](super::run) with `KEY=VALUE` arguments; its standard input is the link to the launcher.
#[must_use]
pub fn rank_main(arguments: impl Iterator<Item = String>) -> ExitCode {
    let result = Arguments::parse(arguments).and_then(|arguments| {
        let mut launcher = Launcher::connect(&arguments.settings)?;
        play(&arguments, &mut launcher).inspect_err(|error| launcher.give_up(error))
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("umbra rank: {error}");
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
    let (address, len) = export(arguments, &mut session)?;
    launcher.mark(Step::Exported, None, len);
    let grid = Grid { hosts: seat.size / seat.n_local, ranks: seat.n_local };
    let mut groups = Vec::new();
    for (id, lead) in [(grid::ROW, seat.rank.0.saturating_sub(seat.local.0)), (grid::COLUMN, seat.local.0)] {
        let (_, members) = grid.group((id, lead)).ok_or(RankError::Missing("n_local"))?;
        let group = session.create_group(id, &members)?;
        launcher.full(&session, (id, lead), group);
        groups.push(group);
    }
    let before = session.wakeups();
    launcher.call(ops::EXPORTED, &Exported { address, len, wakeups: 0 }.to_body());
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

/// Loads the slice and exports it; a rank without bytes exports nothing.
fn export(arguments: &Arguments, session: &mut Session) -> Result<(u64, u64), RankError> {
    let input = |error| RankError::Input { path: arguments.input.clone(), error };
    let len = usize::try_from(arguments.len).map_err(|_| RankError::Missing("len"))?;
    if len == 0 {
        return Ok((0, 0));
    }
    let mut file = File::open(&arguments.input).map_err(input)?;
    file.seek(SeekFrom::Start(arguments.offset)).map_err(input)?;
    let key = match arguments.held {
        Held::Heap => {
            let mut bytes = vec![0; len];
            file.read_exact(&mut bytes).map_err(input)?;
            session.export_bytes(bytes)?
        }
        Held::Segment => {
            let segment = Segment::create("umbra-slice", len)?;
            let mut chunk = vec![0; len.min(1 << 20)];
            let mut at = 0;
            while at < len {
                let n = chunk.len().min(len - at);
                let part = chunk.get_mut(..n).unwrap_or_default();
                file.read_exact(part).map_err(input)?;
                segment.write(at, part)?;
                at += n;
            }
            session.export_segment(segment)?
        }
    };
    session.exported(key).ok_or(RankError::Missing("len"))
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
        let link = driver.adopt(socket, true, Side::Initiator).map_err(|e| failed(&e))?;
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
