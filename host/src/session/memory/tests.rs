//! What memory may be exported, how, and what becomes of it if that fails.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use umbra_core::peer::{Host, Incarnation, LocalRank, WorldRank};
use umbra_core::time::Lapse;

use super::*;
use crate::config::Platform;
use crate::driver::{Driver, Event, Limits};
use crate::link::{Identity, Listener, Party, socket_path};
use crate::secret::Secret;
use crate::session::{Seat, Settings};

const JOB: &str = "# Format version: 1\n\nnode1,bf1:10.0.0.1:7010&7011:9010&9011\n";

/// A service process that takes links and says nothing.
fn silent(folder: &Path, secret: &Secret, sp: Sp) -> Driver {
    let party = Party::Peer(Peer::service(sp).unwrap());
    let mut driver = Driver::new(Identity { party, incarnation: Incarnation(1) }, secret.clone(), Limits::default());
    driver.listen(Listener::Unix(UnixListener::bind(socket_path(folder, sp)).unwrap())).unwrap();
    driver
}

/// What a silent service process was called: so often, and then no more for a moment.
fn heard(driver: &mut Driver, calls: usize) -> Vec<Op> {
    let (mut ops, mut bytes) = (Vec::new(), Vec::new());
    let patience = |ops: &[Op]| Lapse::from_millis(if ops.len() < calls { 30_000 } else { 20 });
    let mut end = driver::now() + patience(&ops);
    while driver::now() < end {
        driver.wait(end).unwrap();
        let before = ops.len();
        while let Some(event) = driver.next(&mut bytes) {
            match (event, Frame::parse(&bytes)) {
                (Event::Frame { .. }, Ok(Frame::Call { op, .. })) if [EXPORT, REVOKE].contains(&op) => ops.push(op),
                _ => {}
            }
        }
        if ops.len() > before {
            end = driver::now() + patience(&ops);
        }
    }
    ops
}

/// Answers calls about memory; whether all these answers were asked for.
fn answer(driver: &mut Driver, statuses: &[Status]) -> bool {
    let (mut statuses, mut bytes) = (statuses.iter(), Vec::new());
    let end = driver::now() + Lapse::from_secs(30);
    while statuses.len() > 0 && driver::now() < end {
        driver.wait(end).unwrap();
        while let Some(event) = driver.next(&mut bytes) {
            if let (Event::Frame { link, .. }, Ok(Frame::Call { op: op @ (EXPORT | REVOKE), token, .. })) =
                (event, Frame::parse(&bytes))
            {
                let status = *statuses.next().unwrap();
                driver.send(link, &Frame::Done { op, token, status, body: &[] }, Vec::new()).unwrap();
            }
        }
        driver.flush();
    }
    statuses.len() == 0
}

/// A rank with links to two service processes that answer nothing, and little patience.
fn unanswered(folder: PathBuf) -> (Session, [Driver; 2]) {
    linked(folder, Duration::from_millis(100))
}

/// A rank with links to two service processes.
fn linked(folder: PathBuf, deadline: Duration) -> (Session, [Driver; 2]) {
    std::fs::create_dir_all(&folder).unwrap();
    let secret = Secret::from_bytes([7; 32]);
    let job = Platform::parse(JOB, "job.cfg").unwrap().job(&["bf1"]).unwrap();
    let seat = Seat { rank: WorldRank(0), size: 1, host: Host(0), local: LocalRank(0), n_local: 1 };
    let mut services = [0, 1].map(|sp| silent(&folder, &secret, Sp(sp)));
    let (sockets, silence) = (Some(folder.clone()), Some(Duration::from_secs(60)));
    let settings = Settings { sockets, shadows: 2, deadline, silence, ..Settings::new(job, secret, seat) };
    let (mut session, mut bytes) = (Session::connect(settings).unwrap(), Vec::new());
    while !session.shadows.iter().all(|shadow| shadow.up) {
        session.progress(driver::now() + Lapse::from_millis(1)).unwrap();
        for service in &mut services {
            service.wait(driver::now() + Lapse::from_millis(1)).unwrap();
            while service.next(&mut bytes).is_some() {}
        }
    }
    // As they are once they have admitted the rank.
    session.shadows.iter_mut().for_each(|shadow| shadow.told = true);
    std::fs::remove_dir_all(folder).unwrap();
    (session, services)
}

fn folder(of: &str) -> PathBuf {
    std::env::temp_dir().join(format!("umbra-memory-{}-{of}", std::process::id()))
}

#[test]
fn memory_of_a_failed_export_stays_while_somebody_may_read_it_and_takes_no_place() {
    let (mut session, mut services) = unanswered(folder("silent"));
    let bytes = vec![5; 100];
    let span = (bytes.as_ptr() as u64, 100);
    assert!(session.export_bytes(bytes).is_err());
    for service in &mut services {
        assert_eq!(heard(service, 2), [EXPORT, REVOKE]);
    }
    assert_eq!(session.regions.iter().count(), 0);
    assert_eq!(session.exported.values().map(|(memory, _)| memory.span()).collect::<Vec<_>>(), [span]);
}

/// Where bytes are that came back from a failed export.
fn back(exported: Result<Key, Unexported>) -> u64 {
    match exported.unwrap_err().memory {
        Left::Back(memory) => memory.span().0,
        left => panic!("it did not come back: {left:?}"),
    }
}

#[test]
fn memory_that_is_not_exported_comes_back_where_it_was() {
    let (mut session, [mut one, mut two]) = linked(folder("back"), Duration::from_secs(30));
    let bytes = vec![5; 100];
    let place = bytes.as_ptr() as u64;
    // One of them has no room.
    let exported = std::thread::scope(|scope| {
        let one = scope.spawn(|| answer(&mut one, &[Status::Ok; 2]));
        let two = scope.spawn(|| answer(&mut two, &[Status::Full, Status::UnknownRegion]));
        let exported = session.export(Exported::Bytes(bytes), Access::READ);
        assert!(one.join().unwrap() && two.join().unwrap());
        exported
    });
    let why = exported.as_ref().map_err(|why| why.error.status());
    assert_eq!(why, Err(Status::Full));
    let Err(Unexported { memory: Left::Back(memory), .. }) = exported else { panic!("lost: {exported:?}") };
    assert_eq!(memory.span(), (place, 100));
    // The session has no room: nobody is asked.
    let (me, life) = (Peer::rank(WorldRank(0)).unwrap(), session.incarnation);
    let keys: Vec<Key> = std::iter::from_fn(|| {
        let taken = session.regions.export(
            me,
            life,
            1,
            1,
            Access::READ,
            [Sp(0)].into_iter().collect(),
            umbra_core::region::Secret([0; 32]),
        );
        taken.ok().map(|region| region.key)
    })
    .collect();
    assert_eq!(keys.len(), 1024);
    assert_eq!(back(session.export(memory, Access::READ)), place);
    assert!(matches!(
        session.export(Exported::Bytes(Vec::new()), Access::READ),
        Err(Unexported { memory: Left::Back(_), .. })
    ));
    assert!(session.exported.is_empty() && session.revoked.is_empty());
}

#[test]
fn memory_that_somebody_may_read_still_comes_back_when_that_has_ended() {
    let (mut session, mut services) = unanswered(folder("held"));
    let bytes = vec![5; 100];
    let place = bytes.as_ptr() as u64;
    let why = session.export(Exported::Bytes(bytes), Access::READ).unwrap_err();
    let Left::Held(key) = why.memory else { panic!("{why:?}") };
    assert_eq!((session.exported(key), session.ticket(key)), (Some((place, 100)), None));
    for service in &mut services {
        assert_eq!(heard(service, 2), [EXPORT, REVOKE]);
    }
    session.settings.deadline = Duration::from_secs(30);
    let [one, two] = &mut services;
    std::thread::scope(|scope| {
        let answers = [one, two].map(|service| scope.spawn(|| answer(service, &[Status::UnknownRegion])));
        assert_eq!(session.revoke(key).unwrap().span(), (place, 100));
        assert!(answers.map(|answer| answer.join().unwrap()).into_iter().all(|right| right));
    });
    assert!(session.exported.is_empty() && session.revoked.is_empty());
}

#[test]
fn a_service_process_hears_of_memory_although_another_one_cannot_be_told() {
    let (mut session, mut services) = unanswered(folder("apart"));
    session.shadows[0].link = LinkId(1000);
    assert!(session.export_bytes(vec![5; 100]).is_err());
    assert_eq!(heard(&mut services[1], 2), [EXPORT, REVOKE]);
    assert_eq!(session.regions.iter().count(), 0);
}

#[test]
fn answers_that_come_too_late_are_not_kept() {
    let (mut session, mut services) = unanswered(folder("late"));
    assert!(session.export_bytes(vec![5; 100]).is_err());
    assert!(services.iter_mut().all(|service| answer(service, &[Status::Ok; 2])));
    // Another call makes the last answers late, too.
    session.next_asked();
    for _ in 0..4 {
        session.progress(driver::now() + Lapse::from_millis(1)).unwrap();
    }
    assert!(session.answers.is_empty(), "{:?}", session.answers);
}

#[test]
fn a_service_process_without_room_for_a_revocation_is_asked_again() {
    let (mut session, [mut one, mut two]) = linked(folder("full"), Duration::from_secs(30));
    std::thread::scope(|scope| {
        let one = scope.spawn(|| answer(&mut one, &[Status::Ok, Status::Full, Status::Full, Status::Ok]));
        let two = scope.spawn(|| answer(&mut two, &[Status::Ok; 4]));
        let key = session.export_bytes(vec![5; 100]).unwrap();
        assert!(session.revoke(key).is_ok());
        assert!(one.join().unwrap() && two.join().unwrap());
    });
}
