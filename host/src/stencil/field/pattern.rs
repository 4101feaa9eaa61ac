//! From which neighbours a point is computed, and with which weights.

use umbra_core::stencil::Shape;

use super::Element;

/// The most neighbours of a point.
const MOST: u64 = 1 << 20;
/// The most characters of a line that an error shows.
const TEXT_MOST: usize = 80;

/// One neighbour: how far away, and what it is multiplied with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Neighbour {
    /// Steps along each coordinate.
    pub by: [i32; 3],
    /// Its weight.
    pub weight: f64,
}

/// The neighbours of each point, in the order in which they are added up. Those outside of the field are left out.
#[derive(Clone, PartialEq, Debug)]
pub struct Pattern {
    neighbours: Vec<Neighbour>,
}

/// Why there is no such pattern.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// No neighbour at all.
    #[error("no neighbours: name at least one")]
    Empty,
    /// More neighbours than a sweep could add up.
    #[error("{0} neighbours of a point, and at most {MOST} are possible: choose a smaller radius")]
    TooMany(u64),
    /// A line is not a neighbour.
    #[error("line {line}, `{text}`: {dimensions} whole steps and perhaps a weight are needed, as in `{}1 0.5`",
        "0 ".repeat(.dimensions - 1))]
    Line {
        /// Which line, from 1.
        line: usize,
        /// What it says, with escapes for what cannot be seen, and no more than its beginning.
        text: String,
        /// Coordinates of the field.
        dimensions: usize,
    },
    /// Integers are multiplied with integers.
    #[error("a weight of {weight} for integers: use whole numbers")]
    Weight {
        /// The weight, in words.
        weight: String,
    },
}

impl Pattern {
    /// All neighbours within a radius, the point itself too, each with a weight of 1; a field has one to three
    /// coordinates.
    ///
    /// # Errors
    /// [`PatternError::TooMany`].
    pub fn within(shape: Shape, radius: u32, dimensions: usize) -> Result<Pattern, PatternError> {
        let width = 2 * u64::from(radius) + 1;
        let dimensions = dimensions.clamp(1, 3);
        let count = match shape {
            Shape::Box => width.saturating_pow(dimensions as u32),
            Shape::Star => (width - 1) * dimensions as u64 + 1,
        };
        if count > MOST {
            return Err(PatternError::TooMany(count));
        }
        let radius = radius as i32;
        let reach = |axis: usize| if axis + dimensions >= 3 { -radius..=radius } else { 0..=0 };
        let mut neighbours = Vec::new();
        match shape {
            Shape::Box => {
                for (x, y) in reach(0).flat_map(|x| reach(1).map(move |y| (x, y))) {
                    neighbours.extend(reach(2).map(|z| Neighbour { by: [x, y, z], weight: 1.0 }));
                }
            }
            Shape::Star => {
                let mut along = |axis: usize, steps: &mut dyn Iterator<Item = i32>| {
                    for step in steps {
                        let mut by = [0; 3];
                        by[axis] = step;
                        neighbours.push(Neighbour { by, weight: 1.0 });
                    }
                };
                // In ascending order, with the point itself in the middle.
                (3 - dimensions..3).for_each(|axis| along(axis, &mut (-radius..0)));
                along(2, &mut (0..=0));
                (3 - dimensions..3).rev().for_each(|axis| along(axis, &mut (1..=radius)));
            }
        }
        Ok(Pattern { neighbours })
    }

    /// Neighbours as text: a line each, with the steps along each coordinate, outermost first, and perhaps a weight.
    /// What follows a `#` is a comment. Of dimensions there are 1 to 3; others are taken for the nearest of these.
    ///
    /// # Errors
    /// [`PatternError`] with the line.
    pub fn parse(text: &str, dimensions: usize) -> Result<Pattern, PatternError> {
        let dimensions = dimensions.clamp(1, 3);
        let mut neighbours = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let words = line.split('#').next().unwrap_or_default();
            let mut words = words.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
            let Some(first) = words.next() else { continue };
            // The file is another's, and a message must not drive a terminal.
            let text = || line.trim().escape_debug().take(TEXT_MOST).collect();
            let wrong = || PatternError::Line { line: number + 1, text: text(), dimensions };
            let words: Vec<&str> = std::iter::once(first).chain(words).collect();
            let (steps, weight) = words.split_at_checked(dimensions).ok_or_else(wrong)?;
            let mut by = [0; 3];
            for (step, word) in by[3 - dimensions..].iter_mut().zip(steps) {
                *step = word.parse().map_err(|_| wrong())?;
            }
            let weight = match weight {
                [] => 1.0,
                [weight] => weight.parse().ok().filter(|weight: &f64| weight.is_finite()).ok_or_else(wrong)?,
                _ => return Err(wrong()),
            };
            neighbours.push(Neighbour { by, weight });
        }
        match neighbours.len() as u64 {
            0 => Err(PatternError::Empty),
            1..=MOST => Ok(Pattern { neighbours }),
            count => Err(PatternError::TooMany(count)),
        }
    }

    /// Refuses weights that numbers of this kind cannot have.
    ///
    /// # Errors
    /// [`PatternError::Weight`].
    pub fn check(&self, element: Element) -> Result<(), PatternError> {
        let fits = |weight: f64| element.is_float() || weight.fract() == 0.0 && weight.abs() < 2_f64.powi(53);
        match self.neighbours.iter().find(|neighbour| !fits(neighbour.weight)) {
            None => Ok(()),
            Some(neighbour) => Err(PatternError::Weight { weight: neighbour.weight.to_string() }),
        }
    }

    /// The neighbours in order.
    #[must_use]
    pub fn neighbours(&self) -> &[Neighbour] {
        &self.neighbours
    }

    /// The shape that all neighbours lie in: a star if none differs in two coordinates.
    #[must_use]
    pub fn shape(&self) -> Shape {
        let along_one = |by: [i32; 3]| by.iter().filter(|&&step| step != 0).count() <= 1;
        if self.neighbours.iter().all(|neighbour| along_one(neighbour.by)) { Shape::Star } else { Shape::Box }
    }

    /// The farthest step along any coordinate.
    #[must_use]
    pub fn reach(&self) -> u32 {
        self.neighbours.iter().flat_map(|neighbour| neighbour.by).map(i32::unsigned_abs).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_and_stars_have_their_neighbours_once() {
        for (shape, radius, dimensions, count) in [
            (Shape::Box, 1, 2, 9),
            (Shape::Box, 2, 3, 125),
            (Shape::Star, 2, 3, 13),
            (Shape::Star, 3, 1, 7),
            (Shape::Box, 0, 3, 1),
        ] {
            let pattern = Pattern::within(shape, radius, dimensions).unwrap();
            let mut by: Vec<_> = pattern.neighbours().iter().map(|neighbour| neighbour.by).collect();
            by.sort_unstable();
            by.dedup();
            assert_eq!((by.len(), pattern.reach()), (count, radius), "{shape:?} {radius} {dimensions}");
        }
        assert!(matches!(Pattern::within(Shape::Box, u32::MAX, 3), Err(PatternError::TooMany(_))));
        assert!(matches!(Pattern::within(Shape::Star, u32::MAX, 1), Err(PatternError::TooMany(_))));
    }

    #[test]
    fn text_is_read_with_steps_and_weights() {
        let pattern = Pattern::parse("# Laplace\n0 0 -4\n-1, 0\n1 0 # below\n\n0 -1\n0 1", 2).unwrap();
        assert_eq!(pattern.neighbours()[0], Neighbour { by: [0, 0, 0], weight: -4.0 });
        assert_eq!(pattern.neighbours()[1], Neighbour { by: [0, -1, 0], weight: 1.0 });
        assert_eq!(pattern.neighbours().len(), 5);
        for text in ["1", "1 2 3 4", "a 1", "1 1 x", "1 1 inf", "99999999999 1"] {
            assert!(matches!(Pattern::parse(text, 2), Err(PatternError::Line { line: 1, .. })), "{text}");
        }
        let hostile = format!("\u{1b}[31m{}", "9".repeat(1 << 20));
        let shown = Pattern::parse(&hostile, 2).unwrap_err().to_string();
        assert!(shown.starts_with("line 1, `\\u{1b}[31m999") && shown.len() < 200, "{shown}");
        assert_eq!(Pattern::parse("# none", 2), Err(PatternError::Empty));
        for dimensions in [0, 1, 3, 4, usize::MAX] {
            let shown = Pattern::parse("x", dimensions).unwrap_err().to_string();
            assert!(shown.contains("line 1"), "{dimensions}: {shown}");
        }
        let half = Pattern::parse("0 0 0.5", 2).unwrap();
        assert!(half.check(Element::F32).is_ok() && half.check(Element::I8).is_err());
    }
}
