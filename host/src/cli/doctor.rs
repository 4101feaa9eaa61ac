//! `umbra doctor`: which processes of a job are missing, and who waits for them.

use clap::Args;
use serde::Serialize;
use umbra::admin::ops;

use super::gather::{Agents, Told};
use super::reach::Reach;
use super::table::{Set, Table};
use super::{Done, Failure, Out, code_of, paint, print_json, verdict};

/// Find out what a job is waiting for: agents that do not answer, links and ranks that are missing.
///
/// One chained call gathers what all agents of the job say, if one of them is on this machine; agents that it does not reach are
/// asked by themselves. The exit code is 0 only if all of them answer and miss nothing.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Doctor {
    #[command(flatten)]
    reach: Reach,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = paint::examples!(
    "umbra doctor"                                           "the one job of yours that runs on this machine";
    "umbra doctor --config platform.cfg --secret job.secret" "any job, from any machine that reaches its agents";
    "umbra doctor --timeout 10s --json"                      "for a script that watches a slow start";
);

/// What one agent said, or why it said nothing.
#[derive(Serialize, Debug)]
struct Finding {
    service_process: u32,
    dpu: String,
    address: String,
    answers: bool,
    /// `call` if the call over all agents brought its answer, `link` if it was asked by itself.
    asked: &'static str,
    /// Why the call did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    passed_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// A Unix socket that a dead agent left, which was passed by.
    #[serde(skip_serializing_if = "Option::is_none")]
    stale_socket: Option<String>,
    missing: Vec<String>,
}

#[derive(Serialize, Debug)]
struct Object<'a> {
    ok: bool,
    agents: &'a [Finding],
}

impl Doctor {
    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        let mut agents = Agents::new(self.reach.site()?, self.reach.patience());
        let told = agents.ask(ops::DOCTOR)?;
        let findings: Vec<Finding> = told
            .into_iter()
            .map(|Told { target, answer, passed_by }| {
                let stale = agents.stale.iter().find(|(sp, _)| *sp == target.sp);
                let lines = answer.as_deref().map(|text| String::from_utf8_lossy(text).into_owned());
                Finding {
                    service_process: target.sp.0,
                    dpu: agents.site.dpu(target.sp),
                    address: target.address.to_string(),
                    answers: answer.is_ok(),
                    asked: if passed_by.is_none() { "call" } else { "link" },
                    passed_by,
                    error: answer.as_ref().err().map(ToString::to_string),
                    stale_socket: stale.map(|(_, path)| path.display().to_string()),
                    missing: lines.unwrap_or_default().lines().map(clean).filter(|line| !line.is_empty()).collect(),
                }
            })
            .collect();
        let ok = findings.iter().all(|finding| finding.answers && finding.missing.is_empty());
        let shown = match self.json {
            true => print_json(out, &Object { ok, agents: &findings }),
            false => show(out, &findings, ok),
        };
        verdict(code_of(ok), shown)
    }
}

/// A line that another process wrote, without what could move the cursor.
fn clean(line: &str) -> String {
    line.trim().chars().filter(|c| !c.is_control()).take(400).collect()
}

fn show(out: Out<'_>, findings: &[Finding], ok: bool) -> Result<(), Failure> {
    let mut table = Table::new(&[
        ("service process", Set::Right),
        ("DPU", Set::Left),
        ("address", Set::Left),
        ("answers", Set::Left),
        ("asked by", Set::Left),
        ("misses", Set::Right),
    ]);
    for finding in findings {
        let misses = if finding.answers { finding.missing.len().to_string() } else { "–".to_owned() };
        let answers = if finding.answers { "yes" } else { "no" }.to_owned();
        let (dpu, address, asked) = (finding.dpu.clone(), finding.address.clone(), finding.asked.to_owned());
        table.row([finding.service_process.to_string(), dpu, address, answers, asked, misses]);
    }
    table.print(out)?;
    writeln!(out)?;
    for finding in findings {
        if let Some(error) = &finding.error {
            writeln!(out, "  {} {error}", paint::bad("✘"))?;
        }
        if let Some(path) = &finding.stale_socket {
            let (sp, address, mark) = (finding.service_process, &finding.address, paint::faint("–"));
            let path = paint::clean(path);
            writeln!(out, "  {mark} service process {sp}: {path} is stale, nobody listens there: asked at {address}")?;
        }
        for line in &finding.missing {
            writeln!(out, "  {} service process {}: {line}", paint::bad("✘"), finding.service_process)?;
        }
    }
    if ok {
        writeln!(out, "  {} all {} agents answer and miss nothing", paint::good("✔"), findings.len())?;
    }
    Ok(())
}
