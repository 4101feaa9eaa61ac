//! Tools that steps need: found, or installed where that is allowed.
//!
//! Cargo's tools are installed by `cargo install`, each in the version that is pinned here, into the build
//! folder and nowhere else. The system's packages are installed only as root, with apt, and only when the program
//! in question is missing.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::run::{Log, Run};
use crate::step::Failure;
use crate::workspace::Workspace;

/// A tool from the package registry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CargoTool {
    /// Package and program name.
    pub(crate) name: &'static str,
    /// The version that the steps are written for.
    version: &'static str,
    /// What it is for.
    purpose: &'static str,
}

/// Builds many combinations of features.
pub(crate) const CARGO_HACK: CargoTool =
    CargoTool { name: "cargo-hack", version: "0.6.46", purpose: "combinations of features" };
/// Checks licences, sources and bans of the dependency tree.
pub(crate) const CARGO_DENY: CargoTool =
    CargoTool { name: "cargo-deny", version: "0.20.2", purpose: "licences, bans and sources of dependencies" };
/// Runs coverage-guided fuzz targets.
pub(crate) const CARGO_FUZZ: CargoTool =
    CargoTool { name: "cargo-fuzz", version: "0.13.2", purpose: "coverage-guided fuzzing (needs nightly)" };

/// A program of the system, with the Debian package that brings it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemTool {
    program: &'static str,
    package: &'static str,
    purpose: &'static str,
}

/// The C compiler.
pub(crate) const CC: SystemTool = SystemTool { program: "cc", package: "gcc", purpose: "C tests" };
/// The C++ compiler, for the headers.
pub(crate) const CXX: SystemTool = SystemTool { program: "c++", package: "g++", purpose: "C headers in C++" };
/// Checks memory accesses of the C programs.
pub(crate) const VALGRIND: SystemTool =
    SystemTool { program: "valgrind", package: "valgrind", purpose: "memory check of the C programs" };

/// An MPI library of Debian. Several can be installed together; each has its programs under names of its own.
pub(crate) struct Mpi {
    /// How it is called, and the folder of what is built for it.
    pub(crate) name: &'static str,
    /// Its packages.
    pub(crate) packages: &'static [&'static str],
    /// Its driver of the C compiler.
    pub(crate) compiler: &'static str,
    /// Its driver of the C++ compiler.
    pub(crate) plus: &'static str,
    /// Its launcher, with what this needs to start more ranks than there are processors.
    pub(crate) launcher: &'static str,
    /// Options of the launcher.
    pub(crate) options: &'static str,
    /// Option of the launcher with which others outlive a process that is killed.
    pub(crate) outlive: &'static str,
    /// Variables of the launcher.
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

impl Mpi {
    /// Open MPI. It asks twice whether root really means it.
    pub(crate) const OPEN: Mpi = Mpi {
        name: "openmpi",
        packages: &["libopenmpi-dev", "openmpi-bin"],
        compiler: "mpicc.openmpi",
        plus: "mpicxx.openmpi",
        launcher: "mpirun.openmpi",
        options: "--oversubscribe",
        outlive: "--enable-recovery",
        environment: &[("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")],
    };
    /// MPICH.
    pub(crate) const MPICH: Mpi = Mpi {
        name: "mpich",
        packages: &["libmpich-dev", "mpich"],
        compiler: "mpicc.mpich",
        plus: "mpicxx.mpich",
        launcher: "mpirun.mpich",
        options: "",
        outlive: "-disable-auto-cleanup",
        environment: &[],
    };
}

/// The compiler front end that generators of bindings read headers with.
pub(crate) struct Libclang(());

impl Libclang {
    /// Finds the packages, or installs them where that is allowed.
    pub(crate) fn prepare(log: &Log) -> Found<Libclang> {
        system_packages(&["libclang1-14", "libclang-common-14-dev"], log).map(|()| Libclang(()))
    }

    /// Tells a build which libclang to take: the newest one would win otherwise.
    pub(crate) fn env(&self, run: Run) -> Run {
        run.env("LIBCLANG_PATH", "/usr/lib/llvm-14/lib")
    }
}

/// A tool that is there, or why it is not.
pub(crate) type Found<T> = Result<T, String>;

/// Finds a tool in the build folder, or installs it there.
pub(crate) fn cargo_tool(workspace: &Workspace, tool: CargoTool, log: &Log) -> Result<Found<PathBuf>, Failure> {
    let root = workspace.folder("tools")?;
    let program = root.join("bin").join(tool.name);
    // cargo's own list of what it installed says whether the version is the pinned one.
    let listed = Run::cargo().words("install --list --root").arg(&root).output().unwrap_or_default();
    let line = format!("{} v{}:", tool.name, tool.version);
    if program.is_file() && listed.lines().any(|listed| listed == line) {
        return Ok(Ok(program));
    }
    // Several may be installed at a time.
    let build = root.join(format!("build-{}", tool.name));
    let install = Run::cargo()
        .words("install --locked --debug --version")
        .arg(format!("={}", tool.version))
        .arg("--root")
        .arg(&root)
        .arg("--target-dir")
        .arg(&build)
        .arg(tool.name)
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        .env_remove("RUSTFLAGS");
    let installed = install.succeed(log);
    // What it was built from is of no more use, and of gigabytes; after a failure it may be gone already.
    let _ = fs::remove_dir_all(&build);
    match installed {
        Ok(()) => Ok(Ok(program)),
        Err(failure) => Ok(Err(format!("{} {} can't be installed: {}", tool.name, tool.version, last_line(&failure)))),
    }
}

/// Finds a program of the system, or installs its package as root.
pub(crate) fn system_tool(tool: SystemTool, log: &Log) -> Found<()> {
    if found(tool.program) {
        return Ok(());
    }
    system_packages(&[tool.package], log).map_err(|reason| format!("{} is not here; {reason}", tool.program))?;
    if found(tool.program) { Ok(()) } else { Err(format!("package {} did not bring {}", tool.package, tool.program)) }
}

/// Whoever holds it may ask for packages: steps that run beside each other take turns.
static PACKAGES: Mutex<()> = Mutex::new(());

/// Finds Debian packages, or installs those that are missing as root.
pub(crate) fn system_packages(names: &[&str], log: &Log) -> Found<()> {
    let here = |name: &&str| {
        let status = Run::new("dpkg-query").words("--show --showformat=${db:Status-Status}").arg(name).output();
        status.is_some_and(|status| status == "installed")
    };
    let _turn = PACKAGES.lock().unwrap_or_else(PoisonError::into_inner);
    let missing: Vec<&str> = names.iter().copied().filter(|name| !here(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let line = missing.join(" ");
    if !rustix::process::geteuid().is_root() || !found("apt-get") {
        return Err(format!("`apt-get install {line}` is needed"));
    }
    let apt = |words: &str| Run::new("apt-get").words(words).env("DEBIAN_FRONTEND", "noninteractive").limit(600);
    let install = apt("-q -y --no-install-recommends install").args(&missing);
    let installed = apt("-q update").succeed(log).and_then(|()| install.succeed(log));
    installed.map_err(|failure| format!("{line} can't be installed: {}", last_line(&failure)))
}

/// What the feature `rdma-sys` needs to build: headers of the libraries, and a libclang that its generator understands.
pub(crate) struct RdmaSys(Found<()>);

impl RdmaSys {
    /// Debian 12's packages. Its compiler front end is the last but one that the crate's generator of bindings reads; the
    /// next release of Debian has none that old.
    const PACKAGES: &[&str] =
        &["libibverbs-dev", "librdmacm-dev", "libclang1-14", "libclang-common-14-dev", "pkg-config"];

    /// Finds the packages, or installs them where that is allowed.
    pub(crate) fn prepare(log: &Log) -> RdmaSys {
        RdmaSys(system_packages(RdmaSys::PACKAGES, log))
    }

    /// Whether the feature can be built.
    pub(crate) const fn is_here(&self) -> bool {
        self.0.is_ok()
    }

    /// The features of the command that its default build leaves out, and that can be built here. Whoever needs one builds
    /// with all of them: so they are built once.
    pub(crate) const fn features(&self) -> &'static str {
        if self.is_here() { "umbra/rdma-sys,umbra/firmware-log" } else { "umbra/firmware-log" }
    }

    /// Tells a build which libclang to take: the newest one would win otherwise.
    pub(crate) fn env(&self, run: Run) -> Run {
        if self.is_here() { run.env("LIBCLANG_PATH", "/usr/lib/llvm-14/lib") } else { run }
    }

    /// What a step that did without says.
    pub(crate) fn remark(&self) -> String {
        self.0.as_ref().err().map_or_else(String::new, |reason| format!("not with rdma-sys: {reason}"))
    }
}

/// Whether a program is on the path.
pub(crate) fn found(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Prints every tool, its purpose, and whether it is here.
pub(crate) fn print_tools(workspace: &Workspace) -> Result<bool, Failure> {
    let here = |is: bool| if is { "here" } else { "missing" };
    for tool in [CC, CXX, VALGRIND] {
        println!("{:<12} {:<8} {} (package {})", tool.program, here(found(tool.program)), tool.purpose, tool.package);
    }
    let root = workspace.target.join("tools/bin");
    for tool in [CARGO_HACK, CARGO_DENY, CARGO_FUZZ] {
        let state = here(root.join(tool.name).is_file());
        println!("{:<12} {state:<8} {} (version {}, installed when needed)", tool.name, tool.purpose, tool.version);
    }
    let nightly = Run::new("rustc").words("+nightly --version").output();
    println!("{:<12} {:<8} ThreadSanitizer, fuzzing", "nightly", here(nightly.is_some()));
    let miri = Run::cargo().words("+nightly miri --version").output();
    println!("{:<12} {:<8} undefined behaviour in tests of core", "miri", here(miri.is_some()));
    Ok(true)
}

/// The line of a failure that says most in a `skipped` remark.
pub(crate) fn last_line(failure: &Failure) -> String {
    let text = failure.to_string();
    let mut lines = text.lines().rev().filter(|line| !line.trim().is_empty());
    let telling = lines.clone().find(|line| line.starts_with("error") || line.starts_with("E: "));
    telling.or_else(|| lines.next()).unwrap_or_default().to_owned()
}
