//! Who sends a message to whom, in the header by which inboxes carry it.

use umbra_core::chain::{Life, Node};
use umbra_core::channel::Header;

/// Who says that he sent a message, and in which life.
pub(super) const fn sender(header: &Header) -> (Node, Life) {
    (Node(header.sender as u32), Life((header.sender >> 32) as u32))
}

/// For whom it is, and for which life of his; zero: whoever is the first to sit there.
pub(super) const fn receiver(header: &Header) -> (Node, Life) {
    (Node((header.hints >> 32) as u32), Life(header.hints as u32))
}

/// What an inbox is told of a message.
pub(super) fn header((from, life): (Node, Life), (to, meant): (Node, Life)) -> Header {
    let word = |node: u32, life: u32| u64::from(life) << 32 | u64::from(node);
    Header { hints: word(meant.0, to.0), sender: word(from.0, life.0), ..Header::default() }
}

/// That of an answer to a message.
pub(super) fn turned(message: &Header) -> Header {
    Header { hints: message.sender.rotate_left(32), sender: message.hints.rotate_left(32), ..*message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_goes_back_to_where_its_message_came_from() {
        let (from, to) = ((Node(1), Life(2)), (Node(3), Life(4)));
        let message = header(from, to);
        assert_eq!((sender(&message), receiver(&message)), (from, to));
        assert_eq!(turned(&message), header(to, from));
    }
}
