//! Configuration files, secret files, environment: errors name their place (s43).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use umbra::config::{ConfigFault, Environment, EnvironmentError, Platform};
use umbra::secret::{Secret, SecretError};
use umbra_core::peer::{Dpu, Host, Sp, SpLid};

const GOOD: &str = "# Format version: 1\n\
    # a comment\n\
    node1,bf1:10.0.0.1:7010&7011:9010&9011\n\
    \n\
    node2,bf2:10.0.0.2:7010&7011:9010&9011,bf3:10.0.0.3:7010&7011:9010&9011\n\
    node10,bf10:10.0.0.10:7010&7011:9010&9011\n";

fn fault(text: &str) -> (String, ConfigFault) {
    let error = Platform::parse(text, "job.cfg").expect_err("this must not parse");
    (error.to_string(), error.fault)
}

fn with(line: &str) -> String {
    format!("# Format version: 1\n\n{line}\n")
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("umbra-config-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_good_file_is_read_and_printed_back() {
    let platform = Platform::parse(GOOD, "job.cfg").unwrap();
    assert_eq!(platform.service_processes_per_dpu(), 2);
    assert_eq!(platform.dpu_names(), ["bf1", "bf2", "bf3", "bf10"]);
    assert_eq!(platform.hosts()[1].dpus.len(), 2);
    assert_eq!(platform.hosts()[1].line, 5);
    let again = Platform::parse(&platform.to_string(), "job.cfg").unwrap();
    assert_eq!(again.dpu_names(), platform.dpu_names());
}

#[test]
fn service_processes_are_numbered_by_the_jobs_list_and_hosts_by_the_file() {
    let job = Platform::parse(GOOD, "job.cfg").unwrap().job(&["bf10", "bf2"]).unwrap();
    assert_eq!(job.hosts(), ["node2", "node10"]);
    assert_eq!(job.dpus().collect::<Vec<_>>(), [("bf10", Host(1)), ("bf2", Host(0))]);
    assert_eq!(job.service_processes(), 4);
    assert_eq!(job.service_process(Dpu(1), SpLid(1)), Some(Sp(3)));
    assert_eq!(job.service_process(Dpu(1), SpLid(2)), None);
    assert_eq!(job.address(Sp(3)).unwrap().services.to_string(), "10.0.0.2:7011");
    assert_eq!(job.address(Sp(3)).unwrap().ranks.to_string(), "10.0.0.2:9011");
    assert_eq!(job.address(Sp(4)), None);
}

#[test]
fn a_host_with_several_dpus_keeps_them_all() {
    let job = Platform::parse(GOOD, "job.cfg").unwrap().job(&["bf2", "bf3"]).unwrap();
    assert_eq!(job.hosts(), ["node2"]);
    assert_eq!(job.dpus().map(|(_, host)| host).collect::<Vec<_>>(), [Host(0), Host(0)]);
}

#[test]
fn s43_bf1_is_not_bf10() {
    let platform = Platform::parse(GOOD, "job.cfg").unwrap();
    let job = platform.job(&["bf10", "bf1"]).unwrap();
    assert_eq!(job.address(Sp(0)).unwrap().services.ip().octets(), [10, 0, 0, 10]);
    assert_eq!(job.address(Sp(2)).unwrap().services.ip().octets(), [10, 0, 0, 1]);
    let error = platform.job(&["bf"]).unwrap_err();
    assert_eq!(error.to_string(), "job.cfg: no host lists DPU \"bf\": names are compared exactly");
}

#[test]
fn s43_a_missing_file_is_named() {
    let error = Platform::read("/nonexistent/job.cfg").unwrap_err();
    assert!(matches!(error.fault, ConfigFault::Unreadable(_)));
    assert!(error.to_string().starts_with("/nonexistent/job.cfg: cannot read the file: "), "{error}");
}

#[test]
fn s43_the_version_line_is_mandatory_and_comes_first_and_once() {
    for text in ["", "node1,bf1:10.0.0.1:7010:9010\n", "\n# Format version: 1\n"] {
        let (shown, fault) = fault(text);
        assert!(matches!(fault, ConfigFault::NoVersion), "{fault:?}");
        assert!(shown.starts_with("job.cfg:1: "), "{shown}");
    }
    assert!(matches!(fault("# Format version: 2\n").1, ConfigFault::WrongVersion(v) if v == "2"));
    let (shown, second) = fault(&with("# Format version: 1"));
    assert!(matches!(second, ConfigFault::SecondVersion) && shown.starts_with("job.cfg:3: "), "{shown}");
    assert!(matches!(fault("# Format version: 1\n# nothing\n").1, ConfigFault::NoHost));
}

#[test]
fn s43_unequal_port_lists_are_refused_with_their_line() {
    let (shown, unequal) = fault(&with("node1,bf1:10.0.0.1:7010&7011:9010"));
    assert!(matches!(unequal, ConfigFault::UnequalLists { service: 2, rank: 1, .. }));
    assert!(shown.starts_with("job.cfg:3: DPU \"bf1\" has 2 service ports but 1 rank port:"), "{shown}");
    let two = with("node1,bf1:10.0.0.1:7010&7011:9010&9011\nnode2,bf2:10.0.0.2:7010:9010");
    let (shown, unequal) = fault(&two);
    assert!(matches!(unequal, ConfigFault::UnequalDpus { got: 1, expected: 2, .. }));
    assert!(shown.starts_with("job.cfg:4: "), "{shown}");
}

#[test]
fn s43_duplicates_are_refused_and_name_the_earlier_line() {
    let (shown, twice) = fault(&with("node1,bf1:10.0.0.1:7010:9010\nnode1,bf2:10.0.0.2:7010:9010"));
    assert!(matches!(twice, ConfigFault::DuplicateHost { first: 3, .. }));
    assert_eq!(shown, "job.cfg:4: host \"node1\" was already listed in line 3");
    let twice = fault(&with("node1,bf1:10.0.0.1:7010:9010\nnode2,bf1:10.0.0.2:7010:9010")).1;
    assert!(matches!(twice, ConfigFault::DuplicateDpu { first: 3, .. }));
    for line in ["node1,bf1:10.0.0.1:7010&7010:9010&9011", "node1,bf1:10.0.0.1:7010:7010"] {
        let twice = fault(&with(line)).1;
        assert!(matches!(twice, ConfigFault::DuplicatePort { first: 3, .. }), "{twice:?}");
    }
}

#[test]
fn s43_malformed_lines_say_what_is_wrong() {
    assert!(matches!(fault(&with("node1")).1, ConfigFault::NoDpu(_)));
    assert!(matches!(fault(&with(",bf1:10.0.0.1:1:2")).1, ConfigFault::BadName(_)));
    assert!(matches!(fault(&with("no de,bf1:10.0.0.1:1:2")).1, ConfigFault::BadName(_)));
    assert!(matches!(fault(&with("node1,bf1:10.0.0.1:1")).1, ConfigFault::BadEntry(_)));
    assert!(matches!(fault(&with("node1,bf1:10.0.0:1:2")).1, ConfigFault::BadAddress(_)));
    for port in ["0", "65536", "-1", "", "x", "7&"] {
        let fault = fault(&with(&format!("node1,bf1:10.0.0.1:{port}:2"))).1;
        assert!(matches!(fault, ConfigFault::BadPort(_)), "{port}: {fault:?}");
    }
}

#[test]
fn an_empty_or_repeating_job_list_is_refused() {
    let platform = Platform::parse(GOOD, "job.cfg").unwrap();
    assert!(matches!(platform.job(&[""; 0]).unwrap_err().fault, ConfigFault::EmptyJob));
    assert!(matches!(platform.job(&["bf1", "bf1"]).unwrap_err().fault, ConfigFault::RepeatedDpu(_)));
}

fn environment(pairs: &[(&str, &str)]) -> Result<Environment, EnvironmentError> {
    Environment::from(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(*v)))
}

#[test]
fn upstream_names_are_aliases_of_ours() {
    let upstream = environment(&[
        ("DPU_OFFLOAD_CONFIG_FILE_PATH", "/etc/job.cfg"),
        ("DPU_OFFLOAD_LIST_DPUS", "bf2, bf1"),
        ("DPU_OFFLOAD_SERVICE_PROCESS_GLOBAL_ID", "3"),
        ("DPU_OFFLOAD_SERVICE_PROCESS_LOCAL_ID", "1"),
        ("DPU_OFFLOAD_SERVICE_PROCESSES_PER_DPU", "2"),
        ("MIMOSA_PERSISTENT_CACHE", "1"),
    ]);
    let ours = environment(&[
        ("UMBRA_CONFIG", "/etc/job.cfg"),
        ("UMBRA_DPUS", "bf2,bf1"),
        ("UMBRA_SERVICE_PROCESS", "3"),
        ("UMBRA_SERVICE_PROCESS_LID", "1"),
        ("UMBRA_SERVICE_PROCESSES_PER_DPU", "2"),
        ("UMBRA_PERSISTENT_GROUPS", "1"),
        ("UMBRA_LOG", ""),
    ]);
    let expected = Environment {
        config: Some("/etc/job.cfg".into()),
        dpus: vec!["bf2".into(), "bf1".into()],
        service_process: Some((3, 1)),
        per_dpu: Some(2),
        secret_file: None,
        device: None,
        wants_persistent_groups: Some(true),
        log: None,
        log_file: None,
    };
    assert_eq!(upstream.as_ref(), Ok(&expected));
    assert_eq!(ours.as_ref(), Ok(&expected));
    let logging = environment(&[("UMBRA_LOG", "info"), ("UMBRA_LOG_FILE", "/var/log/umbra")]);
    assert!(logging.is_ok_and(|e| e.log.as_deref() == Some("info") && e.log_file == Some("/var/log/umbra".into())));
}

#[test]
fn a_contradicting_or_incomplete_environment_is_refused() {
    let both = environment(&[("UMBRA_CONFIG", "a"), ("OFFLOAD_CONFIG_FILE_PATH", "b")]);
    assert!(matches!(both, Err(EnvironmentError::Disagree { ours: "UMBRA_CONFIG", .. })));
    assert!(environment(&[("UMBRA_CONFIG", "a"), ("OFFLOAD_CONFIG_FILE_PATH", "a")]).is_ok());
    for pairs in [
        &[("UMBRA_SERVICE_PROCESS", "1")][..],
        &[("UMBRA_SERVICE_PROCESS_LID", "1"), ("UMBRA_DPUS", "a")],
        &[("UMBRA_SERVICE_PROCESS", "1"), ("UMBRA_SERVICE_PROCESS_LID", "1")],
    ] {
        assert!(matches!(environment(pairs), Err(EnvironmentError::Incomplete { .. })), "{pairs:?}");
    }
    assert!(matches!(environment(&[("UMBRA_DPUS", "a,,b")]), Err(EnvironmentError::EmptyName(_))));
    for number in ["-1", "x", "99999999"] {
        let result = environment(&[("UMBRA_SERVICE_PROCESSES_PER_DPU", number)]);
        assert!(matches!(result, Err(EnvironmentError::NotANumber { .. })), "{number}");
    }
    assert!(matches!(environment(&[("MIMOSA_PERSISTENT_CACHE", "yes")]), Err(EnvironmentError::NotABit { .. })));
}

#[test]
fn a_path_of_the_environment_need_not_be_text_and_all_else_must() {
    let strange = OsStr::from_bytes(b"/etc/job\xff");
    let all = |names: &[&str]| Environment::from(|name| names.contains(&name).then(|| strange.to_owned()));
    let paths = all(&["UMBRA_CONFIG", "OFFLOAD_CONFIG_FILE_PATH", "UMBRA_SECRET_FILE", "UMBRA_LOG_FILE"]).unwrap();
    for path in [paths.config, paths.secret_file, paths.log_file] {
        assert_eq!(path.as_deref(), Some(Path::new(strange)));
    }
    for name in
        ["UMBRA_DPUS", "UMBRA_SERVICE_PROCESSES_PER_DPU", "UMBRA_DEVICE", "MIMOSA_PERSISTENT_CACHE", "UMBRA_LOG"]
    {
        let wrong = all(&[name]).unwrap_err();
        assert!(matches!(wrong, EnvironmentError::NotText { name: n, .. } if n == name), "{wrong}");
    }
}

#[test]
fn a_secret_survives_its_file_and_is_never_shown() {
    let scratch = Scratch::new("secret");
    let path = scratch.file("secret");
    let secret = Secret::random().unwrap();
    secret.create(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(Secret::read(&path).unwrap(), secret);
    assert!(matches!(secret.create(&path), Err(SecretError::Io { .. })), "an existing file is not overwritten");
    assert_eq!(format!("{secret:?}"), "Secret(..)");
    assert_ne!(Secret::random().unwrap(), secret);
}

#[test]
fn an_exposed_or_malformed_secret_file_is_refused() {
    let scratch = Scratch::new("bad-secret");
    let path = scratch.file("secret");
    assert!(matches!(Secret::read(Path::new("/nonexistent")), Err(SecretError::Io { .. })));
    Secret::random().unwrap().create(&path).unwrap();
    for mode in [0o640, 0o604, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert!(matches!(Secret::read(&path), Err(SecretError::Exposed { .. })), "{mode:o}");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    for text in ["", "12", &"g".repeat(64), &"a".repeat(63), &"a".repeat(65), &format!("{}\n\n", "a".repeat(64))] {
        fs::write(&path, text).unwrap();
        assert!(matches!(Secret::read(&path), Err(SecretError::Malformed { .. })), "{text:?}");
    }
}

#[test]
fn devices_of_hosts_and_dpus_are_read_and_printed_back() {
    let text = format!("{GOOD}# RDMA device: node2 mlx5_0\n# RDMA device: bf10 mlx5_2:1:3\n");
    let platform = Platform::parse(&text, "job.cfg").unwrap();
    let again = Platform::parse(&platform.to_string(), "job.cfg").unwrap();
    for platform in [platform, again] {
        let job = platform.job(&["bf10", "bf2"]).unwrap();
        let device = |choice: Option<&umbra::verbs::Choice>| choice.map(ToString::to_string);
        assert_eq!(device(job.host_device(Host(0))).as_deref(), Some("mlx5_0"));
        assert_eq!(device(job.host_device(Host(1))), None);
        assert_eq!(device(job.dpu_device(Dpu(0))).as_deref(), Some("mlx5_2:1:3"));
        assert_eq!(device(job.dpu_device(Dpu(1))), None);
    }
    let (told, wrong) = fault(&format!("{GOOD}# RDMA device: node2\n"));
    assert!(told.starts_with("job.cfg:7: ") && matches!(wrong, ConfigFault::BadDeviceLine(_)), "{told}");
    let (told, wrong) = fault(&format!("{GOOD}# RDMA device: node2 rxe0:0\n"));
    assert!(told.contains("NAME[:PORT[:GID_INDEX]]") && matches!(wrong, ConfigFault::BadDevice(_)), "{told}");
    let (told, wrong) = fault(&format!("{GOOD}# RDMA device: node1x rxe0\n"));
    assert!(told.contains("node1x") && matches!(wrong, ConfigFault::DeviceOfNobody(_)), "{told}");
    let (told, wrong) = fault(&format!("{GOOD}# RDMA device: bf1 rxe0\n# RDMA device: bf1 rxe1\n"));
    assert!(told.starts_with("job.cfg:8: ") && matches!(wrong, ConfigFault::SecondDevice { first: 7, .. }), "{told}");
}

#[test]
fn a_device_of_the_environment_is_checked() {
    let with = |device: &str| Environment::from(|name| (name == "UMBRA_DEVICE").then(|| OsString::from(device)));
    assert_eq!(with("rxe0:1").unwrap().device.map(|device| device.to_string()).as_deref(), Some("rxe0:1"));
    let wrong = with("rxe0:one").unwrap_err();
    assert!(matches!(wrong, EnvironmentError::NotADevice { name: "UMBRA_DEVICE", .. }), "{wrong}");
    assert!(wrong.to_string().contains("rxe0:one"), "{wrong}");
}

#[test]
fn a_list_of_more_service_processes_than_have_numbers_takes_no_memory_for_them() {
    let ports = |first: u32| (first..first + 30_000).map(|port| port.to_string()).collect::<Vec<_>>().join("&");
    let text = with(&format!("node1,bf1:10.0.0.1:{}:{}", ports(1), ports(30_001)));
    let platform = Platform::parse(&text, "job.cfg").unwrap();
    let error = platform.job(&vec!["bf1"; 2_000_000]).unwrap_err();
    assert!(matches!(error.fault, ConfigFault::TooMany(60_000_000_000)), "{error}");
}
