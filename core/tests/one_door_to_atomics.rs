//! No source file reaches atomics but through `umbra_core::atomic`.
//!
//! So no code escapes the loom models.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn atomics_come_through_one_door() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for package in ["core", "host", "dpu", "ffi"] {
        sources(&root.join(package).join("src"), &mut files);
    }
    assert!(files.len() > 5, "found only {files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        if !file.ends_with("core/src/atomic.rs") {
            assert!(!text.contains("sync::atomic"), "{} does not use umbra_core::atomic", file.display());
        }
    }
}
