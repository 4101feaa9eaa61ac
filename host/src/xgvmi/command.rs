//! The firmware commands as bytes, and their answers as values.
//!
//! Nothing here talks to a card. Commands are made from values that were checked; answers are foreign bytes: whatever
//! they hold, the result is a value that can be used or a [`XgvmiError`].

use umbra_core::key::Access;
use umbra_core::region::Secret;

use super::bits::{Field, Short};
use super::error::{Command, XgvmiError};
use super::layout::{self, alias, allow, create_mkey, query};

/// Bytes behind one entry of an indirect key, as a power of two.
const LOG_ENTRY: u32 = 31;
/// The number of a key's object has so many bits.
const INDEX_BITS: u32 = 24;

/// A memory key: 24 bits of the object's number, and 8 that its maker chose; ours are zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mkey(pub u32);

impl Mkey {
    /// The key of object `index`.
    #[must_use]
    pub const fn new(index: u32) -> Mkey {
        Mkey(index << 8)
    }

    /// The number of the object.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0 >> 8
    }
}

/// An indirect key over registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Indirect {
    /// The key of the registered memory.
    pub direct: Mkey,
    /// The number of the protection domain.
    pub domain: u32,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
    /// What may be done with it, here and elsewhere.
    pub access: Access,
}

/// Whoever makes a command makes it long enough, so this is nothing: a field that does not fit stays zero, and the
/// card refuses the command.
fn put(message: &mut [u8], field: Field, value: u64) {
    let written = field.set(message, value);
    debug_assert_eq!(written, Ok(()));
}

/// Asks which function this is.
#[must_use]
pub fn query_function() -> [u8; query::COMMAND] {
    let mut bytes = [0; query::COMMAND];
    put(&mut bytes, layout::OPCODE, query::OPCODE);
    put(&mut bytes, layout::OP_MOD, query::GENERAL_NOW);
    bytes
}

/// Makes an indirect key.
#[must_use]
pub fn create_mkey(wanted: &Indirect) -> Vec<u8> {
    use create_mkey as at;
    let entries = wanted.len.div_ceil(1 << LOG_ENTRY);
    let mut bytes = vec![0; at::HEAD + entries as usize * at::ENTRY];
    let (reads, writes) = (wanted.access.contains(Access::READ), wanted.access.contains(Access::WRITE));
    for (field, value) in [
        (layout::OPCODE, at::OPCODE),
        (at::LOCAL_READ, u64::from(reads)),
        (at::REMOTE_READ, u64::from(reads)),
        (at::LOCAL_WRITE, u64::from(writes)),
        (at::REMOTE_WRITE, u64::from(writes)),
        (at::MODE, at::MODE_KSM),
        (at::QUEUE_PAIR, u64::MAX),
        (at::DOMAIN, u64::from(wanted.domain)),
        (at::START, wanted.start),
        (at::LEN, wanted.len),
        (at::ENTRIES, entries),
        (at::LOG_ENTRY, u64::from(LOG_ENTRY)),
        (at::ENTRIES_HERE, entries),
    ] {
        put(&mut bytes, field, value);
    }
    let parts = bytes[at::HEAD..].chunks_exact_mut(at::ENTRY);
    for (part, n) in parts.zip(0..) {
        put(part, at::ENTRY_KEY, u64::from(wanted.direct.0));
        put(part, at::ENTRY_ADDRESS, wanted.start.wrapping_add(n << LOG_ENTRY));
    }
    bytes
}

/// Lets whoever knows `secret` make aliases of a key.
#[must_use]
pub fn allow_access(key: Mkey, secret: &Secret) -> [u8; allow::COMMAND] {
    let mut bytes = [0; allow::COMMAND];
    put(&mut bytes, layout::OPCODE, allow::OPCODE);
    put(&mut bytes, allow::TYPE, layout::OBJECT_MKEY);
    put(&mut bytes, allow::OBJECT, u64::from(key.index()));
    bytes[allow::KEY..].copy_from_slice(&secret.0);
    bytes
}

/// Makes an alias of `key` of function `vhca`, for work of protection domain `domain`.
#[must_use]
pub fn create_alias(vhca: u16, key: Mkey, secret: &Secret, domain: u32) -> [u8; alias::COMMAND] {
    let mut bytes = [0; alias::COMMAND];
    for (field, value) in [
        (layout::OPCODE, alias::OPCODE),
        (alias::TYPE, layout::OBJECT_MKEY),
        (alias::IS_ALIAS, 1),
        (alias::VHCA, u64::from(vhca)),
        (alias::OBJECT, u64::from(key.index())),
        (alias::DOMAIN, u64::from(domain)),
    ] {
        put(&mut bytes, field, value);
    }
    bytes[alias::KEY..alias::KEY + secret.0.len()].copy_from_slice(&secret.0);
    bytes
}

/// An answer that is at least `needed` bytes long and says that the command was carried out.
fn carried_out(command: Command, answer: &[u8], needed: usize) -> Result<(), XgvmiError> {
    let short = |Short| XgvmiError::Short { command, len: answer.len() };
    let status = layout::STATUS.get(answer).map_err(short)?;
    let syndrome = layout::SYNDROME.get(answer).map_err(short)?;
    if status != 0 {
        // Both are as narrow as their fields.
        return Err(XgvmiError::Refused { command, status: status as u8, syndrome: syndrome as u32 });
    }
    if answer.len() < needed { Err(short(Short)) } else { Ok(()) }
}

fn field(command: Command, field: Field, answer: &[u8]) -> Result<u64, XgvmiError> {
    field.get(answer).map_err(|Short| XgvmiError::Short { command, len: answer.len() })
}

/// The answer to [`query_function()`]: the number of this function on its card.
///
/// # Errors
/// [`XgvmiError::Refused`] or [`XgvmiError::Short`].
pub fn function(answer: &[u8]) -> Result<u16, XgvmiError> {
    carried_out(Command::Query, answer, query::ANSWER)?;
    // As wide as the field.
    Ok(field(Command::Query, query::VHCA, answer)? as u16)
}

/// The answer to [`create_mkey()`]: the new key.
///
/// # Errors
/// [`XgvmiError::Refused`] or [`XgvmiError::Short`].
pub fn new_key(answer: &[u8]) -> Result<Mkey, XgvmiError> {
    carried_out(Command::CreateMkey, answer, layout::ANSWER)?;
    // As wide as the field.
    Ok(Mkey::new(field(Command::CreateMkey, create_mkey::INDEX, answer)? as u32))
}

/// The answer to [`allow_access()`].
///
/// # Errors
/// [`XgvmiError::Refused`] or [`XgvmiError::Short`].
pub fn allowed(answer: &[u8]) -> Result<(), XgvmiError> {
    carried_out(Command::Allow, answer, layout::ANSWER)
}

/// The answer to [`create_alias()`]: the key of the alias, in the key space of whoever made it.
///
/// # Errors
/// [`XgvmiError::Refused`], [`XgvmiError::Short`], [`XgvmiError::Nonsense`], or [`XgvmiError::BadAlias`] if it was
/// made but cannot be used.
pub fn alias_key(answer: &[u8]) -> Result<Mkey, XgvmiError> {
    let command = Command::CreateAlias;
    carried_out(command, answer, alias::COMMAND)?;
    let number = field(command, alias::ID, answer)?;
    match (number >> INDEX_BITS, field(command, alias::STATE, answer)?) {
        (0, 0) => Ok(Mkey::new(number as u32)),
        // As narrow as the field.
        (0, state) => Err(XgvmiError::BadAlias(state as u8)),
        _ => Err(XgvmiError::Nonsense { command, number }),
    }
}
