//! Debian's packages, unpacked into a folder instead of being installed.
//!
//! An [`Archive`] has package lists of its own, so that neither the system's lists nor its packages change. It can be
//! one of another architecture.

use std::fs;
use std::path::{Path, PathBuf};

use crate::install::{Found, found};
use crate::run::{Log, Run};
use crate::step::Failure;

/// Where apt keeps its list of archives on current Debian systems.
const SOURCES: &str = "/etc/apt/sources.list.d/debian.sources";

/// A private view of Debian's packages.
pub(crate) struct Archive {
    folder: PathBuf,
    options: Vec<String>,
}

/// Reads the lists of the running release, with its security updates, into the folder.
pub(crate) fn of_this_release(folder: &Path, architectures: &[&str], log: &Log) -> Result<Found<Archive>, Failure> {
    let Some(release) = release() else { return Ok(Err("this is no Debian release".to_owned())) };
    let security = format!("{release}-security main");
    Archive::open(folder, &format!("{release} main"), Some(&security), architectures, log)
}

/// Makes a folder of packages of one architecture: whole or not at all.
pub(crate) fn make(
    folder: &Path,
    architecture: &str,
    log: &Log,
    fill: impl FnOnce(&Archive, &Path) -> Result<Found<()>, Failure>,
) -> Result<Found<()>, Failure> {
    let partial = folder.with_extension("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    fs::create_dir_all(&partial)?;
    let filled = match of_this_release(&partial, &[architecture], log)? {
        Ok(archive) => fill(&archive, &partial)?,
        Err(reason) => Err(reason),
    };
    if filled.is_ok() {
        fs::rename(&partial, folder)?;
    }
    Ok(filled)
}

impl Archive {
    /// Reads the lists of the given suites into the folder. The first architecture is the one that names without an
    /// architecture mean.
    pub(crate) fn open(
        folder: &Path,
        main: &str,
        security: Option<&str>,
        architectures: &[&str],
        log: &Log,
    ) -> Result<Found<Self>, Failure> {
        let known = fs::read_to_string(SOURCES).unwrap_or_default();
        let address = |ending: &str| {
            let of_line = |line: &str| line.strip_prefix("URIs:").map(|rest| rest.trim().to_owned());
            known.lines().filter_map(of_line).find(|address| address.trim_end_matches('/').ends_with(ending))
        };
        let tools = ["apt-get", "apt-cache", "dpkg"].iter().all(|program| found(program));
        let Some(debian) = address("debian").filter(|_| tools) else {
            return Ok(Err("Debian's packages can't be reached from this system".to_owned()));
        };
        let trusted = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]";
        let mut list = format!("deb {trusted} {debian} {main}\n");
        if let (Some(suite), Some(address)) = (security, address("debian-security")) {
            list += &format!("deb {trusted} {address} {suite}\n");
        }
        for needed in ["apt/lists/partial", "apt/cache/archives/partial", "packages"] {
            fs::create_dir_all(folder.join(needed))?;
        }
        let sources = folder.join("apt/sources.list");
        fs::write(&sources, list)?;
        let root = folder.display();
        let options = [
            format!("Dir::Etc::sourcelist={root}/apt/sources.list"),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            format!("Dir::State::Lists={root}/apt/lists"),
            format!("Dir::Cache={root}/apt/cache"),
            "Acquire::Languages=none".to_owned(),
            format!("APT::Architecture={}", architectures.first().unwrap_or(&"amd64")),
            format!("APT::Architectures={}", architectures.join(",")),
            "APT::Sandbox::User=root".to_owned(),
        ];
        let options = options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect();
        let archive = Self { folder: folder.to_owned(), options };
        match Run::new("apt-get").args(&archive.options).words("-q update").limit(300).succeed(log) {
            Ok(()) => Ok(Ok(archive)),
            Err(failure) => Ok(Err(crate::install::last_line(&failure))),
        }
    }

    /// The version that is offered of a package.
    pub(crate) fn version(&self, package: &str) -> Option<String> {
        let listed = Run::new("apt-cache").args(&self.options).arg("madison").arg(package).output()?;
        listed.lines().next()?.split('|').nth(1).map(|version| version.trim().to_owned())
    }

    /// The first package whose name begins so among those that a package depends on.
    pub(crate) fn dependency(&self, package: &str, beginning: &str) -> Option<String> {
        let listed = Run::new("apt-cache").args(&self.options).arg("depends").arg(package).output()?;
        let name = |line: &str| line.trim().strip_prefix("Depends: ").map(str::to_owned);
        listed.lines().filter_map(name).find(|name| name.starts_with(beginning))
    }

    /// Packages with everything that they depend on; `None` if one of them is not known.
    pub(crate) fn with_dependencies(&self, packages: &[&str]) -> Option<Vec<String>> {
        let only = "depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
                    --no-enhances";
        let listed = Run::new("apt-cache").args(&self.options).words(only).args(packages).output()?;
        // What they need is indented, and names in angle brackets are provided by others.
        let names = listed.lines().filter(|line| !line.starts_with([' ', '|', '<']));
        Some(names.map(str::to_owned).collect())
    }

    /// Downloads packages and unpacks them into the folder.
    pub(crate) fn unpack(&self, packages: &[&str], log: &Log) -> Result<(), Failure> {
        let store = self.folder.join("packages");
        let download = Run::new("apt-get").args(&self.options).words("-q download").args(packages);
        download.within(&store).limit(600).succeed(log)?;
        for entry in fs::read_dir(&store)?.flatten() {
            Run::new("dpkg").arg("-x").arg(entry.path()).arg(&self.folder).succeed(log)?;
        }
        fs::remove_dir_all(&store)?;
        Ok(())
    }
}

/// The code name of the running Debian release.
fn release() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.trim_matches('"'));
    (value("ID=") == Some("debian")).then(|| value("VERSION_CODENAME=").map(str::to_owned))?
}
