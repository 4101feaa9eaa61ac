//! A process that has memory, or serves it, until it is killed.
//!
//! The tests of reads whose other side dies start it.
//!
//! `memory-child ROLE DESCRIPTOR...`: the paths under `/proc` of what is shared with it, in the order in which it opens
//! them.
#![forbid(unsafe_code)]

use std::fs::OpenOptions;
use std::io;

use umbra::sys::process::end_with_starter;
use umbra_tests::crash::reads;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    end_with_starter()?;
    let mut arguments = std::env::args().skip(1);
    let role = arguments.next().ok_or("which role?")?;
    reads::play(&role, || {
        let path = arguments.next().ok_or(io::ErrorKind::NotFound)?;
        Ok(OpenOptions::new().read(true).write(true).open(path)?.into())
    })
}
