//! Why the table refuses, and what of it travels.

use core::fmt;

use crate::error::Status;

macro_rules! refusal {
    ($(#[doc = $doc:literal])* $name:ident: $($(#[doc = $vdoc:literal])* $variant:ident => $status:ident,)*) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        #[non_exhaustive]
        pub enum $name {
            $($(#[doc = $vdoc])* $variant,)*
        }
        impl From<$name> for Status {
            fn from(error: $name) -> Status {
                match error {
                    $($name::$variant => Status::$status,)*
                }
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(Status::from(*self).text())
            }
        }
        impl core::error::Error for $name {}
    };
}

refusal! {
    /// Why a span may not be touched.
    HoldError:
    /// No such region here.
    UnknownRegion => UnknownRegion,
    /// The key names another generation of the region.
    StaleKey => StaleKey,
    /// The region was, or is being, revoked.
    KeyRevoked => KeyRevoked,
    /// The owner died.
    OwnerGone => OwnerGone,
    /// The span leaves the region.
    OutOfBounds => OutOfBounds,
    /// The region was not exported for this.
    PermissionDenied => PermissionDenied,
    /// The asker is not on the access list.
    NotShadow => NotShadow,
}

refusal! {
    /// Why a region cannot be put into the table.
    ExportError:
    /// No place for it; revoke another one or lend a larger table.
    Full => Full,
    /// It leaves the address space, or the same region is still there with other properties.
    Conflict => Conflict,
    /// The region has no bytes.
    Empty => OutOfBounds,
}

refusal! {
    /// Why a region may not be imported.
    ImportError:
    /// No such region.
    UnknownRegion => UnknownRegion,
    /// Another generation is current.
    StaleKey => StaleKey,
    /// It was, or is being, revoked.
    KeyRevoked => KeyRevoked,
    /// The owner died.
    OwnerGone => OwnerGone,
    /// Not on the access list.
    NotShadow => NotShadow,
    /// The secret is wrong.
    WrongSecret => Unauthenticated,
}

refusal! {
    /// Why a region cannot be revoked.
    RevokeError:
    /// No such region.
    UnknownRegion => UnknownRegion,
    /// Another generation is current.
    StaleKey => StaleKey,
    /// No room to ask everybody who has to know; retry after an answer.
    Full => Full,
}

/// Why a shadow service process does not take over a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AdmitError {
    /// Not on the access list.
    NotShadow,
    /// It cannot be put into the table.
    Export(ExportError),
}

impl From<ExportError> for AdmitError {
    fn from(error: ExportError) -> Self {
        AdmitError::Export(error)
    }
}
impl From<AdmitError> for Status {
    fn from(error: AdmitError) -> Status {
        match error {
            AdmitError::NotShadow => Status::NotShadow,
            AdmitError::Export(error) => error.into(),
        }
    }
}
impl fmt::Display for AdmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Status::from(*self).text())
    }
}
impl core::error::Error for AdmitError {}
