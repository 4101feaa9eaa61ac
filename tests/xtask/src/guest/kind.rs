//! Which machine a guest is.

/// A kind of guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A host: this machine's processor and files.
    Host,
    /// A DPU: the processor of BlueField-2, and a small root of its own.
    Dpu,
}

impl Kind {
    /// What its files are kept under.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Kind::Host => "x86-64",
            Kind::Dpu => "aarch64",
        }
    }

    /// Debian's name of the architecture.
    pub(super) const fn architecture(self) -> &'static str {
        match self {
            Kind::Host => "amd64",
            Kind::Dpu => "arm64",
        }
    }

    /// What must be installed here.
    pub(super) const fn packages(self) -> &'static [&'static str] {
        match self {
            // The tools of the script are this machine's.
            Kind::Host => &[
                "qemu-system-x86",
                "busybox-static",
                "cpio",
                "kmod",
                "xz-utils",
                "iproute2",
                "libibverbs1",
                "librdmacm1",
                "ibverbs-providers",
            ],
            Kind::Dpu => &["qemu-system-arm", "cpio", "kmod", "xz-utils"],
        }
    }

    /// The program that runs it.
    pub(super) const fn emulator(self) -> &'static str {
        match self {
            Kind::Host => "qemu-system-x86_64",
            Kind::Dpu => "qemu-system-aarch64",
        }
    }

    /// The emulator's options.
    pub(super) const fn machine(self) -> &'static str {
        match self {
            Kind::Host => "-cpu max -m 2048",
            Kind::Dpu => "-M virt -cpu cortex-a72 -m 1024",
        }
    }

    /// Where the console is.
    pub(super) const fn console(self) -> &'static str {
        match self {
            Kind::Host => "ttyS0",
            Kind::Dpu => "ttyAMA0",
        }
    }
}
