//! A Hilbert curve through a grid of any extents.
//!
//! A box is cut into two to five smaller ones, which the curve passes one after the other, and so on; where the
//! number says which of them, the others need not be looked at. Each step goes to a neighbour if all extents are
//! even (or 1); odd ones cost a longer step here and there. The first three cuts keep boxes from getting flat.
//!
//! Source: J. Červený, "Generalized Hilbert space-filling curve for rectangular domains of arbitrary sizes", 2018.

type Vector = [i64; 3];

fn sum(of: [Vector; 2]) -> Vector {
    [of[0][0] + of[1][0], of[0][1] + of[1][1], of[0][2] + of[1][2]]
}

fn minus(a: Vector) -> Vector {
    a.map(|part| -part)
}

/// The length of a vector along an axis.
fn length(a: Vector) -> u64 {
    (a[0] + a[1] + a[2]).unsigned_abs()
}

/// One step along it.
fn unit(a: Vector) -> Vector {
    a.map(i64::signum)
}

/// Half of it, rounded to what makes an even number of steps.
fn half(a: Vector) -> Vector {
    let half = a.map(|part| part.div_euclid(2));
    if length(half) % 2 == 1 && length(a) > 2 { sum([half, unit(a)]) } else { half }
}

/// A box at a corner, with its edges: the curve starts at the corner and ends at the end of the first edge.
#[derive(Clone, Copy)]
struct Part {
    corner: Vector,
    edges: [Vector; 3],
}

impl Part {
    fn new(corner: &[Vector], edges: [Vector; 3]) -> Part {
        Part { corner: corner.iter().fold([0; 3], |at, &part| sum([at, part])), edges }
    }

    fn points(&self) -> u64 {
        self.edges.map(length).iter().product()
    }

    /// The parts that the curve passes, in order; parts without a point fill up.
    fn parts(self) -> [Part; 5] {
        let Part { corner: p, edges: [a, b, c] } = self;
        let ([a2, b2, c2], [w, h, d]) = ([half(a), half(b), half(c)], [length(a), length(b), length(c)]);
        let rest = |of: Vector, part: Vector| sum([of, minus(part)]);
        let last = |of: Vector| rest(of, unit(of));
        let none = Part { corner: p, edges: [[0; 3]; 3] };
        if 2 * w > 3 * h && 2 * w > 3 * d {
            return [Part::new(&[p], [a2, b, c]), Part::new(&[p, a2], [rest(a, a2), b, c]), none, none, none];
        }
        if 3 * h > 4 * d {
            return [
                Part::new(&[p], [b2, c, a2]),
                Part::new(&[p, b2], [a, rest(b, b2), c]),
                Part::new(&[p, last(a), last(b2)], [minus(b2), c, minus(rest(a, a2))]),
                none,
                none,
            ];
        }
        if 3 * d > 4 * h {
            return [
                Part::new(&[p], [c2, a2, b]),
                Part::new(&[p, c2], [a, b, rest(c, c2)]),
                Part::new(&[p, last(a), last(c2)], [minus(c2), minus(rest(a, a2)), b]),
                none,
                none,
            ];
        }
        [
            Part::new(&[p], [b2, c2, a2]),
            Part::new(&[p, b2], [c, a2, rest(b, b2)]),
            Part::new(&[p, last(b2), last(c)], [a, minus(b2), minus(rest(c, c2))]),
            Part::new(&[p, last(a), b2, last(c)], [minus(c), minus(rest(a, a2)), rest(b, b2)]),
            Part::new(&[p, last(a), last(b2)], [minus(b2), c2, minus(rest(a, a2))]),
        ]
    }
}

/// The point with this number on the curve.
pub(super) fn point(extents: [u32; 3], number: u64) -> [u32; 3] {
    let mut edges = [[0; 3]; 3];
    for axis in 0..3 {
        edges[axis][axis] = i64::from(extents[axis]);
    }
    // The curve leaves along the first edge, which is the longest one.
    let longest = (0..3).max_by_key(|&axis| (extents[axis], 3 - axis)).unwrap_or(0);
    edges[..=longest].rotate_right(1);
    let (mut part, mut number) = (Part { corner: [0; 3], edges }, number);
    // Each cut makes at least the longest edge shorter, by a third or more.
    for _ in 0..256 {
        let lengths = part.edges.map(length);
        if let Some(along) = (0..3).find(|&axis| lengths[axis] == part.points()) {
            let at = unit(part.edges[along]).map(|step| step * number as i64);
            return sum([part.corner, at]).map(|part| part as u32);
        }
        let Some(next) = part.parts().into_iter().find(|next| {
            let inside = number < next.points();
            if !inside {
                number -= next.points();
            }
            inside
        }) else {
            break;
        };
        part = next;
    }
    part.corner.map(|part| part as u32)
}
