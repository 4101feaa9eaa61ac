//! Imports go downwards: between packages, and between the modules of a package.
//!
//! The policy file lists the layers. Every path that begins with `crate::` counts as an import, wherever it
//! stands, so that a path written out in an expression is no way around.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::run::Run;
use crate::source::{code_only, words};
use crate::step::{Bench, Failure, Verdict};
use crate::steps::policy::{self, Section};
use crate::workspace::Workspace;

/// Which module imports which, with the first place of each import.
type Imports = BTreeMap<(String, String), String>;

/// All layer rules of the policy.
pub(super) fn check(bench: &Bench<'_>) -> Result<Verdict, Failure> {
    let mut findings = Vec::new();
    let mut modules = 0;
    for section in policy::sections(bench.workspace, "layers")? {
        let (names, imports) = read(bench.workspace, &section)?;
        modules += names.len();
        findings.extend(upward(&section, &names, &imports));
        findings.extend(cycles(&imports));
    }
    for section in policy::sections(bench.workspace, "acyclic")? {
        let (names, imports) = read(bench.workspace, &section)?;
        modules += names.len();
        findings.extend(cycles(&imports));
    }
    for section in policy::sections(bench.workspace, "crates")? {
        findings.extend(packages(&section)?);
    }
    Failure::unless_empty(&findings, format!("{modules} modules"))
}

/// The top-level modules of a section's folder, and the imports between them.
fn read(workspace: &Workspace, section: &Section) -> Result<(BTreeSet<String>, Imports), Failure> {
    let folder = section.heading.get(1).map(String::as_str).unwrap_or_default();
    let mut sources = Vec::new();
    for path in workspace.files(folder, ".rs") {
        let inner = path.strip_prefix(folder).unwrap_or(&path);
        if inner.starts_with("bin") || inner == Path::new("lib.rs") || inner == Path::new("main.rs") {
            continue;
        }
        let Some(first) = inner.components().next() else { continue };
        let module = first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned();
        sources.push((module, path.display().to_string(), code_only(&workspace.read(&path)?)));
    }
    let names: BTreeSet<String> = sources.iter().map(|(module, _, _)| module.clone()).collect();
    let mut imports = Imports::new();
    for (module, path, code) in &sources {
        for (line, imported) in imported(code) {
            if imported != *module && names.contains(&imported) {
                imports.entry((module.clone(), imported)).or_insert_with(|| format!("{path}:{line}"));
            }
        }
    }
    Ok((names, imports))
}

/// First names behind `crate::`, braces included: `use crate::{a, b::c};` imports `a` and `b`.
fn imported(code: &str) -> Vec<(usize, String)> {
    let words = words(code);
    let mut found = Vec::new();
    for at in 0..words.len() {
        if words[at].1 != "crate" || words.get(at + 1).is_none_or(|next| next.1 != "::") {
            continue;
        }
        let Some(&(line, next)) = words.get(at + 2) else { continue };
        if next != "{" {
            found.push((line, next.to_owned()));
            continue;
        }
        let (mut depth, mut before) = (0_usize, "{");
        for &(line, word) in &words[at + 2..] {
            match word {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ if depth == 1 && matches!(before, "{" | ",") => found.push((line, word.to_owned())),
                _ => {}
            }
            if depth == 0 {
                break;
            }
            before = word;
        }
    }
    found
}

/// Imports from a higher layer, and modules that stand in no layer or in two.
fn upward(section: &Section, names: &BTreeSet<String>, imports: &Imports) -> Vec<String> {
    let mut layer_of = BTreeMap::new();
    let mut findings = Vec::new();
    let mut layers = Vec::new();
    for (height, (layer, modules)) in section.entries().enumerate() {
        layers.push(layer);
        for module in modules {
            if layer_of.insert(module, height).is_some() {
                findings.push(format!("policy.txt: module {module} stands in two layers"));
            }
            if !names.contains(module) {
                findings.push(format!("policy.txt: there is no module {module}"));
            }
        }
    }
    for name in names.iter().filter(|name| !layer_of.contains_key(name.as_str())) {
        findings.push(format!("policy.txt: module {name} stands in no layer of [{}]", section.heading.join(" ")));
    }
    for ((from, to), place) in imports {
        if let (Some(low), Some(high)) = (layer_of.get(from.as_str()), layer_of.get(to.as_str()))
            && low < high
        {
            findings.push(format!("{place}: {from} ({}) imports {to} ({}) from above", layers[*low], layers[*high]));
        }
    }
    findings
}

/// Modules that import each other, directly or around a corner; each pair that closes a circle once.
fn cycles(imports: &Imports) -> Vec<String> {
    let mut reachable: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in imports.keys() {
        reachable.entry(from).or_default().insert(to);
    }
    loop {
        let mut grown = reachable.clone();
        for (from, direct) in &reachable {
            let further: Vec<&str> = direct.iter().filter_map(|to| reachable.get(to)).flatten().copied().collect();
            grown.entry(from).or_default().extend(further);
        }
        if grown == reachable {
            break;
        }
        reachable = grown;
    }
    let leads = |from: &String, to: &String| reachable.get(from.as_str()).is_some_and(|set| set.contains(to.as_str()));
    let closing = imports.iter().filter(|((from, to), _)| leads(to, from));
    closing.map(|((from, to), place)| format!("{place}: {from} imports {to}, which leads back to {from}")).collect()
}

/// Packages that depend on one they may not; build and ordinary dependencies, not those of tests.
fn packages(section: &Section) -> Result<Vec<String>, Failure> {
    let known: Vec<&str> = Workspace::PACKAGES.iter().map(|&(package, _)| package).collect();
    let mut findings = Vec::new();
    for (package, allowed) in section.entries() {
        let listed = Run::cargo()
            .words("tree --all-features --edges normal,build --depth 1 --prefix none --package")
            .arg(package)
            .output()
            .ok_or_else(|| Failure::new(format!("cargo tree does not know {package}")))?;
        for name in listed.lines().skip(1).filter_map(|line| line.split(' ').next()) {
            if known.contains(&name) && !allowed.contains(&name) {
                findings.push(format!("package {package} depends on {name}"));
            }
        }
    }
    let ruled: Vec<&str> = section.entries().map(|(package, _)| package).collect();
    let unruled = known.iter().filter(|package| !ruled.contains(package));
    findings.extend(unruled.map(|package| format!("policy.txt: package {package} is missing in [crates]")));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(pairs: &[(&str, &str)]) -> Imports {
        pairs.iter().map(|&(from, to)| ((from.to_owned(), to.to_owned()), "here".to_owned())).collect()
    }

    #[test]
    fn imports_are_found_in_braces_and_in_expressions() {
        let code = "use crate::{a, b::{c, d}, e as f};\nlet x = crate::g::h(); pub(crate) fn k() {}";
        let names: Vec<String> = imported(code).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["a", "b", "e", "g"]);
    }

    #[test]
    fn an_import_from_above_is_found() {
        let lines = vec!["low: a".to_owned(), "high: b".to_owned()];
        let section = Section { heading: vec!["layers".to_owned(), "x".to_owned()], lines };
        let names = ["a", "b", "c"].map(str::to_owned).into();
        let findings = upward(&section, &names, &imports(&[("a", "b"), ("b", "a")]));
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].contains("module c stands in no layer"));
        assert!(findings[1].contains("a (low) imports b (high) from above"));
    }

    #[test]
    fn circles_are_found_around_corners() {
        assert!(cycles(&imports(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
        assert_eq!(cycles(&imports(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")])).len(), 3);
    }
}
