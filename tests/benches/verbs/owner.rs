//! The owner of the memory that the agent reads: a process of its own.
//!
//! It does nothing while its memory is read.

use std::io::{Read as _, Write as _, stdin, stdout};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use umbra::access::exposure::{Exposure, any_port};
use umbra::sys::segment::Segment;
use umbra::verbs::{ADDRESS_BYTES, Address, Remote};
use umbra_core::key::Access;
use umbra_tests::conformance::{ME, MEMORY};

/// The argument that makes this program an owner.
pub(crate) const ROLE: &str = "--owner";

/// The byte at an offset of its memory.
pub(crate) const fn byte(offset: usize) -> u8 {
    (offset as u8).wrapping_mul(29) ^ (offset >> 8) as u8
}

/// What the owner's process does: it tells where its memory is, connects to a reader, and waits for its end.
pub(crate) fn play() {
    let exposure = Exposure::new(&any_port().expect("there is a port"));
    let mut exposure = exposure.expect("the device has a domain left");
    let segment = Segment::create("owner", MEMORY as usize).expect("there is memory");
    let bytes: Vec<u8> = (0..MEMORY as usize).map(byte).collect();
    segment.write(0, &bytes).expect("our own memory can be written");
    let memory = exposure.register(Arc::new(segment), Access::READ).expect("it can be registered");
    let tell = |bytes: &[u8]| stdout().write_all(bytes).and_then(|()| stdout().flush()).expect("somebody listens");
    tell(&memory.address(0).to_le_bytes());
    tell(&memory.rkey().to_le_bytes());
    let mut reader = [0; ADDRESS_BYTES];
    stdin().read_exact(&mut reader).expect("the reader tells its address");
    let reader = Address::from_bytes(&reader).expect("a queue pair can have it");
    tell(&exposure.connect(ME, &reader).expect("the owner connects").to_bytes());
    let _ = stdin().read(&mut [0]);
}

/// The owner's process, from outside; it ends with this.
pub(crate) struct Owner {
    child: Child,
    // Closed first, which ends the child.
    to: Option<ChildStdin>,
    from: ChildStdout,
}

impl Owner {
    /// Starts it, and says where its memory is.
    pub(crate) fn start() -> (Owner, Remote) {
        let program = std::env::current_exe().expect("this program has a name");
        let mut child = Command::new(program).arg(ROLE).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let child = child.as_mut().map(|child| (child.stdin.take(), child.stdout.take())).ok().zip(child.ok());
        let Some(((to, Some(from)), child)) = child else { panic!("the owner's process does not start") };
        let mut owner = Owner { child, to, from };
        let (address, rkey) = (u64::from_le_bytes(owner.hear()), u32::from_le_bytes(owner.hear()));
        (owner, Remote { address, rkey })
    }

    fn hear<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes).expect("the owner tells it");
        bytes
    }

    /// Connects it to a reader.
    pub(crate) fn connect(&mut self, reader: &Address) -> Address {
        let told = self.to.as_mut().map(|to| to.write_all(&reader.to_bytes()).and_then(|()| to.flush()));
        told.and_then(Result::ok).expect("the owner listens");
        Address::from_bytes(&self.hear()).expect("a queue pair can have it")
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        drop(self.to.take());
        // It has ended by itself, or shall.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
