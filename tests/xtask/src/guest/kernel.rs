//! A Debian kernel, unpacked.

use std::fs;
use std::path::{Path, PathBuf};

use super::Kind;
use crate::debian;
use crate::install::{Found, last_line};
use crate::run::{Log, Run};
use crate::step::Failure;

/// Kernel modules, in the order in which they are loaded; what they need comes before each. Without `crc32_generic`
/// first, adding a soft-RoCE device fails.
const MODULES: &[&str] =
    &["virtio_pci", "virtio_net", "9p", "9pnet_virtio", "overlay", "crc32_generic", "rdma_rxe", "rdma_ucm", "dummy"];

/// A kernel and its modules.
pub(super) struct Kernel {
    root: PathBuf,
    version: String,
}

impl Kernel {
    /// The one that was unpacked before, or else the newest of the running release.
    pub(super) fn find(folder: &Path, kind: Kind, log: &Log) -> Result<Found<Kernel>, Failure> {
        let root = folder.join("kernel");
        if let Some(kernel) = Kernel::unpacked(&root) {
            return Ok(Ok(kernel));
        }
        let made = debian::make(&root, kind.architecture(), log, |archive, folder| {
            let newest = format!("linux-image-{}", kind.architecture());
            let Some(package) = archive.dependency(&newest, "linux-image-") else {
                return Ok(Err(format!("package {newest} names no kernel")));
            };
            if let Err(failure) = archive.unpack(&[&package], log) {
                return Ok(Err(format!("{package} can't be fetched: {}", last_line(&failure))));
            }
            let Some(kernel) = Kernel::unpacked(folder) else {
                return Err(Failure::new(format!("{package} holds no kernel")));
            };
            Run::new("depmod").arg("-b").arg(folder).arg(&kernel.version).succeed(log)?;
            Ok(Ok(()))
        })?;
        Ok(made.and_then(|()| Kernel::unpacked(&root).ok_or_else(|| "the kernel is gone".to_owned())))
    }

    fn unpacked(root: &Path) -> Option<Kernel> {
        let version = fs::read_dir(root.join("lib/modules")).ok()?.flatten().next()?.file_name();
        let kernel = Kernel { root: root.to_owned(), version: version.to_string_lossy().into_owned() };
        kernel.file().is_file().then_some(kernel)
    }

    /// What the emulator boots.
    pub(super) fn file(&self) -> PathBuf {
        self.root.join(format!("boot/vmlinuz-{}", self.version))
    }

    /// The files of the modules and of those that they need, in loading order.
    pub(super) fn modules(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut files = Vec::new();
        for module in MODULES {
            let shown = Run::new("modprobe").arg("-d").arg(&self.root).args(["-S", &self.version]);
            let shown = shown.args(["--show-depends", module]).output();
            let shown = shown.ok_or_else(|| Failure::new(format!("the kernel has no module {module}")))?;
            for file in shown.lines().filter_map(module_file) {
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        Ok(files)
    }
}

/// The file in a line of `modprobe --show-depends`; parameters may follow it.
fn module_file(line: &str) -> Option<PathBuf> {
    let (file, rest) = line.strip_prefix("insmod ")?.split_once(".ko")?;
    let packed = if rest.starts_with(".xz") { ".xz" } else { "" };
    Some(PathBuf::from(format!("{file}.ko{packed}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_modules_are_told_from_their_parameters() {
        let file = |line| module_file(line).map(|file| file.display().to_string());
        assert_eq!(file("insmod /a b/dummy.ko numdummies=0").as_deref(), Some("/a b/dummy.ko"));
        assert_eq!(file("insmod /a/9p.ko.xz ").as_deref(), Some("/a/9p.ko.xz"));
        assert_eq!(file("builtin virtio"), None);
    }
}
