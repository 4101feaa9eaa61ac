//! A rank in Rust: it joins a job, reads the memory of the others, and leaves.
//!
//! In between it asks who is where, and lets its own memory be read.
//!
//! usage: rank CONFIG SECRET SOCKETS RANK RANKS_PER_HOST HOSTS
//!
//! Ranks hand each other tickets as files beside the sockets; a real program sends them with its own messages. The same
//! in C: ffi/examples/rank.c.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use umbra::config::Platform;
use umbra::secret::Secret;
use umbra::session::{Seat, Session, Settings};
use umbra::sys::segment::Segment;
use umbra_core::peer::{Host, LocalRank, Rank, WorldRank};
use umbra_core::ticket::Ticket;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [config, secret, sockets, rank, per_host, hosts] = arguments.as_slice() else {
        return Err("usage: rank CONFIG SECRET SOCKETS RANK RANKS_PER_HOST HOSTS".into());
    };
    let (rank, per_host, hosts): (u32, u32, u32) = (rank.parse()?, per_host.parse()?, hosts.parse()?);
    let platform = Platform::read(config)?;
    let seat = Seat {
        rank: WorldRank(rank),
        size: per_host * hosts,
        host: Host(rank / per_host),
        local: LocalRank(rank % per_host),
        n_local: per_host,
    };
    let settings = Settings::new(platform.job(&platform.dpu_names())?, Secret::read(secret.as_ref())?, seat);
    let settings = Settings { sockets: Some(sockets.into()), deadline: Duration::from_secs(30), ..settings };

    let mut session = Session::join(settings)?;
    let world = session.world().ok_or("the world group is full after joining")?;
    for other in 0..world.size {
        let endpoint = session.endpoints().lookup(world.handle, Rank(other))?;
        println!("rank {other} is {}, reached through service process {}", endpoint.peer, endpoint.sp);
    }

    let neighbours: Vec<WorldRank> = (0..per_host).map(|local| WorldRank(seat.host.0 * per_host + local)).collect();
    let row = session.create_group(1, &neighbours)?;
    session.endpoints().lookup(row.handle, Rank(seat.local.0))?;

    let memory = Segment::create("example", 4096)?;
    memory.write(0, format!("memory of rank {rank}").as_bytes())?;
    let key = session.export_segment(memory)?;
    // From here on service processes read it, and this process need not do anything for that.
    let ticket = session.ticket(key).ok_or("exported memory has a ticket")?;
    let file = |rank: u32| Path::new(sockets).join(format!("ticket.{rank}"));
    std::fs::write(file(rank), ticket.to_bytes())?;

    // A group that is full: everybody has put its ticket down. One that has ended: everybody has read.
    let everybody: Vec<WorldRank> = (0..world.size).map(WorldRank).collect();
    let all = session.create_group(2, &everybody)?;
    for other in 0..world.size {
        let ticket = Ticket::parse(&std::fs::read(file(other))?)?;
        let want = format!("memory of rank {other}");
        let mut text = vec![0; want.len()];
        session.read(&ticket, 0, &mut text)?;
        assert_eq!(text, want.as_bytes());
        let posted = session.post_read(&ticket, 10, vec![0; want.len() - 10])?;
        assert_eq!(session.wait_read(posted)?, want.as_bytes().get(10..).unwrap_or_default());
    }
    session.free_group(all)?;
    session.wait_ended(all)?;
    std::fs::remove_file(file(rank))?;
    session.revoke(key)?;

    session.free_group(row)?;
    session.wait_ended(row)?;
    session.leave()?;
    Ok(())
}
