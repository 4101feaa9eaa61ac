//! UCX as a peer, where it is installed: the programs of a folder beside this project, built here.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Median nanoseconds of UCX's get, by (how, state, bytes).
pub(crate) struct Ucx(Result<HashMap<(&'static str, String, usize), f64>, String>);

/// How UCX gets: name here, what is exported, which transports.
const WAYS: [(&str, &str, &str); 2] = [("mapped", "ucp", "posix,self"), ("served", "heap", "posix,self")];

impl Ucx {
    /// Builds and runs the peer's program; says why not where it cannot.
    pub(crate) fn measure() -> Ucx {
        Ucx(measure())
    }

    pub(crate) fn get(&self, way: &'static str, state: &str, bytes: usize) -> Result<f64, String> {
        let rows = self.0.as_ref().map_err(Clone::clone)?;
        rows.get(&(way, state.to_owned(), bytes)).copied().ok_or_else(|| "no figure for this size".to_owned())
    }
}

fn source() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/peers/reads/ucx_get.c");
    let beside = std::env::var_os("UMBRA_UCX_PEER").map_or(beside, PathBuf::from);
    beside.is_file().then_some(beside)
}

fn measure() -> Result<HashMap<(&'static str, String, usize), f64>, String> {
    let source = source().ok_or("the peer's program is not beside this project")?;
    let program = std::env::temp_dir().join(format!("umbra-bench-ucx-{}", std::process::id()));
    let built = Command::new("gcc")
        .args(["-O2", "-march=native", "-o"])
        .arg(&program)
        .arg(&source)
        .args(["-lucp", "-lucs"])
        .stderr(Stdio::null())
        .status();
    match built {
        Ok(status) if status.success() => {}
        _ => return Err("UCX is not installed, or gcc is not".to_owned()),
    }
    let mut rows = HashMap::new();
    let mut failure = None;
    for (way, kind, transports) in WAYS {
        match Command::new(&program).args([kind, "0", "1"]).env("UCX_TLS", transports).output() {
            Ok(output) => {
                for line in String::from_utf8_lossy(&output.stdout).lines() {
                    let fields: Vec<&str> = line.split(',').collect();
                    if let [_, state, bytes, _, _, _, median, _] = fields[..]
                        && let (Ok(bytes), Ok(median)) = (bytes.parse(), median.parse())
                    {
                        rows.insert((way, state.to_owned(), bytes), median);
                    }
                }
            }
            Err(error) => failure = Some(error.to_string()),
        }
    }
    // A file that cannot be removed is left in the folder for temporary files.
    let _ = std::fs::remove_file(&program);
    match failure {
        Some(failure) if rows.is_empty() => Err(failure),
        _ => Ok(rows),
    }
}
