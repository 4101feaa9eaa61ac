//! Choosing device, port and address (s50).
//!
//! What is named is used, and what is not there is told beside what is. Without a device each test says `skipped: ` and
//! why.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::process::{Command, Output};

use umbra::verbs::{Choice, Port, VerbsError, Work, WorkStatus};
use umbra_core::key::Access;
use umbra_tests::rig;
use umbra_tests::verbs::{PAGE, Pair, all, at, bytes, device, fill};

fn open(text: &str) -> Result<Port, VerbsError> {
    Choice::open(Some(&text.parse().unwrap()))
}

#[test]
fn what_is_named_is_opened_and_bytes_travel_between_the_named_addresses() {
    let Some(device) = device() else { return };
    let name = device.name();
    let gids = device.port(1).unwrap().gids;
    let preferred = open(name).unwrap();
    assert_eq!((preferred.device.name(), preferred.gid), (name, *device.port(1).unwrap().preferred_gid().unwrap()));
    assert_eq!(open(&format!("{name}:1")).unwrap().gid, preferred.gid);
    for gid in gids {
        let port = open(&format!("{name}:1:{}", gid.index)).unwrap();
        assert_eq!(port.gid, gid);
        let mut pair = Pair::on(&port);
        let (theirs, ours) = (pair.memory(PAGE, Access::READ), pair.memory(PAGE, Access::empty()));
        let expected = fill(&theirs, 6);
        assert_eq!(pair.ends[0].address().gid, gid.bytes);
        pair.post(1, Work::Read { from: at(&theirs, 0), to: all(&ours) });
        assert_eq!(pair.hear().status, WorkStatus::Success);
        assert!(bytes(&ours) == expected);
    }
}

#[test]
fn what_is_not_there_is_told_beside_what_is() {
    let Some(device) = device() else { return };
    let name = device.name();
    let told = |text: &str| open(text).unwrap_err().to_string();
    let known = told("no_such_device");
    assert!(known.contains("no_such_device") && known.contains(name), "{known}");
    let ports = told(&format!("{name}:99"));
    assert!(ports.contains("no port 99") && ports.contains(&format!("1 to {}", device.ports())), "{ports}");
    let gid = open(&format!("{name}:1:200")).unwrap_err();
    assert!(matches!(gid, VerbsError::NoSuchGid { port: 1, index: 200, .. }), "{gid}");
    for has in device.port(1).unwrap().gids {
        assert!(gid.to_string().contains(&format!("{} ({has})", has.index)), "{gid}");
    }
}

/// A small job over RDMA, by the command; `set` prepares it.
fn job(set: impl FnOnce(&mut Command)) -> Output {
    let (umbra, agent) = rig::programs();
    let input = rig::options(1, 1, 1).input.unwrap();
    let mut command = Command::new(umbra);
    command.args(["run", "--quiet", "--json", "--data-path", "verbs", "--hosts", "2", "--ranks", "1", "-s", "1"]);
    command.args(["--reads", "10", "--size", "4K", "--input"]).arg(input).arg("--agent").arg(agent);
    command.env_remove("UMBRA_DEVICE");
    set(&mut command);
    command.output().unwrap()
}

#[test]
fn a_job_uses_the_device_of_its_command_line_or_else_of_its_environment() {
    let Some(device) = device() else { return };
    let name = device.name();
    for gid in device.port(1).unwrap().gids {
        let choice = format!("{name}:1:{}", gid.index);
        let done = job(|command| {
            command.args(["--device", &choice]);
        });
        let told = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{choice}: {told}{}", String::from_utf8_lossy(&done.stderr));
        assert!(told.contains(r#""data_path":"verbs""#), "{told}");
    }
    // The command line counts more than the environment.
    let done = job(|command| {
        command.args(["--device", name]).env("UMBRA_DEVICE", "no_such_device");
    });
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let refused = [("no_such_device", name), ("rxe0:nine", "GID_INDEX")];
    for (wrong, remedy) in refused {
        let failed = job(|command| {
            command.env("UMBRA_DEVICE", wrong);
        });
        let told = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(!failed.status.success() && told.contains(wrong) && told.contains(remedy), "{told}");
    }
}
