//! How members, trees, numbers and failures of a call are written as arguments.

use std::fmt;
use std::str::FromStr;

use umbra::call::probe::Fault;
use umbra::call::{self, Member, Number, Operator, Station, reduction};
use umbra_core::chain::Node;
use umbra_core::tree;
use umbra_core::tree::explicit::{BadTree, ROOT};

/// More members than can meet.
const MEMBERS_MAX: usize = 1024;

/// A list of members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Members(pub(super) Vec<Node>);

/// Reads a list such as `0-7,12`.
pub(super) fn members(text: &str) -> Result<Members, String> {
    let mut members = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let wrong = |_| format!("`{part}` names no members: write numbers and ranges FIRST-LAST, such as 0-7,9");
        let number = |text: &str| text.parse::<u32>().map_err(wrong);
        let (first, last) = (number(first)?, number(last)?);
        if last < first || members.len() + (last - first) as usize >= MEMBERS_MAX {
            return Err(format!("`{part}` is no list of at most {MEMBERS_MAX} members: write FIRST-LAST"));
        }
        members.extend((first..=last).map(Node));
    }
    Ok(Members(members))
}

/// Whether members are in more places than one.
pub(super) fn are_far(station: call::Shape, members: &[Node]) -> bool {
    let mut places = members.iter().map(|&node| station.place(node));
    places.next().is_some_and(|first| places.any(|place| place != first))
}

/// The shape of a tree over the members; whoever makes the call stands above its root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    shape: tree::Shape,
    /// It is chosen for the call.
    is_auto: bool,
}

impl Shape {
    /// This one, or the one that suits a call of so many bytes over these members, as `Plan::Auto` has it.
    pub(super) fn suited(self, own: &Member, members: &[Node], bytes: usize) -> Shape {
        if !self.is_auto {
            return self;
        }
        let station = own.station().shape();
        let far = are_far(station, members);
        let below = if far { station.places() as usize } else { members.len() }.saturating_sub(1);
        let together = !far && own.live_together(members);
        Shape { shape: tree::auto::shape(below as u32, bytes, together), ..self }
    }

    /// The parents of all positions: the one who makes the call, then the members. If they are in more places than one, each
    /// place has a leader, and the tree is that of the leaders.
    pub(super) fn parents(self, station: &Station, members: &[Node]) -> Result<Vec<u32>, BadTree> {
        if are_far(station.shape(), members) {
            return Ok(call::below(&station.parents(members, self.shape)?));
        }
        Ok(self.near(members.len()))
    }

    fn near(self, members: usize) -> Vec<u32> {
        let mut parents = vec![ROOT; members + 1];
        // Nobody is left if all are dead.
        let mut due = if members == 0 { Vec::new() } else { vec![(0, 1, members as u32)] };
        while let Some((parent, at, len)) = due.pop() {
            if let Some(place) = parents.get_mut(at as usize) {
                *place = parent;
            }
            due.extend(self.shape.split(len).map(|piece| (at, at + piece.start, piece.len)));
        }
        parents
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let counted = |count: &str, of: fn(u8) -> Option<tree::Shape>| {
            let shape = count.parse().ok().and_then(of);
            shape.ok_or_else(|| format!("`{count}` is not how many children a member can have"))
        };
        let shape = match text.split_once(':') {
            Some(("kary", count)) => counted(count, tree::Shape::kary)?,
            Some(("knomial", count)) => counted(count, tree::Shape::knomial)?,
            None if text == "binary" => tree::Shape::BINARY,
            None if text == "binomial" => tree::Shape::BINOMIAL,
            None if text == "flat" => tree::Shape::FLAT,
            None if text == "chain" => tree::Shape::CHAIN,
            None if text == "auto" => return Ok(Shape { shape: tree::Shape::BINARY, is_auto: true }),
            _ => return Err("name auto, binary, binomial, flat, chain, kary:K or knomial:K".to_owned()),
        };
        Ok(Shape { shape, is_auto: false })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_auto {
            f.write_str("automatic ")?;
        }
        match self.shape {
            tree::Shape::BINARY => f.write_str("binary"),
            tree::Shape::BINOMIAL => f.write_str("binomial"),
            tree::Shape::FLAT => f.write_str("flat"),
            tree::Shape::CHAIN => f.write_str("chain"),
            other => match other.to_bytes() {
                [0, children] => write!(f, "kary:{children}"),
                [_, base] => write!(f, "knomial:{base}"),
            },
        }
    }
}

/// What becomes of numbers, and what they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Numbers(Operator, Number);

impl Numbers {
    pub(super) const fn header(self) -> [u8; 2] {
        reduction(self.0, self.1)
    }

    /// Numbers as text.
    pub(super) fn list(self, data: &[u8]) -> String {
        let words = |text: fn(&[u8]) -> Option<String>| -> Vec<String> {
            data.chunks_exact(self.1.bytes()).filter_map(text).collect()
        };
        macro_rules! as_text {
            ($number:ty) => {
                words(|bytes| Some(<$number>::from_le_bytes(bytes.try_into().ok()?).to_string()))
            };
        }
        let words = match self.1 {
            Number::U64 => as_text!(u64),
            Number::I64 => as_text!(i64),
            Number::F64 => as_text!(f64),
            Number::U32 => as_text!(u32),
            Number::I32 => as_text!(i32),
            Number::F32 => as_text!(f32),
        };
        if words.is_empty() { "nobody has a value".to_owned() } else { words.join(" ") }
    }
}

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Numbers, String> {
        let (operator, number) = text.split_once(':').ok_or("write OP:TYPE, such as sum:u64")?;
        let operator = match operator {
            "sum" => Operator::Sum,
            "min" => Operator::Min,
            "max" => Operator::Max,
            "and" => Operator::And,
            "or" => Operator::Or,
            _ => return Err(format!("`{operator}` is none of sum, min, max, and, or")),
        };
        let number = match number {
            "u64" => Number::U64,
            "i64" => Number::I64,
            "f64" => Number::F64,
            "u32" => Number::U32,
            "i32" => Number::I32,
            "f32" => Number::F32,
            _ => return Err(format!("`{number}` is none of u64, i64, f64, u32, i32, f32")),
        };
        Ok(Numbers(operator, number))
    }
}

/// Where a member fails on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) node: Node,
    pub(super) fault: Fault,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let (node, fault) = text.split_once('@').ok_or("write MEMBER@func, MEMBER@callback or MEMBER@hang")?;
        let node = node.parse().map(Node).map_err(|_| format!("`{node}` is not the number of a member"))?;
        let fault = match fault {
            "func" => Fault::Func,
            "callback" => Fault::Callback,
            "hang" => Fault::Hang,
            _ => return Err(format!("`{fault}` is none of func, callback, hang")),
        };
        Ok(Place { node, fault })
    }
}

/// Bytes as text if they are some, else as hexadecimal digits.
pub(super) fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_numbers_and_ranges() {
        assert_eq!(members("0-2,7").unwrap().0, [0, 1, 2, 7].map(Node));
        for wrong in ["", "3-1", "a", "1-", "0-1024", "0-4294967295"] {
            assert!(members(wrong).is_err(), "{wrong}");
        }
        assert!(members("2,0-").unwrap_err().starts_with("`0-` names no members"));
    }

    #[test]
    fn whoever_makes_the_call_stands_above_the_root() {
        let shape = |text: &str| text.parse::<Shape>().unwrap();
        assert_eq!(shape("chain").near(3), [ROOT, 0, 1, 2]);
        assert_eq!(shape("flat").near(3), [ROOT, 0, 1, 1]);
        assert_eq!(shape("binary").near(0), [ROOT]);
        assert_eq!(shape("auto").to_string(), "automatic binary");
        for text in ["binary", "binomial", "flat", "chain", "kary:3", "knomial:4"] {
            assert_eq!(shape(text).to_string(), text);
        }
        let binary = shape("binary").near(7);
        assert_eq!((1..=7).map(|at| binary.iter().filter(|&&parent| parent == at).count()).max(), Some(2));
        assert!("kary:0".parse::<Shape>().is_err() && "bush".parse::<Shape>().is_err());
    }

    #[test]
    fn failures_and_numbers_are_named() {
        assert_eq!("5@func".parse(), Ok(Place { node: Node(5), fault: Fault::Func }));
        assert!(
            "5".parse::<Place>().is_err() && "x@func".parse::<Place>().is_err() && "5@lunch".parse::<Place>().is_err()
        );
        let numbers: Numbers = "max:i32".parse().unwrap();
        assert_eq!(numbers.list(&[(-3_i32).to_le_bytes(), 4_i32.to_le_bytes()].concat()), "-3 4");
        assert_eq!(readable(b"\x00\xff"), "00ff");
    }
}
