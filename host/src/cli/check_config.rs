//! `umbra check-config`: is this configuration file usable, and what does it say?

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use umbra::config::Platform;

use super::table::{Set, Table};
use super::{Done, Failure, Out, paint};

/// Read a configuration file and say what it means, or where it is wrong.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckConfig {
    /// Configuration file, format version 1
    file: PathBuf,
    /// The job's DPUs, in order, separated by commas; all DPUs of the file if left out
    #[arg(long, value_delimiter = ',', value_name = "DPU")]
    dpus: Vec<String>,
}

const EXAMPLES: &str = paint::examples!(
    "umbra check-config platform.cfg"               "every host and service process, numbered for a job that uses them all";
    "umbra check-config platform.cfg --dpus bf2,bf1"  "the same for a job on two DPUs, in this order";
);

impl CheckConfig {
    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        let platform = Platform::read(&self.file).map_err(Failure::failed)?;
        let all: Vec<&str> = platform.hosts().iter().flat_map(|h| &h.dpus).map(|dpu| dpu.name.as_str()).collect();
        let chosen: Vec<&str> = match self.dpus.as_slice() {
            [] => all,
            some => some.iter().map(String::as_str).collect(),
        };
        let job = platform.job(&chosen).map_err(Failure::failed)?;
        let per_dpu = job.service_processes_per_dpu();

        let mut table = Table::new(&[
            ("#", Set::Right),
            ("DPU", Set::Left),
            ("host", Set::Left),
            ("address", Set::Left),
            ("service processes", Set::Left),
            ("ports", Set::Left),
        ]);
        for (index, (dpu, host)) in (0_u32..).zip(job.dpus()) {
            let first = index * per_dpu;
            let addresses: Vec<_> =
                (first..first + per_dpu).filter_map(|sp| job.address(umbra_core::peer::Sp(sp))).collect();
            let ports: Vec<String> =
                addresses.iter().map(|a| format!("{}/{}", a.services.port(), a.ranks.port())).collect();
            let numbers = match per_dpu {
                1 => first.to_string(),
                n => format!("{first}–{}", first + n - 1),
            };
            let host = job.hosts().get(host.index()).cloned().unwrap_or_default();
            let address = addresses.first().map(|a| a.services.ip().to_string()).unwrap_or_default();
            table.row([index.to_string(), dpu.to_owned(), host, address, numbers, ports.join(" ")]);
        }
        table.print(out)?;
        for line in platform.devices() {
            writeln!(out, "RDMA device of {}: {}", line.of, line.device)?;
        }
        let (hosts, services) = (job.hosts().len(), job.service_processes());
        writeln!(
            out,
            "\n{} {}: {hosts} {}, {services} {} (ports are those for service processes / for ranks)",
            paint::good("usable"),
            self.file.display(),
            if hosts == 1 { "host" } else { "hosts" },
            if services == 1 { "service process" } else { "service processes" },
        )?;
        Ok(ExitCode::SUCCESS)
    }
}
