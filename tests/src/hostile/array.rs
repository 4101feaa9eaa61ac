//! Array files, which any program may have written.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use rustix::fs::{MemfdFlags, memfd_create};
use umbra::stencil::field::{Element, Field};

/// Small arrays of one to three dimensions and of every kind of numbers.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let shapes: [&[u64]; 3] = [&[7], &[2, 3], &[2, 3, 4]];
    let array = |(shape, element): (&[u64], Element)| {
        let field = Field::create(None, shape, element).expect("a small array has room");
        std::fs::read(field.open_path()).expect("its file is open")
    };
    shapes.into_iter().flat_map(|shape| Element::ALL.map(|element| (shape, element))).map(array).collect()
}

/// What is opened has as many numbers as its file says.
///
/// All of them can be read, and nothing behind the last one.
pub(super) fn feed(bytes: &[u8]) {
    let file = memfd_create("array", MemfdFlags::CLOEXEC).expect("the system has a descriptor left");
    let mut file = File::from(file);
    file.write_all(bytes).expect("there is memory");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    match Field::open(Path::new(&path)) {
        Ok(field) => {
            assert_eq!(field.points(), field.shape().iter().product::<u64>());
            assert_eq!(field.points(), field.extents().iter().map(|&extent| u64::from(extent)).product());
            assert!(field.bytes() < bytes.len() as u64, "the header is none of them");
            let mut numbers = vec![0; field.bytes() as usize];
            field.read(0, &mut numbers).expect("they are there");
            assert!(bytes.ends_with(&numbers));
            assert!(field.read(field.points(), &mut [0]).is_err());
        }
        Err(error) => assert!(error.to_string().contains(&path), "{error}"),
    }
}
