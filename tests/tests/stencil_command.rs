//! `umbra stencil` as a command: every order and policy computes the same field bit for bit, the optimum is reached, and
//! bad input is told apart.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use umbra_tests::rig::{self, Scratch};

fn umbra() -> Command {
    let mut command = Command::new(&rig::programs().0);
    command.arg("stencil").stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    umbra().args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The object that a good run prints.
fn good(arguments: &[&str]) -> String {
    let output = run(&[arguments, &["--json", "--quiet", "--verify"]].concat());
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{arguments:?}: {} {text}", said(&output));
    assert!(text.starts_with("{\"ok\":true,") && text.contains("\"differing_points\":0"), "{arguments:?}: {text}");
    text
}

/// A number of the object.
fn figure(object: &str, name: &str) -> f64 {
    let (_, rest) = object.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("no {name} in {object}"));
    rest.split([',', '}']).next().unwrap().parse().unwrap_or_else(|_| panic!("{name} is no number in {object}"))
}

/// An array file of 8-byte floating-point numbers, made here.
fn npy(path: &Path, shape: &str, numbers: &[f64]) {
    let text = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    fs::write(path, bytes).unwrap();
}

fn numbers(path: &Path) -> Vec<f64> {
    let bytes = fs::read(path).unwrap();
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    bytes[start..].chunks_exact(8).map(|number| f64::from_le_bytes(number.try_into().unwrap())).collect()
}

#[test]
fn every_order_and_policy_computes_the_same_field() {
    let plane = ["--extents", "150,170", "--brick", "16", "--slots", "24", "--active", "4", "--threads", "3"];
    let scratch = Scratch::new("stencil-orders");
    let mut first: Option<Vec<u8>> = None;
    for order in ["rows", "strips", "tiles", "hilbert"] {
        for policy in ["known", "window", "usage", "fifo", "lru", "clock", "sieve", "s3-fifo"] {
            let file = scratch.path().join(format!("{order}-{policy}.npy"));
            let given = ["--order", order, "--policy", policy, "--output", file.to_str().unwrap()];
            let object = good(&[&plane[..], &given].concat());
            assert!(figure(&object, "loads") >= figure(&object, "optimum"), "{object}");
            let bytes = fs::read(&file).unwrap();
            assert!(*first.get_or_insert_with(|| bytes.clone()) == bytes, "{order} {policy} computed another field");
        }
    }
}

#[test]
fn one_brick_at_a_time_takes_the_fewest_loads_that_are_possible() {
    for given in [
        ["--extents", "400,300", "--brick", "10", "--slots", "40", "--order", "rows"],
        ["--extents", "400,300", "--brick", "10", "--slots", "40", "--order", "strips"],
        ["--extents", "40,40,40", "--brick", "5", "--slots", "80", "--order", "hilbert"],
    ] {
        let object = good(&[&given[..], &["--active", "1", "--threads", "1", "--loads-in-flight", "3"]].concat());
        assert_eq!(figure(&object, "loads_per_optimum"), 1.0, "{object}");
        assert!(figure(&object, "loads") >= figure(&object, "compulsory"), "{object}");
    }
}

#[test]
fn every_kind_of_number_and_of_neighbourhood_is_computed() {
    for element in ["f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"] {
        good(&["--type", element, "--extents", "33,47", "--brick", "7,9", "--radius", "2", "--shape", "star"]);
    }
    good(&["--extents", "13,14,15", "--brick", "4,5,6", "--radius", "2"]);
    good(&["--extents", "5000", "--brick", "64", "--radius", "100"]);
    good(&["--extents", "1,1,1"]);
    good(&["--extents", "3,3", "--radius", "40"]);
    // Bricks of one point, neighbours far away and on one side, weights.
    good(&["--extents", "20,20", "--brick", "1", "--slots", "60"]);
    good(&["--extents", "64,64", "--brick", "8", "--offset", "-17,3,0.5", "--offset", "0,40,-2", "--offset", "0,0"]);
}

#[test]
fn a_field_of_the_user_gives_the_sums_that_one_expects() {
    let scratch = Scratch::new("stencil-npy");
    let (input, output, plot) =
        (scratch.path().join("a.npy"), scratch.path().join("b.npy"), scratch.path().join("p.svg"));
    npy(&input, "(2, 3)", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let offsets = scratch.path().join("right");
    fs::write(&offsets, "# twice the right neighbour, less the point itself\n0 1 2\n0 0 -1\n").unwrap();
    let paths: Vec<&str> = [&input, &output, &plot, &offsets].map(|path| path.to_str().unwrap()).into();
    let given = ["--input", paths[0], "--output", paths[1], "--brick", "1,2"];
    good(&[&given[..], &["--plot", paths[2], "--offsets", paths[3]]].concat());
    assert_eq!(numbers(&output), [3.0, 4.0, -3.0, 6.0, 7.0, -6.0]);
    assert!(fs::read_to_string(&plot).unwrap().starts_with("<svg xmlns="));
    // In an order of the user's.
    let order = scratch.path().join("order");
    fs::write(&order, "3 0\n2 1").unwrap();
    let object = good(&[&given[..], &["--order-file", order.to_str().unwrap()]].concat());
    assert!(object.contains("\"order\":\"of a file\""), "{object}");
    assert_eq!(numbers(&output), [12.0, 21.0, 16.0, 12.0, 21.0, 16.0]);
    fs::write(&order, "3 0 2 2").unwrap();
    let twice = run(&[&given[..], &["--order-file", order.to_str().unwrap()]].concat());
    assert!(twice.status.code() == Some(2) && said(&twice).contains("brick 2 stands twice"), "{}", said(&twice));
}

#[test]
fn the_field_that_is_made_follows_from_its_seed() {
    let scratch = Scratch::new("stencil-seed");
    let made = |name: &str, seed: &str| {
        let path = scratch.path().join(name);
        good(&["--extents", "30,40", "--seed", seed, "--keep-input", path.to_str().unwrap()]);
        path
    };
    let [one, again, other] =
        [made("one", "1"), made("again", "1"), made("other", "2")].map(|path| fs::read(path).unwrap());
    assert!(one == again && one != other && one.len() > 30 * 40 * 8);
}

#[test]
fn files_that_are_no_fields_are_told_apart() {
    let scratch = Scratch::new("stencil-bad");
    let whole = scratch.path().join("whole.npy");
    npy(&whole, "(4, 4)", &[1.0; 16]);
    let bytes = fs::read(&whole).unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = scratch.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let header = |from: &str, to: &str| String::from_utf8_lossy(&bytes[10..]).replacen(from, to, 1).into_bytes();
    let changed = |from: &str, to: &str| [&bytes[..10], &header(from, to)[..]].concat();
    let cases: [(PathBuf, &str); 9] = [
        (file("short", &bytes[..bytes.len() - 1]), "its shape needs"),
        (file("long", &[&bytes[..], b"x"].concat()), "its shape needs"),
        (file("cut", &bytes[..20]), "within its header"),
        (file("empty", b""), "within its header"),
        (file("zip", b"PK\x03\x04 something else that is long enough"), "no array file of NumPy"),
        (file("big", &changed("<f8", ">f8")), "`>f8`"),
        (file("fortran", &changed("False", " True")), "Fortran order"),
        (file("zero", &changed("(4, 4)", "(4, 0)")), "extent 0"),
        (scratch.path().join("missing"), "missing: No such file"),
    ];
    for (path, expected) in cases {
        let output = run(&["--input", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{}", path.display());
        let (said, name) = (said(&output), path.display().to_string());
        assert!(said.contains(expected) && said.contains(&name), "{said}");
    }
}

#[test]
fn options_that_make_no_run_are_refused() {
    let scratch = Scratch::new("stencil-refused");
    let field = scratch.path().join("field.npy");
    npy(&field, "(4, 4)", &[1.0; 16]);
    let field = field.to_str().unwrap();
    for (given, expected) in [
        (&["--slots", "0"][..], "--slots"),
        (&["--threads", "0"], "--threads"),
        (&["--loads-in-flight", "0"], "--loads-in-flight"),
        (&["--active", "0"], "--active"),
        (&["--brick", "0"], "--brick"),
        (&["--extents", "0,5"], "--extents"),
        (&["--extents", "1,2,3,4"], "4 extents"),
        (&["--timeout", "0s"], "longer than nothing"),
        (&["--slots", "8"], "use --slots 9 or more"),
        (&["--radius", "4294967295"], "smaller radius"),
        (&["--brick", "1,2,3"], "3 numbers for a field of 2"),
        (&["--offset", "1"], "2 whole steps"),
        (&["--type", "i32", "--offset", "0,1,0.5"], "whole numbers"),
        (&["--type", "complex"], "is none of f32"),
        (&["--policy", "magic"], "known"),
        (&["--tile", "4"], "--order strips"),
        (&["--plot", "slots.png"], ".svg or .html"),
        (&["--input", field, "--output", field], "named for two things"),
        (&["--extents", "4294967295,4294967295", "--brick", "1"], "more bytes than a file"),
        (&["--extents", "4000000,4000000,1000"], "are free there"),
    ] {
        let output = run(given);
        assert!(!output.status.success(), "{given:?}");
        let said = said(&output);
        assert!(said.contains(expected), "{given:?}: {said}");
    }
    // Nothing was written over.
    assert_eq!(numbers(Path::new(field)), [1.0; 16]);
}

#[test]
fn an_interrupt_ends_a_run_and_leaves_nothing() {
    let scratch = Scratch::new("stencil-interrupt");
    let output = scratch.path().join("out.npy");
    // Bricks of one point take far longer than this test waits.
    let given = ["--extents", "3000,300", "--brick", "1", "--radius", "3", "--verify=never", "--quiet", "--output"];
    let mut command = umbra();
    command.args(given).arg(&output).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // The output is there before the first brick is computed.
    for _ in 0..600 {
        if output.exists() {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    assert!(output.exists(), "the run begins");
    thread::sleep(Duration::from_millis(300));
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", said(&ended));
    assert!(said(&ended).contains("interrupted;"), "{}", said(&ended));
    assert!(!output.exists(), "half a field is none");
}
