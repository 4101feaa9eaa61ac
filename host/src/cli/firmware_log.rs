//! `umbra firmware-log`: what firmware has logged, in words.
//!
//! The log in the window holds numbers; the words that belong to them stay in the ELF file that the board was started
//! with. Firmware that is running, its memory after it stopped, and a copy of that in a file are read alike.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use defmt_decoder::{DecodeError, StreamDecoder, Table};
use umbra::firmware::{FirmwareError, Map, WINDOW_AT};
use umbra::input;
use umbra::sys::segment::SegmentError;
use umbra_core::cell::BytesMut;
use umbra_core::ring::journal::Reader;
use umbra_core::window::{BYTES, Window};

use super::{Done, Failure, Out, paint};

/// Print the log of firmware in words.
///
/// The log lies in the memory of the board; its texts lie in the ELF file of the image, which must be the very one that the
/// board was started with. Of a log that was overwritten the oldest lines are missing, and their number of bytes is told.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FirmwareLog {
    /// The ELF file of the image
    #[arg(long, value_name = "FILE")]
    elf: PathBuf,
    /// The memory of the board: the path that QEMU was given, or a copy of it
    #[arg(value_name = "MEMORY")]
    memory: PathBuf,
    /// Go on until the heartbeat has been missing for two seconds
    #[arg(long)]
    follow: bool,
}

const EXAMPLES: &str = paint::examples!(
    "umbra firmware-log --elf umbra-firmware /proc/4711/fd/3"           "what firmware has logged so far";
    "umbra firmware-log --elf umbra-firmware --follow /proc/4711/fd/3"  "the same, and what it logs from now on";
);

/// Without a heartbeat for so long, nothing more will come.
const SILENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of the largest image that is read.
const ELF_MAX: u64 = 1 << 30;

/// At most so many bytes of a file: one that has no end is not read to it.
fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    input::read(&input::open(path)?, usize::try_from(most).unwrap_or(usize::MAX), input::PATIENCE)
}

impl FirmwareLog {
    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        let elf =
            read(&self.elf, ELF_MAX + 1).map_err(|why| Failure::usage(format!("{}: {why}", self.elf.display())))?;
        if elf.len() as u64 > ELF_MAX {
            return Err(Failure::usage(format!("{}: over {ELF_MAX} bytes: this is no image", self.elf.display())));
        }
        let table = Table::parse(&elf).map_err(|why| Failure::failed(format!("{}: {why}", self.elf.display())))?;
        let without = || Failure::failed(format!("{}: no log was compiled into this image", self.elf.display()));
        let table = table.ok_or_else(without)?;
        match Map::open(&self.memory) {
            Ok(map) => self.print(&map.window().map_err(Failure::failed)?, &table, out),
            // A copy, which nobody changes.
            Err(FirmwareError::NoBoard { why: SegmentError::NotSealed, .. }) => {
                let mut words = self.copy()?;
                let window = Window::attach(BytesMut::from_words(&mut words)).map_err(FirmwareError::from);
                self.print(&window.map_err(Failure::failed)?, &table, out)
            }
            Err(error) => Err(Failure::failed(error)),
        }
    }

    /// A log of which the image explains less than half was written by another one.
    fn verdict(&self, told: &Told) -> Done {
        if told.foreign <= told.known {
            return Ok(ExitCode::SUCCESS);
        }
        Err(Failure::failed(format!(
            "{}: {} of {} lines of the log were not written by this image: name the ELF file that the board was started with",
            self.elf.display(),
            told.foreign,
            told.foreign + told.known
        )))
    }

    /// The window in a file.
    fn copy(&self) -> Result<Vec<u64>, Failure> {
        let failed = |why: &dyn std::fmt::Display| Failure::failed(format!("{}: {why}", self.memory.display()));
        let bytes = read(&self.memory, (WINDOW_AT + BYTES) as u64).map_err(|error| failed(&error))?;
        let window = bytes.get(WINDOW_AT..WINDOW_AT + BYTES);
        let window = window.ok_or_else(|| failed(&"too short to be the memory of a board: name the file that the emulator runs on, or a whole copy of it"))?;
        Ok(window.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    fn print(&self, window: &Window<'_>, table: &Table, out: Out<'_>) -> Done {
        let damaged = |error| Failure::failed(FirmwareError::from(error));
        let state = window.state().map_err(damaged)?;
        let mut reader = window.log().map_err(damaged)?.reader();
        let mut decoder = table.new_stream_decoder();
        let mut alive = (state.beat(), Instant::now());
        let (can_recover, mut told) = (table.encoding().can_recover(), Told::default());
        loop {
            let more = print_new(&mut reader, &mut *decoder, can_recover, &mut told, out)?;
            if told.foreign > 0 && !can_recover {
                return Err(Failure::failed(format!(
                    "{}: nothing can be told of the log behind a line that this image did not write, for its encoding \
                     does not mark where lines begin: name the ELF file that the board was started with, or build the \
                     image with the encoding rzcobs",
                    self.elf.display()
                )));
            }
            if state.beat() != alive.0 {
                alive = (state.beat(), Instant::now());
            }
            if !more && (!self.follow || alive.1.elapsed() >= SILENCE) {
                return self.verdict(&told);
            }
            if !more {
                out.flush()?;
                thread::sleep(PAUSE);
            }
        }
    }
}

/// Lines of the log so far.
#[derive(Default)]
struct Told {
    /// That the image explains.
    known: u64,
    /// That it does not.
    foreign: u64,
}

/// Prints what was logged since the last time; false if nothing was. Of an encoding that cannot recover, the first line that
/// the image does not explain is the last: the decoder stays where it is.
fn print_new(
    reader: &mut Reader<'_>,
    decoder: &mut dyn StreamDecoder,
    can_recover: bool,
    told: &mut Told,
    out: Out<'_>,
) -> Result<bool, Failure> {
    let mut bytes = [0; 4096];
    let read = reader.read(&mut bytes);
    if read.lost > 0 {
        writeln!(out, "{}", paint::faint(format!("... {} bytes were overwritten before they were read", read.lost)))?;
    }
    decoder.received(bytes.get(..read.len).unwrap_or(&[]));
    loop {
        match decoder.decode() {
            Ok(frame) => {
                told.known += 1;
                writeln!(out, "{}", frame.display(false))?;
            }
            Err(DecodeError::UnexpectedEof) => return Ok(read.len > 0 || read.lost > 0),
            // The rest of a statement whose beginning was overwritten, or an image of another build.
            Err(DecodeError::Malformed) => {
                told.foreign += 1;
                writeln!(out, "{}", paint::faint("... a line that this image did not write, or only a part of one"))?;
                if !can_recover {
                    return Ok(true);
                }
            }
        }
    }
}
