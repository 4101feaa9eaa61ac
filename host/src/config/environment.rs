//! The environment variables of a job: our names, and upstream's as aliases.
//!
//! | ours | upstream |
//! |---|---|
//! | `UMBRA_CONFIG` | `OFFLOAD_CONFIG_FILE_PATH`, `DPU_OFFLOAD_CONFIG_FILE_PATH` |
//! | `UMBRA_DPUS` | `DPU_OFFLOAD_LIST_DPUS` |
//! | `UMBRA_SERVICE_PROCESS` | `DPU_OFFLOAD_SERVICE_PROCESS_GLOBAL_ID` |
//! | `UMBRA_SERVICE_PROCESS_LID` | `DPU_OFFLOAD_SERVICE_PROCESS_LOCAL_ID` |
//! | `UMBRA_SERVICE_PROCESSES_PER_DPU` | `DPU_OFFLOAD_SERVICE_PROCESSES_PER_DPU` |
//! | `UMBRA_SECRET_FILE` | - |
//! | `UMBRA_DEVICE` | - |
//! | `UMBRA_PERSISTENT_GROUPS` | `MIMOSA_PERSISTENT_CACHE` |
//! | `UMBRA_LOG` | - |
//! | `UMBRA_LOG_FILE` | - |
//!
//! Two names of one variable must agree. Paths are taken as they are; everything else must be UTF-8. Lists are read without
//! changing the environment, so a second reader in the same process sees the same list.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::verbs::{Choice, NotADevice};

/// What the environment says about a job.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Environment {
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// The job's DPUs, in order; empty if not given.
    pub dpus: Vec<String>,
    /// This service process: its job-wide number and its number on its DPU.
    pub service_process: Option<(u32, u32)>,
    /// Service processes of each DPU.
    pub per_dpu: Option<u32>,
    /// The job's secret.
    pub secret_file: Option<PathBuf>,
    /// The RDMA device of this process.
    pub device: Option<Choice>,
    /// Whether somebody asks to keep a freed group for the next creation with the same members. That is refused
    /// politely: if one member kept what another left, their next creation would never be full.
    pub wants_persistent_groups: Option<bool>,
    /// Which log statements are wanted.
    pub log: Option<String>,
    /// The file that they are appended to.
    pub log_file: Option<PathBuf>,
}

/// The environment contradicts itself or holds something that is not what it should be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// Two names of one variable have different values.
    #[error("{ours}={ours_value:?} but {alias}={alias_value:?}: unset one of them")]
    Disagree {
        /// The first name that is set.
        ours: &'static str,
        /// Its value.
        ours_value: OsString,
        /// The other name.
        alias: &'static str,
        /// Its value.
        alias_value: OsString,
    },
    /// Neither a path nor text.
    #[error("{name}={value:?} is not UTF-8")]
    NotText {
        /// Which variable.
        name: &'static str,
        /// Its value.
        value: OsString,
    },
    /// Not a number.
    #[error("{name}={value:?} is not a whole number below 2^23")]
    NotANumber {
        /// Which variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// Not a device.
    #[error("{name}: {error}")]
    NotADevice {
        /// Which variable.
        name: &'static str,
        /// What it is not.
        error: NotADevice,
    },
    /// Not a truth value.
    #[error("{name}={value:?} is neither 0 nor 1")]
    NotABit {
        /// Which variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// Only some of the variables that identify a service process are set.
    #[error("{present} is set but {missing} is not: a service process needs its global id, local id and the DPU list")]
    Incomplete {
        /// One that is set.
        present: &'static str,
        /// One that is not.
        missing: &'static str,
    },
    /// An element of the list of DPUs is empty.
    #[error("{0} has an empty element")]
    EmptyName(&'static str),
}

const CONFIG: &[&str] = &["UMBRA_CONFIG", "OFFLOAD_CONFIG_FILE_PATH", "DPU_OFFLOAD_CONFIG_FILE_PATH"];
const DPUS: &[&str] = &["UMBRA_DPUS", "DPU_OFFLOAD_LIST_DPUS"];
const GLOBAL: &[&str] = &["UMBRA_SERVICE_PROCESS", "DPU_OFFLOAD_SERVICE_PROCESS_GLOBAL_ID"];
const LOCAL: &[&str] = &["UMBRA_SERVICE_PROCESS_LID", "DPU_OFFLOAD_SERVICE_PROCESS_LOCAL_ID"];
const PER_DPU: &[&str] = &["UMBRA_SERVICE_PROCESSES_PER_DPU", "DPU_OFFLOAD_SERVICE_PROCESSES_PER_DPU"];
const SECRET: &[&str] = &["UMBRA_SECRET_FILE"];
const DEVICE: &[&str] = &["UMBRA_DEVICE"];
const PERSISTENT: &[&str] = &["UMBRA_PERSISTENT_GROUPS", "MIMOSA_PERSISTENT_CACHE"];
const LOG: &[&str] = &["UMBRA_LOG"];
const LOG_FILE: &[&str] = &["UMBRA_LOG_FILE"];

impl Environment {
    /// Names of variables that say which job a process belongs to, and its place there. Who starts processes of another job
    /// takes them out of their environment.
    pub fn names_of_a_job() -> impl Iterator<Item = &'static str> {
        [CONFIG, DPUS, GLOBAL, LOCAL, PER_DPU, SECRET, PERSISTENT].into_iter().flatten().copied()
    }

    /// The RDMA device in this process' environment, whatever else that says.
    ///
    /// # Errors
    /// [`EnvironmentError::NotADevice`], [`EnvironmentError::NotText`].
    pub fn device_of_process() -> Result<Option<Choice>, EnvironmentError> {
        device(&|name| std::env::var_os(name))
    }

    /// Reads this process' environment.
    ///
    /// # Errors
    /// [`EnvironmentError`] naming the variable.
    pub fn of_process() -> Result<Environment, EnvironmentError> {
        Environment::from(|name| std::env::var_os(name))
    }

    /// Reads whatever `get` answers; for tests and for launchers.
    ///
    /// # Errors
    /// [`EnvironmentError`] naming the variable.
    pub fn from(get: impl Fn(&str) -> Option<OsString>) -> Result<Environment, EnvironmentError> {
        let global = number(&get, GLOBAL)?;
        let local = number(&get, LOCAL)?;
        let (dpu_name, dpus) = match text(&get, DPUS)? {
            Some((name, list)) => (Some(name), list.split(',').map(|d| d.trim().to_owned()).collect::<Vec<_>>()),
            None => (None, Vec::new()),
        };
        if let Some(name) = dpu_name.filter(|_| dpus.iter().any(String::is_empty)) {
            return Err(EnvironmentError::EmptyName(name));
        }
        let service_process = match (global, local, dpu_name) {
            (None, None, _) => None,
            (Some((_, global)), Some((_, local)), Some(_)) => Some((global, local)),
            (Some((present, _)), None, _) => return Err(EnvironmentError::Incomplete { present, missing: LOCAL[0] }),
            (None, Some((present, _)), _) => return Err(EnvironmentError::Incomplete { present, missing: GLOBAL[0] }),
            (Some((present, _)), Some(_), None) => {
                return Err(EnvironmentError::Incomplete { present, missing: DPUS[0] });
            }
        };
        let wants_persistent_groups = match text(&get, PERSISTENT)? {
            None => None,
            Some((_, value)) if value == "0" => Some(false),
            Some((_, value)) if value == "1" => Some(true),
            Some((name, value)) => return Err(EnvironmentError::NotABit { name, value }),
        };
        Ok(Environment {
            device: device(&get)?,
            config: one_of(&get, CONFIG)?.map(|(_, path)| path.into()),
            dpus,
            service_process,
            per_dpu: number(&get, PER_DPU)?.map(|(_, n)| n),
            secret_file: one_of(&get, SECRET)?.map(|(_, path)| path.into()),
            wants_persistent_groups,
            log: text(&get, LOG)?.map(|(_, filter)| filter),
            log_file: one_of(&get, LOG_FILE)?.map(|(_, path)| path.into()),
        })
    }
}

/// A variable that is set, by the name that it was found by.
type Found<T> = Result<Option<(&'static str, T)>, EnvironmentError>;

fn one_of(get: &impl Fn(&str) -> Option<OsString>, names: &[&'static str]) -> Found<OsString> {
    let mut found: Option<(&'static str, OsString)> = None;
    for &name in names {
        let Some(value) = get(name).filter(|v| !v.is_empty()) else { continue };
        match &found {
            Some((ours, first)) if *first != value => {
                return Err(EnvironmentError::Disagree {
                    ours,
                    ours_value: first.clone(),
                    alias: name,
                    alias_value: value,
                });
            }
            Some(_) => {}
            None => found = Some((name, value)),
        }
    }
    Ok(found)
}

fn text(get: &impl Fn(&str) -> Option<OsString>, names: &[&'static str]) -> Found<String> {
    let Some((name, value)) = one_of(get, names)? else { return Ok(None) };
    let text = value.into_string().map_err(|value| EnvironmentError::NotText { name, value })?;
    Ok(Some((name, text)))
}

fn device(get: &impl Fn(&str) -> Option<OsString>) -> Result<Option<Choice>, EnvironmentError> {
    let Some((name, value)) = text(get, DEVICE)? else { return Ok(None) };
    value.parse().map(Some).map_err(|error| EnvironmentError::NotADevice { name, error })
}

fn number(get: &impl Fn(&str) -> Option<OsString>, names: &[&'static str]) -> Found<u32> {
    let Some((name, value)) = text(get, names)? else { return Ok(None) };
    match value.parse::<u32>() {
        Ok(n) if n < umbra_core::peer::Peer::CAPACITY => Ok(Some((name, n))),
        _ => Err(EnvironmentError::NotANumber { name, value }),
    }
}
