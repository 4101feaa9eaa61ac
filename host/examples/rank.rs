//! A rank in Rust: joins a job, asks who is where, lets its memory be read, and leaves.
//!
//! usage: rank CONFIG SECRET SOCKETS RANK RANKS_PER_HOST HOSTS
//!
//! The same in C: ffi/examples/rank.c.

use std::error::Error;
use std::time::Duration;

use umbra::config::Platform;
use umbra::secret::Secret;
use umbra::session::{Seat, Session, Settings};
use umbra::sys::segment::Segment;
use umbra_core::peer::{Host, LocalRank, Rank, WorldRank};

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
    session.revoke(key)?;

    session.free_group(row)?;
    session.wait_ended(row)?;
    session.leave()?;
    Ok(())
}
