//! From a mesh to plans: a rank's channels, and whether its peers have the same.

use std::collections::BTreeMap;

use umbra_core::boundary::{Channel, Entry, Key, Kind, Peer, Role, Shape, Storage, first_difference};
use umbra_core::codec::{Reader, Writer};

use super::error::Differs;
use super::fields::Field;
use super::mesh::Mesh;
use super::touch::{Touch, touches};

/// What an exchange of a rank is lent.
pub(super) type Lent = Storage<Vec<Peer>, Vec<Entry>, Vec<Channel<()>>, Vec<u64>>;

/// The channels of all blocks of a rank, sorted into plans.
pub(super) fn channels(mesh: &impl Mesh, fields: &[Field], me: u32, kind: Kind) -> Lent {
    let shape = mesh.shape();
    // For each peer the channels to it and from it; the rank itself has only the first.
    let mut plans: BTreeMap<u32, [Vec<Entry>; 2]> = BTreeMap::new();
    for block in (0..mesh.blocks()).filter(|&block| mesh.owner(block) == me) {
        for element in shape.elements() {
            touches(mesh, &shape, block, element, |Touch { other, out, element, step }| {
                let (owner, cells) = (mesh.owner(other), shape.passage(element, step).cells());
                // What comes from this rank itself it also sends.
                if !out && owner == me {
                    return;
                }
                let (sender, receiver) = if out { (block, other) } else { (other, block) };
                let plan = &mut plans.entry(owner).or_default()[usize::from(!out)];
                plan.extend((0..).zip(fields).map(|(nth, field)| Entry {
                    key: Key { sender, receiver, field: nth, element, kind },
                    // A shape has less than 2^31 cells, a field some components: what is too large is refused by the plan.
                    count: u32::try_from(cells * u64::from(field.components)).unwrap_or(u32::MAX),
                    always: field.sparse.is_none(),
                    step,
                }));
            });
        }
    }
    let mut entries = Vec::new();
    let mut add = |mut plan: Vec<Entry>| {
        plan.sort_unstable_by_key(|entry| entry.key);
        let start = entries.len() as u32;
        entries.extend(plan);
        start..entries.len() as u32
    };
    let mut peers = Vec::new();
    let mut within = Vec::new();
    for (rank, [out, into]) in plans {
        if rank == me {
            within = out;
        } else {
            peers.push(Peer::new(rank, add(out), add(into)));
        }
    }
    let channels = within.iter().map(|entry| Channel::new(Role::Local, entry.count)).collect();
    let local = add(within);
    let live = vec![0; peers.iter().map(Peer::words).sum()];
    Storage { peers, entries, channels, live, local }
}

/// A plan as bytes: its fingerprint, how much its sender takes in a slot itself, then its entries.
pub(super) fn image(peer: &Peer, plan: &[Entry]) -> Vec<u8> {
    let mut bytes = vec![0; 12 + plan.len() * Entry::BYTES];
    let mut to = Writer::new(&mut bytes);
    // The length is the sum of what is written.
    let _ = to.u64(peer.fingerprints()[0]);
    let _ = to.u32(peer.slot_bytes());
    for entry in plan {
        let _ = entry.emit(&mut to);
    }
    bytes
}

/// Compares our plan with the image of a rank's: by the fingerprint, and entry by entry if that differs. How much the rank takes in a
/// slot. Of those that share no channel there is no fingerprint, and the image is empty.
pub(super) fn compare(rank: u32, fingerprint: Option<u64>, ours: &[Entry], image: &[u8]) -> Result<u32, Differs> {
    let mut from = Reader::new(image);
    let (theirs, wish) = (from.u64().ok(), from.u32().unwrap_or(0));
    if theirs == fingerprint {
        return Ok(wish);
    }
    let theirs: Vec<Entry> = std::iter::from_fn(|| Entry::parse(&mut from)).collect();
    let (at, ours, theirs) = first_difference(ours, &theirs).unwrap_or((0, None, None));
    Err(Differs { rank, at, ours, theirs })
}

/// Bytes of the largest message that any two ranks of the mesh could send each other, for the extent of a fabric: of all
/// strips of all blocks of the rank that has most, and their list. In a mesh of several levels each block counts as the one that
/// sends most.
#[must_use]
pub fn largest_message(mesh: &impl Mesh, fields: &[Field], ranks: u32) -> u32 {
    let shape = mesh.shape();
    let components: u64 = fields.iter().map(|field| u64::from(field.components)).sum();
    let bytes = |cells: u64, strips: usize| {
        (cells * 8).saturating_mul(components).saturating_add((strips * fields.len() * Entry::BYTES) as u64)
    };
    let level = mesh.level(0);
    let refined = (0..mesh.blocks()).any(|block| mesh.level(block) != level);
    let each = if refined {
        (0..mesh.blocks()).map(|block| between(mesh, &shape, block, bytes)).max().unwrap_or(0)
    } else {
        // The edge of a domain is not looked for: a block can be anywhere.
        let cells = shape.elements().map(|element| shape.send_box(element).cells());
        bytes(cells.sum(), shape.elements().count())
    };
    let mut owned = vec![0u64; ranks as usize];
    for block in 0..mesh.blocks() {
        if let Some(count) = owned.get_mut(mesh.owner(block) as usize) {
            *count += 1;
        }
    }
    let most = owned.into_iter().max().unwrap_or(0);
    u32::try_from(most.saturating_mul(each).saturating_add(16 + 64)).unwrap_or(u32::MAX)
}

/// What a block of several levels sends.
fn between(mesh: &impl Mesh, shape: &Shape, block: u32, bytes: impl Fn(u64, usize) -> u64) -> u64 {
    let (mut cells, mut strips) = (0, 0);
    for element in shape.elements() {
        touches(mesh, shape, block, element, |touch| {
            if touch.out {
                cells += shape.passage(touch.element, touch.step).cells();
                strips += 1;
            }
        });
    }
    bytes(cells, strips)
}
