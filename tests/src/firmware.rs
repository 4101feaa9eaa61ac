//! An emulated board that runs an image, and what is asked of any firmware.
//!
//! A [`Board`] is QEMU with a file of ours as its memory. [`exercise`] attaches host processes and checks every answer;
//! it does not know whether a board or a thread of this process is at the other end.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use umbra::firmware::{Firmware, FirmwareError, From, GuestMemory, Map, Patience, WISH, Wish};
use umbra_core::access::message::{EXPORT, READ, WRITE};
use umbra_core::endpoints::{Descriptor, Group, JobKey, Shape, Table, TableBuilder};
use umbra_core::error::Status;
use umbra_core::id::{Generation, Id};
use umbra_core::key::{Access, Key, Span};
use umbra_core::peer::{Host, Incarnation, LocalRank, Peer, Rank, Sp, WorldRank};
use umbra_core::placement::Placement;
use umbra_core::ring::PushError;
use umbra_core::ring::line::{Line, Ring};
use umbra_core::window::{Claim, LANDING, LANES, Window, ops};
use umbra_core::wire::{Frame, INLINE, Op, Token};

/// Patient enough for an emulator on a busy machine.
pub const PATIENCE: Patience = Patience { deadline: Duration::from_secs(60), silence: Duration::from_secs(10) };
/// Ranks of the group that is looked up.
pub const RANKS: u32 = 64;
/// Bytes that are read, and bytes behind them that are written.
const READABLE: u64 = 1 << 20;
const WRITABLE: u64 = 64 << 10;

/// A processor that images are built for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Processor {
    /// 64-bit Arm.
    Aarch64,
    /// 64-bit RISC-V.
    Riscv64,
}

impl Processor {
    fn qemu(self) -> Command {
        let (program, options) = match self {
            Processor::Aarch64 => ("qemu-system-aarch64", "-cpu cortex-a72"),
            Processor::Riscv64 => ("qemu-system-riscv64", "-bios none"),
        };
        let mut command = Command::new(program);
        command.args(options.split(' '));
        command
    }
}

/// A running board; powered off when dropped.
#[derive(Debug)]
pub struct Board(Child);

impl Board {
    /// Powers a board on; what it prints on its console goes to a file.
    ///
    /// # Errors
    /// If QEMU cannot be started.
    pub fn start(processor: Processor, image: &Path, memory: &GuestMemory, console: &Path) -> io::Result<Board> {
        let out = File::options().create(true).append(true).open(console)?;
        let backend = format!("memory-backend-file,id=ram,size=32M,share=on,mem-path={}", memory.path().display());
        let mut qemu = processor.qemu();
        qemu.args(["-machine", "virt,memory-backend=ram", "-m", "32M", "-object", &backend]);
        qemu.args(["-display", "none", "-monitor", "none", "-serial", "stdio", "-nic", "none", "-kernel"]);
        qemu.arg(image).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        qemu.spawn().map(Board)
    }

    /// Pulls the plug.
    ///
    /// # Errors
    /// If it was off already.
    pub fn power_off(&mut self) -> io::Result<()> {
        self.0.kill()?;
        self.0.wait().map(|_| ())
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // It may be off already.
        let _ = self.power_off();
    }
}

/// What is at each place of the memory that is read.
fn pattern(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Numbers that look random, the same in every run.
fn step(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn refused<T>(result: Result<T, FirmwareError>) -> Option<Status> {
    match result {
        Err(FirmwareError::Refused { status, .. }) => Some(status),
        _ => None,
    }
}

/// A table of [`RANKS`] ranks.
///
/// # Panics
/// Never: its numbers fit.
pub fn with_table<T>(use_it: impl FnOnce(&Table<&[u8]>) -> T) -> T {
    let build = || -> Result<Vec<u8>, Box<dyn std::error::Error>> {
        let job = Placement::one_dpu_a_host(RANKS / 8, 2, 2)?;
        let mut bytes = [0; Descriptor::WORLD_BYTES];
        let world = Descriptor::write_world(0, RANKS, &mut bytes)?;
        let shape = Shape::new(&world, JobKey::new([1; 16]).group(&world), &job);
        let mut builder = TableBuilder::new(vec![0; shape.builder_bytes()], shape)?;
        for rank in 0..RANKS {
            let entry = job.entry(WorldRank(rank), Host(rank / 8), LocalRank(rank % 8)).ok_or("no such rank")?;
            builder.set(Rank(rank), &entry)?;
        }
        Ok(builder.finish(Generation::FIRST)?.to_vec())
    };
    let bytes = build().unwrap_or_else(|error| panic!("table: {error}"));
    let table = Table::attach(&bytes[..]).unwrap_or_else(|error| panic!("table: {error}"));
    use_it(&table)
}

/// What an exercise measured, and what is still attached after it.
#[derive(Debug)]
pub struct Exercised<'m> {
    /// A service process.
    pub service: Firmware<'m>,
    /// A rank, and the region that it exports.
    pub rank: Firmware<'m>,
    /// The region that can be read.
    pub key: Key,
    /// The group that is in the cache.
    pub group: Id<Group>,
    /// Time for one verified read of many, in the mean; 16 of them are under way at once.
    pub read: Duration,
    /// Time for one look-up by the firmware, in the mean.
    pub lookup: Duration,
}

/// Attaches a rank and a service process and asks the firmware for everything that it can do, `reads` verified reads
/// among it.
///
/// # Errors
/// What went wrong first.
///
/// # Panics
/// If an answer is not what it must be.
pub fn exercise(map: &Map, patience: Patience, reads: u32) -> Result<Exercised<'_>, FirmwareError> {
    let rank_peer = Peer::rank(WorldRank(3)).unwrap_or_else(|| panic!("rank 3 has a name"));
    let service_peer = Peer::service(Sp(1)).unwrap_or_else(|| panic!("service process 1 has a name"));
    let mut rank = Firmware::attach(map, rank_peer, patience)?;
    let mut service = Firmware::attach(map, service_peer, patience)?;
    let bytes: Vec<u8> = (0..READABLE).map(pattern).collect();
    rank.share().write(0, &bytes)?;
    let readable = rank.export(0, READABLE, Access::READ)?.key;
    let writable = rank.export(READABLE, WRITABLE, Access::READ | Access::WRITE)?.key;

    let read = verified_reads(&mut service, readable, reads)?;
    bad_requests(&mut rank, &mut service, readable)?;
    nonsense(map, patience)?;
    writes(&rank, &mut service, writable)?;
    rank.revoke(writable)?;
    let span = Span { key: writable, offset: 0, len: 8 };
    assert_eq!(refused(service.read(span, &mut [0; 8])), Some(Status::KeyRevoked));

    let (group, lookup) = with_table(|table| lookups(&mut rank, &mut service, table))?;
    Ok(Exercised { service, rank, key: readable, group, read, lookup })
}

fn verified_reads(service: &mut Firmware<'_>, key: Key, reads: u32) -> Result<Duration, FirmwareError> {
    let mut random = 0x5eed;
    // Large reads alone: several steps of the server, more than the landing area takes.
    let mut large = vec![0; READABLE as usize];
    for len in [WISH as u64 + 1, 70_000, 200_000, LANDING as u64 + 1, READABLE] {
        let offset = step(&mut random) % (READABLE - len + 1);
        let into = &mut large[..len as usize];
        service.read(Span { key, offset, len }, into)?;
        agrees(offset, into);
    }
    let stale = Key::new(key.owner(), key.region(), key.generation().wrapping_add(1));
    let nobody = Key::new(Peer::rank(WorldRank(77)).unwrap_or(key.owner()), key.region(), key.generation());
    let absent = Key::new(key.owner(), key.region() + 1000, key.generation());
    // A bad read now and then, between good ones: its key, where it begins, how it must end.
    let bad = |read: u32| {
        let kinds = [
            (stale, 0, Status::StaleKey),
            (nobody, 0, Status::UnknownRegion),
            (absent, 0, Status::UnknownRegion),
            (key, READABLE, Status::OutOfBounds),
            (key, u64::MAX, Status::OutOfBounds),
        ];
        (read % 200 == 199).then(|| kinds[(read / 200) as usize % kinds.len()])
    };
    let mut buffers = vec![[0; WISH]; 32];
    let begun = Instant::now();
    let mut done = 0;
    while done < reads {
        let several = (reads - done).min(buffers.len() as u32);
        let mut wishes: Vec<Wish<'_>> = (done..)
            .zip(&mut buffers[..several as usize])
            .map(|(read, into)| {
                // In the answer itself, one line, a page, the most.
                let most = [46, 46, 46, 64, 46, 46, 46, 4096, 46, 46, 46, WISH as u64][(read % 12) as usize];
                let len = 1 + step(&mut random) % most;
                let offset = step(&mut random) % (READABLE - len);
                let (key, offset) = bad(read).map_or((key, offset), |(key, offset, _)| (key, offset));
                Wish { span: Span { key, offset, len }, into: &mut into[..len as usize], status: Status::Malformed }
            })
            .collect();
        service.read_all(&mut wishes)?;
        for (read, wish) in (done..).zip(&wishes) {
            let expected = bad(read).map_or(Status::Ok, |(_, _, status)| status);
            assert_eq!(wish.status, expected, "read {read}");
            if expected == Status::Ok {
                agrees(wish.span.offset, wish.into);
            }
        }
        done += several;
    }
    Ok(begun.elapsed() / reads.max(1))
}

/// The bytes at `offset` are those that were put there.
fn agrees(offset: u64, bytes: &[u8]) {
    let wrong = (offset..).zip(bytes).find(|&(at, &byte)| byte != pattern(at));
    assert_eq!(wrong, None, "read of {} bytes at {offset}", bytes.len());
}

fn bad_requests(rank: &mut Firmware<'_>, service: &mut Firmware<'_>, key: Key) -> Result<(), FirmwareError> {
    let (owner, number) = (key.owner(), key.region());
    let stale = Key::new(owner, number, key.generation().wrapping_sub(1));
    let nobody = Key::new(Peer::rank(WorldRank(77)).unwrap_or(owner), number, key.generation());
    for (len, large) in [(8, false), (4096, true)] {
        let mut buffer = vec![0; len as usize];
        let mut read = |key, offset| refused(service.read(Span { key, offset, len }, &mut buffer));
        assert_eq!(read(stale, 0), Some(Status::StaleKey), "large: {large}");
        assert_eq!(read(nobody, 0), Some(Status::UnknownRegion), "large: {large}");
        assert_eq!(read(key, READABLE - len + 1), Some(Status::OutOfBounds), "large: {large}");
        assert_eq!(read(key, u64::MAX), Some(Status::OutOfBounds), "large: {large}");
        assert_eq!(
            refused(service.write(Span { key, offset: 0, len }, &vec![7; len as usize])),
            Some(Status::PermissionDenied),
            "large: {large}"
        );
    }
    let span = Span { key, offset: 0, len: 8 };
    assert_eq!(refused(rank.read(span, &mut [0; 8])), Some(Status::PermissionDenied), "ranks do not read");
    assert_eq!(refused(rank.export(u64::MAX - 7, 8, Access::READ)), Some(Status::OutOfBounds));
    assert!(matches!(service.read(span, &mut [0; 7]), Err(FirmwareError::Length { .. })));
    let mut after = [0; 8];
    service.read(span, &mut after)?;
    assert!((0..).zip(&after).all(|(at, &byte)| byte == pattern(at)), "nothing was changed");
    Ok(())
}

/// Processes that send what no honest one does, as ranks and as service processes; everybody else is served as ever.
fn nonsense(map: &Map, patience: Patience) -> Result<(), FirmwareError> {
    const LINES: u32 = 4_000;
    let (mut random, window) = (0x0bad, Window::attach(map.bytes()?)?);
    let known = [ops::LOOKUP, ops::PUBLISH, ops::RETIRE, ops::EXPORT, EXPORT, READ, WRITE, Op(0x0fff)];
    for peer in [Peer::rank(WorldRank(40)), Peer::service(Sp(7))] {
        let claim = Claim { mark: step(&mut random) | 1, peer, life: Incarnation(step(&mut random) | 1) };
        let lanes = (0..LANES).map(|at| window.lane(at)).collect::<Result<Vec<_>, _>>()?;
        let lane = lanes.into_iter().find(|lane| lane.take(0, &claim));
        let lane = lane.unwrap_or_else(|| panic!("two of four lanes are free"));
        let begun = Instant::now();
        let patient = || assert!(begun.elapsed() < patience.deadline, "{peer:?} is not served any more");
        while lane.accepted() != claim.mark {
            patient();
        }
        let (mut commands, mut answers) =
            (Ring::attach(lane.commands)?.sender()?, Ring::attach(lane.answers)?.receiver()?);
        for line in 0..LINES {
            let mut bytes = [0_u8; 64];
            bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|word| *word = step(&mut random).to_le_bytes());
            // The one byte that the sender of a line may not use.
            bytes[5] = 0;
            let (op, token) = (known[line as usize % known.len()], Token(u64::from(line)));
            let body = bytes;
            let frame = match line % 3 {
                0 => None,
                1 => Some(Frame::Call { op, token, body: &body[..(step(&mut random) % (INLINE as u64 + 1)) as usize] }),
                _ => {
                    // Often nearly right: small offsets, lengths and rights.
                    let mut small = || step(&mut random) >> (step(&mut random) % 64);
                    let span = Span { key: Key::from_bits(small()), offset: small(), len: small() };
                    Some(Frame::Offer { op, token, span, arg: small() })
                }
            };
            if let Some(frame) = frame {
                frame.emit(&mut bytes).unwrap_or_else(|error| panic!("a frame of one line: {error}"));
            }
            let mut line = Line::from_bytes(&bytes).unwrap_or_else(|| panic!("64 bytes are a line"));
            while let Err(PushError::Full(back)) = commands.push(line) {
                line = back;
                while answers.pop().is_some() {}
                patient();
            }
            while answers.pop().is_some() {}
        }
        lane.give_back();
    }
    Ok(())
}

fn writes(rank: &Firmware<'_>, service: &mut Firmware<'_>, key: Key) -> Result<(), FirmwareError> {
    let mut random = 0xf1a7;
    for round in 0..500_u32 {
        let len = 1 + step(&mut random) % if round % 2 == 0 { 8 } else { 8192 };
        let offset = step(&mut random) % (WRITABLE - len);
        let bytes: Vec<u8> = (0..len).map(|_| step(&mut random) as u8).collect();
        service.write(Span { key, offset, len }, &bytes)?;
        let mut arrived = vec![0; bytes.len()];
        rank.share().read_only().read((READABLE + offset) as usize, &mut arrived)?;
        assert_eq!(arrived, bytes, "write {round} of {len} bytes at {offset}");
    }
    Ok(())
}

fn lookups(
    rank: &mut Firmware<'_>,
    service: &mut Firmware<'_>,
    table: &Table<&[u8]>,
) -> Result<(Id<Group>, Duration), FirmwareError> {
    const ROUNDS: u32 = 2_000;
    assert_eq!(refused(rank.publish(table, None)), Some(Status::PermissionDenied), "ranks do not publish");
    let group = service.publish(table, Some(5))?;
    assert_eq!(group.index(), 5, "the slot that was wished for");
    assert_eq!(refused(service.publish(table, None)), Some(Status::Conflict));
    let begun = Instant::now();
    for round in 0..ROUNDS {
        let asked = Rank(round % RANKS);
        let found = rank.lookup(group, asked)?;
        assert_eq!((Ok(found.endpoint), found.from), (table.endpoint(asked), From::Firmware));
    }
    let mean = begun.elapsed() / ROUNDS;
    for asked in (0..RANKS).map(Rank) {
        assert_eq!(Ok(rank.cached(group, asked)?.endpoint), table.endpoint(asked));
    }
    assert_eq!(refused(rank.lookup(group, Rank(RANKS))), Some(Status::RankOutOfRange));
    service.retire(group)?;
    assert_eq!(refused(rank.lookup(group, Rank(0))), Some(Status::StaleGeneration));
    let again = service.publish(table, Some(5))?;
    assert_eq!(refused(rank.lookup(group, Rank(0))), Some(Status::StaleGeneration));
    rank.lookup(again, Rank(0))?;
    Ok((again, mean))
}
