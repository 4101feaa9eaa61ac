//! A member of chained calls, started by tests: serves for a minute at most, or makes a call first.
//!
//! `call-member NODE [call | sleep]`: the meeting place is the descriptor that standard input is. With `call` it makes a call
//! over all members before it serves, in which the last member waits; with `sleep` it says so and serves nobody.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "this program is test code: what surprises it ends it")]

use std::os::fd::AsFd;
use std::time::Duration;

use umbra::call::Station;
use umbra_core::chain::Node;
use umbra_tests::call::{Act, call, header, member};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let node = Node(arguments.next().unwrap().parse().unwrap());
    let station = Station::attach(std::io::stdin().as_fd().try_clone_to_owned().unwrap()).unwrap();
    let mut member = member(&station, node, 2);
    let what = arguments.next();
    if what.as_deref() == Some("sleep") {
        println!("sleeps");
        return std::thread::sleep(Duration::from_secs(60));
    }
    if what.is_some() {
        let all: Vec<Node> = station.shape().nodes().collect();
        member.start(&call(&all, &header(all[all.len() - 1], Act::Wait))).unwrap();
    }
    member.serve_until(Duration::from_secs(60), |_| false);
}
