//! Where data of messages lies, as they name it: said anew, and believed or not.

use umbra_core::chain::{Life, Node, peek_reply, set_carried};
use umbra_core::key::{Key, Span};

use super::offer::is_reply_of;
use super::station::{Seat, Station};

/// Where a reply lies that is not laid out: nowhere.
pub(super) const NOWHERE: Key = Key::from_bits(u64::MAX);

/// Says where the data lies that a message carries; the length stays.
pub(super) fn rename(message: &mut [u8], span: Span) {
    let is_named = set_carried(message, span);
    debug_assert!(is_named, "whoever does this has looked at it");
}

/// A message that came from a member of a place, in this life: if it answers with what others have laid out, or an earlier life has,
/// it has no reply.
pub(super) fn vouch(station: &Station, from: Node, life: Life, message: &mut [u8]) {
    if let Some(carried) = peek_reply(message)
        && let Ok(sitter) = station.seat(from).map(Seat::sitter)
        // Whoever sits here, or has. Of those elsewhere the border has seen to it.
        && station.shape().is_here(from)
        && sitter.life != Life(0)
        && (sitter.life != life || !is_reply_of(carried.span.key, sitter.home))
    {
        rename(message, Span { key: NOWHERE, ..carried.span });
    }
}

#[cfg(test)]
pub(super) mod tests {
    use umbra_core::chain::{RESPONSE, VERSION};
    use umbra_core::peer::{Peer, WorldRank};

    use super::super::offer::OFFERS;
    use super::super::{Member, Shape};
    use super::*;

    /// An answer that says that its reply lies there.
    pub(in super::super) fn answer_about(span: Span) -> Vec<u8> {
        let mut message = vec![0; RESPONSE];
        (message[0], message[1], message[2], message[28], message[36]) = (VERSION, 2, 64, 24, 1);
        [span.key.to_bits(), span.offset, span.len].iter().for_each(|word| message.extend(word.to_le_bytes()));
        assert!(peek_reply(&message).is_some_and(|said| said.span == span));
        message
    }

    #[test]
    fn nobody_answers_with_what_others_have_laid_out() {
        const OFFERED: u32 = 1 << 16;
        let station = Station::create("named", Shape { offer_bytes: 4096, ..Shape::new(2) }).unwrap();
        let members = [0, 1].map(|node| Member::join(&station, Node(node)).unwrap());
        let life = |at: usize| members[at].machine.config().life;
        let named = |owner: u32| {
            let region = if owner & OFFERED == 0 { OFFERS as u32 } else { 0 };
            let key = Key::new(Peer::rank(WorldRank(owner & !OFFERED)).unwrap(), region, 0);
            answer_about(Span { key, offset: 0, len: 8 })
        };
        for (owner, from, life, is_its_own) in [
            (1, Node(1), life(1), true),
            (0, Node(1), life(1), false),
            (1, Node(0), life(0), false),
            // What an earlier life has laid out is gone.
            (1, Node(1), Life(life(1).0 - 1), false),
            // What it offers to anybody is no reply.
            (1 | OFFERED, Node(1), life(1), false),
        ] {
            let mut message = named(owner);
            vouch(&station, from, life, &mut message);
            assert_eq!(message == named(owner), is_its_own, "{owner} of {from}");
            let key = peek_reply(&message).unwrap().span.key;
            assert_eq!(key == NOWHERE, !is_its_own);
        }
    }
}
