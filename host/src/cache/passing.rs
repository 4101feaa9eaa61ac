//! Which errors of a slot cache that processes share may pass by themselves.

use umbra_core::shared_cache::{AllocError, Blocked, FillError, ForgetError, FreeError, LookError, ReclaimError};

/// An error of which it is known whether others may end it, so that the same call may come through later.
pub trait Passing {
    /// Whether it may pass without the caller's doing.
    fn passes(&self) -> bool;
}

impl Passing for Blocked {
    fn passes(&self) -> bool {
        matches!(self, Blocked::Busy { .. })
    }
}

impl Passing for AllocError {
    fn passes(&self) -> bool {
        match self {
            AllocError::Full { .. } => true,
            AllocError::Blocked { why } => why.passes(),
            _ => false,
        }
    }
}

macro_rules! if_blocked {
    ($($error:ident)*) => {$(
        impl Passing for $error {
            fn passes(&self) -> bool {
                matches!(self, $error::Blocked { why } if why.passes())
            }
        }
    )*};
}
if_blocked!(FreeError FillError ForgetError LookError);

impl Passing for ReclaimError {
    fn passes(&self) -> bool {
        match self {
            ReclaimError::InProgress { .. } => true,
            ReclaimError::Blocked { why } => why.passes(),
            _ => false,
        }
    }
}
