//! Guest machines with RDMA in software, for kernels that have none.
//!
//! A stock Debian kernel boots in QEMU from a small memory file system, mounts files of this machine read-only with a
//! memory file system on top, and runs one script. What the script prints and how it ends comes over the console.
//! Nothing is installed by it and nothing is left behind: what the guest writes is in its memory. Kernels and images are
//! kept below the build outputs.
//!
//! There are two [kinds](Kind). A guest with this machine's processor sees all files of this machine, so that every
//! program and library that is here is there too. One with a DPU's processor has a root of its own, unpacked from
//! packages, and sees the build outputs at the same path as here. Two guests can be [linked](Link).

mod image;
mod kernel;
mod kind;
mod root;

pub(crate) use kind::Kind;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::install::{self, Found};
use crate::run::{Log, Run};
use crate::step::Failure;
use crate::workspace::Workspace;

use kernel::Kernel;

/// The last line of the script's output.
const END: &str = "umbra-guest: exit ";
/// Seconds from power-on to power-off, unless told otherwise.
const LIMIT: u64 = 480;

/// A guest that can be started.
pub(crate) struct Guest {
    kind: Kind,
    kernel: PathBuf,
    image: PathBuf,
    script: PathBuf,
    root: PathBuf,
    work: PathBuf,
    link: Option<Link>,
    limit: u64,
    unwanted: Option<Arc<AtomicBool>>,
}

/// A cable between two guests; each has one end as `eth0`.
pub(crate) struct Link {
    /// A socket of this machine.
    pub(crate) socket: PathBuf,
    /// Whether this guest makes the socket; it is started first.
    pub(crate) first: bool,
}

impl Guest {
    /// Gets everything that a guest needs, or says why it can't be had.
    pub(crate) fn prepare(workspace: &Workspace, kind: Kind, log: &Log) -> Result<Found<Guest>, Failure> {
        if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            return Ok(Err("the guests are written for x86-64 Linux".to_owned()));
        }
        if let Err(reason) = install::system_packages(kind.packages(), log) {
            return Ok(Err(reason));
        }
        let folder = workspace.folder(&format!("guest/{}", kind.name()))?;
        let kernel = match Kernel::find(&folder, kind, log)? {
            Ok(kernel) => kernel,
            Err(reason) => return Ok(Err(reason)),
        };
        let (root, shell) = match kind {
            Kind::Host => (PathBuf::from("/"), PathBuf::from("/bin/busybox")),
            Kind::Dpu => match root::find(&folder, kind, log)? {
                Ok(root) => (root.clone(), root.join("bin/busybox")),
                Err(reason) => return Ok(Err(reason)),
            },
        };
        let (image, script) = (folder.join("image.cpio"), folder.join("script.sh"));
        let work = workspace.target.clone();
        let made = image::Image { kind, shell: &shell, script: &script, work: &work };
        made.write(&kernel, &folder, &image, log)?;
        let kernel = kernel.file();
        Ok(Ok(Guest { kind, kernel, image, script, root, work, link: None, limit: LIMIT, unwanted: None }))
    }

    /// Gets one end of a cable.
    pub(crate) fn linked(mut self, link: Link) -> Guest {
        self.link = Some(link);
        self
    }

    /// May take this many seconds; then it is killed.
    pub(crate) fn limit(mut self, seconds: u64) -> Guest {
        self.limit = seconds;
        self
    }

    /// Is killed once the flag is set.
    pub(crate) fn unless(mut self, unwanted: &Arc<AtomicBool>) -> Guest {
        self.unwanted = Some(Arc::clone(unwanted));
        self
    }

    /// Boots, runs a script, and gives what it printed; anything but exit code 0 of the script is a failure.
    pub(crate) fn run(&self, script: &str, log: &Log) -> Result<Vec<String>, Failure> {
        fs::write(&self.script, script)?;
        let mut run = Run::new(self.kind.emulator())
            // Without KVM: a stock kernel hangs under it where this machine is itself a guest.
            .words("-accel tcg,thread=multi -smp 2 -nographic -no-reboot")
            .words(self.kind.machine())
            .arg("-append")
            .arg(format!("console={} quiet panic=-1", self.kind.console()))
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(&self.image)
            .limit(self.limit);
        for (tag, path) in [("root", &self.root), ("work", &self.work)] {
            let path = path.display();
            run = run
                .arg("-fsdev")
                .arg(format!("local,id={tag},path={path},security_model=none,readonly=on,multidevs=remap"))
                .arg("-device")
                .arg(format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}"));
        }
        run = match &self.link {
            None => run.words("-nic none"),
            Some(Link { socket, first }) => {
                let (server, last) = if *first { ("on", 1) } else { ("off", 2) };
                run.arg("-netdev")
                    .arg(format!("stream,id=net,server={server},addr.type=unix,addr.path={}", socket.display()))
                    .arg("-device")
                    .arg(format!("virtio-net-pci,netdev=net,mac=52:54:00:00:00:{last:02},romfile="))
            }
        };
        if let Some(unwanted) = &self.unwanted {
            run = run.unless(unwanted);
        }
        let (_, printed) = run.finish(log)?;
        let printed: Vec<String> = printed.iter().map(|line| line.trim_end_matches('\r').to_owned()).collect();
        match printed.iter().find_map(|line| line.strip_prefix(END)) {
            Some("0") => Ok(printed),
            Some(code) => Err(Failure::new(format!("{}\nthe script in the guest ended with {code}", tail(&printed)))),
            None => Err(Failure::new(format!("{}\nthe guest ended before its script did", tail(&printed)))),
        }
    }
}

/// The end of what was printed.
pub(crate) fn tail(printed: &[String]) -> String {
    printed[printed.len().saturating_sub(60)..].join("\n")
}
