//! The C interface in a real job, with ranks in C and in Rust side by side.
//!
//! Agents are processes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use umbra_core::key::{Access, Key};
use umbra_core::peer::{Peer, Sp, WorldRank};
use umbra_core::ticket::{Locator, Ticket};
use umbra_tests::agents::Agents;
use umbra_tests::rig::{self, ByHand};

const HOSTS: u32 = 2;
const RANKS: u32 = 2;
/// Ranks under valgrind take their time.
const PATIENCE: Duration = Duration::from_secs(120);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// The compiled example of this name, or why there is none.
fn compile(directory: &Path, example: &str, flags: &[&str]) -> Result<PathBuf, String> {
    compile_over(directory, example, flags, rig::build())
}

/// The same over the library in this folder.
fn compile_over(directory: &Path, example: &str, flags: &[&str], library: &Path) -> Result<PathBuf, String> {
    let program = directory.join(example);
    let output = Command::new("cc")
        .args(["-std=c99", "-g", "-Wall", "-Wextra", "-pedantic", "-Werror"])
        .args(flags)
        .arg("-I")
        .arg(root().join("ffi/include"))
        .arg(root().join("ffi/examples").join(example).with_extension("c"))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(library)
        .args(["-lumbra_ffi", &format!("-Wl,-rpath,{}", library.display())])
        .output()
        .map_err(|e| format!("no C compiler: {e}"))?;
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && message.is_empty(), "the example does not compile cleanly:\n{message}");
    Ok(program)
}

/// The headers, also those that have the names of Dragon's.
fn headers() -> Vec<PathBuf> {
    let include = root().join("ffi/include");
    let folders = [include.clone(), include.join("dragon")];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    files.filter(|path| path.extension().is_some_and(|extension| extension == "h")).collect()
}

/// What a compiler of strict C99 says of a header alone, with these flags; nothing if there is no compiler.
fn said_of(header: &Path, flags: &[&str]) -> Option<(bool, String)> {
    let mut command = Command::new("cc");
    command
        .args(["-x", "c", "-std=c99", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"])
        .args(flags);
    command.arg("-I").arg(root().join("ffi/include")).arg("-include").arg(header).arg("/dev/null");
    let output = command.output().ok()?;
    Some((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

#[test]
fn every_header_is_strict_c99_and_those_for_dragon_say_what_else_they_need() {
    const POSIX: &str = "-D_POSIX_C_SOURCE=199309L";
    for header in &headers() {
        let is_plain = ["umbra.h", "umbra_armci.h"].iter().any(|name| header.ends_with(name));
        for flags in [&[][..], &["-DUMBRA_ARMCI_IMPLEMENTATION"], &[POSIX]] {
            let Some((is_clean, message)) = said_of(header, flags) else {
                return rig::skip("no C compiler");
            };
            let may_be_refused = !is_plain && !flags.contains(&POSIX);
            assert!(
                if may_be_refused { message.contains("_POSIX_C_SOURCE") } else { is_clean && message.is_empty() },
                "{}, {flags:?}:\n{message}",
                header.display(),
            );
        }
    }
}

#[test]
fn every_header_is_c_plus_plus_too() {
    let headers = headers();
    assert!(headers.len() > 8, "{headers:?}");
    for header in &headers {
        for (standard, implementation) in [("c++11", false), ("c++11", true), ("c++20", false), ("c++20", true)] {
            let mut command = Command::new("c++");
            command.args(["-x", "c++", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]);
            command.arg(format!("-std={standard}")).arg("-I").arg(root().join("ffi/include"));
            if implementation {
                command.arg("-DUMBRA_ARMCI_IMPLEMENTATION");
            }
            let output = match command.arg("-include").arg(header).arg("/dev/null").output() {
                Ok(output) => output,
                Err(error) => return rig::skip(format_args!("no C++ compiler: {error}")),
            };
            let message = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && message.is_empty(), "{}, {standard}:\n{message}", header.display());
        }
    }
}

#[test]
fn a_shared_library_for_packages_is_made_of_the_static_one() {
    let (library, map) = (rig::build().join("libumbra_ffi.a"), root().join("ffi/umbra.map"));
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("c-package-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let shared = directory.join("libumbra_ffi.so.0.1.0");
    let linked = Command::new("cc")
        .args(["-shared", "-Wl,-soname,libumbra_ffi.so.0", &format!("-Wl,--version-script={}", map.display())])
        .arg("-Wl,--whole-archive")
        .arg(library)
        .args(["-Wl,--no-whole-archive", "-Wl,--gc-sections", "-Wl,--strip-debug", "-lm", "-lpthread", "-ldl", "-o"])
        .arg(&shared)
        .output();
    let linked = match linked {
        Ok(linked) => linked,
        Err(error) => return rig::skip(format_args!("no C compiler: {error}")),
    };
    assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
    let development = directory.join("libumbra_ffi.so");
    std::os::unix::fs::symlink(&shared, directory.join("libumbra_ffi.so.0")).unwrap();
    std::os::unix::fs::symlink(&shared, &development).unwrap();
    let program = compile_over(&directory, "memory", &["-pthread"], &directory).unwrap();
    // Only the name that the library gives itself is there when the program runs.
    fs::remove_file(development).unwrap();
    let command = Command::new(&program).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    all_is_right(&[rig::finish(command.unwrap(), Instant::now() + PATIENCE)]);
    match Command::new("nm").args(["-D", "--undefined-only"]).arg(&program).output() {
        Ok(names) => {
            let names = String::from_utf8_lossy(&names.stdout).into_owned();
            let mut ours = names.lines().filter(|name| name.contains(" umbra_")).peekable();
            assert!(ours.peek().is_some() && ours.all(|name| name.ends_with("@UMBRA_0.1")), "{names}");
        }
        Err(error) => rig::skip(format_args!("no nm: {error}")),
    }
    fs::remove_dir_all(directory).unwrap();
}

fn ticket_of_nobody(job: &ByHand) -> PathBuf {
    job.directory().join(format!("ticket.{}", HOSTS * RANKS))
}

/// A job whose agents run, and in whose directory lies the ticket of a rank that is not there, for more memory than there is.
fn agents(name: &str) -> ByHand {
    let mut job = ByHand::new(name, HOSTS);
    let ticket = Ticket {
        key: Key::new(Peer::rank(WorldRank(0)).unwrap(), 0, 1),
        base: 0,
        len: 1 << 60,
        access: Access::READ,
        locator: Locator::Asked { sp: Sp(0) },
    };
    fs::write(ticket_of_nobody(&job), ticket.to_bytes()).unwrap();
    let sockets = job.directory().to_str().unwrap().to_owned();
    (0..HOSTS).for_each(|sp| job.start(sp, &["--sockets", &sockets, "--deadline-ms", "60000"]));
    job
}

/// Ends a job whose ranks have left.
fn end(job: ByHand) {
    fs::remove_file(ticket_of_nobody(&job)).unwrap();
    job.end();
}

/// Runs one rank of each of these programs and returns what they said.
fn run(job: &ByHand, programs: &[Vec<OsString>]) -> Vec<Output> {
    let start = |(rank, program): (usize, &Vec<OsString>)| {
        let (first, rest) = program.split_first().unwrap();
        Command::new(first)
            .args(rest)
            .args([job.config().as_path(), &job.secret(), job.directory()])
            .args([rank.to_string(), RANKS.to_string(), HOSTS.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let ranks: Vec<Child> = programs.iter().enumerate().map(start).collect();
    let deadline = Instant::now() + PATIENCE;
    ranks.into_iter().map(|rank| rig::finish(rank, deadline)).collect()
}

/// A rank that fails leaves the others waiting, so what all of them said is told.
fn all_is_right(outputs: &[Output]) {
    let failed = outputs.iter().enumerate().filter(|(_, output)| !output.status.success());
    let stories: Vec<String> = failed
        .map(|(rank, output)| {
            format!("rank {rank} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr))
        })
        .collect();
    assert!(stories.is_empty(), "{}", stories.join("\n"));
}

#[test]
fn a_job_of_c_ranks_does_all_that_the_header_promises() {
    let job = agents("plain");
    let program = match compile(job.directory(), "rank", &[]) {
        Ok(program) => program,
        Err(why) => return rig::skip(why),
    };
    let outputs = run(&job, &vec![vec![program.clone().into_os_string()]; (HOSTS * RANKS) as usize]);
    all_is_right(&outputs);
    for (rank, output) in outputs.iter().enumerate() {
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("rank {rank}: all is right\n"));
    }
    fs::remove_file(program).unwrap();
    end(job);
}

/// A job all of whose ranks run this program.
fn ranks_in_c(name: &str, program: &str, flags: &[&str]) {
    let job = agents(name);
    let program = match compile(job.directory(), program, flags) {
        Ok(program) => program,
        Err(why) => return rig::skip(why),
    };
    all_is_right(&run(&job, &vec![vec![program.clone().into_os_string()]; (HOSTS * RANKS) as usize]));
    fs::remove_file(program).unwrap();
    end(job);
}

#[test]
fn a_c_rank_leaves_while_its_threads_read_what_it_has_exported() {
    ranks_in_c("leave", "leave", &["-pthread"]);
}

#[test]
fn a_c_rank_keeps_what_it_reads_of_another_one_in_a_slot_cache() {
    ranks_in_c("loads", "loads", &["-pthread"]);
}

#[test]
fn a_child_of_a_c_rank_is_refused_the_session_that_it_inherits() {
    ranks_in_c("heir", "heir", &[]);
}

#[test]
fn a_c_rank_has_the_member_at_its_agent_keep_a_value() {
    ranks_in_c("seat", "seat", &[]);
}

#[test]
fn s37_a_c_rank_has_its_groups_and_memory_when_its_service_process_was_started_again() {
    let mut agents = Agents::start(1, 1, 2);
    let directory = agents.directory();
    let program = match compile(&directory, "restarted", &[]) {
        Ok(program) => program,
        Err(why) => return rig::skip(why),
    };
    let mut ranks = ["0", "1"].map(|rank| {
        Command::new(&program)
            .args([&agents.launcher.directory().config(), &agents.launcher.directory().secret(), &directory])
            .args([rank, "2", "1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    });
    // Who fails ends, and reads and writes no more: it is told of below.
    let mut outputs = ranks.each_mut().map(|rank| BufReader::new(rank.stdout.take().unwrap()));
    let mut are_there = || outputs.iter_mut().for_each(|output| assert!(output.read_line(&mut String::new()).is_ok()));
    let go_on = |ranks: &mut [Child]| {
        ranks.iter_mut().for_each(|rank| drop(rank.stdin.as_mut().unwrap().write_all(b"go on\n")));
    };
    are_there();
    agents.launcher.kill(rig::service(0));
    go_on(&mut ranks);
    are_there();
    agents.launcher.start_agent(Sp(0)).unwrap();
    assert!(agents.status(0).contains_key("uptime_ms"));
    go_on(&mut ranks);
    let deadline = Instant::now() + PATIENCE;
    all_is_right(&ranks.map(|rank| rig::finish(rank, deadline)));
}

#[test]
fn ranks_in_c_and_in_rust_form_one_job() {
    let job = agents("mixed");
    let c = match compile(job.directory(), "rank", &[]) {
        Ok(program) => program,
        Err(why) => return rig::skip(why),
    };
    let rust = rig::build().join("examples/rank").into_os_string();
    let c_program = vec![c.clone().into_os_string()];
    all_is_right(&run(&job, &[c_program.clone(), vec![rust.clone()], vec![rust], c_program]));
    fs::remove_file(c).unwrap();
    end(job);
}

#[test]
fn valgrind_finds_nothing_wrong_in_a_c_rank() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return rig::skip("no valgrind on this machine");
    }
    let job = agents("valgrind");
    let program = match compile(job.directory(), "rank", &[]) {
        Ok(program) => program.into_os_string(),
        Err(why) => return rig::skip(why),
    };
    let mut watched: Vec<OsString> =
        ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"].map(Into::into).into();
    watched.extend(["--errors-for-leak-kinds=definite".into(), program.clone()]);
    let mut programs = vec![vec![program.clone()]; (HOSTS * RANKS) as usize];
    programs[1] = watched;
    all_is_right(&run(&job, &programs));
    fs::remove_file(program).unwrap();
    end(job);
}

/// Compiles an example that needs no job and runs it, plainly, watched by AddressSanitizer, and by valgrind.
fn runs_alone(example: &str, arguments: &[&str], few: &[&str]) {
    runs_watched(example, arguments, few, true);
}

/// As [`runs_alone`], but by valgrind only if it can judge what the program does.
fn runs_watched(example: &str, arguments: &[&str], few: &[&str], valgrind_can: bool) {
    // Tests of one example run beside each other.
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let name = format!("c-{example}-{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&directory).unwrap();
    let run = |watcher: &[&str], flags: &[&str], arguments: &[&str]| {
        let program = match compile(&directory, example, &[&["-pthread"], flags].concat()) {
            Ok(program) => program,
            Err(why) => return rig::skip(why),
        };
        let mut command = match watcher.split_first() {
            None => Command::new(program),
            Some((name, options)) => {
                let mut command = Command::new(name);
                command.args(options).arg(program);
                command
            }
        };
        // A watcher refuses memory that there is not, as the system does.
        command.env("ASAN_OPTIONS", "allocator_may_return_null=1");
        let child = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let output = rig::finish(child.unwrap(), Instant::now() + PATIENCE);
        all_is_right(&[output]);
    };
    run(&[], &[], arguments);
    run(&[], &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"], few);
    if valgrind_can && Command::new("valgrind").arg("--version").output().is_ok() {
        let watched = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"];
        run(&watched, &[], few);
    } else if valgrind_can {
        rig::skip("no valgrind on this machine");
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn calls_in_c_that_fail_leave_what_the_header_promises() {
    runs_alone("failures", &[], &[]);
}

#[test]
fn lists_and_buffers_in_c_that_are_nowhere_crooked_or_endless_are_refused() {
    runs_alone("lengths", &[], &[]);
}

#[test]
fn a_slot_cache_in_c_does_all_that_the_header_promises() {
    runs_alone("cache", &[], &[]);
}

#[test]
fn a_slot_cache_of_processes_in_c_outlives_those_that_are_killed() {
    runs_alone("shared_cache", &[], &[]);
}

#[test]
fn memory_in_c_does_all_that_the_header_promises() {
    runs_alone("memory", &[], &[]);
}

#[test]
fn s15_handles_of_objects_go_from_c_over_a_wire_and_back() {
    runs_alone("object_pool", &[], &[]);
}

#[test]
fn a_stencil_cache_in_c_serves_outputs_single_references_any_ids_and_known_futures() {
    runs_alone("stencil_members", &[], &[]);
}

#[test]
fn s63_whoever_waits_in_c_for_what_is_destroyed_is_told_of_the_interrupt() {
    runs_alone("destroy", &[], &[]);
}

#[test]
fn s33_the_main_loop_in_c_may_wait_for_the_slots_of_each_point() {
    runs_alone("stencil", &["60", "50", "2", "300", "2", "3", "wait"], &["20", "12", "1", "70", "2", "2", "wait"]);
}

#[test]
fn s54_the_main_loop_of_a_stencil_in_c_computes_every_point_from_the_right_content() {
    runs_alone("stencil", &["200", "200", "3", "1000", "3", "6"], &["30", "20", "1", "70", "2", "2"]);
}

#[test]
fn a_pool_and_channels_in_c_do_all_that_the_header_promises() {
    runs_alone("pool", &[], &[]);
}

#[test]
fn a24_references_in_c_that_are_cut_or_changed_are_refused_and_nothing_behind_them_is_read() {
    runs_alone("guard", &["thoroughly"], &[]);
}

#[test]
fn streams_and_sets_of_channels_in_c_do_all_that_the_header_promises() {
    runs_alone("stream", &[], &[]);
}

#[test]
fn what_other_hosts_have_is_used_in_c_as_the_header_promises() {
    runs_alone("gateway", &[], &[]);
}

#[test]
fn children_of_a_c_program_with_threads_use_what_they_inherit() {
    // What threads that a child does not have were holding counts as lost to valgrind.
    runs_watched("forks", &["200"], &["10"], false);
}

#[test]
fn a_bell_in_c_rings_in_the_loop_of_a_program() {
    runs_alone("bell", &[], &[]);
}

#[test]
fn a73_a_program_in_the_words_of_dragon_runs_over_its_header() {
    runs_alone("dragon", &[], &[]);
}

#[test]
fn what_is_not_so_in_the_words_of_dragon_is_refused_and_costs_nobody_memory() {
    runs_alone("dragon_guard", &[], &[]);
}

#[test]
fn a43_parties_in_the_words_of_dragon_meet_in_two_steps() {
    // As the next one.
    runs_watched("dragon_barrier", &["1000"], &["20"], false);
}

#[test]
fn processes_in_the_words_of_dragon_attach_as_often_as_they_like() {
    // Who attaches asks who lives, by pidfd_open, which valgrind does not know.
    runs_watched("dragon_attach", &["200"], &["20"], false);
}

#[test]
fn ten_processes_in_the_words_of_dragon_hand_messages_on_and_lose_none() {
    // Those who wait long ask who lives, by that call too.
    runs_watched("dragon_ring", &["1000", "1000"], &["20", "20"], false);
}

#[test]
fn ghost_cells_of_arrays_in_c_are_exchanged_as_the_header_promises() {
    runs_alone("boundary", &["3"], &["2"]);
}

#[test]
fn edges_of_the_domain_and_idle_fields_in_c_are_as_the_header_promises() {
    runs_alone("edges", &[], &[]);
}

#[test]
fn ghost_cells_between_levels_in_c_are_as_the_header_promises() {
    runs_alone("levels", &[], &[]);
}

#[test]
fn s43_ranks_in_c_and_in_rust_exchange_ghost_cells_with_each_other() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("c-and-rust-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let c = match compile(&directory, "boundary", &[]) {
        Ok(program) => program,
        Err(why) => return rig::skip(why),
    };
    let rust = rig::build().join("examples/boundary");
    for (first, others) in [(&c, &rust), (&rust, &c), (&rust, &rust)] {
        let mut command = Command::new(first);
        let command = command.arg("4").arg(others).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = rig::finish(command.spawn().unwrap(), Instant::now() + PATIENCE);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        all_is_right(&[output]);
        assert_eq!(said.lines().count(), 4, "{said}");
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn s14_chained_calls_in_c_do_all_that_the_header_promises() {
    runs_alone("gpc", &[], &[]);
}

#[test]
fn s14_to_s19_calls_in_c_that_are_refused_send_nothing_and_the_next_one_is_taken() {
    runs_alone("refusals", &[], &[]);
}

#[test]
fn functions_in_c_are_told_which_members_are_below_them_and_which_call_it_is() {
    runs_alone("members", &[], &[]);
}

#[test]
fn nobody_waits_for_a_member_in_c_longer_than_he_said() {
    runs_alone("turns", &[], &[]);
}

#[test]
fn members_in_c_read_what_their_parent_offers_and_streams() {
    runs_alone("offer", &[], &[]);
}

#[test]
fn s15_chained_calls_have_the_names_of_armci_in_c() {
    runs_alone("armci", &[], &[]);
}

#[test]
fn s14_to_s19_calls_under_the_names_of_armci_that_are_refused_send_nothing_and_their_handle_serves_the_next_one() {
    runs_alone("armci_refusals", &[], &[]);
}
