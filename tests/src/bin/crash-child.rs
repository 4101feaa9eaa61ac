//! A process that the crash tests start, to play a role in a segment until killed.
//!
//! `crash-child ROLE OWNER`, with the segment as standard input; heaps and streams have their own kinds of segment. Who
//! hands memory over is told the reference to a board behind them.
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

use umbra::sys::segment::{Mapping, Segment};
use umbra_tests::crash::{Arena, Role, WORDS, heap, memory, play, stream};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("crash-child: {reason}");
            ExitCode::from(3)
        }
    }
}

fn run() -> Result<(), String> {
    // If the test dies, so do its children.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).map_err(|e| e.to_string())?;
    let mut arguments = std::env::args().skip(1);
    let role = arguments.next().ok_or("which role?")?;
    let owner = arguments.next().and_then(|number| number.parse().ok()).ok_or("which owner?")?;
    let fd = io::stdin().as_fd().try_clone_to_owned().map_err(|e| e.to_string())?;
    let count = match &role[..] {
        stream::TALKER => return stream::talk(fd),
        stream::LISTENER => return stream::listen(fd),
        memory::GIVER => return memory::give(fd, owner, &arguments.next().ok_or("which board?")?),
        memory::TAKER => return memory::take(fd, owner, &arguments.next().ok_or("which board?")?),
        memory::POSTER => return memory::post(fd, owner, &arguments.next().ok_or("which board?")?),
        memory::GETTER => return memory::get(fd, owner, &arguments.next().ok_or("which board?")?),
        stream::SENDER | stream::RECEIVER => stream::words()?,
        heap::ROLE => heap::words()?,
        _ => WORDS,
    };
    let segment = Segment::attach(fd, Mapping::ReadWrite, count * 8).map_err(|e| e.to_string())?;
    let bytes = segment.bytes_mut().map_err(|e| e.to_string())?;
    match &role[..] {
        stream::SENDER => return stream::send(stream::Hall::new(bytes, false)?, owner),
        stream::RECEIVER => return stream::receive(stream::Hall::new(bytes, false)?, owner),
        heap::ROLE => {
            return heap::play(heap::Yard::attach(bytes.words(0, count).map_err(|e| e.to_string())?)?, owner);
        }
        _ => {}
    }
    play(Role::named(&role).ok_or("no such role")?, owner, Arena::new(bytes)?)
}
