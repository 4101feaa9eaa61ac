//! Strips and the arrays that they are packed from and used in.

use umbra_core::boundary::{Entry, Region, Shape, State};

use super::error::BoundaryError;
use super::fields::{Field, Fields};
use super::tasks::Boundary;
use super::transport::{Transport, TransportError};

/// Rows up to this length are gathered, because a transport looks its place up for each write and read.
const SHORT: usize = 32;
/// Values that are gathered.
const CHUNK: usize = 256;

/// The rows of a region, component after component, as ranges of an array.
fn rows(shape: &Shape, region: Region, components: usize) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
    let (extents, cells, len) = (shape.extents(), shape.len(), region.len[0] as usize);
    (0..components).flat_map(move |component| {
        region.rows(extents).map(move |start| component * cells + start..component * cells + start + len)
    })
}

const fn wrong_length(entry: &Entry, block: u32, len: usize, expected: usize) -> BoundaryError {
    BoundaryError::Length { block, field: entry.key.field, len, expected }
}

/// Whether the strip of a channel holds something.
pub(super) fn is_live(
    view: &impl Fields,
    shape: &Shape,
    fields: &[Field],
    entry: &Entry,
) -> Result<bool, BoundaryError> {
    let (block, field) = (entry.key.sender, entry.key.field);
    let kind = fields.get(usize::from(field)).copied().unwrap_or(Field::DENSE);
    let Some(values) = view.values(block, field) else {
        return if entry.always { Err(BoundaryError::Absent { block, field }) } else { Ok(false) };
    };
    let expected = shape.len() * kind.components as usize;
    if values.len() != expected {
        return Err(wrong_length(entry, block, values.len(), expected));
    }
    let Some(sparse) = kind.sparse else { return Ok(true) };
    let region = shape.send_box(entry.key.element);
    Ok(rows(shape, region, kind.components as usize).any(|row| sparse.is_live(&values[row])))
}

/// Hands the rows of a strip to `write`, each with the number of values before it.
pub(super) fn pack(
    view: &impl Fields,
    shape: &Shape,
    entry: &Entry,
    mut write: impl FnMut(usize, &[f64]) -> Result<(), TransportError>,
) -> Result<(), BoundaryError> {
    let (block, field) = (entry.key.sender, entry.key.field);
    let values = view.values(block, field).ok_or(BoundaryError::Absent { block, field })?;
    let region = shape.send_box(entry.key.element);
    let components = values.len() / shape.len();
    let (mut behind, mut gathered) = (0, 0);
    let mut chunk = [0.0; CHUNK];
    for row in rows(shape, region, components) {
        let len = row.len();
        if len > SHORT {
            write(behind, &values[row])?;
            behind += len;
            continue;
        }
        if gathered + len > CHUNK {
            write(behind, &chunk[..gathered])?;
            (behind, gathered) = (behind + gathered, 0);
        }
        chunk[gathered..gathered + len].copy_from_slice(&values[row]);
        gathered += len;
    }
    if gathered > 0 { Ok(write(behind, &chunk[..gathered])?) } else { Ok(()) }
}

/// Hands the rows of a strip out to an array, as `read` gives them: so many values from behind so many.
fn unpack(
    values: &mut [f64],
    shape: &Shape,
    region: Region,
    mut read: impl FnMut(usize, &mut [f64]) -> Result<(), TransportError>,
) -> Result<(), TransportError> {
    let components = values.len() / shape.len();
    let all = region.cells() as usize * components;
    let (mut behind, mut used, mut gathered) = (0, 0, 0);
    let mut chunk = [0.0; CHUNK];
    for row in rows(shape, region, components) {
        let len = row.len();
        if len > SHORT {
            read(behind, &mut values[row])?;
            behind += len;
            continue;
        }
        if used == gathered {
            // Whole rows only; all rows of a strip are of one length.
            gathered = (CHUNK / len * len).min(all - behind);
            read(behind, &mut chunk[..gathered])?;
            (behind, used) = (behind + gathered, 0);
        }
        values[row].copy_from_slice(&chunk[used..used + len]);
        used += len;
    }
    Ok(())
}

/// The array that a channel's strip belongs into, if the field is present there.
fn target<'v>(
    view: &'v mut impl Fields,
    shape: &Shape,
    fields: &[Field],
    entry: &Entry,
) -> Result<Option<&'v mut [f64]>, BoundaryError> {
    let (block, field) = (entry.key.receiver, entry.key.field);
    let components = fields.get(usize::from(field)).map_or(1, |kind| kind.components as usize);
    let expected = shape.len() * components;
    match view.values_mut(block, field) {
        Some(values) if values.len() != expected => Err(wrong_length(entry, block, values.len(), expected)),
        Some(values) => Ok(Some(values)),
        None if entry.always => Err(BoundaryError::Absent { block, field }),
        None => Ok(None),
    }
}

impl<T: Transport> Boundary<T> {
    /// Fills ghosts with the default: what a null stands for.
    fn fill(&self, view: &mut impl Fields, entry: &Entry) -> Result<(), BoundaryError> {
        let Some(values) = target(view, &self.shape, &self.fields, entry)? else { return Ok(()) };
        let kind = self.fields[usize::from(entry.key.field)];
        let region = self.shape.receive_box(entry.key.element.opposite());
        for row in rows(&self.shape, region, kind.components as usize) {
            values[row].fill(kind.default_value());
        }
        Ok(())
    }

    /// Sets the ghosts of all channels from other ranks.
    pub(super) fn set_nonlocal(&mut self, view: &mut impl Fields, reversed: bool) -> Result<(), BoundaryError> {
        let slot = self.machine.sequence() % self.machine.config().slots;
        let peers = self.machine.peers().len();
        for nth in 0..peers {
            let peer = if reversed { peers - 1 - nth } else { nth };
            let from = self.machine.peers()[peer].rank();
            for (_, entry, place) in self.machine.strips(peer)? {
                let Some(place) = place else {
                    self.fill(view, &entry)?;
                    continue;
                };
                // Receiving made the field present.
                let Some(values) = target(view, &self.shape, &self.fields, &entry)? else { continue };
                let region = self.shape.receive_box(entry.key.element.opposite());
                unpack(values, &self.shape, region, |behind, row| self.transport.read(from, slot, place, behind, row))?;
            }
            self.machine.release(peer)?;
            // The next message in this slot is of the exchange after the next one, and its sender knows the slot as it is
            // now from the message of the next.
            self.transport.taken(from, slot, self.machine.peers()[peer].slot_bytes())?;
        }
        Ok(())
    }

    /// Sets the ghosts of all channels within this rank, straight from the sender's array.
    pub(super) fn set_local(&mut self, view: &mut impl Fields, reversed: bool) -> Result<(), BoundaryError> {
        let count = self.machine.local().0.len();
        for nth in 0..count {
            let nth = if reversed { count - 1 - nth } else { nth };
            let (_, entries, channels) = self.machine.local();
            let (entry, live) = (entries[nth], channels[nth].state() == State::Received);
            channels[nth].stale().map_err(|refusal| BoundaryError::Channel { key: entry.key, refusal })?;
            if live {
                self.copy(view, &entry)?;
            } else {
                self.fill(view, &entry)?;
            }
        }
        Ok(())
    }

    /// From the interior of one block into the ghosts of another, or of the same; a row at a time.
    fn copy(&mut self, view: &mut impl Fields, entry: &Entry) -> Result<(), BoundaryError> {
        let (shape, element) = (self.shape, entry.key.element);
        let components = self.fields[usize::from(entry.key.field)].components as usize;
        let from = rows(&shape, shape.send_box(element), components);
        let to = rows(&shape, shape.receive_box(element.opposite()), components);
        let (block, field) = (entry.key.sender, entry.key.field);
        for (from, to) in from.zip(to) {
            let values = view.values(block, field).ok_or(BoundaryError::Absent { block, field })?;
            let between = &mut self.row[..from.len()];
            between.copy_from_slice(&values[from]);
            if let Some(values) = target(view, &shape, &self.fields, entry)? {
                values[to].copy_from_slice(between);
            }
        }
        Ok(())
    }
}
