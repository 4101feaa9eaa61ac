//! Where RDMA is tested: on a device of this machine, or in a guest.
//!
//! If the machine has no device, it makes one in software where it may; otherwise a guest does.

use std::fs;
use std::path::Path;

use crate::guest::{Guest, Kind, tail};
use crate::install::{self, Found};
use crate::run::{Log, Run};
use crate::step::Failure;
use crate::workspace::Workspace;

/// The interface of a device in software. It leads nowhere: whatever is sent to its address stays on the machine.
pub(crate) const LINK: &str = "d0";

/// Makes a device on an interface of its own, waits until its address is there, and takes both away when the shell ends.
/// Nothing of what is there already is touched.
const DEVICE: &str = "set -e\n\
    no() { echo \"$1\"; exit 1; }\n\
    test -d /sys/module/rdma_rxe || modprobe -q rdma_rxe || no 'this kernel has no module rdma_rxe'\n\
    modprobe -q -a crc32_generic rdma_ucm 2> /dev/null || true\n\
    ulimit -l unlimited 2> /dev/null || no 'the limit of locked memory may not be lifted'\n\
    ip -4 route show to match 10.99.0.0/24 | grep -v ^default && no 'the network 10.99.0.0/24 is in use'\n\
    ip link set lo up\n\
    ip link add d0 type dummy\n\
    trap 'rdma link delete rxe0 2> /dev/null || true; ip link delete d0' EXIT\n\
    trap 'exit 1' INT TERM\n\
    ip address add 10.99.0.1/24 dev d0\n\
    ip link set d0 up\n\
    rdma link add rxe0 type rxe netdev d0\n\
    there() { grep -q ffff:0a63:0001 /sys/class/infiniband/rxe0/ports/1/gids/*; }\n\
    for wait in 1 2 3 4 5 6 7 8 9 10; do\n\
    there && break\n\
    sleep 1\n\
    done\n\
    there || no 'the address of rxe0 did not come'\n";

/// Seconds that the device may take to come and go.
const MAKING: u64 = 60;

/// Where a script has an RDMA device.
pub(crate) enum Place {
    /// This machine has one.
    Own,
    /// This machine may make one in software.
    Made,
    /// A guest may; this machine can't, for this reason.
    Guest(Guest, String),
}

impl Place {
    /// The first of the three that there is, or why there is none.
    pub(crate) fn find(workspace: &Workspace, log: &Log) -> Result<Found<Place>, Failure> {
        if has_device(Path::new("/sys/class/infiniband")) {
            bring_libraries(log);
            return Ok(Ok(Place::Own));
        }
        let here = match may_make(log) {
            Ok(()) => {
                bring_libraries(log);
                return Ok(Ok(Place::Made));
            }
            Err(reason) => reason,
        };
        let guest = Guest::prepare(workspace, Kind::Host, log)?;
        Ok(match guest {
            Ok(guest) => Ok(Place::Guest(guest, here)),
            Err(no_guest) => Err(format!("no RDMA device; none in software ({here}); no guest ({no_guest})")),
        })
    }

    /// What remarks call it.
    pub(crate) fn name(&self) -> String {
        match self {
            Place::Own => "this machine's device".to_owned(),
            Place::Made => "soft-RoCE on this machine".to_owned(),
            Place::Guest(_, here) => format!("soft-RoCE in a guest (no device here, and none in software: {here})"),
        }
    }

    /// The interface that tests may take down, and whose device they may take away: none of a machine's own.
    pub(crate) const fn link(&self) -> Option<&'static str> {
        match self {
            Place::Own => None,
            Place::Made | Place::Guest(..) => Some(LINK),
        }
    }

    /// Runs a script where there is a device, and gives what it printed; anything but exit code 0 is a failure.
    pub(crate) fn run(&self, script: &str, log: &Log) -> Result<Vec<String>, Failure> {
        let script = match self {
            Place::Own => format!("set -e\n{script}"),
            Place::Made | Place::Guest(..) => format!("{DEVICE}{script}"),
        };
        if let Place::Guest(guest, _) = self {
            return guest.run(&script, log);
        }
        // With cargo at hand, tests would build once more what they start.
        let (status, printed) = Run::new("sh").args(["-c", &script]).env_remove("CARGO").finish(log)?;
        if status.success() {
            return Ok(printed);
        }
        Err(Failure::new(format!("{}\n{status}: the script on {}", tail(&printed), self.name())))
    }
}

/// Whether a machine with these devices has one.
fn has_device(devices: &Path) -> bool {
    fs::read_dir(devices).is_ok_and(|mut devices| devices.next().is_some())
}

/// Brings what the tests load, where that is allowed. It may have come in another way; if not, the tests say what is missing.
fn bring_libraries(log: &Log) {
    let _ = install::system_packages(&["libibverbs1", "librdmacm1", "ibverbs-providers"], log);
}

/// Makes a device in software and takes it away again; why that can't be done here.
fn may_make(log: &Log) -> Found<()> {
    if !rustix::process::geteuid().is_root() {
        return Err("only root may make one".to_owned());
    }
    install::system_packages(&["iproute2"], log)?;
    let made = Run::new("sh").args(["-c", DEVICE]).limit(MAKING).finish(log);
    match made {
        Ok((status, _)) if status.success() => Ok(()),
        Ok((_, printed)) => Err(printed.last().map_or("no reason was told", String::as_str).to_owned()),
        Err(failure) => Err(failure.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_where_the_kernel_shows_one() {
        let folder = std::env::temp_dir().join(format!("umbra-devices-{}", std::process::id()));
        assert!(!has_device(&folder), "a kernel without RDMA");
        fs::create_dir(&folder).unwrap();
        assert!(!has_device(&folder), "a kernel with RDMA, and no device");
        fs::create_dir(folder.join("mlx5_0")).unwrap();
        assert!(has_device(&folder));
        fs::remove_dir_all(&folder).unwrap();
    }
}
