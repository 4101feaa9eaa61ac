//! A launcher whose rank waits for an agent that never comes.
//!
//! The crash tests start and kill it. It prints the process ids of its agent, which is stopped, and of its rank.
#![forbid(unsafe_code)]

use std::error::Error;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use umbra::driver;
use umbra::job::{Launcher, Options};
use umbra_core::peer::{Sp, WorldRank};
use umbra_core::time::Lapse;
use umbra_tests::rig;

fn main() -> Result<(), Box<dyn Error>> {
    // Far longer than the test waits for the end of the processes.
    let options = Options { deadline: Duration::from_secs(600), ..rig::options(2, 1, 1) };
    let mut launcher = Launcher::new(&options)?;
    launcher.withhold(Sp(1));
    let agent = launcher.start_agent(Sp(0))?;
    let rank = launcher.start_rank(WorldRank(0))?;
    let linked = 2;
    for _ in 0..linked {
        launcher.next(driver::now() + Lapse::from_secs(60))?.ok_or("a process did not come")?;
    }
    kill_process(Pid::from_raw(i32::try_from(agent)?).ok_or("no process")?, Signal::STOP)?;
    println!("{agent} {rank}");
    std::thread::sleep(Duration::from_secs(600));
    Ok(())
}
