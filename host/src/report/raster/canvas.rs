//! Pixels to draw on, and text on them.

use std::convert::Infallible;

use embedded_graphics::Pixel;
use embedded_graphics::mono_font::iso_8859_1::{FONT_7X13, FONT_8X13_BOLD, FONT_9X15_BOLD};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::{Rgb888, RgbColor};
use embedded_graphics::prelude::{DrawTarget, Drawable, OriginDimensions, Point, Primitive, Size};
use embedded_graphics::primitives::{Line, PrimitiveStyle, Rectangle, RoundedRectangle};
use embedded_graphics::text::{Alignment, Baseline, Text};

/// A colour of the page.
pub(super) type Colour = Rgb888;

/// A colour as it is written on pages.
pub(super) const fn colour(code: u32) -> Colour {
    Rgb888::new((code >> 16) as u8, (code >> 8) as u8, code as u8)
}

/// A share of one colour over another, from 0 to 1.
pub(super) fn over(above: Colour, below: Colour, share: f64) -> Colour {
    let mix = |above: u8, below: u8| (f64::from(above) * share + f64::from(below) * (1.0 - share)).round() as u8;
    Rgb888::new(mix(above.r(), below.r()), mix(above.g(), below.g()), mix(above.b(), below.b()))
}

/// How text looks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Face {
    /// What stands beside something.
    Small,
    /// A figure.
    Figure,
    /// A heading.
    Heading,
    /// The first line, of letters twice as large.
    Title,
}

impl Face {
    const fn font(self) -> &'static MonoFont<'static> {
        match self {
            Face::Small => &FONT_7X13,
            Face::Figure => &FONT_8X13_BOLD,
            Face::Heading | Face::Title => &FONT_9X15_BOLD,
        }
    }

    const fn scale(self) -> u32 {
        if matches!(self, Face::Title) { 2 } else { 1 }
    }

    /// How wide a text is.
    pub(super) fn width(self, text: &str) -> i32 {
        let letter = self.font().character_size.width + self.font().character_spacing;
        (text.chars().count() as u32 * letter * self.scale()) as i32
    }
}

/// Which part of a text lies where it is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Anchor {
    Left,
    Right,
}

/// Pixels, row by row.
#[derive(Debug)]
pub(super) struct Canvas {
    width: u32,
    pixels: Vec<u8>,
}

impl Canvas {
    /// All of one colour.
    pub(super) fn new(width: u32, height: u32, colour: Colour) -> Canvas {
        let pixels = [colour.r(), colour.g(), colour.b()].repeat(width as usize * height as usize);
        Canvas { width, pixels }
    }

    pub(super) fn size_bytes(&self) -> (u32, u32, &[u8]) {
        (self.width, self.height(), &self.pixels)
    }

    fn height(&self) -> u32 {
        (self.pixels.len() / 3) as u32 / self.width.max(1)
    }

    /// One pixel; none outside.
    pub(super) fn set(&mut self, x: i32, y: i32, colour: Colour) {
        let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return };
        let at = 3 * (y as usize * self.width as usize + x as usize);
        if let Some(pixel) = self.pixels.get_mut(at..at + 3).filter(|_| x < self.width) {
            pixel.copy_from_slice(&[colour.r(), colour.g(), colour.b()]);
        }
    }

    /// A rectangle of one colour.
    pub(super) fn fill(&mut self, [x, y]: [i32; 2], [width, height]: [i32; 2], colour: Colour) {
        for y in y..y + height {
            (x..x + width).for_each(|x| self.set(x, y, colour));
        }
    }

    /// The border of a rectangle.
    pub(super) fn frame(&mut self, [x, y]: [i32; 2], [width, height]: [i32; 2], colour: Colour) {
        let size = Size::new(width.max(0) as u32, height.max(0) as u32);
        let rectangle = Rectangle::new(Point::new(x, y), size);
        drawn(rectangle.into_styled(PrimitiveStyle::with_stroke(colour, 1)).draw(self));
    }

    /// A rectangle with round corners.
    pub(super) fn rounded(&mut self, [x, y]: [i32; 2], [width, height]: [i32; 2], radius: u32, colour: Colour) {
        let size = Size::new(width.max(0) as u32, height.max(0) as u32);
        let rectangle = Rectangle::new(Point::new(x, y), size);
        let rounded = RoundedRectangle::with_equal_corners(rectangle, Size::new_equal(radius));
        drawn(rounded.into_styled(PrimitiveStyle::with_fill(colour)).draw(self));
    }

    /// A line.
    pub(super) fn line(&mut self, from: [i32; 2], to: [i32; 2], width: u32, colour: Colour) {
        let line = Line::new(Point::new(from[0], from[1]), Point::new(to[0], to[1]));
        drawn(line.into_styled(PrimitiveStyle::with_stroke(colour, width)).draw(self));
    }

    /// A line of text whose middle is at this height.
    pub(super) fn text(&mut self, [x, y]: [i32; 2], anchor: Anchor, face: Face, colour: Colour, text: &str) {
        let text: String = text.chars().map(letter).collect();
        let alignment = if anchor == Anchor::Left { Alignment::Left } else { Alignment::Right };
        let (style, scale) = (MonoTextStyle::new(face.font(), colour), face.scale() as i32);
        let mut text = Text::with_alignment(&text, Point::zero(), style, alignment);
        text.text_style.baseline = Baseline::Middle;
        drawn(text.draw(&mut Scaled { canvas: self, origin: [x, y], scale }).map(|_| ()));
    }
}

/// Nothing goes wrong where pixels are memory.
fn drawn(done: Result<(), Infallible>) {
    match done {
        Ok(()) => {}
        Err(never) => match never {},
    }
}

/// What the fonts have of a letter.
fn letter(letter: char) -> char {
    match letter {
        '–' | '—' | '−' => '-',
        ' '..='\u{ff}' => letter,
        letter if letter.is_whitespace() => ' ',
        _ => '?',
    }
}

impl OriginDimensions for Canvas {
    fn size(&self) -> Size {
        Size::new(self.width, self.height())
    }
}

impl DrawTarget for Canvas {
    type Color = Colour;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Colour>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        pixels.into_iter().for_each(|Pixel(at, colour)| self.set(at.x, at.y, colour));
        Ok(())
    }
}

/// The same from some place on, with squares for pixels.
struct Scaled<'c> {
    canvas: &'c mut Canvas,
    origin: [i32; 2],
    scale: i32,
}

impl OriginDimensions for Scaled<'_> {
    fn size(&self) -> Size {
        self.canvas.size()
    }
}

impl DrawTarget for Scaled<'_> {
    type Color = Colour;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Colour>>>(&mut self, pixels: I) -> Result<(), Infallible> {
        let ([x, y], scale) = (self.origin, self.scale);
        for Pixel(at, colour) in pixels {
            self.canvas.fill([x + at.x * scale, y + at.y * scale], [scale; 2], colour);
        }
        Ok(())
    }
}
