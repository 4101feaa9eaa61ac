//! `umbra stencil` as a command: the same field in every order and policy.
//!
//! It is the same bit for bit; the optimum is reached, and bad input is told apart.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use umbra_tests::answer::figure;
use umbra_tests::rig::{self, Guarded, Scratch};

fn umbra() -> Command {
    let mut command = rig::interruptible();
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

/// The head of an array file, made here.
fn npy_head(path: &Path, element: &str, shape: &str) -> File {
    let text = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': {shape}, }}");
    let text = format!("{text:117}\n");
    let mut file = File::create(path).unwrap();
    file.write_all(b"\x93NUMPY\x01\x00").unwrap();
    file.write_all(&(text.len() as u16).to_le_bytes()).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

/// An array file of 8-byte floating-point numbers, made here.
fn npy(path: &Path, shape: &str, numbers: &[f64]) {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    npy_head(path, "<f8", shape).write_all(&bytes).unwrap();
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
            assert!(figure(&object, "optimum_of_active") >= figure(&object, "optimum"), "{object}");
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
        for ratio in ["loads_per_optimum", "loads_per_optimum_of_active"] {
            assert_eq!(figure(&object, ratio), 1.0, "{object}");
        }
        assert!(figure(&object, "loads") >= figure(&object, "compulsory"), "{object}");
    }
}

#[test]
fn the_plane_of_200_squared_takes_the_loads_that_are_published_and_all_figures_agree() {
    let plane = ["--extents", "200,200", "--brick", "1", "--radius", "3", "--slots", "1000", "--active", "1"];
    for (order, most, optimum) in [("rows", 1.001, Some(81_810.0)), ("strips", 1.002, None)] {
        let object = good(&[&plane[..], &["--order", order, "--threads", "1"]].concat());
        let told = |name: &str| figure(&object, name);
        let [loads, compulsory, fewest] = ["loads", "compulsory", "optimum"].map(told);
        assert!(compulsory == 40_000.0 && optimum.is_none_or(|optimum| optimum == fewest), "{object}");
        assert!(told("loads_per_optimum") <= most && fewest <= loads, "{object}");
        let [hits, references] = ["hits", "references"].map(told);
        assert_eq!(hits + loads, references, "each use finds its input or loads it: {object}");
        for (name, expected) in [
            ("loads_per_optimum", loads / fewest),
            ("loads_per_compulsory", loads / compulsory),
            ("hit_rate", hits / references),
            ("bricks_per_s", 40_000.0 * 1e9 / told("elapsed_ns")),
        ] {
            assert!((told(name) / expected - 1.0).abs() < 1e-6, "{name}: {object}");
        }
        assert!(told("elapsed_ns") > 0.0 && told("waits") >= 0.0, "{object}");
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
fn sums_that_are_no_numbers_agree_whichever_summand_they_have_their_bits_from() {
    let scratch = Scratch::new("stencil-nan");
    let (input, output) = (scratch.path().join("a.npy"), scratch.path().join("b.npy"));
    let odd = [f64::NAN, f64::INFINITY, -f64::NAN, f64::NEG_INFINITY, f64::from_bits(0x7ff8_0000_0000_0dad)];
    let values: Vec<f64> = (0..9 * 11).map(|at| odd.get(at * at % 7).copied().unwrap_or(at as f64)).collect();
    npy(&input, "(9, 11)", &values);
    let paths = [&input, &output].map(|path| path.to_str().unwrap());
    for brick in ["1,1", "2,5", "9,11"] {
        good(&["--input", paths[0], "--output", paths[1], "--brick", brick, "--radius", "2"]);
        let found = numbers(&output);
        assert!(found.iter().any(|number| number.is_nan()) && found.len() == values.len());
        let mut bits = found.into_iter().filter(|number| number.is_nan()).map(f64::to_bits);
        assert!(bits.all(|bits| bits == f64::NAN.to_bits()));
    }
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
    let cases: [(PathBuf, &str); 15] = [
        (file("short", &bytes[..bytes.len() - 1]), "its shape needs"),
        (file("long", &[&bytes[..], b"x"].concat()), "its shape needs"),
        (file("cut", &bytes[..20]), "within its header"),
        (file("empty", b""), "within its header"),
        (file("zip", b"PK\x03\x04 something else that is long enough"), "no array file of NumPy"),
        (file("big", &changed("<f8", ">f8")), "`>f8`"),
        (file("bell", &changed("<f8", "\u{7}f8")), "`\\u{7}f8`"),
        (file("fortran", &changed("False", " True")), "Fortran order"),
        (file("zero", &changed("(4, 4)", "(4, 0)")), "extent 0"),
        (file("negative", &changed("(4, 4)", "(4,-4)")), "without a sign"),
        (file("infinite", &changed("(4, 4)", "(inf,)")), "extents are whole numbers"),
        (file("beyond", &changed("(4, 4)", "(4, 9)")), "its shape needs"),
        (file("vast", &changed("(4, 4)", "(4294967295, 4294967295)")), "use smaller ones"),
        (file("header", &[&bytes[..8], b"\xff\xff", &bytes[10..]].concat()), "within its header"),
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
        (&["--slots=-1"], "--slots"),
        (&["--slots", "4294967296"], "--slots"),
        (&["--active", "99999999999999999999"], "--active"),
        (&["--threads=-2"], "--threads"),
        (&["--threads", "0"], "--threads"),
        (&["--loads-in-flight", "0"], "--loads-in-flight"),
        (&["--active", "0"], "--active"),
        (&["--brick", "0"], "--brick"),
        (&["--brick", "0x4"], "such as 64,64"),
        (&["--extents", "0,5"], "--extents"),
        (&["--extents", "5x5"], "such as 64,64"),
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
        (&["--window", "9"], "--window: use it with --policy window"),
        (&["--window", "9", "--policy", "usage"], "--window: use it with --policy window"),
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
    assert_eq!(run(&["--window", "9"]).status.code(), Some(2));
    // Nothing was written over.
    assert_eq!(numbers(Path::new(field)), [1.0; 16]);
}

/// Names in a directory, hidden ones too.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_old_file_stays_whatever_becomes_of_the_run() {
    let scratch = Scratch::new("stencil-old");
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let old = path("old.npy");
    fs::write(&old, "old").unwrap();
    let order = path("order");
    fs::write(&order, "0 0").unwrap();
    let socket = path("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    for (given, expected) in [
        (&["--keep-input", &old, "--extents", "4294967295,4294967295"][..], "more bytes than a file"),
        (&["--keep-input", &old, "--extents", "4000000,4000000,1000"], "are free there"),
        (&["--keep-input", &old, "--slots", "8"], "use --slots 9 or more"),
        (&["--keep-input", &old, "--order-file", &order], "stands twice"),
        (&["--output", &old, "--extents", "9,9", "--keep-input", &socket], "no regular file"),
        (&["--output", &socket], "no regular file"),
        (&["--output", scratch.path().to_str().unwrap()], "no regular file"),
    ] {
        let output = run(given);
        let said = said(&output);
        assert!(!output.status.success() && said.contains(expected), "{given:?}: {said}");
        assert_eq!(fs::read(&old).unwrap(), b"old", "{given:?}");
        assert_eq!(names(scratch.path()), ["old.npy", "order", "socket"], "{given:?}");
    }
    // A symbolic link stays one, and the file that it leads to is replaced, with the same permissions.
    fs::set_permissions(&old, Permissions::from_mode(0o640)).unwrap();
    let link = path("link.npy");
    symlink("old.npy", &link).unwrap();
    good(&["--extents", "9,9", "--output", &link]);
    assert_eq!(numbers(Path::new(&old)).len(), 81);
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("old.npy"));
    assert_eq!(fs::metadata(&old).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(names(scratch.path()), ["link.npy", "old.npy", "order", "socket"]);
}

#[test]
fn a_file_is_not_named_for_two_things_however_it_is_spelled() {
    let scratch = Scratch::new("stencil-twice");
    npy(&scratch.path().join("a.npy"), "(4, 4)", &[1.0; 16]);
    fs::hard_link(scratch.path().join("a.npy"), scratch.path().join("same.npy")).unwrap();
    fs::write(scratch.path().join("right.svg"), "0 1").unwrap();
    for given in [
        &["--input", "a.npy", "--output", "same.npy"][..],
        &["--keep-input", "x.npy", "--output", "./x.npy"],
        &["--output", "right.svg", "--offsets", "./right.svg"],
        &["--plot", "right.svg", "--order-file", "right.svg"],
    ] {
        let output = umbra().args(given).current_dir(scratch.path()).output().unwrap();
        let said = said(&output);
        assert!(output.status.code() == Some(2) && said.contains("named for two things"), "{given:?}: {said}");
    }
    assert_eq!(numbers(&scratch.path().join("a.npy")), [1.0; 16]);
    assert_eq!(names(scratch.path()), ["a.npy", "right.svg", "same.npy"]);
}

#[test]
fn strips_fit_the_slots_in_bricks_not_in_points() {
    // For a box two rows of a strip with its rims, and one brick and its neighbours: 2 * 10 + 3 slots. For a star two rows of a
    // strip, one brick, and one of the rim: 2 * 11 + 2. The others suffice for all 32 bricks of a rim: each is loaded once.
    for (shape, width) in [("box", 8), ("star", 11)] {
        let given = ["--extents", "256,512", "--brick", "16", "--shape", shape, "--radius", "16", "--slots", "60"];
        let object = good(&[&given[..], &["--order", "strips", "--active", "1"]].concat());
        assert!(object.contains(&format!("\"order\":\"strips of 16 × {width}\"")), "{shape}: {object}");
        assert_eq!(figure(&object, "loads_per_compulsory"), 1.0, "{shape}: {object}");
    }
}

#[test]
fn more_than_memory_holds_is_refused_and_slots_are_no_more_than_bricks() {
    let object = good(&["--extents", "100,100", "--brick", "10", "--slots", "4294967295"]);
    assert_eq!((figure(&object, "slots"), figure(&object, "loads")), (100.0, 100.0), "{object}");
    // More than a TiB of references.
    let large = ["--extents", "8000,8000", "--type", "u8", "--brick", "1", "--radius", "40", "--verify=never"];
    let output = run(&large);
    let said = said(&output);
    assert!(output.status.code() == Some(1) && said.contains("use larger bricks"), "{said}");
}

#[test]
fn bricks_at_an_edge_do_not_speak_for_all_when_memory_is_added_up() {
    let scratch = Scratch::new("stencil-edge");
    npy_head(&scratch.path().join("in.npy"), "|u1", "(100000000,)").set_len(128 + 100_000_000).unwrap();
    // The first bricks are computed from none, all but some thousand others from two thousand each: more than a TiB.
    let offsets: Vec<String> = (5000..7000).map(|step| format!("-{step}")).collect();
    fs::write(scratch.path().join("offsets"), offsets.join("\n")).unwrap();
    let given = ["--input", "in.npy", "--offsets", "offsets", "--brick", "1", "--verify=never"];
    let output = umbra().args(given).current_dir(scratch.path()).output().unwrap();
    let said = said(&output);
    assert!(output.status.code() == Some(1) && said.contains("the list of bricks"), "{said}");
}

#[test]
fn what_threads_compute_in_counts_as_memory() {
    let scratch = Scratch::new("stencil-threads");
    npy_head(&scratch.path().join("in.npy"), "|u1", "(1048576, 1048576)").set_len(128 + (1 << 40)).unwrap();
    // One slot of 64 MiB, and a thousand threads of which each takes 9 bytes for each point.
    let given = ["--input", "in.npy", "--offset", "0,0", "--brick", "8192", "--slots", "1", "--threads", "1000"];
    let output = umbra().args(given).args(["--verify=never"]).current_dir(scratch.path()).output().unwrap();
    let said = said(&output);
    assert!(output.status.code() == Some(1) && said.contains("use fewer --threads"), "{said}");
}

#[test]
fn a_comparison_that_memory_cannot_hold_is_refused_before_anything_is_computed() {
    let scratch = Scratch::new("stencil-comparison");
    let path = |name: &str| scratch.path().join(name);
    npy_head(&path("in.npy"), "|u1", "(1048576, 1048576)").set_len(128 + (1 << 40)).unwrap();
    fs::write(path("out.npy"), "old").unwrap();
    let given = ["--input", "in.npy", "--offset", "0,0", "--brick", "65536", "--slots", "1", "--output", "out.npy"];
    let output = umbra().args(given).arg("--verify").current_dir(scratch.path()).output().unwrap();
    let said = said(&output);
    assert!(output.status.code() == Some(1) && said.contains("the comparison: 2.00 TiB of memory needed"), "{said}");
    assert_eq!(fs::read(path("out.npy")).unwrap(), b"old");
    assert_eq!(names(scratch.path()), ["in.npy", "out.npy"]);
}

#[test]
fn a_comparison_that_nobody_asked_for_costs_no_output_for_want_of_memory() {
    let scratch = Scratch::new("stencil-unasked");
    npy_head(&scratch.path().join("in.npy"), "|u1", "(12288, 16384)").set_len(128 + 12288 * 16384).unwrap();
    let one = ["--brick", "64,16384", "--slots", "4", "--threads", "1", "--loads-in-flight", "1"];
    let given = ["--input", "in.npy", "--output", "out.npy", "--offset", "0,0", "--json", "--quiet"];
    // The system has memory for both fields, and this process has not.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 393216; exec \"$0\" stencil \"$@\""]).arg(&rig::programs().0);
    command.args(one).args(given).env("MALLOC_ARENA_MAX", "1").current_dir(scratch.path());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("\"verified\":false"), "{}{text}", said(&output));
    assert_eq!(names(scratch.path()), ["in.npy", "out.npy"]);
}

#[test]
fn a_drawing_that_cannot_be_made_leaves_the_old_output() {
    let scratch = Scratch::new("stencil-drawing");
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("out.npy"), "old").unwrap();
    symlink("/dev/full", path("full.svg")).unwrap();
    fs::create_dir(path("directory.svg")).unwrap();
    for drawing in [&path("full.svg"), &path("directory.svg"), "/proc/none.svg"] {
        let output = run(&["--extents", "300,300", "--quiet", "--output", &path("out.npy"), "--plot", drawing]);
        let said = said(&output);
        assert!(output.status.code() == Some(1) && said.contains("cannot write the drawing"), "{drawing}: {said}");
        assert!(fs::read(path("out.npy")).unwrap() == b"old", "{drawing}");
        assert_eq!(names(scratch.path()), ["directory.svg", "full.svg", "out.npy"]);
    }
    // One that can is drawn whole, and of a run that fails nothing stays.
    fs::write(path("old.svg"), "old").unwrap();
    let (out, old) = (path("out.npy"), path("old.svg"));
    let given = ["--extents", "300,300", "--output", &out, "--plot", &old];
    assert_eq!(run(&[&given[..], &["--slots", "8"]].concat()).status.code(), Some(2));
    assert!(fs::read(&out).unwrap() == b"old" && fs::read(&old).unwrap() == b"old");
    good(&given);
    assert!(fs::read_to_string(&old).unwrap().contains("</svg>"));
    assert_eq!(numbers(Path::new(&out)).len(), 90_000);
    assert_eq!(names(scratch.path()), ["directory.svg", "full.svg", "old.svg", "out.npy"]);
}

fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

/// Starts a run that writes into a directory with an old output, and waits until it has made a file of its own there.
fn started(directory: &Path, given: &[&str]) -> Guarded {
    fs::write(directory.join("out.npy"), "old").unwrap();
    let mut command = umbra();
    command.args(given).args(["--verify=never", "--quiet", "--output", "out.npy"]).current_dir(directory);
    let child = Guarded::from(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    for _ in 0..600 {
        if names(directory).len() > 1 {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(names(directory).len(), 2, "the run begins");
    child
}

#[test]
fn an_interrupt_ends_a_run_and_leaves_nothing_but_the_old_output() {
    // Bricks of one point take far longer than this test waits, and so does a field of this size.
    let computing = ["--extents", "1000,300", "--brick", "1", "--radius", "3"];
    let making = ["--extents", "150000,20000", "--type", "u8", "--keep-input", "in.npy"];
    for (given, expected) in [(&computing[..], "interrupted;"), (&making, "in.npy: interrupted")] {
        let scratch = Scratch::new("stencil-interrupt");
        let child = started(scratch.path(), given);
        thread::sleep(Duration::from_millis(300));
        interrupt(&child);
        let ended = child.finish(Instant::now() + rig::PATIENCE);
        assert_eq!(ended.status.code(), Some(130), "{}", said(&ended));
        assert!(said(&ended).contains(expected), "{}", said(&ended));
        assert_eq!(names(scratch.path()), ["out.npy"], "half a field is none");
        assert_eq!(fs::read(scratch.path().join("out.npy")).unwrap(), b"old");
    }
}

/// A run that reads a named pipe, and the end of that to write to: it can be opened like this once somebody reads.
fn reading(directory: &Path, given: &[&str]) -> (Guarded, File) {
    let pipe = directory.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = umbra();
    command.args(given).args(["pipe", "--output", "out.npy", "--verify=never", "--quiet"]).current_dir(directory);
    let child = Guarded::from(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let opened = (0..600).find_map(|_| {
        thread::sleep(Duration::from_millis(50));
        OpenOptions::new().write(true).custom_flags(nonblocking).open(&pipe).ok()
    });
    (child, opened.unwrap())
}

#[test]
fn an_interrupt_is_heard_while_a_text_is_awaited_from_a_pipe() {
    for option in ["--order-file", "--offsets"] {
        let scratch = Scratch::new("stencil-pipe");
        let (child, mut writer) = reading(scratch.path(), &["--extents", "300,300", "--brick", "1", option]);
        writer.write_all(b"0 1\n").unwrap();
        interrupt(&child);
        let ended = child.finish(Instant::now() + rig::PATIENCE);
        assert_eq!(ended.status.code(), Some(130), "{}", said(&ended));
        assert!(said(&ended).contains("pipe: interrupted while it was read"), "{}", said(&ended));
        assert_eq!(names(scratch.path()), ["pipe"]);
    }
}

#[test]
fn an_interrupt_is_heard_while_nobody_writes_to_a_pipe() {
    let scratch = Scratch::new("stencil-silent");
    assert!(Command::new("mkfifo").arg(scratch.path().join("pipe")).status().unwrap().success());
    let mut command = umbra();
    command.args(["--extents", "30,30", "--offsets", "pipe", "--quiet"]).current_dir(scratch.path());
    let child = Guarded::from(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    catches_signals(&child);
    thread::sleep(Duration::from_millis(300));
    interrupt(&child);
    let ended = child.finish(Instant::now() + rig::PATIENCE);
    assert_eq!(ended.status.code(), Some(130), "{}", said(&ended));
    assert!(said(&ended).contains("nothing is computed yet"), "{}", said(&ended));
}

#[test]
fn a_text_comes_through_a_pipe_in_pieces() {
    let scratch = Scratch::new("stencil-pieces");
    let (child, mut writer) = reading(scratch.path(), &["--extents", "4", "--brick", "1", "--order-file"]);
    writer.write_all(b"3 0").unwrap();
    thread::sleep(Duration::from_millis(200));
    writer.write_all(b" 2 1").unwrap();
    drop(writer);
    let ended = child.finish(Instant::now() + rig::PATIENCE);
    assert!(ended.status.success() && scratch.path().join("out.npy").exists(), "{}", said(&ended));
    let mut command = umbra();
    command.args(["--extents", "4", "--brick", "1", "--order-file", "/dev/stdin", "--json"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"1 2 0 3").unwrap();
    let ended = Guarded::from(child).finish(Instant::now() + rig::PATIENCE);
    assert!(ended.status.success(), "{}", said(&ended));
}

/// Returns once a process catches an interrupt.
fn catches_signals(child: &Child) {
    let status = format!("/proc/{}/status", child.id());
    let catches = || {
        let status = fs::read_to_string(&status).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << 1 != 0
    };
    let begins = (0..600).any(|_| {
        thread::sleep(Duration::from_millis(50));
        catches()
    });
    assert!(begins, "the run begins");
}

#[test]
fn an_interrupt_is_heard_while_it_is_looked_how_many_bricks_each_needs() {
    let scratch = Scratch::new("stencil-reach");
    // No numbers are made first; and a million neighbours for each of 4096 bricks.
    npy(&scratch.path().join("in.npy"), "(256, 256, 256)", &vec![0.5; 1 << 24]);
    let given = ["--input", "in.npy", "--radius", "50", "--output", "out.npy", "--verify=never", "--quiet"];
    let mut command = umbra();
    command.args(given).current_dir(scratch.path());
    let child = Guarded::from(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    catches_signals(&child);
    thread::sleep(Duration::from_millis(300));
    interrupt(&child);
    let start = Instant::now();
    let ended = child.finish(Instant::now() + rig::PATIENCE);
    assert_eq!(ended.status.code(), Some(130), "{}", said(&ended));
    assert!(said(&ended).contains("nothing is computed yet"), "{}", said(&ended));
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert_eq!(names(scratch.path()), ["in.npy"]);
}

#[test]
fn a_second_interrupt_leaves_no_more_than_the_first() {
    let scratch = Scratch::new("stencil-interrupts");
    // One brick is all there is, and it is not left before it is computed.
    let child = started(scratch.path(), &["--extents", "2000,2000", "--brick", "2000", "--radius", "60"]);
    thread::sleep(Duration::from_millis(300));
    interrupt(&child);
    thread::sleep(Duration::from_millis(300));
    interrupt(&child);
    let ended = child.finish(Instant::now() + rig::PATIENCE);
    assert_eq!(ended.status.code(), Some(130), "{}", said(&ended));
    assert_eq!(names(scratch.path()), ["out.npy"]);
    assert_eq!(fs::read(scratch.path().join("out.npy")).unwrap(), b"old");
}
