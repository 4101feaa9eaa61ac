//! Handing pools and allocations on as bytes.

use umbra_core::atomic::Ordering;
use umbra_core::reference::{Object, Place, Reference};

use super::error::Error;
use super::files::{self, Files};
use super::memory::Allocation;
use super::once::named;
use super::{Pool, Word};
use crate::reference::{self, at_descriptors, from_text, parse_local, to_bytes};
use crate::sys::host;
use crate::sys::process::ProcessId;

impl Pool {
    /// Drawn when it was made: no other pool has it.
    #[must_use]
    pub fn instance(&self) -> u64 {
        self.word(Word::Instance).load(Ordering::Relaxed)
    }

    /// The number that its creator gave it.
    #[must_use]
    pub fn uid(&self) -> u64 {
        self.word(Word::Uid).load(Ordering::Relaxed)
    }

    /// The bytes by which any process of this user on this host attaches. Those of a pool without a name are good as long
    /// as this process lives and keeps the handle.
    ///
    /// # Errors
    /// [`Error::Segment`] if the memory is private; [`Error::Reference`] if a path is too long for a reference, or no
    /// UTF-8.
    pub fn reference(&self) -> Result<Vec<u8>, Error> {
        self.refer_to(Object::Pool, self.uid())
    }

    pub(crate) fn refer_to(&self, object: Object, uid: u64) -> Result<Vec<u8>, Error> {
        self.check()?;
        let place = match &self.files {
            Some(files) => Place::Files(files.path().ok_or(reference::Error::Path)?),
            None => at_descriptors([self.shared.segment().number()?, self.data().number()?])?,
        };
        let (host, instance) = (host::id(), self.instance());
        Ok(to_bytes(&Reference { host, instance, uid, bytes: self.heap().plan().bytes(), object, place })?)
    }

    /// Uses the pool that a reference names, or in which there is what it names.
    ///
    /// # Errors
    /// [`Error::Reference`], and whatever [`attach`](Self::attach) refuses.
    pub fn attach_reference(bytes: &[u8]) -> Result<Pool, Error> {
        Self::inspect_reference(bytes)?.unless_over()?.used()
    }

    /// Looks at the pool that a reference names, without being one of its users: for tools.
    ///
    /// # Errors
    /// As for [`attach_reference`](Self::attach_reference), but not for one that is over.
    pub fn inspect_reference(bytes: &[u8]) -> Result<Pool, Error> {
        let reference = named(bytes)?;
        let pool = match reference.place {
            Place::Files(path) => Self::look(&Files::beginning(path))?,
            Place::Process { pid, start, files: [manifest, data] } => {
                let open = |file| reference::open(ProcessId { pid, start }, file);
                Self::over(files::map(open(manifest)?)?, files::map(open(data)?)?, None)?
            }
            _ => return Err(reference::Error::WrongObject.into()),
        };
        pool.is_meant(&reference)?;
        Ok(pool)
    }

    /// As [`attach_reference`](Self::attach_reference), with the text that an environment variable holds.
    ///
    /// # Errors
    /// [`Error::Variable`] too.
    pub fn attach_from_environment(variable: &str) -> Result<Pool, Error> {
        let text = std::env::var(variable).map_err(|_| Error::Variable(variable.to_owned()))?;
        let bytes = from_text(&text).map_err(|_| Error::Variable(variable.to_owned()))?;
        Self::attach_reference(&bytes)
    }

    /// The allocation of this pool, or the range of one, that a reference names.
    ///
    /// # Errors
    /// [`Error::Reference`] if it names another pool's, or no allocation; [`Error::Stale`] if it was freed.
    pub fn allocation_of(&self, bytes: &[u8]) -> Result<Allocation<'_>, Error> {
        let reference = parse_local(bytes)?;
        if reference.instance != self.instance() {
            return Err(reference::Error::Replaced.into());
        }
        match reference.object {
            Object::Allocation { id, offset, len } => self.allocation(id)?.part(offset, len),
            _ => Err(reference::Error::WrongObject.into()),
        }
    }
}

impl Allocation<'_> {
    /// The bytes by which any process of this user on this host finds it: [`Pool::attach_reference`] attaches its pool,
    /// and [`Pool::allocation_of`] finds it in there.
    ///
    /// # Errors
    /// [`Error::Stale`], and those of [`Pool::reference`].
    pub fn reference(&self) -> Result<Vec<u8>, Error> {
        let (offset, len) = (self.start()?, self.len());
        self.pool().refer_to(Object::Allocation { id: self.id(), offset, len }, self.pool().uid())
    }
}
