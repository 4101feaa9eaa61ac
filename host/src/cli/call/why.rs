//! Why a call failed, in words of who typed it.
//!
//! Functions go by their names, and of seats it is said if nobody holds them.

use umbra::call::Failure;
use umbra_core::chain::{Code, Node, Record};

use super::{BUILT_IN, stats};

/// One failure of a call of `function`; `absent` are the members whose seats nobody holds.
pub(super) fn of_record(record: &Record, function: &str, absent: &[Node]) -> String {
    match record.code {
        Code::UnknownFunc => {
            let built_in = BUILT_IN.map(|name| name.strip_prefix("umbra.").unwrap_or(name)).join(", ");
            format!(
                "member {}, {}: no function {function:?} is registered there; built in are {built_in}, {}",
                record.origin,
                record.stage,
                stats::NAME
            )
        }
        _ => unheard(record, absent).unwrap_or_else(|| record.to_string()),
    }
}

/// All failures of a call that only looks.
pub(super) fn of_failure(failure: &Failure, absent: &[Node]) -> String {
    failure.records.iter().find_map(|record| unheard(record, absent)).unwrap_or_else(|| failure.to_string())
}

/// That a request was taken by nobody, if there is nobody who could have.
fn unheard(record: &Record, absent: &[Node]) -> Option<String> {
    let is_absent = matches!(record.code, Code::NoResource | Code::Timeout) && absent.contains(&record.origin);
    is_absent.then(|| format!("nobody holds seat {}: no process has come there as that member", record.origin))
}
