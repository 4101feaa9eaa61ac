//! The command as a user meets it: what is refused, how, and with which exit code.
#![cfg(feature = "command")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn umbra(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_umbra")).args(args).stdin(Stdio::null()).output().unwrap()
}

/// Runs `umbra` and returns its only message; there must be nothing on stdout and no panic.
fn refused(args: &[&str], code: i32) -> String {
    let output = umbra(args);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
    assert!(output.stdout.is_empty(), "{args:?} printed to stdout");
    assert!(message.starts_with("error: ") && !message.contains("panicked"), "{args:?}: {message}");
    assert_eq!(message.matches("error:").count(), 1, "{args:?}: {message}");
    message
}

fn file(name: &str, content: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("umbra-command-{}-{name}", std::process::id()));
    std::fs::write(&path, content).unwrap();
    path
}

#[test]
fn zero_and_absurd_counts_are_usage_errors_that_name_the_option() {
    for option in ["--hosts", "--service-processes", "--ranks", "--shadows", "--size", "--timeout"] {
        let message = refused(&["run", option, "0"], 2);
        assert!(message.contains(option), "{message}");
    }
    for args in [
        ["--hosts", "4294967295"],
        ["--ranks", "1000000"],
        ["--ranks", "99999999999999999999"],
        ["--hosts", "-1"],
        ["--size", "1T"],
        ["--shadows", "9"],
        ["--data-path", "pigeon"],
        ["--reads", "many"],
    ] {
        refused(&["run", args[0], args[1]], 2);
    }
}

#[test]
fn a_missing_input_is_named() {
    let message = refused(&["run", "--input", "/does/not/exist", "--agent", "/bin/true"], 1);
    assert!(message.contains("/does/not/exist"), "{message}");
}

/// A folder for programs of a test, removed by whoever made it.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("umbra-command-{}-{name}", std::process::id()));
    std::fs::create_dir(&path).unwrap();
    path
}

#[test]
fn an_agent_that_is_named_without_a_folder_is_the_one_that_lies_here() {
    let here = folder("agent");
    std::fs::write(here.join("agent"), "#!/bin/sh\nexit 77\n").unwrap();
    std::fs::set_permissions(here.join("agent"), std::fs::Permissions::from_mode(0o700)).unwrap();
    let umbra = |args: &[&str]| {
        let mut umbra = Command::new(env!("CARGO_BIN_EXE_umbra"));
        let output = umbra.args(args).current_dir(&here).stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, message) = umbra(&["run", "--quiet", "--agent", "agent"]);
    assert!(code == Some(1) && message.contains("exit status: 77"), "{message}");
    let advect = ["advect", "--quiet", "-n", "1", "--cycles", "3", "--transport", "agent", "--agent"];
    let (code, message) = umbra(&[&advect[..], &["agent"]].concat());
    assert!(code == Some(1) && message.contains("it ended before its first look, exit status: 77"), "{message}");
    std::fs::create_dir(here.join("none")).unwrap();
    for args in [&["run", "--quiet", "--agent"][..], &advect] {
        let (code, message) = umbra(&[args, &["none"]].concat());
        assert!(code == Some(1) && message.contains("no executable at none: "), "{message}");
    }
    std::fs::remove_dir_all(here).unwrap();
}

#[test]
fn a_folder_is_no_secret() {
    let config = file("folder.cfg", "# Format version: 1\nnode1,bf1:127.0.0.1:7010:9010\n");
    let secret = folder("secret");
    let message = refused(&["doctor", "--config", config.to_str().unwrap(), "--secret", secret.to_str().unwrap()], 1);
    assert!(message.contains("is a directory"), "{message}");
    std::fs::remove_dir(secret).unwrap();
    std::fs::remove_file(config).unwrap();
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_runs() {
    let message = refused(&["run", "--report", "/does/not/exist/run.html"], 1);
    assert!(message.contains("/does/not/exist/run.html"), "{message}");
}

#[test]
fn s43_a_broken_configuration_is_told_with_file_and_line() {
    let path = file("broken.cfg", "# Format version: 1\nnode1,bf1:127.0.0.1:7010&7011:9010\n");
    let message = refused(&["check-config", path.to_str().unwrap()], 1);
    assert!(message.contains(&format!("{}:2:", path.display())), "{message}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn s43_a_good_configuration_is_explained() {
    let path = file("good.cfg", "# Format version: 1\nn1,bf1:127.0.0.1:7010:9010\nn2,bf10:127.0.0.2:7010:9010\n");
    let output = umbra(&["check-config", path.to_str().unwrap(), "--dpus", "bf10,bf1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let bf10 = text.lines().position(|line| line.contains("bf10")).unwrap();
    let bf1 = text.lines().position(|line| line.contains("bf1 ")).unwrap();
    assert!(bf10 < bf1, "the job's list gives the order:\n{text}");
    let message = refused(&["check-config", path.to_str().unwrap(), "--dpus", "bf1,bf2"], 1);
    assert!(message.contains("bf2"), "{message}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_configuration_without_end_is_refused() {
    let message = refused(&["check-config", "/dev/zero"], 1);
    assert!(message.contains("no configuration"), "{message}");
}

/// Each ends by itself, and no sooner than a writer had its time.
#[test]
fn a_pipe_that_nobody_writes_to_is_not_waited_for_for_ever() {
    let here = folder("silent");
    let (silent, config) = (here.join("pipe"), here.join("job.cfg"));
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &silent, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    std::fs::write(&config, "# Format version: 1\nnode1,bf1:127.0.0.1:7010:9010\n").unwrap();
    let (silent, config) = (silent.to_str().unwrap(), config.to_str().unwrap());
    let waiting = [
        &["check-config", silent][..],
        &["doctor", "--config", silent, "--secret", "/dev/null"],
        &["doctor", "--config", config, "--secret", silent],
    ];
    let waiting = waiting.map(|args| {
        let mut umbra = Command::new(env!("CARGO_BIN_EXE_umbra"));
        (args, umbra.args(args).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    });
    let began = std::time::Instant::now();
    for (args, mut umbra) in waiting {
        while umbra.try_wait().unwrap().is_none() && began.elapsed().as_secs() < 120 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        umbra.kill().unwrap();
        let output = umbra.wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code().is_some(), "{args:?} waits for ever");
        assert!(!output.status.success() && message.contains(silent), "{args:?}: {message}");
        assert!(message.contains("did not end within 10s: have its writer end"), "{args:?}: {message}");
    }
    std::fs::remove_dir_all(here).unwrap();
}

#[test]
fn a_configuration_may_come_through_a_pipe() {
    let mut umbra = Command::new(env!("CARGO_BIN_EXE_umbra"));
    umbra.args(["check-config", "/dev/stdin"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut umbra = umbra.spawn().unwrap();
    let text = b"# Format version: 1\nnode1,bf1:127.0.0.1:7010:9010\n";
    std::io::Write::write_all(&mut umbra.stdin.take().unwrap(), text).unwrap();
    let output = umbra.wait_with_output().unwrap();
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("bf1"));
}

#[test]
fn devices_are_listed_or_it_is_told_how_to_get_one() {
    let output = umbra(&["devices", "--json"]);
    let (text, message) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if text.contains("\"name\"") {
        assert!(text.contains("\"ports\""), "{text}");
    } else {
        assert_eq!(output.status.code(), Some(1));
        assert!(message.contains("rdma link add") || message.contains("install libibverbs1"), "{message}");
    }
}

#[test]
fn a_job_over_rdma_on_a_machine_without_is_refused_with_the_remedy() {
    if umbra::access::exposure::any_port().is_ok() {
        // Whole jobs over it are run by tests of their own.
        return println!("skipped: this machine has RDMA, so there is nothing to refuse");
    }
    for path in ["verbs", "verbs-asked"] {
        let told = refused(&["run", "--quiet", "--data-path", path], 1);
        assert!(told.contains("RDMA") || told.contains("libibverbs"), "{told}");
        assert!(["install", "load", "bring"].iter().any(|remedy| told.contains(remedy)), "{told}");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_umbra"))
        .args(["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut message = String::new();
    child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert!(child.wait().unwrap().success(), "{message}");
    assert_eq!(message, "");
}

/// The exit code of a command whose output nobody reads.
fn unread(args: &[&str]) -> Option<i32> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_umbra"))
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    child.wait().unwrap().code()
}

#[test]
fn work_that_failed_has_failed_although_nobody_reads_of_it() {
    assert_eq!(unread(&["run", "--json", "--input", "/does/not/exist", "--agent", "/bin/true"]), Some(1));
    assert_eq!(unread(&["diff", "world", "row:0"]), Some(1));
    assert_eq!(unread(&["diff", "world", "world"]), Some(0));
    assert_eq!(unread(&["sim", "--loss", "100", "--timeout", "1s"]), Some(1));
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let script = String::from_utf8(umbra(&["completions", "bash"]).stdout).unwrap();
    let page = String::from_utf8(umbra(&["man"]).stdout).unwrap();
    for command in ["run", "check-config", "devices", "completions", "man"] {
        assert!(script.contains(command), "{command} cannot be completed");
        assert!(page.contains(&command.replace('-', "\\-")), "{command} is not in the manual");
    }
    let directory = std::env::temp_dir().join(format!("umbra-command-{}-man", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    assert!(umbra(&["man", "--into", directory.to_str().unwrap()]).status.success());
    assert!(directory.join("umbra-run.1").is_file());
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn colour_goes_only_where_it_can_be_seen_or_is_asked_for() {
    let plain = umbra(&["help", "run"]).stdout;
    assert!(!plain.contains(&0x1b));
    let painted = umbra(&["--color", "always", "check-config", "/does/not/exist"]).stderr;
    assert!(painted.contains(&0x1b));
}

#[test]
fn look_ups_of_unknown_groups_and_ranks_are_failures_that_say_what_exists() {
    assert!(refused(&["lookup", "world", "8"], 1).contains("group of 8"));
    assert!(refused(&["lookup", "row:2", "0"], 1).contains("2 rows"));
    assert!(refused(&["lookup", "column:4", "0"], 1).contains("4 columns"));
    refused(&["lookup", "nonsense", "0"], 2);
    refused(&["lookup", "world", "-1"], 2);
    refused(&["lookup", "world", "0", "--hosts", "3000000", "--ranks", "4000"], 2);
    refused(&["dump", "world", "--shadows", "3"], 2);
}

#[test]
fn a_row_beyond_all_ranks_is_refused() {
    let message = refused(&["lookup", "sp:0/row:4294967295", "0", "--ranks", "4"], 2);
    assert!(message.contains("row 4294967295"), "{message}");
}

#[test]
fn a_look_up_names_the_service_process_of_the_rank() {
    let output = umbra(&["lookup", "column:1", "2", "--hosts", "3", "-s", "2", "--ranks", "4", "--json"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // The second rank of host 2 is world rank 9; local rank 1 belongs to the second of the host's service processes.
    assert_eq!((&answer["world_rank"], &answer["host"], &answer["service_process"]), (&9.into(), &2.into(), &5.into()));
}

#[test]
fn a_kept_table_is_the_table_and_a_damaged_one_is_refused() {
    let path = file("world.table", "");
    let name = path.to_str().unwrap();
    assert!(umbra(&["dump", "world", "--output", name]).status.success());
    assert!(umbra(&["diff", name, "world"]).status.success());
    let other = umbra(&["diff", name, "row:0"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(String::from_utf8(other.stdout).unwrap().contains("rank 7"));

    let bytes = std::fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&path, &damaged).unwrap();
        refused(&["lookup", name, "0"], 1);
    }
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert!(refused(&["dump", name], 1).contains(name));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn one_of_a_thing_is_one() {
    let told = |args: &[&str], words: &str| {
        let output = umbra(&[args, &["--hosts", "1", "-s", "1", "--ranks", "1", "--shadows", "1"]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains(words), "{args:?}: {text}");
    };
    told(&["dump", "world"], "world: 1 rank, 1 service process, 1 host, generation");
    told(&["lookup", "world", "0"], "in a job of 1 host × 1 service process × 1 rank\n");
    told(&["lookup", "world", "0"], "1 rank, generation");
    told(&["diff", "world", "world"], " bytes, 1 rank\n");
}

#[test]
fn a_running_job_whose_groups_are_not_asked_for_is_refused() {
    for command in [&["lookup", "world", "0"][..], &["dump", "row:0"], &["diff", "world", "column:0"]] {
        for job in [["--job", "/tmp"], ["--config", "x"], ["--secret", "x"], ["--dpus", "x"], ["--sockets", "x"]] {
            let why = refused(&[command, &job].concat(), 2);
            assert!(why.contains(job[0]) && why.contains("sp:0/world"), "{why}");
        }
    }
}

#[test]
fn a_simulated_job_becomes_full_and_repeats_itself() {
    let run = |seed: &str| {
        let output = umbra(&["sim", "--hosts", "3", "--loss", "10", "--seed", seed, "--json"]);
        assert!(output.status.success());
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let first = run("5");
    assert_eq!((&first["full_service_processes"], &first["ready_ranks"]), (&6.into(), &12.into()));
    assert_eq!(first, run("5"));
    assert_ne!(first["digest"], run("6")["digest"]);
}

#[test]
fn s36_the_simulator_names_a_service_process_that_was_killed() {
    let output = umbra(&["sim", "--kill", "sp:3@20us"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("service process 3") && text.contains("kill sp:3"), "{text}");
    // Also before anything has begun.
    let output = umbra(&["sim", "--kill", "sp:3@0us"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("kill sp:3"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// The lines of a timeline contain these words, in this order.
fn in_order(arguments: &[&str], told: &[&str]) {
    let output = umbra(&[arguments, &["--timeline", "--json"]].concat());
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines = object["timeline"].as_array().unwrap();
    assert!(lines.is_sorted_by_key(|line| line["at_ns"].as_u64().unwrap()), "{lines:#?}");
    let text =
        |line: &serde_json::Value| format!("{}: {}", line["who"].as_str().unwrap(), line["what"].as_str().unwrap());
    let first = |what: &&str| lines.iter().position(|line| text(line).contains(what));
    let found: Vec<Option<usize>> = told.iter().map(first).collect();
    assert!(found.iter().all(Option::is_some) && found.is_sorted(), "{found:?} in {lines:#?}");
}

#[test]
fn the_simulator_tells_in_order_what_happened_when() {
    let job = ["sim", "--hosts", "2", "--sps", "1", "--ranks", "2"];
    let world =
        ["rank 1 has joined", "0: the world is complete", "0: the world is full: 4 ranks", "rank 1: the world is"];
    in_order(&job, &world);
    let killed = ["sim", "--hosts", "2", "--sps", "1", "--ranks", "1", "--kill", "sp:1@100us"];
    let death =
        ["script: kill sp:1", "service process 0: service process 1 counts as dead", "rank 0: the world has ended"];
    in_order(&killed, &death);
    let text = String::from_utf8(umbra(&[&killed[..], &["--timeline"]].concat()).stdout).unwrap();
    assert!(text.contains("100 µs  script             kill sp:1"), "{text}");
    refused(&["sim", "--timeline", "--schedules", "2"], 2);
}

#[test]
fn the_simulator_starts_no_thread_for_a_bar_that_nobody_sees() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_umbra"));
    // A stack for which no machine has addresses.
    command.args(["sim", "--hosts", "2", "--schedules", "2"]).env("RUST_MIN_STACK", (1_u64 << 48).to_string());
    let output = command.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn what_the_simulator_cannot_do_is_a_usage_error() {
    assert!(refused(&["sim", "--kill", "sp:99@1ms"], 2).contains("sp:99"));
    for args in [["--kill", "sp:3"], ["--cut", "sp:1@2ms"], ["--loss", "101"], ["--hosts", "0"], ["--schedules", "0"]] {
        refused(&["sim", args[0], args[1]], 2);
    }
    for args in [["--hosts", "3"], ["--timeout", "10ms"]] {
        refused(&["sim", "--random", args[0], args[1]], 2);
    }
}

#[test]
fn a_simulated_job_may_be_as_impatient_as_one_likes() {
    for timeout in ["20ms", "900us"] {
        let output = umbra(&["sim", "--timeout", timeout]);
        assert!(output.status.success(), "{timeout}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(refused(&["sim", "--timeout", "0s"], 2).contains("time-out must be longer than nothing"));
    let long = refused(&["sim", "--timeout", "61min"], 2);
    assert!(long.contains("time-out must be at most 3600 s, not 3660 s"), "{long}");
}

#[test]
fn doctor_names_the_agents_that_do_not_answer() {
    let config = file("doctor.cfg", "# Format version: 1\nn1,bf1:127.0.0.1:1:2\n");
    let secret = file("doctor.secret", &format!("{}\n", "5a".repeat(32)));
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let named = ["--config", config.to_str().unwrap(), "--secret", secret.to_str().unwrap()];
    let output = umbra(&[&["doctor", "--timeout", "50ms"], &named[..]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("service process 0 at 127.0.0.1:1"), "{text}");
    assert!(refused(&["doctor", "--config", named[1]], 2).contains("--secret"));
    std::fs::remove_file(config).unwrap();
    std::fs::remove_file(secret).unwrap();
}
