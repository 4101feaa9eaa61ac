//! The memory file system that a guest starts from.
//!
//! It holds a shell, kernel modules, and what runs first.

use std::fs;
use std::path::Path;

use super::kernel::Kernel;
use super::{END, Kind};
use crate::run::{Log, Run};
use crate::step::Failure;

/// What the image is for.
pub(super) struct Image<'a> {
    /// Whose.
    pub(super) kind: Kind,
    /// A program of the guest's processor that needs no library.
    pub(super) shell: &'a Path,
    /// What the guest runs, by its path on both sides.
    pub(super) script: &'a Path,
    /// A folder that has the same path on both sides.
    pub(super) work: &'a Path,
}

impl Image<'_> {
    /// Writes it to a file.
    pub(super) fn write(&self, kernel: &Kernel, folder: &Path, image: &Path, log: &Log) -> Result<(), Failure> {
        let root = folder.join("image");
        if root.exists() {
            fs::remove_dir_all(&root)?;
        }
        fs::create_dir_all(root.join("modules"))?;
        fs::copy(self.shell, root.join("busybox"))?;
        let mut loads = String::new();
        for (at, file) in kernel.modules()?.iter().enumerate() {
            let name = format!("{at:02}.ko");
            let to = root.join("modules").join(&name);
            if file.extension().is_some_and(|ending| ending == "xz") {
                let packed = to.with_extension("ko.xz");
                fs::copy(file, &packed)?;
                Run::new("xz").arg("-d").arg(&packed).succeed(log)?;
            } else {
                fs::copy(file, &to)?;
            }
            loads += &format!("insmod /modules/{name}\n");
        }
        fs::write(root.join("init"), self.init(&loads))?;
        let pack = format!("chmod 755 init busybox && find . | cpio --quiet -o -H newc > '{}'", image.display());
        Run::new("sh").args(["-c", &pack]).within(&root).succeed(log)?;
        fs::remove_dir_all(&root)?;
        Ok(())
    }

    /// What runs first in the guest.
    fn init(&self, loads: &str) -> String {
        let (script, work) = (self.script.display(), self.work.display());
        let mount = "mount -t 9p -o trans=virtio,version=9p2000.L,msize=1048576,cache=loose,ro";
        let overlay = "mount -t overlay -o lowerdir=/lower,upperdir=/memory/upper,workdir=/memory/work none /all";
        let rest = match self.kind {
            // All of this machine's files are there already.
            Kind::Host => String::new(),
            // The root has a shell and nothing else of the usual programs; it keeps its own of those that it has.
            Kind::Dpu => format!(
                "mkdir -p '/all{work}'\n{mount} work '/all{work}'\n/busybox chroot /all /bin/busybox --install -s 2>/dev/null\n"
            ),
        };
        format!(
            "#!/busybox sh\n\
             /busybox mkdir -p /bin /proc /lower /memory /all\n\
             /busybox --install -s /bin\n\
             export PATH=/bin\n\
             mount -t proc none /proc\n\
             {loads}\
             {mount} root /lower\n\
             mount -t tmpfs -o size=1g none /memory\n\
             mkdir /memory/upper /memory/work\n\
             {overlay}\n\
             mount -t proc none /all/proc\n\
             mount -t sysfs none /all/sys\n\
             mount -t devtmpfs none /all/dev\n\
             mkdir -p /all/dev/shm /all/tmp\n\
             mount -t tmpfs none /all/dev/shm\n\
             mount -t tmpfs none /all/run\n\
             mount -t tmpfs none /all/tmp\n\
             {rest}\
             export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TMPDIR=/tmp\n\
             /busybox chroot /all /bin/sh '{script}' 2>&1\n\
             echo \"{END}$?\"\n\
             /busybox sync\n\
             echo o > /proc/sysrq-trigger\n\
             /busybox sleep 60\n"
        )
    }
}
