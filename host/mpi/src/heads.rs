//! How long a message is by its own head, beside how much of it came.
//!
//! MPI takes a message that is shorter than the memory for it, and what was there before stays behind its end.

use umbra::boundary::TransportError;
use umbra_core::boundary::{HEAD, Head, HeadError, Live, bitmap_bytes};

use crate::raw::{Buffer, Came};

/// Copies the head of a message that was received into `buffer`, and returns how many bytes came.
///
/// # Errors
/// [`TransportError::MessageSize`] if more came than the `room` for it.
pub(crate) fn copy(
    rank: u32,
    came: Option<Came>,
    buffer: &Buffer,
    room: usize,
    head: &mut [u8],
) -> Result<usize, TransportError> {
    let longer = TransportError::MessageSize { rank, bytes: room as u64, came: None };
    let Some(Came::Bytes(came)) = came else { return Err(longer) };
    // Behind the end of a short message is nothing: not what lay there before.
    head.fill(0);
    let words = buffer.words().unwrap_or(&[]);
    for (to, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(words).take(came / 8) {
        *to = word.to_ne_bytes();
    }
    Ok(came)
}

/// A head, its bits, and the bytes of both, if it is one: the exchange refuses and counts what is none.
///
/// # Errors
/// [`TransportError::MessageSize`] if it ends before the head does, which may have `most` bytes.
pub(crate) fn inspect(
    rank: u32,
    head: &[u8],
    came: usize,
    most: usize,
) -> Result<Option<(Head, Live<'_>, usize)>, TransportError> {
    match Head::parse(&head[..came.min(head.len())]) {
        Ok((head, live)) => {
            let bits = if let Live::Some(bits) = live { bits.len() } else { 0 };
            Ok(Some((head, live, HEAD + bits)))
        }
        Err(HeadError::Short) => same(rank, most, came).map(|()| None),
        Err(_) => Ok(None),
    }
}

/// Copies the head of a message that came into a slot, and compares what came with what it says; the head, if it is one.
///
/// # Errors
/// [`TransportError::MessageSize`] if more came than the `room` for it, or another number of bytes than the head says, which may
/// have `most` itself.
pub(crate) fn in_slot(
    rank: u32,
    came: Option<Came>,
    (buffer, room): (&Buffer, usize),
    head: &mut [u8],
    most: usize,
) -> Result<Option<Head>, TransportError> {
    let came = copy(rank, came, buffer, room, head)?;
    let Some((head, _, len)) = inspect(rank, head, came, most)? else { return Ok(None) };
    let (in_slot, first) = (head.payload - u64::from(head.overflow), HEAD + bitmap_bytes(head.channels));
    let in_slot = usize::try_from(in_slot).unwrap_or(usize::MAX);
    same(rank, if in_slot > 0 { first.saturating_add(in_slot) } else { len }, came)?;
    Ok(Some(head))
}

/// Whether as many bytes came as should have.
///
/// # Errors
/// [`TransportError::MessageSize`].
pub(crate) fn same(rank: u32, bytes: usize, came: usize) -> Result<(), TransportError> {
    let (bytes, came) = (bytes as u64, came as u64);
    if bytes == came { Ok(()) } else { Err(TransportError::MessageSize { rank, bytes, came: Some(came) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = HEAD + 8;

    fn of(channels: u32, live: usize) -> ([u8; MOST], usize) {
        let mut bytes = [0; MOST];
        bytes[HEAD] = 1;
        let head = Head { channels, ..Head::default() };
        let len = head.emit(live, &mut bytes).unwrap_or(0);
        (bytes, len)
    }

    #[test]
    fn a_head_that_ends_too_early_names_its_rank_and_one_that_is_damaged_is_for_the_exchange() {
        let (mut bytes, len) = of(9, 1);
        assert_eq!(len, MOST);
        for came in 0..len {
            let short = TransportError::MessageSize { rank: 7, bytes: MOST as u64, came: Some(came as u64) };
            assert_eq!(inspect(7, &bytes, came, MOST), Err(short), "{came}");
        }
        let whole = inspect(7, &bytes, len, MOST);
        assert!(matches!(whole, Ok(Some((Head { channels: 9, .. }, Live::Some(_), MOST)))), "{whole:?}");
        bytes[8] ^= 1;
        assert_eq!(inspect(7, &bytes, len, MOST), Ok(None));
        let (bytes, len) = of(9, 9);
        assert!(matches!(inspect(7, &bytes, len, MOST), Ok(Some((_, Live::All, HEAD)))));
    }
}
