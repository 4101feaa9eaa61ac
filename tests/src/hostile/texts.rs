//! Texts that people write: configurations, stencils, quantities.
//!
//! The first byte of an input chooses the reader; the rest is the text.

use umbra::config::Platform;
use umbra::quantity::{Bytes, Nanos, parse_bytes, parse_lapse};
use umbra::stencil::field::Pattern;
use umbra_core::peer::Sp;

const CONFIGURATION: &str = "# Format version: 1
# Two hosts, of which one has two DPUs.
node1,bf1:10.0.0.1:7010&7011:9010&9011
node2,bf2:10.0.0.2:7010&7011:9010&9011,bf3:10.0.0.3:7010&7011:9010&9011
# RDMA device: bf1 mlx5_0:1:3
";

/// One text for every reader.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let text = |choice: u8, text: &str| [&[choice], text.as_bytes()].concat();
    vec![
        text(0, CONFIGURATION),
        text(1, "0\n-1 0.5\n1, 0.5 # to the right\n"),
        text(4, "0 0\n0 -1\n-1 0 2.5e-3\n"),
        text(7, "0 0 0\n1 0 0\n0 0 2147483647\n"),
        text(2, "1.5 GiB"),
        text(2, "64K"),
        text(2, "250ms"),
        text(2, "3 min"),
    ]
}

/// What is read is meant as it is told again, and what is refused is told why.
pub(super) fn feed(bytes: &[u8]) {
    let Some((&choice, text)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(text);
    match choice % 3 {
        0 => configuration(&text),
        1 => stencil(&text, usize::from(choice / 3 % 3) + 1),
        _ => quantity(&text),
    }
}

fn configuration(text: &str) {
    let platform = match Platform::parse(text, "job.cfg") {
        Ok(platform) => platform,
        Err(error) => return assert!(error.to_string().starts_with("job.cfg"), "{error}"),
    };
    let told = platform.to_string();
    let again = Platform::parse(&told, "job.cfg").unwrap_or_else(|error| panic!("{error} of\n{told}"));
    assert_eq!(again.to_string(), told);
    let names = platform.dpu_names();
    if let Ok(job) = platform.job(&names) {
        assert!((0..job.service_processes()).all(|sp| job.address(Sp(sp)).is_some()));
        assert_eq!(job.address(Sp(job.service_processes())), None);
    }
}

fn stencil(text: &str, dimensions: usize) {
    match Pattern::parse(text, dimensions) {
        Ok(pattern) => {
            assert!(!pattern.neighbours().is_empty());
            for neighbour in pattern.neighbours() {
                assert!(neighbour.weight.is_finite());
                assert!(neighbour.by.iter().all(|step| step.unsigned_abs() <= pattern.reach()), "{neighbour:?}");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn quantity(text: &str) {
    match (parse_bytes(text), parse_lapse(text)) {
        (Ok(bytes), Ok(lapse)) => assert!(bytes < 1 << 54 || lapse.0 > 0),
        (Ok(bytes), Err(error)) => assert!(!Bytes(bytes).to_string().is_empty() && !error.to_string().is_empty()),
        (Err(error), Ok(lapse)) => assert!(!Nanos(lapse.0).to_string().is_empty() && !error.to_string().is_empty()),
        (Err(one), Err(other)) => assert!(!one.to_string().is_empty() && !other.to_string().is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_accepts_what_is_there_to_start_from() {
        for seed in seeds() {
            let text = str::from_utf8(&seed[1..]).unwrap();
            let is_accepted = match seed[0] % 3 {
                0 => Platform::parse(text, "job.cfg").is_ok_and(|platform| platform.dpu_names().len() == 3),
                1 => Pattern::parse(text, usize::from(seed[0] / 3 % 3) + 1).is_ok(),
                _ => parse_bytes(text).is_ok() || parse_lapse(text).is_ok(),
            };
            assert!(is_accepted, "{text}");
        }
    }
}
