//! `docs/dependencies.md` names every package that a manifest names, and no other.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Named by the page although no manifest names them: packages that the project was asked to use.
const ASKED_FOR: [&str; 1] = ["atomic-polyfill"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// All manifests below `directory`, build outputs left out.
fn manifests(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        let is_output = name == "target" || name.to_string_lossy().starts_with('.');
        if entry.file_type().unwrap().is_dir() && !is_output {
            manifests(&path, found);
        } else if name == "Cargo.toml" {
            found.push(path);
        }
    }
}

/// Package names in the dependency sections of a manifest.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut inside = false;
    let mut open = 0_usize;
    for line in manifest.lines().map(str::trim) {
        if open == 0 && line.starts_with('[') {
            let section = line.trim_matches(['[', ']']);
            // `[dependencies]`, `[target.'cfg(..)'.dev-dependencies]`, `[dependencies.name]`.
            inside = section.rsplit('.').next().is_some_and(|last| last.ends_with("dependencies"));
            if let Some((_, name)) = section.rsplit_once("dependencies.") {
                names.insert(name.trim_matches('"').to_owned());
            }
            continue;
        }
        if inside && open == 0 && !line.starts_with('#') && line.contains('=') {
            let key = line.split('=').next().unwrap().trim();
            names.insert(key.split('.').next().unwrap().trim_matches('"').to_owned());
        }
        // Feature lists may go over several lines.
        open += line.matches('[').count();
        open -= line.matches(']').count().min(open);
    }
    names
}

/// Packages that the tables of the page name in their first column.
fn documented(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let first = rows.filter_map(|row| row.split('|').next());
    first.flat_map(|cell| cell.split(',').map(|name| name.trim().trim_matches('`').to_owned())).collect()
}

#[test]
fn the_page_and_the_manifests_name_the_same_packages() {
    let root = root();
    let mut found = Vec::new();
    manifests(&root, &mut found);
    assert!(found.len() >= 7, "a workspace and six packages: {found:?}");
    let mut users: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for manifest in found {
        for name in dependencies(&fs::read_to_string(&manifest).unwrap()) {
            users.entry(name).or_default().push(manifest.strip_prefix(&root).unwrap().to_owned());
        }
    }
    let page = fs::read_to_string(root.join("docs/dependencies.md")).unwrap();
    let documented = documented(&page);
    let missing: Vec<_> = users.iter().filter(|(name, _)| !documented.contains(*name)).collect();
    assert!(missing.is_empty(), "docs/dependencies.md says nothing of {missing:?}");
    let gone: Vec<_> =
        documented.iter().filter(|name| !users.contains_key(*name) && !ASKED_FOR.contains(&name.as_str())).collect();
    assert!(gone.is_empty(), "docs/dependencies.md speaks of packages that no manifest names: {gone:?}");
    let silent: Vec<_> = ASKED_FOR.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(silent.is_empty(), "docs/dependencies.md does not say what {silent:?} are for or wait for");
}

#[test]
fn a_manifest_is_read_as_cargo_reads_it() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\n# comment = 1\na = \"1\"\nb.workspace = true\n\
        c = { version = \"1\", features = [\n  \"d\", \"e = f\",\n] }\n[features]\ng = []\n\
        [target.'cfg(loom)'.dev-dependencies]\nh-i = \"1\"\n[workspace.dependencies.j]\nversion = \"1\"\n";
    let names: Vec<String> = dependencies(manifest).into_iter().collect();
    assert_eq!(names, ["a", "b", "c", "h-i", "j"]);
}
