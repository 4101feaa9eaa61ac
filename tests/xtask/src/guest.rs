//! A guest machine with RDMA in software, for kernels that have none.
//!
//! A stock Debian kernel boots in QEMU from a small memory file system, mounts this machine's files read-only with a
//! memory file system on top, so that every program and library that is here is there too, and runs one script. What
//! the script prints and how it ends comes over the console. Nothing is installed by it and nothing is left behind:
//! what the guest writes is in its memory. Kernel and image are kept below the build outputs.

use std::fs;
use std::path::{Path, PathBuf};

use crate::install::{self, Found};
use crate::run::{Log, Run};
use crate::step::Failure;
use crate::workspace::Workspace;

/// What the guest is made from, and what the script's tools come from.
const PACKAGES: &[&str] =
    &["qemu-system-x86", "busybox-static", "cpio", "kmod", "xz-utils", "iproute2", "libibverbs1", "ibverbs-providers"];
/// Kernel modules, in the order in which they are loaded; what they need comes before each. Without `crc32_generic`
/// first, adding a soft-RoCE device fails.
const MODULES: &[&str] =
    &["virtio_pci", "virtio_net", "9p", "9pnet_virtio", "overlay", "crc32_generic", "rdma_rxe", "rdma_ucm", "dummy"];
/// The last line of the script's output.
const END: &str = "umbra-guest: exit ";
/// Seconds from power-on to power-off.
const LIMIT: u64 = 240;

/// A guest that can be started.
pub(crate) struct Guest {
    kernel: PathBuf,
    image: PathBuf,
    script: PathBuf,
}

impl Guest {
    /// Gets everything that a guest needs, or says why it can't be had.
    pub(crate) fn prepare(workspace: &Workspace, log: &Log) -> Result<Found<Guest>, Failure> {
        if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            return Ok(Err("the guest is written for x86-64 Linux".to_owned()));
        }
        if let Err(reason) = install::system_packages(PACKAGES, log) {
            return Ok(Err(reason));
        }
        let folder = workspace.folder("guest")?;
        let kernel = match Kernel::find(&folder, log)? {
            Ok(kernel) => kernel,
            Err(reason) => return Ok(Err(reason)),
        };
        let (image, script) = (folder.join("image.cpio"), folder.join("script.sh"));
        kernel.image(&folder, &image, &script, log)?;
        Ok(Ok(Guest { kernel: kernel.file(), image, script }))
    }

    /// Boots, runs a script, and gives what it printed; anything but exit code 0 of the script is a failure.
    pub(crate) fn run(&self, script: &str, log: &Log) -> Result<Vec<String>, Failure> {
        fs::write(&self.script, script)?;
        let (_, printed) = Run::new("qemu-system-x86_64")
            // Without KVM: a stock kernel hangs under it where this machine is itself a guest.
            .words("-accel tcg,thread=multi -smp 2 -cpu max -m 2048 -nographic -no-reboot -nic none")
            .words("-fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap")
            .words("-device virtio-9p-pci,fsdev=root,mount_tag=root")
            .args(["-append", "console=ttyS0 quiet panic=-1"])
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(&self.image)
            .limit(LIMIT)
            .finish(log)?;
        let printed: Vec<String> = printed.iter().map(|line| line.trim_end_matches('\r').to_owned()).collect();
        match printed.iter().find_map(|line| line.strip_prefix(END)) {
            Some("0") => Ok(printed),
            Some(code) => Err(Failure::new(format!("{}\nthe script in the guest ended with {code}", tail(&printed)))),
            None => Err(Failure::new(format!("{}\nthe guest ended before its script did", tail(&printed)))),
        }
    }
}

fn tail(printed: &[String]) -> String {
    printed[printed.len().saturating_sub(60)..].join("\n")
}

/// A Debian kernel, unpacked.
struct Kernel {
    root: PathBuf,
    version: String,
}

impl Kernel {
    /// The one that was unpacked before, or else the newest of Debian's.
    fn find(folder: &Path, log: &Log) -> Result<Found<Kernel>, Failure> {
        let root = folder.join("kernel");
        if let Some(kernel) = Kernel::unpacked(&root) {
            return Ok(Ok(kernel));
        }
        let depends = Run::new("apt-cache").words("depends --no-recommends linux-image-amd64").output();
        let package = depends.iter().flat_map(|text| text.split_whitespace()).find(|word| {
            word.starts_with("linux-image-")
                && word.contains(|digit: char| digit.is_ascii_digit())
                && *word != "linux-image-amd64"
        });
        let Some(package) = package else {
            return Ok(Err("no Debian kernel is known here: `apt-get update` first".to_owned()));
        };
        let packages = folder.join("packages");
        fs::create_dir_all(&packages)?;
        // As root apt would drop its rights, which can't write here.
        let download = Run::new("apt-get").words("-q -o APT::Sandbox::User=root download").arg(package);
        if let Err(failure) = download.within(&packages).limit(600).succeed(log) {
            return Ok(Err(format!("{package} can't be fetched: {}", install::last_line(&failure))));
        }
        let file = fs::read_dir(&packages)?.flatten().map(|entry| entry.path()).find(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{package}_")))
        });
        let file = file.ok_or_else(|| Failure::new(format!("{package} was fetched to nowhere")))?;
        // Whole or not at all.
        let partial = folder.join("kernel.partial");
        Run::new("dpkg").arg("-x").arg(&file).arg(&partial).succeed(log)?;
        let version = Kernel::unpacked(&partial).ok_or_else(|| Failure::new(format!("{package} holds no kernel")))?;
        Run::new("depmod").arg("-b").arg(&partial).arg(&version.version).succeed(log)?;
        fs::rename(&partial, &root)?;
        fs::remove_dir_all(&packages)?;
        Ok(Kernel::unpacked(&root).ok_or_else(|| "the kernel is gone".to_owned()))
    }

    fn unpacked(root: &Path) -> Option<Kernel> {
        let version = fs::read_dir(root.join("lib/modules")).ok()?.flatten().next()?.file_name();
        let kernel = Kernel { root: root.to_owned(), version: version.to_string_lossy().into_owned() };
        kernel.file().is_file().then_some(kernel)
    }

    fn file(&self) -> PathBuf {
        self.root.join(format!("boot/vmlinuz-{}", self.version))
    }

    /// The files of these modules and of those that they need, in loading order.
    fn modules(&self) -> Result<Vec<PathBuf>, Failure> {
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

    /// Writes the memory file system: a shell, the modules, and what runs first.
    fn image(&self, folder: &Path, image: &Path, script: &Path, log: &Log) -> Result<(), Failure> {
        let root = folder.join("image");
        if root.exists() {
            fs::remove_dir_all(&root)?;
        }
        fs::create_dir_all(root.join("modules"))?;
        fs::copy("/bin/busybox", root.join("busybox"))?;
        let mut loads = String::new();
        for (at, file) in self.modules()?.iter().enumerate() {
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
        fs::write(root.join("init"), init(&loads, script))?;
        let pack = format!("chmod 755 init busybox && find . | cpio --quiet -o -H newc > '{}'", image.display());
        Run::new("sh").args(["-c", &pack]).within(&root).succeed(log)?;
        fs::remove_dir_all(&root)?;
        Ok(())
    }
}

/// The file in a line of `modprobe --show-depends`; parameters may follow it.
fn module_file(line: &str) -> Option<PathBuf> {
    let (file, rest) = line.strip_prefix("insmod ")?.split_once(".ko")?;
    let packed = if rest.starts_with(".xz") { ".xz" } else { "" };
    Some(PathBuf::from(format!("{file}.ko{packed}")))
}

/// What runs first in the guest.
fn init(loads: &str, script: &Path) -> String {
    let mount = "mount -t 9p -o trans=virtio,version=9p2000.L,msize=1048576,cache=loose,ro root /lower";
    let overlay = "mount -t overlay -o lowerdir=/lower,upperdir=/memory/upper,workdir=/memory/work none /all";
    format!(
        "#!/busybox sh\n\
         /busybox mkdir -p /bin /proc /lower /memory /all\n\
         /busybox --install -s /bin\n\
         export PATH=/bin\n\
         mount -t proc none /proc\n\
         {loads}\
         {mount}\n\
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
         export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TMPDIR=/tmp\n\
         /busybox chroot /all /bin/sh '{}' 2>&1\n\
         echo \"{END}$?\"\n\
         /busybox sync\n\
         echo o > /proc/sysrq-trigger\n\
         /busybox sleep 60\n",
        script.display()
    )
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
