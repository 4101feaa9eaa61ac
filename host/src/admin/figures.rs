//! The figures of an agent that a display shows again and again.
//!
//! They are a few numbers in a fixed order, so that those of many agents fit into the answer to one call.

use umbra_core::codec::{Reader, Short};

use super::Body;

macro_rules! figures {
    ($($(#[doc = $about:literal])* $name:ident,)*) => {
        /// What an agent is and has done since it began.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Figures {
            $($(#[doc = $about])* pub $name: u64,)*
        }

        impl Body for Figures {
            fn put(&self, out: &mut Vec<u8>) {
                [$(self.$name),*].iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
            }

            fn get(r: &mut Reader<'_>) -> Result<Figures, Short> {
                Ok(Figures { $($name: r.u64()?,)* })
            }
        }
    };
}

figures! {
    /// Milliseconds since this life of it began.
    uptime_ms,
    /// Ranks that are connected.
    ranks,
    /// Links to ranks, other agents and tools.
    links,
    /// Groups that it knows.
    groups,
    /// Those of them that became full.
    groups_full,
    /// Reads that it made, also for ranks.
    reads,
    /// Their bytes.
    read_bytes,
    /// Reads of others that it served.
    served,
    /// Their bytes.
    served_bytes,
    /// Messages of chained calls that went to or came from other agents.
    call_messages,
    /// Times that its links woke it.
    wakeups,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_back_and_half_of_them_do_not() {
        let figures = Figures { uptime_ms: 1, ranks: 2, wakeups: u64::MAX, ..Figures::default() };
        let body = figures.to_body();
        assert_eq!(Figures::from_body(&body), Ok(figures));
        assert_eq!(Figures::from_body(&body[..body.len() - 1]), Err(Short));
        assert_eq!(Figures::from_body(&[body, vec![0]].concat()), Err(Short));
    }
}
