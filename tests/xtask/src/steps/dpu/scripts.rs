//! What runs in the two guests.

use std::path::Path;

use super::jobs::{Fault, JOBS, Job, Work};
use crate::cross::Built;

/// The guests' addresses, and the port over which the host tells the DPU how far it is.
pub(super) const HOST: &str = "10.77.0.1";
pub(super) const DPU: &str = "10.77.0.2";
const WORDS: u16 = 9000;
/// The port over which the host's memory is had for the suite.
const OWNERS: u16 = 9001;
/// What plays the suite, by its name among the programs.
const SUITE: &str = "far-suite";
/// Seconds that a guest waits for the other one, or for things to be given back.
const WAIT: u32 = 60;
/// Connected queue pairs at the host after which all read: those of its two ranks to their readers, and as many more.
const READING: u32 = 10;

/// Gives a guest its address and its device, waits until the device can be used, and takes the secret over: it must
/// belong to the guest's user.
fn begin(umbra: &Path, address: &str, kept: &Path) -> String {
    let (umbra, kept) = (umbra.display(), kept.display());
    format!(
        "set -e\n\
         ulimit -l unlimited\n\
         ip link set lo up\n\
         ip address add {address}/24 dev eth0\n\
         ip link set eth0 up\n\
         rdma link add rxe0 type rxe netdev eth0\n\
         for wait in $(seq {WAIT}); do '{umbra}' devices | grep -q preferred && break; sleep 1; done\n\
         '{umbra}' devices\n\
         (umask 077; cat '{kept}/job.secret' > /tmp/job.secret)\n\
         pairs() {{ rdma resource show qp | grep -c 'type RC state RTS' || true; }}\n\
         left() {{ rdma resource show qp | grep -q 'type RC' || ls -d /tmp/umbra-* > /dev/null 2>&1; }}\n\
         clean() {{ for wait in $(seq {WAIT}); do left || return 0; sleep 1; done; echo 'left behind:'; \
         rdma resource show; ls /tmp; return 1; }}\n"
    )
}

/// Does the jobs, on half a mebibyte of a file where they need one, breaks something in mid read, and tells the DPU after
/// each that it is done. Nothing may be left then.
pub(super) fn of_host(programs: &Path, test: &Path, kept: &Path) -> String {
    let mut script = begin(&programs.join("umbra"), HOST, kept);
    let (programs, test, kept) = (programs.display(), test.display(), kept.display());
    script += &format!(
        "head -c 500000 '{programs}/umbra' > /tmp/input\n\
         tell() {{ for wait in $(seq {WAIT}); do echo $1 | busybox nc -w 5 {DPU} {WORDS} && return 0; sleep 1; done; \
         return 1; }}\n\
         slay() {{ for process in $(cd /proc && echo [1-9]*); do \
         tr '\\0' ' ' 2> /dev/null < /proc/$process/cmdline | grep -q \"$1\" && kill -9 $process && return 0; done; \
         return 1; }}\n"
    );
    for Job { name, work, patience, .. } in JOBS {
        script += &match work {
            Work::Run(options, fault) => {
                let run = format!(
                    "'{programs}/umbra' run --config '{kept}/{name}.cfg' --secret /tmp/job.secret {options} --quiet --json \
                     --input /tmp/input --size 4K --timeout {patience}s"
                );
                let harm = fault.map(|fault| match fault {
                    Fault::Rank => "slay ' rank=[1] host='\n",
                    Fault::Agent => "tell kill\n",
                    Fault::Link => "ip link set eth0 down\nsleep 2\nip link set eth0 up\n",
                });
                match harm {
                    None => format!("{run}\n"),
                    // The job must still have been reading.
                    Some(harm) => format!(
                        "{run} & job=$!\n\
                         for wait in $(seq 600); do test $(pairs) -ge {READING} && break; sleep 0.1; done\n\
                         test $(pairs) -ge {READING}\n\
                         kill -0 $job\n\
                         {harm}\
                         wait $job || echo \"job {name} ended with $?\"\n"
                    ),
                }
            }
            Work::TakeBack => format!(
                "UMBRA_TEST_CONFIG='{kept}/{name}.cfg' UMBRA_TEST_SECRET=/tmp/job.secret UMBRA_TEST_START=bf0 \
                 '{test}' --nocapture\n"
            ),
            Work::Suite => format!("'{programs}/{SUITE}' own {HOST}:{OWNERS}\n"),
        };
        script += "clean\ntell done\n";
    }
    script
}

/// Runs the DPU's agents of each job until the host is done with it; all that are not killed must end well. Plays the
/// suite on the host's memory.
pub(super) fn of_dpu(built: &Built, kept: &Path) -> String {
    let mut script = begin(&built.umbra, DPU, kept);
    let (agent, suite, kept) = (built.agent.display(), built.folder.join(SUITE), kept.display());
    for Job { name, work, patience, .. } in JOBS {
        let listen = format!("timeout 480 nc -l -p {WORDS}\n");
        if *work == Work::Suite {
            script += &format!("UMBRA_TEST_OWNERS={HOST}:{OWNERS} '{}' read\n{listen}clean\n", suite.display());
            continue;
        }
        let start = format!(
            "'{agent}' --config '{kept}/{name}.cfg' --secret-file /tmp/job.secret --deadline-ms {patience}000 \
             --service-process"
        );
        let (kill, end) = match work {
            Work::Run(_, Some(Fault::Agent)) => {
                (format!("{listen}kill -9 $first\n"), "kill $second\nwait $first || test $? = 137\n")
            }
            _ => (String::new(), "kill $first $second\nwait $first\n"),
        };
        script += &format!("{start} 2 & first=$!\n{start} 3 & second=$!\n{kill}{listen}{end}wait $second\nclean\n");
    }
    script
}
