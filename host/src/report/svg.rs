//! A drawing under construction: text that grows, and the box that it has filled.

use std::fmt::{self, Write as _};

/// Makes text safe inside HTML and SVG, in content as well as in quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c if c.is_control() => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// A point of the drawing, y downwards.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

impl Point {
    /// The point at `radius` from the origin in direction `degrees`, clockwise from the right.
    pub(super) fn polar(radius: f64, degrees: f64) -> Point {
        let (sin, cos) = degrees.to_radians().sin_cos();
        Point { x: radius * cos, y: radius * sin }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} {:.1}", self.x, self.y)
    }
}

/// SVG elements and their bounding box.
#[derive(Debug)]
pub(super) struct Drawing {
    body: String,
    low: Point,
    high: Point,
}

impl Drawing {
    pub(super) fn new() -> Drawing {
        let (low, high) = (f64::INFINITY, f64::NEG_INFINITY);
        Drawing { body: String::new(), low: Point { x: low, y: low }, high: Point { x: high, y: high } }
    }

    /// Appends markup as it is.
    pub(super) fn push(&mut self, markup: fmt::Arguments<'_>) {
        // Writing to a `String` cannot fail.
        let _ = self.body.write_fmt(markup);
        self.body.push('\n');
    }

    /// Makes sure that a disc around `at` lies inside the drawing.
    pub(super) fn cover(&mut self, at: Point, radius: f64) {
        self.low = Point { x: self.low.x.min(at.x - radius), y: self.low.y.min(at.y - radius) };
        self.high = Point { x: self.high.x.max(at.x + radius), y: self.high.y.max(at.y + radius) };
    }

    /// A line of text; `anchor` is `start`, `middle` or `end`.
    pub(super) fn text(&mut self, class: &str, at: Point, anchor: &str, text: &str) {
        // 7 units a letter is more than the fonts of the page take.
        let width = 7.0 * text.chars().count() as f64;
        let left = match anchor {
            "start" => at.x,
            "end" => at.x - width,
            _ => at.x - width / 2.0,
        };
        self.cover(Point { x: left, y: at.y }, 7.0);
        self.cover(Point { x: left + width, y: at.y }, 7.0);
        let Point { x, y } = at;
        let text = escape(text);
        self.push(format_args!(
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" dominant-baseline="central">{text}</text>"#
        ));
    }

    /// The finished element, as wide as its content but never wider than its container.
    pub(super) fn finish(self, label: &str) -> String {
        let margin = 8.0;
        let (x, y) = (self.low.x - margin, self.low.y - margin);
        let (width, height) = (self.high.x - x + margin, self.high.y - y + margin);
        format!(
            "<svg role=\"img\" aria-label=\"{}\" viewBox=\"{x:.1} {y:.1} {width:.1} {height:.1}\" style=\"width:{width:.0}px\">\n{}</svg>\n",
            escape(label),
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_stays_text() {
        assert_eq!(escape("<b onclick='x'>&\u{1b}"), "&lt;b onclick=&#39;x&#39;&gt;&amp;\u{fffd}");
    }

    #[test]
    fn the_view_box_holds_all_that_was_covered() {
        let mut drawing = Drawing::new();
        drawing.cover(Point { x: -10.0, y: 0.0 }, 5.0);
        drawing.cover(Point { x: 30.0, y: 20.0 }, 0.0);
        assert!(drawing.finish("a \"label\"").contains("viewBox=\"-23.0 -13.0 61.0 41.0\""));
    }
}
