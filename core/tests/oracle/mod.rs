//! Brute force: the same questions, answered by looking at every entry.
#![allow(clippy::unwrap_used, dead_code, missing_docs, unreachable_pub)]

use std::collections::BTreeSet;

use umbra_core::endpoints::{Descriptor, Entry, JobKey, LookupError, Shadows, Shape, Table, TableBuilder, Words};
use umbra_core::id::Generation;
use umbra_core::peer::{Host, HostInGroup, LocalRank, Peer, Rank, Sp, SpInGroup, SpLid, SpOnHostInGroup, WorldRank};
use umbra_core::placement::Placement;

pub const KEY: JobKey = JobKey::new(*b"a key for tests!");

/// A group: its members' entries in rank order.
#[derive(Clone, Debug)]
pub struct Oracle {
    pub entries: Vec<Entry>,
    pub per_dpu: u32,
}

pub fn entry(world: u32, host: u32, shadows: &[u32]) -> Entry {
    let shadows: Shadows = shadows.iter().map(|&sp| Sp(sp)).collect();
    Entry { world_rank: WorldRank(world), host: Host(host), shadows }
}

/// The world of a job: `on_host[h]` ranks on host `h`, numbered host by host (or round robin).
pub fn world(job: &Placement<'_>, on_host: &[u32], cyclic: bool) -> Vec<Entry> {
    let mut places: Vec<(u32, u32)> =
        (0..).zip(on_host).flat_map(|(host, &n)| (0..n).map(move |local| (host, local))).collect();
    if cyclic {
        places.sort_by_key(|&(host, local)| (local, host));
    }
    let entry = |(rank, (host, local))| job.entry(WorldRank(rank), Host(host), LocalRank(local)).unwrap();
    (0..).zip(places).map(entry).collect()
}

pub fn shape(entries: &[Entry], per_dpu: u32, id: u32) -> Shape {
    let mut bytes = vec![0; Descriptor::bytes_needed(entries.len() as u32)];
    let group = Descriptor::write(id, entries.iter().map(|e| e.world_rank), &mut bytes).unwrap();
    Shape {
        key: KEY.group(&group),
        id,
        world: false,
        size: entries.len() as u32,
        shadows: entries.iter().map(|e| e.shadows.len() as u32).max().unwrap(),
        per_dpu,
        service_processes: entries.iter().flat_map(|e| &e.shadows).map(|sp| sp.0).max().unwrap() + 1,
        hosts: entries.iter().map(|e| e.host.0).max().unwrap() + 1,
    }
}

/// A full builder of these entries.
pub fn builder(entries: &[Entry], per_dpu: u32, id: u32) -> TableBuilder<Vec<u8>> {
    let shape = shape(entries, per_dpu, id);
    let mut builder = TableBuilder::new(vec![0; shape.builder_bytes()], shape).unwrap();
    for (rank, entry) in (0..).map(Rank).zip(entries) {
        assert_eq!(builder.set(rank, entry), Ok(true));
    }
    builder
}

pub fn table_bytes(entries: &[Entry], per_dpu: u32, id: u32) -> Vec<u8> {
    builder(entries, per_dpu, id).finish(Generation::FIRST).unwrap().to_vec()
}

fn position<T: PartialEq>(list: &[T], item: &T) -> Option<u32> {
    list.iter().position(|x| x == item).map(|at| at as u32)
}

impl Oracle {
    pub fn sps(&self) -> Vec<Sp> {
        self.entries.iter().flat_map(|e| e.shadows.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    pub fn hosts(&self) -> Vec<Host> {
        self.entries.iter().map(|e| e.host).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn ranks_where(&self, accept: impl Fn(&Entry) -> bool) -> Vec<Rank> {
        (0..).map(Rank).zip(&self.entries).filter(|(_, e)| accept(e)).map(|(rank, _)| rank).collect()
    }

    pub fn ranks_of(&self, sp: Sp) -> Vec<Rank> {
        self.ranks_where(|e| e.shadows.contains(&sp))
    }

    pub fn ranks_on(&self, host: Host) -> Vec<Rank> {
        self.ranks_where(|e| e.host == host)
    }

    pub fn involved_on(&self, host: Host) -> Vec<Sp> {
        let on_host = self.entries.iter().filter(|e| e.host == host);
        on_host.flat_map(|e| e.shadows.clone()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Asks a table everything there is to ask, and compares.
    pub fn compare<W: Words>(&self, table: &Table<W>) {
        let size = self.entries.len() as u32;
        let (sps, hosts) = (self.sps(), self.hosts());
        assert_eq!(table.size(), size);
        assert_eq!(table.involved_count(), sps.len() as u32);
        assert_eq!(table.host_count(), hosts.len() as u32);
        assert_eq!(table.involved().collect::<Vec<_>>(), sps);
        assert_eq!(table.hosts().collect::<Vec<_>>(), hosts);
        self.compare_ranks(table, &hosts);
        for beyond in [size, size + 1, 1 << 31, u32::MAX].map(Rank) {
            let error = LookupError::RankOutOfRange { rank: beyond, size };
            assert_eq!(table.endpoint(beyond), Err(error));
            assert_eq!(table.entry(beyond), Err(error));
            assert_eq!(table.shadow(beyond, 0), Err(error));
            assert_eq!(table.shadows(beyond), Err(error));
            assert_eq!(table.host_of(beyond), Err(error));
            assert_eq!(table.index_on_host(beyond), Err(error));
            assert_eq!(table.index_within(SpInGroup(0), beyond), Err(error));
            assert_eq!(table.same_host(Rank(0), beyond), Err(error));
            assert_eq!(table.same_service_process(beyond, Rank(0)), Err(error));
            assert_eq!(table.involved_beside(beyond).err(), Some(error));
        }
        self.compare_service_processes(table, &sps, &hosts);
        self.compare_hosts(table, &sps, &hosts);
    }

    fn compare_ranks<W: Words>(&self, table: &Table<W>, hosts: &[Host]) {
        for (rank, expected) in (0..).map(Rank).zip(&self.entries) {
            let endpoint = table.endpoint(rank).unwrap();
            assert_eq!(Some(endpoint.peer), Peer::rank(expected.world_rank));
            assert_eq!(endpoint.sp, expected.shadows[0]);
            assert_eq!(table.entry(rank).as_ref(), Ok(expected));
            let count = expected.shadows.len() as u32;
            assert_eq!(table.shadow_count(rank), Ok(count));
            for (nth, sp) in (0..).zip(&expected.shadows) {
                assert_eq!(table.shadow(rank, nth), Ok(*sp));
            }
            let error = Err(LookupError::SpIndexOutOfRange { index: count, count });
            assert_eq!(table.shadow(rank, count), error);
            let host = table.host_index_of(rank).unwrap();
            assert_eq!(Some(host.0), position(hosts, &expected.host));
            assert_eq!(table.index_on_host(rank).ok(), position(&self.ranks_on(expected.host), &rank));
            assert_eq!(table.involved_beside(rank).unwrap().collect::<Vec<_>>(), self.involved_on(expected.host));
            for other in [0, rank.0 / 2, rank.0.saturating_sub(1)].map(Rank) {
                let other_entry = &self.entries[other.index()];
                assert_eq!(table.same_host(rank, other), Ok(other_entry.host == expected.host));
                let same = other_entry.shadows[0] == expected.shadows[0];
                assert_eq!(table.same_service_process(rank, other), Ok(same));
            }
        }
    }

    fn compare_service_processes<W: Words>(&self, table: &Table<W>, sps: &[Sp], hosts: &[Host]) {
        for (number, &sp) in (0..).map(SpInGroup).zip(sps) {
            assert_eq!(table.service_process(number), Ok(sp));
            assert_eq!(table.index_of(sp), Ok(number));
            assert_eq!(table.lid_of(sp), SpLid(sp.0 % self.per_dpu));
            let ranks = self.ranks_of(sp);
            assert_eq!(table.rank_count_of(number), Ok(ranks.len() as u32));
            assert_eq!(table.ranks_of(number).unwrap().collect::<Vec<_>>(), ranks);
            for rank in (0..self.entries.len() as u32).map(Rank) {
                let expected = position(&ranks, &rank).ok_or(LookupError::NotAmong(rank));
                assert_eq!(table.index_within(number, rank), expected);
            }
            let host = self.entries[ranks[0].index()].host;
            let host_index = table.host_index_of_service_process(number).unwrap();
            assert_eq!(Some(host_index.0), position(hosts, &host));
            let on_host = table.index_among_host(number).unwrap();
            assert_eq!(Some(on_host.0), position(&self.involved_on(host), &sp));
            assert_eq!(table.nth_involved_on(host_index, on_host), Ok(number));
        }
        let beyond = SpInGroup(sps.len() as u32);
        assert_eq!(table.service_process(beyond), Err(LookupError::SpOutOfRange(beyond)));
        assert_eq!(table.rank_count_of(beyond), Err(LookupError::SpOutOfRange(beyond)));
        assert_eq!(table.ranks_of(beyond).err(), Some(LookupError::SpOutOfRange(beyond)));
        assert_eq!(table.index_among_host(beyond), Err(LookupError::SpOutOfRange(beyond)));
        assert_eq!(table.index_within(beyond, Rank(0)), Err(LookupError::SpOutOfRange(beyond)));
        let last = sps.last().unwrap().0;
        for absent in (0..last + 70).chain([u32::MAX]).map(Sp).filter(|sp| !sps.contains(sp)) {
            assert_eq!(table.index_of(absent), Err(LookupError::NotInvolved(absent)));
        }
    }

    fn compare_hosts<W: Words>(&self, table: &Table<W>, sps: &[Sp], hosts: &[Host]) {
        let mut ranks_in_all = 0;
        for (index, &host) in (0..).map(HostInGroup).zip(hosts) {
            assert_eq!(table.host(index), Ok(host));
            assert_eq!(table.host_index(host), Ok(index));
            let ranks = self.ranks_on(host);
            ranks_in_all += ranks.len();
            assert_eq!(table.rank_count_on(index), Ok(ranks.len() as u32));
            assert_eq!(table.ranks_on(index).unwrap().collect::<Vec<_>>(), ranks);
            let involved = self.involved_on(host);
            assert_eq!(table.involved_count_on(index), Ok(involved.len() as u32));
            assert_eq!(table.involved_on(index).unwrap().collect::<Vec<_>>(), involved);
            for (nth, sp) in (0..).map(SpOnHostInGroup).zip(&involved) {
                assert_eq!(table.nth_involved_on(index, nth).ok().map(|sp| sp.0), position(sps, sp));
            }
            let (at, count) = (SpOnHostInGroup(involved.len() as u32), involved.len() as u32);
            let error = Err(LookupError::SpIndexOutOfRange { index: count, count });
            assert_eq!(table.nth_involved_on(index, at), error);
        }
        assert_eq!(ranks_in_all, self.entries.len());
        let beyond = HostInGroup(hosts.len() as u32);
        assert_eq!(table.host(beyond), Err(LookupError::HostOutOfRange(beyond)));
        assert_eq!(table.rank_count_on(beyond), Err(LookupError::HostOutOfRange(beyond)));
        assert_eq!(table.involved_on(beyond).err(), Some(LookupError::HostOutOfRange(beyond)));
        let last = hosts.last().unwrap().0;
        for absent in (0..last + 3).chain([u32::MAX]).map(Host).filter(|host| !hosts.contains(host)) {
            assert_eq!(table.host_index(absent), Err(LookupError::HostNotInvolved(absent)));
        }
    }
}
