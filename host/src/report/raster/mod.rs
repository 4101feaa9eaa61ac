//! A report as a picture: its headline, figures and motion, as PNG.
//!
//! It shows what the page shows of a run with motion, in the page's light colours, for documents that take pictures only. Text is
//! drawn with the bitmap fonts of `embedded-graphics`, so neither a font file nor a library of the system is needed.

mod canvas;
mod moving;

use std::io;

use canvas::{Anchor, Canvas, Colour, Face, colour};

use super::{Report, Verdict};
use crate::quantity::Count;

const WIDTH: i32 = 1200;
const MARGIN: i32 = 36;
const INNER: i32 = WIDTH - 2 * MARGIN;
/// Figures side by side.
const ACROSS: i32 = 5;
const FIGURE: i32 = 52;
/// A line of small text.
const LINE: i32 = 18;

// The colours of style.css.
const PAGE: Colour = colour(0xf6_f7f9);
const CARD: Colour = colour(0xff_ffff);
const INK: Colour = colour(0x1c_2430);
const SOFT: Colour = colour(0x5d_6878);
const RULE: Colour = colour(0xdd_e2ea);
const GOOD: [Colour; 2] = [colour(0x17_734a), colour(0xd9_f2e5)];
const BAD: [Colour; 2] = [colour(0xa1_2622), colour(0xfb_e0de)];
const PLAIN: [Colour; 2] = [SOFT, colour(0xe8_ebf0)];

impl Report {
    /// The headline, the figures and the motion as a PNG file. Nothing else is drawn: lanes, paths and tables are on the
    /// [page](Self::to_html).
    ///
    /// # Errors
    /// What the encoder says.
    pub fn to_png(&self) -> io::Result<Vec<u8>> {
        let subtitle = wrapped(&self.subtitle, Face::Small, INNER);
        let figures = (self.figures.len() as i32 + ACROSS - 1) / ACROSS;
        let head = 92 + LINE * subtitle.len() as i32;
        let motion = moving::height(&self.motion);
        let gap = if motion > 0 { 24 } else { 0 };
        let height = head + figures * FIGURE + gap + motion + MARGIN;
        let mut canvas = Canvas::new(WIDTH as u32, height as u32, PAGE);
        self.headline(&mut canvas, &subtitle);
        self.grid(&mut canvas, head, figures);
        moving::draw(&mut canvas, head + figures * FIGURE + gap, &self.motion);
        encoded(&canvas)
    }

    fn headline(&self, canvas: &mut Canvas, subtitle: &[String]) {
        canvas.text([MARGIN, 48], Anchor::Left, Face::Title, INK, &self.title);
        let ([ink, back], verdict) = match &self.verdict {
            Verdict::Agreed => (GOOD, "all bytes agree".to_owned()),
            Verdict::Differed(reads) => (BAD, format!("{} reads differ", Count(*reads))),
            Verdict::Failed(reason) => (BAD, format!("failed: {reason}")),
            Verdict::Unchecked => (PLAIN, "not checked".to_owned()),
        };
        let left = MARGIN + Face::Title.width(&self.title) + 20;
        let most = (WIDTH - MARGIN - left - 24) / Face::Figure.width("x");
        let verdict: String = verdict.chars().take(most.max(0) as usize).collect();
        canvas.rounded([left, 34], [Face::Figure.width(&verdict) + 24, 28], 14, back);
        canvas.text([left + 12, 48], Anchor::Left, Face::Figure, ink, &verdict);
        for (nth, line) in (0..).zip(subtitle) {
            canvas.text([MARGIN, 84 + LINE * nth], Anchor::Left, Face::Small, SOFT, line);
        }
    }

    fn grid(&self, canvas: &mut Canvas, top: i32, rows: i32) {
        if rows == 0 {
            return;
        }
        let wide = INNER / ACROSS;
        canvas.fill([MARGIN, top], [INNER, rows * FIGURE], CARD);
        (1..rows).for_each(|row| canvas.fill([MARGIN, top + row * FIGURE], [INNER, 1], RULE));
        (1..ACROSS).for_each(|column| canvas.fill([MARGIN + column * wide, top], [1, rows * FIGURE], RULE));
        canvas.frame([MARGIN, top], [INNER, rows * FIGURE], RULE);
        for (nth, (what, value)) in (0..).zip(&self.figures) {
            let (x, y) = (MARGIN + nth % ACROSS * wide + 14, top + nth / ACROSS * FIGURE);
            canvas.text([x, y + 17], Anchor::Left, Face::Small, SOFT, what);
            canvas.text([x, y + 36], Anchor::Left, Face::Heading, INK, value);
        }
    }
}

/// Lines of words, none wider than this unless a word is.
fn wrapped(text: &str, face: Face, width: i32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if face.width(line) + face.width(" ") + face.width(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn encoded(canvas: &Canvas) -> io::Result<Vec<u8>> {
    let (width, height, pixels) = canvas.size_bytes();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::canvas::over;
    use super::*;
    use crate::report::{Held, Motion, Picture, Place};

    /// The picture of a file: its width, and its pixels.
    fn decoded(file: &[u8]) -> (usize, Vec<[u8; 3]>) {
        let mut reader = png::Decoder::new(io::Cursor::new(file)).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        assert_eq!((info.color_type, bytes.len()), (png::ColorType::Rgb, 3 * (info.width * info.height) as usize));
        (info.width as usize, bytes.chunks(3).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect())
    }

    fn bytes(colour: Colour) -> [u8; 3] {
        use embedded_graphics::pixelcolor::RgbColor as _;
        [colour.r(), colour.g(), colour.b()]
    }

    fn report(owners: [u32; 2]) -> Report {
        let place = |x| Place { at: [x, 0], level: 0 };
        let held = |block: u32, cells: [u8; 4]| Held { block, owner: owners[block as usize], cells: cells.into() };
        let picture = |cycle, blocks| Picture { cycle, blocks };
        Report {
            title: "blobs".into(),
            verdict: Verdict::Failed("bits – 𝔵 \u{7}".into()),
            figures: vec![("p50".into(), "7 µs".into())],
            motion: Motion {
                counts: [2, 1],
                cells: [2, 2],
                blocks: vec![place(0), place(1)],
                pictures: vec![picture(0, vec![held(0, [0, 0, 0, 255])]), picture(9, vec![held(1, [0; 4])])],
                bytes: vec![0, 100, 50, 0],
                dense_bytes: 1000,
            },
            ..Report::default()
        }
    }

    #[test]
    fn blocks_have_the_colours_of_their_ranks_and_what_they_hold_is_dark() {
        let count = |owners: [u32; 2], colour: Colour| {
            let (_, pixels) = decoded(&report(owners).to_png().unwrap());
            pixels.iter().filter(|pixel| **pixel == bytes(colour)).count()
        };
        let [blue, amber] = [0x4f_83cc, 0xe0_a03a].map(|code| over(colour(code), CARD, 0.35));
        // A block is 127 pixels wide and has a border; a quarter of the first one is covered.
        let (one, most) = (3 * 124 * 124 / 4, 128 * 128);
        assert!((one..most).contains(&count([0, 1], blue)), "{}", count([0, 1], blue));
        assert!((one..2 * most).contains(&count([0, 1], amber)));
        assert!(count([0, 0], blue) > one + most * 9 / 10 && count([0, 0], amber) < 100);
        let dark = count([0, 1], INK);
        assert!(dark > 60 * 60, "{dark}");
    }

    #[test]
    fn a_report_without_motion_is_its_headline_and_one_without_anything_is_drawn_too() {
        let whole = decoded(&report([0, 1]).to_png().unwrap());
        let head = decoded(&Report { motion: Motion::default(), ..report([0, 1]) }.to_png().unwrap());
        let none = decoded(&Report::default().to_png().unwrap());
        assert!([whole.0, head.0, none.0].iter().all(|width| *width == WIDTH as usize));
        assert!(whole.1.len() > head.1.len() && head.1.len() > none.1.len() && !none.1.is_empty());
    }

    #[test]
    fn meshes_that_are_finer_than_pixels_and_blocks_that_are_not_there_are_drawn() {
        let mut fine = report([0, 1]);
        fine.motion.counts = [1 << 20, 1];
        fine.motion.pictures[0].blocks.push(Held { block: 7, owner: u32::MAX, cells: Vec::new() });
        fine.motion.pictures[1].blocks[0].cells.clear();
        fine.motion.bytes.clear();
        fine.title = "x".repeat(400);
        assert!(fine.to_png().is_ok());
    }
}
