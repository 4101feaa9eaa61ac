//! Real processes for tests: executables, jobs, news and leftovers.
//!
//! Jobs have short deadlines, and news is awaited with a bound.

mod by_hand;
mod guarded;
mod killed;

pub use by_hand::{ByHand, Scratch, address, finish};
pub use guarded::Guarded;
pub use killed::killed;

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use umbra::driver::now;
use umbra::job::{Chosen, Launcher, News, Options, Site};
use umbra_core::peer::{Peer, Sp, WorldRank};
use umbra_core::time::Lapse;

/// No wait of a test is longer; far beyond every deadline of the jobs under test.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Says why the test that calls this stops here.
///
/// `cargo xtask test` counts the tests that print such lines as skipped, and tells their reasons.
pub fn skip(why: impl Display) {
    println!("skipped: {why}");
}

/// Builds libraries, programs and examples in the profile of this test, if cargo runs it; the directory in which they lie.
/// It names all of the workspace, as `cargo xtask test` does, because cargo unites the features of what it is asked for,
/// and any other wording would build the same crates once more.
///
/// # Panics
/// If they cannot be built.
#[must_use]
pub fn build() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let here = env::current_exe().expect("this executable has a name");
        let deps = here.parent().expect("it lies in a directory");
        let profile = if deps.ends_with("deps") { deps.parent().expect("deps lies in a profile") } else { deps };
        if let Some(cargo) = env::var_os("CARGO") {
            let mut command = Command::new(cargo);
            command.args(["build", "--quiet", "--workspace", "--lib", "--bins", "--examples"]);
            if !profile.ends_with("debug") {
                command.arg("--profile").arg(profile.file_name().expect("a profile has a name"));
            }
            command.arg("--target-dir").arg(profile.parent().expect("a profile lies in a target directory"));
            command.current_dir(env!("CARGO_MANIFEST_DIR"));
            assert!(command.status().expect("cargo starts").success(), "cargo build");
        }
        profile.to_owned()
    })
}

/// The command `umbra`, which hears an interrupt also where a shell has started these tests in the background.
#[must_use]
pub fn interruptible() -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(&programs().0);
    command
}

/// A command of this program, whose process the kernel kills with the thread that starts it: one that is stopped, or serves
/// until it is told to end, outlives a test that is killed otherwise.
#[must_use]
pub fn bound(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

/// The commands `umbra` and `umbra-agent`, built if cargo runs this test.
///
/// # Panics
/// If they are not there and cannot be built.
#[must_use]
pub fn programs() -> &'static (PathBuf, PathBuf) {
    static FOUND: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    FOUND.get_or_init(|| {
        let folder = build();
        let found = (folder.join("umbra"), folder.join("umbra-agent"));
        assert!(found.0.is_file() && found.1.is_file(), "executables in {}", folder.display());
        found
    })
}

/// A job of these counts with the executables of the build and a small input.
#[must_use]
pub fn options(hosts: u32, service_processes: u32, ranks: u32) -> Options {
    let (umbra, agent) = programs();
    Options {
        hosts,
        service_processes,
        ranks,
        input: Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock")),
        size: 4096,
        reads: 20,
        deadline: Duration::from_secs(20),
        agent: Some(agent.clone()),
        rank: Some(umbra.clone()),
        ..Options::default()
    }
}

/// The hosts of a configuration file, if `UMBRA_TEST_CONFIG` and `UMBRA_TEST_SECRET` name one and its secret: the agents of
/// the DPU that `UMBRA_TEST_START` names are to be started here, and all others run already.
///
/// # Panics
/// If they cannot be used.
#[must_use]
pub fn site() -> Option<Site> {
    let config = env::var_os("UMBRA_TEST_CONFIG")?.into();
    let secret = env::var_os("UMBRA_TEST_SECRET").expect("a job has a secret").into();
    let start = env::var("UMBRA_TEST_START").into_iter().collect();
    Some(Site::read(&Chosen { config, secret, start, ..Chosen::default() }).expect("the files are in order"))
}

/// The service process `sp` as a peer.
///
/// # Panics
/// If it cannot be named.
#[must_use]
pub fn service(sp: u32) -> Peer {
    Peer::service(Sp(sp)).expect("a small number")
}

/// The rank as a peer.
///
/// # Panics
/// If it cannot be named.
#[must_use]
pub fn rank(rank: u32) -> Peer {
    Peer::rank(WorldRank(rank)).expect("a small number")
}

/// Starts agents.
///
/// # Panics
/// If one does not start.
pub fn start_agents(launcher: &mut Launcher, which: impl IntoIterator<Item = u32>) {
    for sp in which {
        launcher.start_agent(Sp(sp)).expect("the agent starts");
    }
}

/// Starts ranks.
///
/// # Panics
/// If one does not start.
pub fn start_ranks(launcher: &mut Launcher, which: impl IntoIterator<Item = u32>) {
    for rank in which {
        launcher.start_rank(WorldRank(rank)).expect("the rank starts");
    }
}

/// Collects news until `enough` says so of all of them.
///
/// # Panics
/// If that does not happen within [`PATIENCE`]; shows the news and what the processes wrote.
pub fn collect(launcher: &mut Launcher, what: &str, mut enough: impl FnMut(&[News]) -> bool) -> Vec<News> {
    let end = now() + Lapse(PATIENCE.as_nanos() as u64);
    let mut news = Vec::new();
    while !enough(&news) {
        match launcher.next(end).expect("the launcher can wait") {
            Some(item) => news.push(item),
            None => {
                let words: Vec<String> =
                    launcher.peers().map(|peer| format!("{peer}: {}", launcher.last_words(peer))).collect();
                panic!("{what} did not happen; news: {news:#?}\n{}", words.join("\n"));
            }
        }
    }
    news
}

/// The peers about which `pick` says something.
pub fn peers_in(news: &[News], pick: impl Fn(&News) -> Option<Peer>) -> BTreeSet<Peer> {
    news.iter().filter_map(pick).collect()
}

/// Whether a process still runs; a zombie does not.
#[must_use]
pub fn runs(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']))
}

/// Waits until none of the processes runs any more.
///
/// # Panics
/// If one still runs after [`PATIENCE`].
pub fn all_gone(pids: &[u32]) {
    let end = Instant::now() + PATIENCE;
    while let Some(pid) = pids.iter().find(|&&pid| runs(pid)) {
        assert!(Instant::now() < end, "process {pid} still runs");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The job directory that an agent's command line names.
#[must_use]
pub fn directory_of(pid: u32) -> Option<PathBuf> {
    let read = || fs::read(format!("/proc/{pid}/cmdline")).ok();
    let ours = fs::read("/proc/self/cmdline").ok()?;
    let mut line = read()?;
    // Whoever starts a program goes on a moment before the new one has memory and a command line of its own: until then it has
    // that of who started it, or none.
    for _ in 0..500 {
        if !line.is_empty() && line != ours {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
        line = read()?;
    }
    let words = line.split(|&byte| byte == 0).map(|word| Path::new(OsStr::from_bytes(word)));
    let mut inside = words.filter_map(Path::parent);
    inside.find(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("umbra-"))).map(Path::to_owned)
}
