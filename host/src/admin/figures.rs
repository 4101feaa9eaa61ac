//! The figures of an agent that a display shows again and again.
//!
//! They are a few numbers in a fixed order, so that those of many agents fit into the answer to one call.

use umbra_core::codec::{Reader, Short};

use super::Body;

macro_rules! figures {
    ($($(#[doc = $about:literal])* $name:ident: $with:path,)*) => {
        /// What an agent is and has done since it began.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Figures {
            $($(#[doc = $about])* pub $name: u64,)*
        }

        impl Figures {
            /// What the figures are called, in their order.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];
            /// Bytes of them in a body.
            pub const BYTES: usize = Figures::NAMES.len() * size_of::<u64>();

            /// The figures, in their order.
            #[must_use]
            pub const fn words(&self) -> [u64; Figures::NAMES.len()] {
                [$(self.$name),*]
            }

            /// Those of two agents together: the sum, but of the time and of groups, which agents share, the larger number.
            #[must_use]
            pub fn with(&self, other: &Figures) -> Figures {
                Figures { $($name: $with(self.$name, other.$name),)* }
            }
        }

        impl Body for Figures {
            fn put(&self, out: &mut Vec<u8>) {
                self.words().iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
            }

            fn get(r: &mut Reader<'_>) -> Result<Figures, Short> {
                Ok(Figures { $($name: r.u64()?,)* })
            }
        }
    };
}

figures! {
    /// Milliseconds since this life of it began.
    uptime_ms: Ord::max,
    /// Ranks that are connected.
    ranks: u64::saturating_add,
    /// Links to ranks, other agents and tools.
    links: u64::saturating_add,
    /// Groups that it knows.
    groups: Ord::max,
    /// Those of them that became full.
    groups_full: Ord::max,
    /// Reads that it made, also for ranks.
    reads: u64::saturating_add,
    /// Their bytes.
    read_bytes: u64::saturating_add,
    /// Reads of others that it served.
    served: u64::saturating_add,
    /// Their bytes.
    served_bytes: u64::saturating_add,
    /// Messages of chained calls that went to or came from other agents.
    call_messages: u64::saturating_add,
    /// Times that its links woke it.
    wakeups: u64::saturating_add,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_back_and_half_of_them_do_not() {
        let figures = Figures { uptime_ms: 1, ranks: 2, wakeups: u64::MAX, ..Figures::default() };
        let body = figures.to_body();
        assert_eq!((Figures::from_body(&body), body.len()), (Ok(figures), Figures::BYTES));
        assert_eq!(Figures::from_body(&body[..body.len() - 1]), Err(Short));
        assert_eq!(Figures::from_body(&[body, vec![0]].concat()), Err(Short));
    }
}
