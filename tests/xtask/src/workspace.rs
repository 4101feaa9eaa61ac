//! Where things lie in this checkout.

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::step::Failure;

/// The checkout, and the folder for everything that is built.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    /// Folder of the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Folder for build outputs.
    pub(crate) target: PathBuf,
    /// Temporary folder of this run: what tests and jobs leave behind is found here. Its path is short, because
    /// sockets are made in it.
    pub(crate) scratch: PathBuf,
}

impl Workspace {
    /// Finds the workspace that this program was built from and works in its root.
    pub(crate) fn find() -> Result<Self, Failure> {
        let manifest =
            env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let root = manifest.ancestors().nth(2).unwrap_or(&manifest).to_owned();
        if !root.join("core/Cargo.toml").is_file() {
            return Err(Failure::new(format!("{} is not the root of the workspace", root.display())));
        }
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |path| root.join(path));
        env::set_current_dir(&root).map_err(|error| Failure::new(format!("{}: {error}", root.display())))?;
        let scratch = env::temp_dir().join(format!("xtask-{}", std::process::id()));
        Ok(Self { root, target, scratch })
    }

    /// A folder of the tool's own below the build outputs, made if need be.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.target.join(name);
        fs::create_dir_all(&path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        Ok(path)
    }

    /// What a step that failed may have lacked: says how little there is left where things are built, if it is too little
    /// for a step.
    pub(crate) fn shortage(&self) -> Option<String> {
        const STEP: u64 = 2 << 30;
        let disk = rustix::fs::statvfs(&self.target).ok()?;
        let left = disk.f_bavail * disk.f_frsize;
        let at = self.target.display();
        (left < STEP).then(|| format!("{} MiB are left for {at}; all steps together need 12 GiB", left >> 20))
    }

    /// Reads a file of the checkout.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Result<String, Failure> {
        let path = self.root.join(path);
        fs::read_to_string(&path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
    }

    /// All files below a folder of the checkout whose name ends so, sorted, relative to the root; none if there
    /// is no such folder. Build outputs and hidden folders are left out.
    pub(crate) fn files(&self, folder: &str, ending: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut open = vec![self.root.join(folder)];
        while let Some(path) = open.pop() {
            let Ok(entries) = fs::read_dir(&path) else { continue };
            for entry in entries.flatten() {
                let (path, name) = (entry.path(), entry.file_name());
                let name = name.to_string_lossy();
                if path.is_dir() && !path.is_symlink() {
                    if name != "target" && !name.starts_with('.') {
                        open.push(path);
                    }
                } else if name.ends_with(ending) {
                    found.push(path.strip_prefix(&self.root).unwrap_or(&path).to_owned());
                }
            }
        }
        found.sort();
        found
    }

    /// Packages of the workspace with their folders.
    pub(crate) const PACKAGES: [(&str, &str); 7] = [
        ("umbra-core", "core"),
        ("umbra", "host"),
        ("umbra-dpu", "dpu"),
        ("umbra-firmware", "dpu/firmware"),
        ("umbra-ffi", "ffi"),
        ("umbra-tests", "tests"),
        ("xtask", "tests/xtask"),
    ];
}
