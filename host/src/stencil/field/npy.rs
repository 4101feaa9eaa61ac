//! The header of an array file of NumPy.
//!
//! A magic word, a version, a length, and a Python dictionary with three entries. What is accepted is what NumPy writes:
//! any order of the entries, spaces, and a comma at the end; no other expressions. The crates that read it bring a
//! generator of parsers and its dozen packages for this one line, or a type of arrays.
//!
//! Source: NEP 1, "A simple file format for NumPy arrays", and versions 2.0 and 3.0 in `numpy.lib.format`.

use super::{Element, FormatError};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Longer headers belong to arrays of records.
pub(super) const HEADER_MAX: usize = 64 << 10;
/// Characters of an unknown kind of elements that are told.
const ELEMENT_MOST: usize = 32;

/// What a header says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) element: Element,
    pub(super) shape: Vec<u64>,
    /// Where the elements begin.
    pub(super) start: u64,
}

/// Reads the header at the start of a file; `bytes` may be more of the file, or less than the header.
pub(super) fn parse(bytes: &[u8]) -> Result<Header, FormatError> {
    let truncated = FormatError::Truncated { have: bytes.len() as u64 };
    let magic = &bytes[..bytes.len().min(MAGIC.len())];
    if magic != &MAGIC[..magic.len()] {
        return Err(FormatError::Foreign);
    }
    let (&[major, minor], rest) = bytes.get(MAGIC.len()..).and_then(<[u8]>::split_first_chunk).ok_or(truncated)?;
    let truncated = || FormatError::Truncated { have: bytes.len() as u64 };
    let (length, text) = match (major, minor) {
        (1, 0) => {
            let (length, text) = rest.split_first_chunk().ok_or_else(truncated)?;
            (usize::from(u16::from_le_bytes(*length)), text)
        }
        (2 | 3, 0) => {
            let (length, text) = rest.split_first_chunk().ok_or_else(truncated)?;
            (u32::from_le_bytes(*length) as usize, text)
        }
        _ => return Err(FormatError::Version { major, minor }),
    };
    if length > HEADER_MAX {
        return Err(FormatError::HeaderTooLong { length: length as u64 });
    }
    let before = bytes.len() - text.len();
    let start = (before + length) as u64;
    let text = text.get(..length).ok_or_else(truncated)?;
    let mut words = Words { text, at: 0, before };
    let (mut element, mut fortran, mut shape) = (None, None, None);
    words.expect(b'{', "a dictionary begins with {")?;
    while !words.take(b'}') {
        let key = words.string()?;
        words.expect(b':', "a colon follows a key")?;
        let twice = match key {
            "descr" => element.replace(words.element()?).is_some(),
            "fortran_order" => fortran.replace(words.boolean()?).is_some(),
            "shape" => shape.replace(words.shape()?).is_some(),
            _ => return Err(words.error("keys are descr, fortran_order and shape")),
        };
        if twice {
            return Err(words.error("a key stands twice"));
        }
        if !words.take(b',') {
            words.expect(b'}', "a dictionary ends with }")?;
            break;
        }
    }
    words.space();
    if words.at != text.len() {
        return Err(words.error("nothing follows the dictionary"));
    }
    let (Some(element), Some(fortran), Some(shape)) = (element, fortran, shape) else {
        return Err(words.error("descr, fortran_order and shape are all needed"));
    };
    if fortran {
        return Err(FormatError::Order);
    }
    Ok(Header { element, shape, start })
}

/// The header of an array of this shape, as NumPy writes it: elements begin at a multiple of 64.
pub(super) fn header(element: Element, shape: &[u64]) -> Vec<u8> {
    let extents: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    // A tuple of one keeps its comma.
    let extents = if shape.len() == 1 { extents.trim_end() } else { extents.trim_end_matches(", ") };
    let mut text = format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({extents}), }}", element.code());
    let before = MAGIC.len() + 4;
    while !(before + text.len() + 1).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    [MAGIC, &[1, 0], &length.to_le_bytes(), text.as_bytes()].concat()
}

struct Words<'t> {
    text: &'t [u8],
    at: usize,
    /// Bytes of the file before the text.
    before: usize,
}

impl<'t> Words<'t> {
    fn error(&self, why: &'static str) -> FormatError {
        FormatError::Header { why, at: self.before + self.at }
    }

    fn space(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    /// Takes this character, if it is the next one.
    fn take(&mut self, wanted: u8) -> bool {
        self.space();
        let found = self.text.get(self.at) == Some(&wanted);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, wanted: u8, why: &'static str) -> Result<(), FormatError> {
        if self.take(wanted) { Ok(()) } else { Err(self.error(why)) }
    }

    /// Takes as many characters as `belongs` says.
    fn word(&mut self, belongs: impl Fn(u8) -> bool) -> &'t str {
        let start = self.at;
        while self.text.get(self.at).is_some_and(|&byte| byte.is_ascii() && belongs(byte)) {
            self.at += 1;
        }
        str::from_utf8(&self.text[start..self.at]).unwrap_or_default()
    }

    fn string(&mut self) -> Result<&'t str, FormatError> {
        let why = "a string stands in quotes";
        let quote = if self.take(b'"') { b'"' } else { b'\'' };
        if quote == b'\'' {
            self.expect(quote, why)?;
        }
        let word = self.word(|byte| byte != b'"' && byte != b'\'' && byte != b'\\');
        if self.text.get(self.at) != Some(&quote) {
            return Err(self.error(why));
        }
        self.at += 1;
        Ok(word)
    }

    fn element(&mut self) -> Result<Element, FormatError> {
        self.space();
        if self.text.get(self.at) == Some(&b'[') {
            return Err(FormatError::Element("a record".to_owned()));
        }
        let code = self.string()?;
        // The bytes are another's, and a message must not drive a terminal.
        let other = || FormatError::Element(code.escape_debug().take(ELEMENT_MOST).collect());
        Element::ALL.into_iter().find(|element| element.is(code)).ok_or_else(other)
    }

    fn boolean(&mut self) -> Result<bool, FormatError> {
        self.space();
        match self.word(|byte| byte.is_ascii_alphabetic()) {
            "True" => Ok(true),
            "False" => Ok(false),
            _ => Err(self.error("fortran_order is True or False")),
        }
    }

    fn shape(&mut self) -> Result<Vec<u64>, FormatError> {
        self.expect(b'(', "a shape stands in parentheses")?;
        let mut shape = Vec::new();
        while !self.take(b')') {
            let at = self.before + self.at;
            let number = self.word(|byte| byte.is_ascii_digit());
            let why = "extents are whole numbers below 2^64, without a sign";
            shape.push(number.parse().map_err(|_| FormatError::Header { why, at })?);
            if !self.take(b',') {
                self.expect(b')', "a shape ends with a parenthesis")?;
                break;
            }
        }
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(dictionary: &str) -> Vec<u8> {
        let length = (dictionary.len() as u16).to_le_bytes();
        [MAGIC, &[1, 0], &length, dictionary.as_bytes()].concat()
    }

    #[test]
    fn what_is_written_is_read() {
        for shape in [vec![7], vec![200, 300], vec![6, 640, 640]] {
            for element in Element::ALL {
                let bytes = header(element, &shape);
                let start = bytes.len() as u64;
                assert_eq!(start % 64, 0);
                assert_eq!(parse(&bytes).unwrap(), Header { element, shape: shape.clone(), start });
            }
        }
        let other = with("{ 'shape':(3,4) ,\"fortran_order\" : False,'descr':'<f8'}");
        assert_eq!(parse(&other).unwrap().shape, [3, 4]);
        let scalar = with("{'descr': '<f8', 'fortran_order': False, 'shape': ()}");
        assert_eq!(parse(&scalar).unwrap().shape, [0; 0]);
    }

    #[test]
    fn every_beginning_is_too_short_and_no_change_panics() {
        let whole = header(Element::F64, &[200, 300]);
        for end in 0..whole.len() {
            assert!(matches!(parse(&whole[..end]), Err(FormatError::Truncated { .. })), "{end}");
        }
        for at in 0..whole.len() {
            for byte in [0, b'{', b'}', b'(', b',', b'9', 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                // Some changes are other valid headers.
                let _ = parse(&changed);
            }
        }
    }

    #[test]
    fn what_is_not_ours_is_told_apart() {
        assert!(matches!(parse(b"PK\x03\x04whatever"), Err(FormatError::Foreign)));
        assert!(matches!(parse(b"\x93NUMPY\x09\x00\x76\x00{"), Err(FormatError::Version { major: 9, minor: 0 })));
        assert!(matches!(parse(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{"), Err(FormatError::HeaderTooLong { .. })));
        let refused = |text: &str| parse(&with(text)).unwrap_err();
        assert!(matches!(refused("{'descr': '>f8', 'fortran_order': False, 'shape': (3,)}"), FormatError::Element(_)));
        assert!(matches!(refused("{'descr': [('a', '<f8')], 'shape': (3,)}"), FormatError::Element(_)));
        assert!(matches!(refused("{'descr': '<f8', 'fortran_order': True, 'shape': (3,)}"), FormatError::Order));
        for text in [
            "",
            "{}",
            "{'descr': '<f8', 'fortran_order': False}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (3,)} 1",
            "{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (3,)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (-3,)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            "{'descr': '<f8', 'fortran_order': 0, 'shape': (3,)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), 'other': 1}",
        ] {
            assert!(matches!(refused(text), FormatError::Header { .. }), "{text}");
        }
    }
}
