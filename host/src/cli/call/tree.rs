//! The tree of a call as it ran, with the times of its edges.

use std::collections::HashMap;
use std::io;

use umbra::call::probe::Run;
use umbra_core::chain::Node;

use super::super::{Out, paint};
use super::between;

/// The runs of one member.
#[derive(Default)]
struct Seen<'a> {
    func: Option<&'a Run>,
    /// The last of its callbacks, or its function.
    last: Option<&'a Run>,
    /// By child.
    callbacks: HashMap<u32, &'a Run>,
}

/// Prints the tree: for each member what its function and each edge took; without runs nobody was watched.
pub(super) fn print(
    out: Out<'_>,
    members: &[Node],
    own: Node,
    parents: &[u32],
    runs: Option<&[Run]>,
    failed: &[Node],
) -> io::Result<()> {
    let mut seen: HashMap<u32, Seen<'_>> = HashMap::new();
    for run in runs.unwrap_or(&[]) {
        let of = seen.entry(run.node.0).or_default();
        match run.child {
            Some(child) => _ = of.callbacks.insert(child.0, run),
            None => of.func = Some(run),
        }
        of.last = Some(run);
    }
    let member = |at: u32| if at == 0 { Some(own) } else { members.get(at as usize - 1).copied() };
    let children =
        |of: u32| (1..).zip(parents.iter().skip(1)).filter(move |&(_, &parent)| parent == of).map(|(at, _)| at);
    // Position, what stands before it, and whether it is the last of its siblings.
    let mut due: Vec<(u32, String, bool)> = vec![(1, String::new(), true)];
    writeln!(out, "  {}", paint::faint("member            down      func        up"))?;
    while let Some((at, before, last)) = due.pop() {
        let Some(node) = member(at) else { continue };
        let parent = parents.get(at as usize).and_then(|&parent| member(parent));
        let branch = match (at, last) {
            (1, _) => "",
            (_, true) => "└─ ",
            (_, false) => "├─ ",
        };
        let name = format!("{before}{branch}{node}");
        let of = seen.get(&node.0);
        let above = parent.and_then(|parent| seen.get(&parent.0));
        let func = of.and_then(|of| of.func);
        let down = func.zip(above.and_then(|above| above.func)).map(|(func, above)| between(above.ended, func.began));
        let back = above.and_then(|above| above.callbacks.get(&node.0));
        let up = back.zip(of.and_then(|of| of.last)).map(|(back, last)| between(last.ended, back.began));
        let text = |time: Option<umbra::quantity::Nanos>| time.map_or_else(|| "·".to_owned(), |time| time.to_string());
        let took = func.map(|func| between(func.began, func.ended));
        let note = match (failed.contains(&node), func) {
            (true, _) => format!("  {}", paint::bad("failed here")),
            (false, None) if runs.is_some() => format!("  {}", paint::faint("did not run")),
            (false, _) => String::new(),
        };
        writeln!(out, "  {name:<12} {:>9} {:>9} {:>9}{note}", text(down), text(took), text(up))?;
        let inner = match (at, last) {
            (1, _) => String::new(),
            (_, true) => format!("{before}   "),
            (_, false) => format!("{before}│  "),
        };
        let below: Vec<u32> = children(at).collect();
        let first = due.len();
        due.extend(below.iter().enumerate().map(|(i, &child)| (child, inner.clone(), i + 1 == below.len())));
        due[first..].reverse();
    }
    Ok(())
}
