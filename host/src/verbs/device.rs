//! Devices, and what they say of their ports.

use std::ffi::CStr;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use super::VerbsError;
use super::abi::{self, Plain as _};
use super::library::{Library, library};
use super::numbers::MEM_WINDOW_TYPE_2B;
use super::port::{Gid, GidKind, Link, Port, PortInfo, PortState, mtu};

/// A device, opened.
pub struct Device {
    pub(super) library: &'static Library,
    pub(super) context: NonNull<abi::Context>,
    name: String,
    image: u64,
    ports: u8,
    reads: u8,
    windows: bool,
    shared_receives: u32,
}

// SAFETY: all calls on a context may be made from any thread; rdma-core guarantees it (ibv_open_device(3), "thread safe").
unsafe impl Send for Device {}
// SAFETY: as above; nothing here changes after opening.
unsafe impl Sync for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("name", &self.name).field("ports", &self.ports).finish_non_exhaustive()
    }
}

/// The names of all devices; empty if there is none.
///
/// # Errors
/// [`VerbsError`] if there is no library, or the kernel cannot be asked.
pub fn devices() -> Result<Vec<String>, VerbsError> {
    with_list(|library, list| Ok(list.iter().map(|&device| name(library, device)).collect()))
}

/// Calls `look` with all devices; they are valid during the call.
fn with_list<R>(
    look: impl FnOnce(&'static Library, &[*mut abi::Device]) -> Result<R, VerbsError>,
) -> Result<R, VerbsError> {
    let library = library()?;
    let mut count = 0;
    // SAFETY: the count is written to a live integer; the result is checked.
    let list = unsafe { (library.get_device_list)(&raw mut count) };
    let Some(first) = NonNull::new(list) else {
        let error = std::io::Error::last_os_error();
        return match error.raw_os_error() {
            // The kernel has no RDMA at all.
            Some(libc::ENOSYS | libc::ENOENT) => look(library, &[]),
            _ => Err(VerbsError::Call { what: "listing RDMA devices", error }),
        };
    };
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the library says that so many pointers lie there, and they stay until the list is freed below.
    let found = look(library, unsafe { std::slice::from_raw_parts(first.as_ptr(), count) });
    // SAFETY: the list came from `get_device_list` and is freed once; open contexts hold their devices themselves.
    unsafe { (library.free_device_list)(first.as_ptr()) };
    found
}

fn name(library: &Library, device: *mut abi::Device) -> String {
    // SAFETY: the device is valid during `with_list`.
    let name = unsafe { (library.get_device_name)(device) };
    // SAFETY: the name lies in the device and ends with zero.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

impl Device {
    /// Opens a device by name; with none, the first that has an active port, or else the first.
    ///
    /// # Errors
    /// [`VerbsError::NoDevice`], [`VerbsError::NoSuchDevice`], or why it cannot be opened.
    pub fn open(wanted: Option<&str>) -> Result<Arc<Device>, VerbsError> {
        // SAFETY: the device is valid during `with_list`.
        Device::open_by(wanted, "opening the device", |library, device| unsafe { (library.open_device)(device) })
    }

    /// As [`open`](Self::open), by another function that opens a listed device, or fails and leaves why in `errno`.
    pub(super) fn open_by(
        wanted: Option<&str>,
        what: &'static str,
        open: impl Fn(&Library, *mut abi::Device) -> *mut abi::Context,
    ) -> Result<Arc<Device>, VerbsError> {
        let opened = |library, device, name: &str| {
            let context = NonNull::new(open(library, device)).ok_or_else(|| VerbsError::last(what))?;
            Device::opened(library, context, name)
        };
        with_list(|library, list| {
            if list.is_empty() {
                return Err(VerbsError::NoDevice);
            }
            let names: Vec<String> = list.iter().map(|&device| name(library, device)).collect();
            if let Some(wanted) = wanted {
                let at = names
                    .iter()
                    .position(|name| name == wanted)
                    .ok_or_else(|| VerbsError::NoSuchDevice { name: wanted.to_owned(), known: names.join(", ") })?;
                return opened(library, list[at], &names[at]);
            }
            let (mut first, mut refused) = (None, None);
            for (&device, name) in list.iter().zip(&names) {
                // One that may not be opened says nothing about the others.
                let device = match opened(library, device, name) {
                    Ok(device) => device,
                    Err(error) => {
                        refused.get_or_insert(error);
                        continue;
                    }
                };
                if (1..=device.ports).any(|port| device.port(port).is_ok_and(|port| port.state == PortState::Active)) {
                    return Ok(device);
                }
                first.get_or_insert(device);
            }
            first.ok_or_else(|| refused.unwrap_or(VerbsError::NoDevice))
        })
    }

    fn opened(
        library: &'static Library,
        context: NonNull<abi::Context>,
        name: &str,
    ) -> Result<Arc<Device>, VerbsError> {
        let mut opened = Device {
            library,
            context,
            name: name.to_owned(),
            image: 0,
            ports: 0,
            reads: 1,
            windows: false,
            shared_receives: 0,
        };
        opened.check_operations()?;
        let mut attributes = abi::DeviceAttr::ZERO;
        // SAFETY: the context is open, and the struct has the layout that the function fills.
        let code = unsafe { (library.query_device)(context.as_ptr(), &raw mut attributes) };
        VerbsError::check("asking the device for its limits", code)?;
        opened.image = u64::from_be(attributes.sys_image_guid);
        opened.ports = attributes.phys_port_cnt;
        opened.reads = u8::try_from(attributes.max_qp_rd_atom.min(attributes.max_qp_init_rd_atom)).unwrap_or(16).max(1);
        if attributes.max_srq > 0 {
            opened.shared_receives = attributes.max_srq_wr.max(0).cast_unsigned();
        }
        opened.expect_events()?;
        opened.windows = attributes.device_cap_flags & MEM_WINDOW_TYPE_2B != 0;
        Ok(Arc::new(opened))
    }

    /// The driver does all that every driver should, so that nobody has to ask again.
    fn check_operations(&self) -> Result<(), VerbsError> {
        // SAFETY: the context is open, and its operations were written before it was handed out.
        let operations = &unsafe { self.context.as_ref() }.ops;
        let needed = [
            (operations.poll_cq.is_some(), "poll_cq"),
            (operations.req_notify_cq.is_some(), "req_notify_cq"),
            (operations.post_send.is_some(), "post_send"),
            (operations.post_recv.is_some(), "post_recv"),
        ];
        let missing = needed.into_iter().find(|&(there, _)| !there);
        missing.map_or(Ok(()), |(_, name)| Err(VerbsError::OldLibrary(name)))
    }

    /// Whoever reads events finds nothing without waiting.
    fn expect_events(&self) -> Result<(), VerbsError> {
        use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
        // SAFETY: the context is open.
        let descriptor = unsafe { self.context.as_ref() }.async_fd;
        // SAFETY: the context owns the descriptor, and is closed on drop.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let set = fcntl_getfl(descriptor).and_then(|flags| fcntl_setfl(descriptor, flags | OFlags::NONBLOCK));
        set.map_err(|errno| VerbsError::Call { what: "opening the device's events", error: errno.into() })
    }

    /// Buffers of one shared receive queue at most; 0 on devices that have none.
    #[must_use]
    pub const fn shared_receives(&self) -> u32 {
        self.shared_receives
    }

    /// Whether it has memory windows that belong to one queue pair each (type 2B).
    #[must_use]
    pub const fn has_windows(&self) -> bool {
        self.windows
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number that all functions of one card share: its system image GUID.
    #[must_use]
    pub const fn image(&self) -> u64 {
        self.image
    }

    /// How many ports it has; they count from 1.
    #[must_use]
    pub const fn ports(&self) -> u8 {
        self.ports
    }

    /// How many reads of one queue pair may be under way at once.
    #[must_use]
    pub const fn reads(&self) -> u8 {
        self.reads
    }

    /// What a port says of itself.
    ///
    /// # Errors
    /// [`VerbsError::NoSuchPort`], or [`VerbsError::Call`] if the device does not answer.
    pub fn port(&self, number: u8) -> Result<PortInfo, VerbsError> {
        if !(1..=self.ports).contains(&number) {
            return Err(VerbsError::NoSuchPort { device: self.name.clone(), port: number, ports: self.ports });
        }
        let port = self.attributes(number)?;
        let gids =
            (0..u32::try_from(port.gid_tbl_len).unwrap_or(0)).filter_map(|index| self.gid(number, index)).collect();
        let state = match port.state {
            1 => PortState::Down,
            2 => PortState::Initializing,
            3 => PortState::Armed,
            4 => PortState::Active,
            state => PortState::Other(state),
        };
        // `IBV_LINK_LAYER_ETHERNET`.
        let link = if port.link_layer == 2 { Link::Ethernet } else { Link::InfiniBand };
        Ok(PortInfo { number, state, link, mtu: mtu(&port), lid: port.lid, gids })
    }

    pub(super) fn attributes(&self, port: u8) -> Result<abi::PortAttr, VerbsError> {
        let mut attributes = abi::PortAttr::ZERO;
        // SAFETY: the context is open. The function fills the older, shorter form of the struct, which is a prefix.
        let code = unsafe { (self.library.query_port)(self.context.as_ptr(), port, &raw mut attributes) };
        VerbsError::check("asking for the state of a port", code)?;
        Ok(attributes)
    }

    /// The address at a place of a port's table, if there is one.
    fn gid(&self, port: u8, index: u32) -> Option<Gid> {
        let mut entry = abi::GidEntry::ZERO;
        let (len, port) = (size_of::<abi::GidEntry>(), u32::from(port));
        // SAFETY: the context is open; the function fills at most `len` bytes of the entry.
        let code = unsafe { (self.library.query_gid_ex)(self.context.as_ptr(), port, index, &raw mut entry, 0, len) };
        // SAFETY: any 16 bytes are an address.
        let bytes = unsafe { entry.gid.raw };
        // An empty place of the table is an error with some drivers and all zero with others.
        if code != 0 || bytes.iter().all(|&byte| byte == 0) {
            return None;
        }
        let kind = match entry.gid_type {
            1 => GidKind::RoceV1,
            2 => GidKind::RoceV2,
            _ => GidKind::InfiniBand,
        };
        Some(Gid { index, kind, bytes })
    }

    /// A port that carries data, with the address at `gid`, or the preferred one.
    ///
    /// # Errors
    /// [`VerbsError::NoSuchPort`], [`VerbsError::PortNotActive`] or [`VerbsError::NoSuchGid`].
    pub fn active_port(self: &Arc<Device>, number: u8, gid: Option<u32>) -> Result<Port, VerbsError> {
        let info = self.port(number)?;
        if info.state != PortState::Active {
            let (device, state) = (self.name.clone(), info.state.to_string());
            return Err(VerbsError::PortNotActive { device, port: number, state });
        }
        let chosen = match gid {
            Some(index) => info.gids.iter().find(|gid| gid.index == index),
            None => info.preferred_gid(),
        };
        let missing = || {
            let (device, known) = (self.name.clone(), info.gids_in_words());
            VerbsError::NoSuchGid { device, port: number, index: gid.unwrap_or(0), known }
        };
        // A queue pair names its place in one byte.
        let gid = *chosen.filter(|gid| gid.index <= u32::from(u8::MAX)).ok_or_else(missing)?;
        Ok(Port { device: self.clone(), gid, number, link: info.link, lid: info.lid, mtu: info.mtu })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once; everything made from it holds an `Arc` of this and is gone.
        unsafe { (self.library.close_device)(self.context.as_ptr()) };
    }
}
