//! What there is room for at a member of a crowd, as its process is told.

/// What there is room for at a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Calls at once.
    pub calls: u16,
    /// Classes of calls by depth; none: places for all.
    pub classes: u8,
    /// Bytes of a call.
    pub call_bytes: usize,
    /// The longest header.
    pub header_max: u16,
    /// Own calls at once.
    pub open_max: u16,
    /// Whether it lacks [`RARE`](super::RARE).
    pub lacks: bool,
    /// How many members of the next numbers live with it, besides itself.
    pub houses: u16,
    /// After how many milliseconds without a sign of life a child counts as dead, for which it is asked a hundred times in them;
    /// 0: never.
    pub silence: u16,
}

impl Room {
    /// Enough for most.
    pub const USUAL: Room = Room {
        calls: 64,
        classes: 0,
        call_bytes: 24 << 10,
        header_max: 1024,
        open_max: 32,
        lacks: false,
        houses: 0,
        silence: 0,
    };

    /// As arguments of a program.
    #[must_use]
    pub fn to_arguments(self) -> [String; 8] {
        let Room { calls, classes, call_bytes, header_max, open_max, lacks, houses, silence } = self;
        let (lacks, silence) = (lacks.into(), silence.into());
        [calls.into(), classes.into(), call_bytes, header_max.into(), open_max.into(), lacks, houses.into(), silence]
            .map(|number: usize| number.to_string())
    }

    /// From them.
    #[must_use]
    pub fn of(arguments: &[String]) -> Option<Room> {
        let numbers: Vec<usize> = arguments.iter().map_while(|argument| argument.parse().ok()).collect();
        let &[calls, classes, call_bytes, header_max, open_max, lacks, houses, silence] = numbers.as_slice() else {
            return None;
        };
        Some(Room {
            calls: calls.try_into().ok()?,
            classes: classes.try_into().ok()?,
            call_bytes,
            header_max: header_max.try_into().ok()?,
            open_max: open_max.try_into().ok()?,
            lacks: lacks != 0,
            houses: houses.try_into().ok()?,
            silence: silence.try_into().ok()?,
        })
    }
}
