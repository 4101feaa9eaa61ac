//! What is read of a service process that is not linked yet waits for the link.
//!
//! Tables come down a tree of service processes: ranks, and whoever orders to read, may begin before two of them that have
//! nothing to tell each other there have found each other.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use umbra::admin::{Body as _, ReadOrder, ReadResult, ReadTotals, Slice, ops};
use umbra::ask::{Asker, Target};
use umbra::config::Platform;
use umbra::driver::{Driver, Event, Limits, LinkId, now};
use umbra::link::{Address, Identity, Party, socket_path};
use umbra::secret::Secret;
use umbra::session::{Seat, Session, Settings};
use umbra_core::codec::Reader;
use umbra_core::error::Status;
use umbra_core::peer::{Host, Incarnation, LocalRank, Sp, WorldRank};
use umbra_core::time::Lapse;
use umbra_core::wire::{Frame, Token};
use umbra_tests::rig::{ByHand, PATIENCE, service};

const LEN: usize = 100_000;

/// Three agents, each with its sockets in a folder of its own. The second looks there for the third, too, which is not there.
fn agents(name: &str) -> (ByHand, [PathBuf; 3]) {
    let mut job = ByHand::new(name, 3);
    let folders = [0, 1, 2].map(|sp| job.directory().join(format!("of{sp}")));
    for (sp, folder) in (0..).zip(&folders) {
        fs::create_dir(folder).unwrap();
        let mut options = vec!["--deadline-ms", "30000", "--sockets", folder.to_str().unwrap()];
        if sp == 0 {
            options.extend(["--here", "dpu0"]);
        }
        job.start(sp, &options);
    }
    (job, folders)
}

/// A rank of each.
fn world(job: &ByHand, folders: &[PathBuf; 3]) -> Vec<Session> {
    let platform = Platform::read(job.config()).unwrap();
    let hosts = platform.job(&platform.dpu_names()).unwrap();
    let join = |rank: u32| {
        let seat = Seat { rank: WorldRank(rank), size: 3, host: Host(rank), local: LocalRank(0), n_local: 1 };
        let sockets = Some(folders[rank as usize].clone());
        let settings = Settings::new(hosts.clone(), Secret::read(&job.secret()).unwrap(), seat);
        Session::join(Settings { sockets, deadline: Duration::from_secs(30), ..settings }).unwrap()
    };
    thread::scope(|scope| {
        let joins: Vec<_> = (0..3).map(|rank| scope.spawn(move || join(rank))).collect();
        joins.into_iter().map(|join| join.join().unwrap()).collect()
    })
}

/// The second agent is told where the third rank has its bytes, by who goes on asking it.
fn planned(job: &ByHand, folders: &[PathBuf; 3], (address, len): (u64, u64)) -> Asker {
    let agent = Target { sp: Sp(1), address: Address::Unix(socket_path(&folders[1], Sp(1))) };
    let patience = Lapse::from_secs(60);
    let mut agent = Asker::connect(Secret::read(&job.secret()).unwrap(), vec![agent], patience).unwrap();
    let plan = Slice::list_to_body(&[Slice { rank: WorldRank(2), address, len }]);
    agent.call(0, ops::PLAN, &plan, patience).unwrap();
    agent
}

fn order(patience: Duration) -> Vec<u8> {
    ReadOrder { size: 10_000, reads: 0, seed: 0, patience: patience.as_nanos() as u64 }.to_body()
}

#[test]
fn ranks_and_orders_wait_for_the_first_link_of_two_service_processes() {
    let (job, folders) = agents("linked-late");
    let mut sessions = world(&job, &folders);
    let bytes: Vec<u8> = (0..LEN).map(|i| ((i * 31) >> 3) as u8).collect();
    let key = sessions[2].export_bytes(bytes.clone()).unwrap();
    let ticket = sessions[2].ticket(key).unwrap();
    let mut agent = planned(&job, &folders, sessions[2].exported(key).unwrap());
    let mut order = move |patience| {
        let body = agent.call(0, ops::SLICES, &order(patience), Lapse::from_secs(60)).unwrap();
        let mut r = Reader::new(&body);
        ReadTotals::get(&mut r).unwrap();
        let [result] = ReadResult::list_from_body(r.rest()).unwrap()[..] else { panic!("one rank was planned") };
        result
    };
    let result = order(Duration::from_millis(50));
    assert_eq!((result.reads, result.status), (0, Status::Timeout), "they are not linked, and nobody has failed");

    thread::scope(|scope| {
        let order = scope.spawn(|| order(Duration::from_secs(30)));
        let read = sessions[1].post_read(&ticket, 0, vec![0; LEN]).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(300) {
            assert_eq!(sessions[1].poll_read(read).unwrap(), None, "they are not linked");
            sessions[1].progress(now() + Lapse::from_millis(10)).unwrap();
        }
        symlink(socket_path(&folders[2], Sp(2)), socket_path(&folders[1], Sp(2))).unwrap();
        assert!(sessions[1].wait_read(read).unwrap() == bytes);
        let result = order.join().unwrap();
        assert_eq!((result.reads, result.failed, result.status), (10, 0, Status::Ok));
        assert_eq!(result.digest, *blake3::hash(&bytes).as_bytes());
        assert!(begun.elapsed() < PATIENCE);
    });
}

/// A tool that is linked with the second agent.
fn tool(job: &ByHand, folders: &[PathBuf; 3], life: u64) -> (Driver, LinkId) {
    let me = Identity { party: Party::Tool, incarnation: Incarnation(life) };
    let mut driver = Driver::new(me, Secret::read(&job.secret()).unwrap(), Limits::default());
    let (address, end) = (Address::Unix(socket_path(&folders[1], Sp(1))), now() + Lapse::from_secs(60));
    let link = driver.dial(address, Party::Peer(service(1)), end).unwrap();
    loop {
        assert!(now() < end, "it is not linked");
        driver.wait(end).unwrap();
        if let Some(Event::Up { .. }) = driver.next(&mut Vec::new()) {
            return (driver, link);
        }
    }
}

/// Whether the agent says something within that time.
fn hears(driver: &mut Driver, within: Lapse) -> bool {
    let (end, mut frame) = (now() + within, Vec::new());
    while now() < end {
        driver.wait(end).unwrap();
        if driver.next(&mut frame).is_some() {
            return true;
        }
    }
    false
}

#[test]
fn whoever_comes_after_one_who_gave_an_order_and_left_hears_nothing_of_it() {
    let (job, folders) = agents("order-left");
    let mut sessions = world(&job, &folders);
    let key = sessions[2].export_bytes(vec![1; LEN]).unwrap();
    let _planner = planned(&job, &folders, sessions[2].exported(key).unwrap());
    let (mut first, link) = tool(&job, &folders, 1);
    let call = Frame::Call { op: ops::SLICES, token: Token(2), body: &order(Duration::from_secs(60)) };
    first.send(link, &call, Vec::new()).unwrap();
    assert!(hears(&mut first, Lapse::from_secs(60)), "it is told how far it has come");
    drop(first);
    // The agent has found out, and the next link has the number of that one.
    thread::sleep(Duration::from_millis(300));
    let (mut next, _) = tool(&job, &folders, 2);
    assert!(!hears(&mut next, Lapse::from_millis(500)), "it gave no order");
}
