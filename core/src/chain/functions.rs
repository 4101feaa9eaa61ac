//! Functions that members may call, by the tag of their name.
//!
//! Both sides agree on names, not on places or addresses. A request carries the place that the caller's own table has
//! for the function as a hint, and the tag decides.

use core::fmt;

use super::name::Tag;

/// A registered function; a [`Machine`](super::Machine) is lent an array of places for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function {
    tag: Tag,
    /// Calls that may still run it.
    users: u32,
    /// Released: no new call may use it.
    draining: bool,
}

/// Why a function was not registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RegisterError {
    /// No place is free; release a function.
    Full,
    /// A function of this tag is there already, or calls still use a released one: the same name, or two names with
    /// one tag.
    Taken,
    /// The tag is [`Tag::NONE`].
    NoTag,
    /// There is no memory for what the function keeps.
    NoMemory,
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RegisterError::Full => "no room for another function: release one",
            RegisterError::Taken => "a function of this name, or of a name with the same tag, is registered already",
            RegisterError::NoTag => "tag 0 names no function",
            RegisterError::NoMemory => "no memory for what the function keeps: free some, or have it keep less",
        })
    }
}
impl core::error::Error for RegisterError {}

/// Registers a function; its place.
pub(super) fn register(table: &mut [Option<Function>], tag: Tag) -> Result<u16, RegisterError> {
    if tag == Tag::NONE {
        return Err(RegisterError::NoTag);
    }
    if table.iter().flatten().any(|function| function.tag == tag) {
        return Err(RegisterError::Taken);
    }
    let places = (0..u16::MAX).zip(table.iter_mut());
    let (at, place) = places.into_iter().find(|(_, place)| place.is_none()).ok_or(RegisterError::Full)?;
    *place = Some(Function { tag, users: 0, draining: false });
    Ok(at)
}

/// Releases a function: its place is free when no call uses it any more. Whether it was there.
pub(super) fn release(table: &mut [Option<Function>], tag: Tag) -> bool {
    let Some(place) = table.iter_mut().find(|place| place.is_some_and(|f| f.tag == tag && !f.draining)) else {
        return false;
    };
    *place = place.filter(|function| function.users > 0).map(|function| Function { draining: true, ..function });
    true
}

/// Where the function of a tag is, if new calls may use it.
#[inline]
pub(super) fn find(table: &[Option<Function>], hint: u16, tag: Tag) -> Option<u16> {
    let is_it = |place: &Option<Function>| place.is_some_and(|function| function.tag == tag && !function.draining);
    if table.get(usize::from(hint)).is_some_and(is_it) {
        return Some(hint);
    }
    (0..u16::MAX).zip(table).find(|(_, place)| is_it(place)).map(|(at, _)| at)
}

/// Counts a call that uses the function at this place.
#[inline]
pub(super) fn retain(table: &mut [Option<Function>], at: u16) {
    if let Some(Some(function)) = table.get_mut(usize::from(at)) {
        function.users += 1;
    }
}

/// A call that used it is over.
#[inline]
pub(super) fn let_go(table: &mut [Option<Function>], at: u16) {
    if let Some(place) = table.get_mut(usize::from(at))
        && let Some(function) = place
    {
        function.users = function.users.saturating_sub(1);
        if function.users == 0 && function.draining {
            *place = None;
        }
    }
}
