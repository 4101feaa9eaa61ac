//! What runs in the two guests.

use std::path::Path;

use super::jobs::{Fault, JOBS, Job};
use crate::cross::Built;

/// The guests' addresses, and the port over which the host tells the DPU how far it is.
pub(super) const HOST: &str = "10.77.0.1";
pub(super) const DPU: &str = "10.77.0.2";
const WORDS: u16 = 9000;
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

/// Runs the jobs on half a mebibyte of a file, breaks something in mid read, and tells the DPU after each that it is
/// done. Nothing may be left then.
pub(super) fn of_host(umbra: &Path, kept: &Path) -> String {
    let mut script = begin(umbra, HOST, kept);
    let (umbra, kept) = (umbra.display(), kept.display());
    script += &format!(
        "head -c 500000 '{umbra}' > /tmp/input\n\
         tell() {{ for wait in $(seq {WAIT}); do echo $1 | busybox nc -w 5 {DPU} {WORDS} && return 0; sleep 1; done; \
         return 1; }}\n\
         slay() {{ for process in $(cd /proc && echo [1-9]*); do \
         tr '\\0' ' ' 2> /dev/null < /proc/$process/cmdline | grep -q \"$1\" && kill -9 $process && return 0; done; \
         return 1; }}\n"
    );
    for Job { name, options, fault, patience, .. } in JOBS {
        let run = format!(
            "'{umbra}' run --config '{kept}/{name}.cfg' --secret /tmp/job.secret {options} --quiet --json \
             --input /tmp/input --size 4K --timeout {patience}s"
        );
        script += &match fault {
            None => format!("{run}\n"),
            Some(fault) => {
                let fault = match fault {
                    Fault::Rank => "slay ' rank=[1] host='\n",
                    Fault::Agent => "tell kill\n",
                    Fault::Link => "ip link set eth0 down\nsleep 2\nip link set eth0 up\n",
                };
                // The job must still have been reading.
                format!(
                    "{run} & job=$!\n\
                     for wait in $(seq 600); do test $(pairs) -ge {READING} && break; sleep 0.1; done\n\
                     test $(pairs) -ge {READING}\n\
                     kill -0 $job\n\
                     {fault}\
                     wait $job || echo \"job {name} ended with $?\"\n"
                )
            }
        };
        script += "clean\ntell done\n";
    }
    script
}

/// Runs the DPU's agents of each job until the host is done with it; all that are not killed must end well.
pub(super) fn of_dpu(built: &Built, kept: &Path) -> String {
    let mut script = begin(&built.umbra, DPU, kept);
    let (agent, kept) = (built.agent.display(), kept.display());
    for Job { name, fault, patience, .. } in JOBS {
        let start = format!(
            "'{agent}' --config '{kept}/{name}.cfg' --secret-file /tmp/job.secret --deadline-ms {patience}000 \
             --service-process"
        );
        let listen = format!("timeout 280 nc -l -p {WORDS}\n");
        let is_killed = *fault == Some(Fault::Agent);
        let (kill, end) = match is_killed {
            true => (format!("{listen}kill -9 $first\n"), "kill $second\nwait $first || test $? = 137\n"),
            false => (String::new(), "kill $first $second\nwait $first\n"),
        };
        script += &format!("{start} 2 & first=$!\n{start} 3 & second=$!\n{kill}{listen}{end}wait $second\nclean\n");
    }
    script
}
