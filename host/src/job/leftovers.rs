//! What should be gone after a job: processes, sockets, segments.

use std::fs;

use umbra_core::peer::Peer;

use super::Leftover;
use super::launcher::Launcher;

/// Looks for what the job left behind; its processes have been waited for.
#[must_use]
pub(super) fn find(launcher: &Launcher) -> Vec<Leftover> {
    let peers: Vec<Peer> = launcher.peers().collect();
    let processes = peers.into_iter().filter_map(|peer| {
        let pid = launcher.running_pid(peer)?;
        Some(Leftover::Process(peer, pid))
    });
    let files = launcher.directory().sockets().into_iter().map(Leftover::File);
    processes.chain(files).chain(segments()).collect()
}

/// Segments that this process still holds or maps; those of ended processes are gone with them, for they have no name.
fn segments() -> impl Iterator<Item = Leftover> {
    let links = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open = links.filter_map(|entry| fs::read_link(entry.path()).ok()).map(|p| p.to_string_lossy().into_owned());
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mapped: Vec<String> =
        maps.lines().filter_map(|l| l.split_once('/')).map(|(_, name)| format!("/{name}")).collect();
    open.chain(mapped).filter(|name| name.starts_with("/memfd:umbra")).map(Leftover::Segment)
}
