//! The firmware images: built for each board, and measured.
//!
//! rustup's bare-metal target builds them where it is installed; elsewhere Debian's compiler does, with the sources of
//! its library.

use std::fs;
use std::path::{Path, PathBuf};

use object::{File, Object as _, ObjectSection as _, SectionFlags, elf};

use crate::install::{self, Found};
use crate::run::{Log, Run};
use crate::step::Failure;
use crate::toolchain;
use crate::workspace::Workspace;

/// A board that an image is for.
pub(crate) struct Board {
    /// What the window calls it.
    pub(crate) name: &'static str,
    target: &'static str,
    features: &'static str,
    /// The emulator, and the Debian package that brings it.
    pub(crate) emulator: (&'static str, &'static str),
    /// How tests learn where the image is.
    pub(crate) variable: &'static str,
    /// How they learn where the one is whose stack is too small.
    pub(crate) shallow: &'static str,
}

/// All of them. RISC-V goes without the log: defmt's symbols are out of its reach.
pub(crate) const BOARDS: [Board; 2] = [
    Board {
        name: "virt-a64",
        target: "aarch64-unknown-none",
        features: "defmt",
        emulator: ("qemu-system-aarch64", "qemu-system-arm"),
        variable: "UMBRA_FIRMWARE_AARCH64",
        shallow: "UMBRA_FIRMWARE_AARCH64_SHALLOW",
    },
    Board {
        name: "virt-r64",
        target: "riscv64gc-unknown-none-elf",
        features: "",
        emulator: ("qemu-system-riscv64", "qemu-system-misc"),
        variable: "UMBRA_FIRMWARE_RISCV64",
        shallow: "UMBRA_FIRMWARE_RISCV64_SHALLOW",
    },
];

/// Bytes that an image takes in the board's memory, its stack left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Code and constants.
    pub(crate) text: u64,
    /// Variables that begin with a value.
    pub(crate) data: u64,
    /// Variables that begin with zero.
    pub(crate) bss: u64,
}

/// The image of a board, and one like it that is no good.
pub(crate) struct Images {
    /// The image.
    pub(crate) whole: PathBuf,
    /// The same with a stack that is too small.
    pub(crate) shallow: PathBuf,
}

/// Bytes of such a stack.
const SHALLOW: &str = "4096";

/// Builds the images of a board, or says why that can't be done here.
pub(crate) fn build(board: &Board, workspace: &Workspace, log: &Log) -> Result<Found<Images>, Failure> {
    let linked = match image(board, Some(SHALLOW), workspace, log)? {
        Ok(image) => image,
        Err(reason) => return Ok(Err(reason)),
    };
    // The other one gets its name.
    let shallow = linked.with_extension("shallow");
    fs::rename(linked, &shallow)?;
    Ok(image(board, None, workspace, log)?.map(|whole| Images { whole, shallow }))
}

/// Builds an image, with a stack of so many bytes if that is told.
fn image(board: &Board, stack: Option<&str>, workspace: &Workspace, log: &Log) -> Result<Found<PathBuf>, Failure> {
    let folder = workspace.folder("bare-metal")?;
    let mut build = Run::cargo()
        .words("build --profile firmware --package umbra-firmware --features")
        .arg(board.features)
        .args(["--target", board.target, "--target-dir"])
        .arg(&folder)
        // Which statements are compiled in.
        .env("DEFMT_LOG", "debug");
    if let Some(bytes) = stack {
        build = build.env("UMBRA_FIRMWARE_STACK", bytes);
    }
    if toolchain::target_installed(board.target) {
        build.succeed(log)?;
    } else {
        let compiler = match toolchain::debian_compiler(workspace, log)? {
            Ok(compiler) => compiler,
            Err(reason) => {
                let add = format!("`rustup target add {}`", board.target);
                return Ok(Err(format!("target {} is not installed ({add}), and {reason}", board.target)));
            }
        };
        let linker = match linker(log) {
            Ok(linker) => linker,
            Err(reason) => return Ok(Err(reason)),
        };
        let variable = board.target.replace('-', "_").to_uppercase();
        build
            .words("-Zbuild-std=core -Zbuild-std-features=compiler-builtins-mem")
            .env("RUSTC", compiler)
            .env("RUSTC_BOOTSTRAP", "1")
            .env(&format!("CARGO_TARGET_{variable}_LINKER"), linker)
            .succeed(log)?;
    }
    Ok(Ok(folder.join(board.target).join("firmware/umbra-firmware")))
}

/// The linker that comes with rustup's toolchain, which Debian's compiler lacks, or Debian's own.
fn linker(log: &Log) -> Found<PathBuf> {
    let sysroot = Run::new("rustc").words("--print sysroot").output();
    let of_toolchain = sysroot
        .zip(toolchain::host())
        .map(|(sysroot, host)| Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin/rust-lld"));
    match of_toolchain.filter(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => install::system_packages(&["lld"], log).map(|()| PathBuf::from("ld.lld")),
    }
}

/// Measures an image.
pub(crate) fn size(image: &Path) -> Result<Size, Failure> {
    let unreadable = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", image.display()));
    let bytes = fs::read(image).map_err(|error| unreadable(&error))?;
    let file = File::parse(&*bytes).map_err(|error| unreadable(&error))?;
    let mut size = Size::default();
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
        let name = section.name().map_err(|error| unreadable(&error))?;
        if sh_flags.0 & elf::SHF_ALLOC.0 == 0 || name == ".stack" {
            continue;
        }
        let kind = match (sh_flags.0 & elf::SHF_WRITE.0 != 0, section.file_range()) {
            (false, _) => &mut size.text,
            (true, Some(_)) => &mut size.data,
            (true, None) => &mut size.bss,
        };
        *kind += section.size();
    }
    Ok(size)
}
