//! Array files that are no fields: each is refused under its own name.
//!
//! What is said of it has the file, what is wrong with it, where, and what to do.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::path::{Path, PathBuf};

use umbra::stencil::field::{Field, FieldError, FormatError};

/// A file of its own for a test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("umbra-field-{name}-{}.npy", std::process::id())))
    }

    /// Why such a file is no field, and what is said of it.
    fn refused(&self, bytes: &[u8]) -> (FormatError, String) {
        fs::write(&self.0, bytes).unwrap();
        let error = Field::open(&self.0).unwrap_err();
        let said = error.to_string();
        let FieldError::Format { path, error } = error else { panic!("{said}") };
        assert!(path == self.0 && said == format!("{}: {error}", path.display()), "{said}");
        (error, said)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Everything before the numbers, in version 1.0, with a dictionary that ends where it ends.
fn head(dictionary: &str) -> Vec<u8> {
    let length = (dictionary.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], dictionary.as_bytes()].concat()
}

fn described(element: &str, shape: &str) -> String {
    format!("{{'descr': {element}, 'fortran_order': False, 'shape': {shape}, }}\n")
}

/// A whole file of as many bytes of numbers.
fn file(element: &str, shape: &str, bytes: usize) -> Vec<u8> {
    [head(&described(element, shape)), vec![0; bytes]].concat()
}

#[test]
fn a_file_that_numpy_writes_is_opened() {
    let scratch = Scratch::new("whole");
    // Version 2.0, whose length has four bytes, and a dictionary that fills a header up to what is read.
    let text = format!("{:65535}\n", described("'<f8'", "(2, 3)").trim_end());
    let long = [b"\x93NUMPY\x02\x00", &(text.len() as u32).to_le_bytes()[..], text.as_bytes(), &[0; 48]].concat();
    for bytes in [file("'<f8'", "(2, 3)", 48), file("'<f8'", "(2,3)", 48), long] {
        fs::write(scratch.path(), bytes).unwrap();
        let field = Field::open(scratch.path()).unwrap();
        assert_eq!((field.shape(), field.bytes()), (&[2, 3][..], 48));
    }
}

#[test]
fn an_extent_that_is_no_whole_number_is_named_with_its_place() {
    let scratch = Scratch::new("count");
    for (shape, wrong) in [
        ("(-3, 4)", "-3"),
        ("(4, -1)", "-1"),
        ("(4, -9223372036854775808)", "-9"),
        ("(18446744073709551616, 4)", "18446744073709551616"),
        ("(inf,)", "inf"),
        ("(nan, 4)", "nan"),
        ("(1e3,)", "e3"),
        ("(4.0, 4)", ".0"),
        ("(+4,)", "+4"),
        ("(4 4)", "4)"),
        ("(True,)", "True"),
        ("[4, 4]", "[4"),
        ("4", "4"),
    ] {
        let bytes = file("'<f8'", shape, 128);
        let (error, said) = scratch.refused(&bytes);
        let FormatError::Header { at, .. } = error else { panic!("{shape}: {said}") };
        assert!(bytes[at..].starts_with(wrong.as_bytes()), "{shape}: {said}, byte {at}");
        assert!(said.contains(&format!("at byte {at} of the file")) && said.ends_with("numpy.save"), "{said}");
    }
}

#[test]
fn extents_that_no_file_has_are_refused_without_a_sum_that_overflows() {
    let scratch = Scratch::new("large");
    for (element, shape, expected) in [
        ("'<f8'", "(0,)", FormatError::Extent(0)),
        ("'<f8'", "(4, 0)", FormatError::Extent(0)),
        ("'<f8'", "(0, 18446744073709551615)", FormatError::Extent(0)),
        ("'<f8'", "(4294967296, 1)", FormatError::Extent(1 << 32)),
        ("'|u1'", "(18446744073709551615,)", FormatError::Extent(u64::MAX)),
        // Two extents pass 2^64 only with the bytes of an element, three do without.
        ("'<f8'", "(4294967295, 4294967295)", FormatError::TooLarge),
        ("'|u1'", "(4294967295, 4294967295)", FormatError::TooLarge),
        ("'|u1'", "(4294967295, 4294967295, 4294967295)", FormatError::TooLarge),
        // The numbers alone would be as many bytes as a file can have, without the header.
        ("'<f8'", "(1073741824, 1073741824)", FormatError::TooLarge),
        ("'<f8'", "()", FormatError::Dimensions(0)),
        ("'<f8'", "(1, 1, 1, 1)", FormatError::Dimensions(4)),
    ] {
        let (error, said) = scratch.refused(&file(element, shape, 128));
        assert_eq!(error, expected, "{shape}");
        let todo = ["use smaller ones", "cut or reshape it", ": reshape it"];
        assert!(todo.iter().any(|todo| said.ends_with(todo)), "{said}");
    }
    let many = format!("({})", "1,".repeat(20_000));
    assert_eq!(scratch.refused(&file("'|u1'", &many, 1)).0, FormatError::Dimensions(20_000));
}

#[test]
fn a_file_that_is_shorter_or_longer_than_its_shape_is_refused() {
    let scratch = Scratch::new("size");
    for (element, shape, need, have) in [
        ("'<f8'", "(4, 4)", 128, 127),
        ("'<f8'", "(4, 4)", 128, 129),
        ("'<f8'", "(4, 4)", 128, 0),
        ("'<f8'", "(4, 5)", 160, 128),
        ("'|u1'", "(4294967295, 2147483647)", 4_294_967_295 * 2_147_483_647, 128),
    ] {
        let start = head(&described(element, shape)).len() as u64;
        let (error, said) = scratch.refused(&file(element, shape, have));
        assert_eq!(error, FormatError::Size { need: start + need, have: start + have as u64 }, "{shape}");
        assert!(said.ends_with("write or copy it again"), "{said}");
    }
}

#[test]
fn a_header_that_is_too_long_for_the_file_or_for_numbers_is_refused() {
    let scratch = Scratch::new("header");
    let whole = file("'<f8'", "(4, 4)", 128);
    for end in 0..head(&described("'<f8'", "(4, 4)")).len() {
        let (error, said) = scratch.refused(&whole[..end]);
        assert_eq!(error, FormatError::Truncated { have: end as u64 });
        assert!(said.contains(&format!("ends after {end} bytes")) && said.ends_with("again"), "{said}");
    }
    // The length leads beyond the end of the file, in either of its forms.
    let beyond = [&b"\x93NUMPY\x01\x00\xff\xff"[..], &whole[10..]].concat();
    assert_eq!(scratch.refused(&beyond).0, FormatError::Truncated { have: beyond.len() as u64 });
    let beyond = [&b"\x93NUMPY\x02\x00\x00\x00\x01\x00"[..], &whole[10..]].concat();
    assert_eq!(scratch.refused(&beyond).0, FormatError::Truncated { have: beyond.len() as u64 });
    for length in [65_537_u32, 1 << 31, u32::MAX] {
        let bytes = [&b"\x93NUMPY\x03\x00"[..], &length.to_le_bytes(), &whole[10..]].concat();
        let (error, said) = scratch.refused(&bytes);
        assert_eq!(error, FormatError::HeaderTooLong { length: length.into() });
        assert!(said.contains(&format!("{length} bytes, and 65536 are enough")), "{said}");
    }
}

#[test]
fn files_of_others_and_arrays_of_others_are_told_apart() {
    let scratch = Scratch::new("foreign");
    for bytes in [
        &b"PK\x03\x04 an archive of arrays"[..],
        b"\x89HDF\r\n\x1a\n",
        b"1.0,2.0\n3.0,4.0\n",
        b"P",
        b"\x93NUMPX\x01\x00",
    ] {
        let (error, said) = scratch.refused(bytes);
        assert!(error == FormatError::Foreign && said.ends_with("write it with numpy.save"), "{said}");
    }
    for (major, minor) in [(0, 0), (1, 1), (4, 0), (255, 255)] {
        let bytes = [&b"\x93NUMPY"[..], &[major, minor], &file("'<f8'", "(4, 4)", 128)[8..]].concat();
        assert_eq!(scratch.refused(&bytes).0, FormatError::Version { major, minor });
    }
    let fortran = described("'<f8'", "(4, 4)").replace("False", "True");
    let (error, said) = scratch.refused(&[head(&fortran), vec![0; 128]].concat());
    assert!(error == FormatError::Order && said.ends_with("store it in C order"), "{said}");
    for element in
        [">f8", ">i4", "=f8", "<f2", "<f16", "<c16", "|b1", "|O", "|S8", "<U5", "<M8[ns]", "|V8", "<i3", "f8", ""]
    {
        let (error, said) = scratch.refused(&file(&format!("'{element}'"), "(4, 4)", 128));
        assert!(error == FormatError::Element(element.to_owned()) && said.contains("convert them to"), "{said}");
    }
    let record = file("[('a', '<f8'), ('b', '<f8')]", "(4, 2)", 128);
    assert_eq!(scratch.refused(&record).0, FormatError::Element("a record".to_owned()));
}
