//! Strips and the arrays that they are packed from and used in.

use std::convert::Infallible;

use umbra_core::boundary::{Entry, Key, Sparse, State};

use super::error::BoundaryError;
use super::fields::{Field, Fields};
use super::rows::{Rows, Strips};
use super::tasks::Boundary;
use super::transport::{Transport, TransportError};

/// Rows up to this length are gathered, because a transport looks its place up for each write and read; and they are set to zero
/// one value after the other.
const SHORT: usize = 32;
/// Values that are gathered.
const CHUNK: usize = 256;

const fn wrong_length(entry: &Entry, block: u32, len: usize, expected: usize) -> BoundaryError {
    BoundaryError::Length { block, field: entry.key.field, len, expected }
}

/// Values of a field's array on a block of so many cells.
#[inline]
pub(super) fn length(cells: usize, fields: &[Field], field: u16) -> usize {
    cells * fields.get(usize::from(field)).map_or(1, |kind| kind.components as usize)
}

/// The sender's array of a channel, if the field is present there.
#[inline]
pub(super) fn array<'v>(
    view: &'v impl Fields,
    cells: usize,
    fields: &[Field],
    entry: &Entry,
) -> Result<Option<&'v [f64]>, BoundaryError> {
    let (block, field) = (entry.key.sender, entry.key.field);
    let expected = length(cells, fields, field);
    match view.values(block, field) {
        Some(values) if values.len() == expected => Ok(Some(values)),
        Some(values) => Err(wrong_length(entry, block, values.len(), expected)),
        None if entry.always => Err(BoundaryError::Absent { block, field }),
        None => Ok(None),
    }
}

/// The sender's array, if the strip of a channel holds something.
#[inline]
pub(super) fn source<'v>(
    view: &'v impl Fields,
    strips: &Strips,
    fields: &[Field],
    entry: &Entry,
) -> Result<Option<&'v [f64]>, BoundaryError> {
    let Some(values) = array(view, strips.cells, fields, entry)? else { return Ok(None) };
    let kind = fields.get(usize::from(entry.key.field)).unwrap_or(&Field::DENSE);
    let Some(sparse) = &kind.sparse else { return Ok(Some(values)) };
    Ok(holds(values, strips.send(entry.key.element), strips.cells, sparse).then_some(values))
}

/// Whether a strip holds something.
fn holds(values: &[f64], rows: &Rows, cells: usize, sparse: &Sparse) -> bool {
    let nothing =
        rows.each(values.len() / cells, cells, |row| if sparse.is_live(&values[row]) { Err(()) } else { Ok(()) });
    nothing.is_err()
}

/// Hands the rows of a strip to `write`, each with the number of values before it.
#[inline]
pub(super) fn pack(
    values: &[f64],
    rows: &Rows,
    cells: usize,
    mut write: impl FnMut(usize, &[f64]) -> Result<(), TransportError>,
) -> Result<(), TransportError> {
    let (components, len) = (values.len() / cells, rows.len());
    if let Some(row) = rows.only(components) {
        return write(0, &values[row]);
    }
    if len > SHORT {
        let mut behind = 0;
        return rows.each(components, cells, |row| {
            write(behind, &values[row])?;
            behind += len;
            Ok(())
        });
    }
    let (mut behind, mut gathered) = (0, 0);
    let mut chunk = [0.0; CHUNK];
    rows.each::<TransportError>(components, cells, |row| {
        if gathered + len > CHUNK {
            write(behind, &chunk[..gathered])?;
            (behind, gathered) = (behind + gathered, 0);
        }
        chunk[gathered..gathered + len].copy_from_slice(&values[row]);
        gathered += len;
        Ok(())
    })?;
    if gathered > 0 { write(behind, &chunk[..gathered]) } else { Ok(()) }
}

/// Hands the rows of a strip out to an array, as `read` gives them: so many values from behind so many.
#[inline]
pub(super) fn unpack(
    values: &mut [f64],
    rows: &Rows,
    cells: usize,
    mut read: impl FnMut(usize, &mut [f64]) -> Result<(), TransportError>,
) -> Result<(), TransportError> {
    let (components, len) = (values.len() / cells, rows.len());
    if let Some(row) = rows.only(components) {
        return read(0, &mut values[row]);
    }
    if len > SHORT {
        let mut behind = 0;
        return rows.each(components, cells, |row| {
            read(behind, &mut values[row])?;
            behind += len;
            Ok(())
        });
    }
    let all = rows.cells() * components;
    let (mut behind, mut used, mut gathered) = (0, 0, 0);
    let mut chunk = [0.0; CHUNK];
    rows.each(components, cells, |row| {
        if used == gathered {
            // Whole rows only; all rows of a strip are of one length.
            gathered = (CHUNK / len * len).min(all - behind);
            read(behind, &mut chunk[..gathered])?;
            (behind, used) = (behind + gathered, 0);
        }
        values[row].copy_from_slice(&chunk[used..used + len]);
        used += len;
        Ok(())
    })
}

/// Makes a field of this rank present where something of it came, as an array of so many values.
pub(super) fn make(view: &mut impl Fields, rank: u32, key: Key, expected: usize) -> Result<(), BoundaryError> {
    let (block, field) = (key.receiver, key.field);
    // By the values themselves: who makes a field present that is there loses what it holds.
    let len = match view.values(block, field).map(<[f64]>::len) {
        Some(len) => len,
        None => {
            view.allocate(block, field).map_err(|what| BoundaryError::NoMemory { rank, what })?;
            view.values(block, field).ok_or(BoundaryError::NotMade { block, field })?.len()
        }
    };
    // One that was put right by being absent would have nothing of what comes after this.
    if len == expected { Ok(()) } else { Err(BoundaryError::Length { block, field, len, expected }) }
}

/// The array that a channel's strip belongs into, if the field is present there.
#[inline]
pub(super) fn target<'v>(
    view: &'v mut impl Fields,
    strips: &Strips,
    fields: &[Field],
    entry: &Entry,
) -> Result<Option<&'v mut [f64]>, BoundaryError> {
    let (block, field) = (entry.key.receiver, entry.key.field);
    match view.values_mut(block, field) {
        Some(values) => {
            let expected = length(strips.cells, fields, field);
            if values.len() == expected {
                Ok(Some(values))
            } else {
                Err(wrong_length(entry, block, values.len(), expected))
            }
        }
        None if entry.always => Err(BoundaryError::Absent { block, field }),
        None => Ok(None),
    }
}

/// Sets values to the default of their field.
#[inline]
pub(super) fn fill(values: &mut [f64], default: f64) {
    if default.to_bits() == 0 && values.len() > SHORT { clear(values) } else { values.fill(default) }
}

/// Sets values to zero, by the fastest means that the library has.
// Not inlined: with both cases in one function the compiler makes one loop of them, which reads each line before it writes it.
#[inline(never)]
fn clear(values: &mut [f64]) {
    values.fill(0.0);
}

impl<T: Transport> Boundary<T> {
    /// Fills ghosts with the default: what a null stands for.
    fn fill(&self, values: &mut [f64], entry: &Entry) {
        let kind = &self.fields[usize::from(entry.key.field)];
        let (rows, cells, default) = (self.strips.receive(entry.key.element), self.strips.cells, kind.default_value());
        let Ok(()) = rows.each::<Infallible>(kind.components as usize, cells, |row| {
            fill(&mut values[row], default);
            Ok(())
        });
    }

    /// Sets the ghosts of all channels from other ranks.
    pub(super) fn set_nonlocal(&mut self, view: &mut impl Fields) -> Result<(), BoundaryError> {
        let slot = self.machine.sequence() % self.machine.config().slots;
        let peers = self.machine.peers().len();
        for nth in 0..peers {
            let peer = if self.settings.reversed { peers - 1 - nth } else { nth };
            if self.machine.is_released(peer) {
                // Before a call failed.
                continue;
            }
            let from = self.machine.peers()[peer].rank();
            let mut channels = self.machine.unpack(peer)?;
            while let Some((entry, place)) = channels.payload() {
                // Receiving made the field present where something came.
                let Some(values) = target(view, &self.strips, &self.fields, entry)? else { continue };
                if entry.step.crosses() {
                    let strip = &mut self.between[..entry.count as usize];
                    self.transport.read(from, slot, place, 0, strip)?;
                    self.levels.unpack(&self.fields, entry, Some(strip), values)?;
                    continue;
                }
                let rows = self.strips.receive(entry.key.element);
                unpack(values, rows, self.strips.cells, |behind, row| {
                    self.transport.read(from, slot, place, behind, row)
                })?;
            }
            while let Some(entry) = channels.null(|Entry { key, .. }| view.is_present(key.receiver, key.field)) {
                let Some(values) = target(view, &self.strips, &self.fields, entry)? else { continue };
                if entry.step.crosses() {
                    self.levels.unpack(&self.fields, entry, None, values)?;
                } else {
                    self.fill(values, entry);
                }
            }
            self.machine.release(peer)?;
            // The next message in this slot is of the exchange after the next one, and its sender knows the slot as it is
            // now from the message of the next.
            self.transport.taken(from, slot, self.machine.peers()[peer].slot_bytes())?;
        }
        Ok(())
    }

    /// Sets the ghosts of all channels within this rank, straight from the sender's array.
    pub(super) fn set_local(&mut self, view: &mut impl Fields) -> Result<(), BoundaryError> {
        let count = self.machine.local().0.len();
        for nth in 0..count {
            let nth = if self.settings.reversed { count - 1 - nth } else { nth };
            let (_, entries, channels) = self.machine.local();
            let (entry, state) = (entries[nth], channels[nth].state());
            if state == State::Stale {
                // It was set before a call failed.
                continue;
            }
            let live = state == State::Received;
            if entry.step.crosses() {
                self.pass(view, nth, live)?;
            } else if live {
                self.copy(view, &entry)?;
            } else if let Some(values) = target(view, &self.strips, &self.fields, &entry)? {
                self.fill(values, &entry);
            }
            // Only now: what could not be set is set by the next call.
            let channel = &mut self.machine.local().2[nth];
            channel.stale().map_err(|refusal| BoundaryError::Channel { key: entry.key, refusal })?;
        }
        Ok(())
    }

    /// From the interior of one block into the ghosts of another, or of the same. The view lends one array at a time.
    fn copy(&mut self, view: &mut impl Fields, entry: &Entry) -> Result<(), BoundaryError> {
        let (block, field, element) = (entry.key.sender, entry.key.field, entry.key.element);
        let (cells, between) = (self.strips.cells, &mut self.between);
        // It may be another one than when it was sent.
        let values = array(view, cells, &self.fields, entry)?.ok_or(BoundaryError::Absent { block, field })?;
        pack(values, self.strips.send(element), cells, |behind, row| {
            between[behind..behind + row.len()].copy_from_slice(row);
            Ok(())
        })?;
        let Some(values) = target(view, &self.strips, &self.fields, entry)? else { return Ok(()) };
        unpack(values, self.strips.receive(element), cells, |behind, row| {
            row.copy_from_slice(&between[behind..behind + row.len()]);
            Ok(())
        })?;
        Ok(())
    }
}
