//! Round trips on a machine whose cores are wanted by many others.
//!
//! The others are threads of another session, as those of another user are: a scheduler that shares the machine among
//! sessions first gives them one share together, one that does not gives each of them the share of a side.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use umbra::channel::{Timeout, WaitMode};
use umbra_tests::bench::{Clock, Samples, pin};

use crate::{END, channel, ends, with_partner};

/// Threads that want nothing but time.
const BURNERS: usize = 36;
/// Round trips that are timed, one by one, and those before them.
const TRIPS: usize = 200_000;
const FIRST: usize = 1000;
/// How long they may take together.
const MOST: Duration = Duration::from_secs(20);
/// The first argument of the process that is the load; the cores follow.
const BURN: &str = "burn";

/// Does it while all cores are wanted by others.
pub(crate) fn under_load<R>(cores: &[usize], work: impl FnOnce() -> R) -> R {
    let _load = Load::start(cores);
    work()
}

/// A process that is the load until this is dropped, or its parent ends.
struct Load(Child);

impl Load {
    fn start(cores: &[usize]) -> Load {
        let me = std::env::current_exe().expect("this program has a name");
        let child = Command::new(me)
            .arg(BURN)
            .args(cores.iter().map(usize::to_string))
            .stdin(Stdio::piped())
            .spawn()
            .expect("processes are free");
        // By then all of them run.
        thread::sleep(Duration::from_millis(200));
        Load(child)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Is the load, if the command line says so, and ends with the parent.
pub(crate) fn burn_if_asked() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(BURN) {
        return;
    }
    let cores: Vec<usize> = arguments.filter_map(|core| core.parse().ok()).collect();
    let _ = rustix::process::setsid();
    for core in cores.into_iter().cycle().take(BURNERS) {
        thread::spawn(move || {
            let _ = pin(core);
            loop {
                std::hint::spin_loop();
            }
        });
    }
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(0);
}

/// Nanoseconds of each of many round trips over two channels.
pub(crate) fn round_trips(core: usize, len: usize) -> Samples {
    let channels = [(); 2].map(|()| channel(100, u32::try_from(len).expect("a small block")));
    with_partner(
        core,
        &channels,
        |channels| crate::echo(channels, len, WaitMode::Spin),
        || {
            let ((sender, _), (_, receiver)) = (ends(&channels[0], WaitMode::Spin), ends(&channels[1], WaitMode::Spin));
            let (mut pad, clock, since) = (vec![0; len], Clock::new(), Instant::now());
            let mut trip = || {
                let start = clock.now();
                sender.send(&pad, 0, Timeout::Never).expect("the other side lives");
                receiver.receive(&mut pad, Timeout::Never).expect("the other side lives");
                clock.nanoseconds(start, clock.now()) as f64
            };
            for _ in 0..FIRST {
                let _ = trip();
            }
            let readings = (0..TRIPS).map_while(|_| (since.elapsed() < MOST).then(&mut trip)).collect();
            sender.send(&pad, END, Timeout::Never).expect("the other side lives");
            Samples::new(readings).expect("one reading at least")
        },
    )
}
