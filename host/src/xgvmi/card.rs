//! What carries out firmware commands, and the commands as calls.

use std::io;

use umbra_core::region::Secret;

use super::command::{self, Indirect, Mkey};
use super::error::{Command, XgvmiError};
use super::layout::{self, alias, query};

/// The firmware of one function of a card.
///
/// A command that the firmware refuses may come back as an error of the call, or as an answer that says so; whoever
/// asked reads the answer in both cases, so an implementation leaves in it what the firmware wrote.
pub trait Commands {
    /// What a command made. Dropping it destroys it too, and says nothing if that fails.
    type Object;

    /// Carries out a command that makes nothing.
    ///
    /// # Errors
    /// What the operating system says.
    fn run(&mut self, command: &[u8], answer: &mut [u8]) -> io::Result<()>;

    /// Carries out a command that makes an object.
    ///
    /// # Errors
    /// What the operating system says.
    fn create(&mut self, command: &[u8], answer: &mut [u8]) -> io::Result<Self::Object>;

    /// Destroys an object. It is gone from the program's view even if that fails.
    ///
    /// # Errors
    /// What the operating system says.
    fn destroy(&mut self, object: Self::Object) -> io::Result<()>;
}

impl<C: Commands> Commands for &mut C {
    type Object = C::Object;

    fn run(&mut self, command: &[u8], answer: &mut [u8]) -> io::Result<()> {
        (**self).run(command, answer)
    }

    fn create(&mut self, command: &[u8], answer: &mut [u8]) -> io::Result<C::Object> {
        (**self).create(command, answer)
    }

    fn destroy(&mut self, object: C::Object) -> io::Result<()> {
        (**self).destroy(object)
    }
}

/// What a call that failed is told as: by what its answer says, if that says more than the error.
fn failed<T>(command: Command, error: io::Error, answer: Result<T, XgvmiError>) -> XgvmiError {
    match answer {
        Err(refused @ XgvmiError::Refused { .. }) => refused,
        _ => XgvmiError::Call { command, error },
    }
}

/// Runs a command that makes nothing, and reads its answer.
fn run<T, const N: usize>(
    card: &mut impl Commands,
    name: Command,
    bytes: &[u8],
    read: fn(&[u8]) -> Result<T, XgvmiError>,
) -> Result<T, XgvmiError> {
    let mut answer = [0; N];
    let called = card.run(bytes, &mut answer);
    let told = read(&answer);
    match called {
        Ok(()) => told,
        Err(error) => Err(failed(name, error, told)),
    }
}

/// The number of this function on its card.
///
/// # Errors
/// [`XgvmiError`].
pub(super) fn function(card: &mut impl Commands) -> Result<u16, XgvmiError> {
    run::<_, { query::ANSWER }>(card, Command::Query, &command::query_function(), command::function)
}

/// Makes an object and reads its key; what cannot be used is destroyed again.
fn create<C: Commands, const N: usize>(
    card: &mut C,
    name: Command,
    bytes: &[u8],
    read: fn(&[u8]) -> Result<Mkey, XgvmiError>,
) -> Result<(Mkey, C::Object), XgvmiError> {
    let mut answer = [0; N];
    match card.create(bytes, &mut answer) {
        Err(error) => Err(failed(name, error, read(&answer))),
        Ok(object) => match read(&answer) {
            Ok(key) => Ok((key, object)),
            Err(why) => {
                // Nobody knows its key, so nobody misses it; why it is of no use is worth more than a second error.
                let _ = card.destroy(object);
                Err(why)
            }
        },
    }
}

/// Makes an indirect key.
///
/// # Errors
/// [`XgvmiError`].
pub(super) fn create_mkey<C: Commands>(card: &mut C, wanted: &Indirect) -> Result<(Mkey, C::Object), XgvmiError> {
    let bytes = command::create_mkey(wanted);
    create::<C, { layout::ANSWER }>(card, Command::CreateMkey, &bytes, command::new_key)
}

/// Lets whoever knows `secret` make aliases of `key`.
///
/// # Errors
/// [`XgvmiError`].
pub(super) fn allow(card: &mut impl Commands, key: Mkey, secret: &Secret) -> Result<(), XgvmiError> {
    run::<_, { layout::ANSWER }>(card, Command::Allow, &command::allow_access(key, secret), command::allowed)
}

/// Makes an alias of `key` of function `vhca`.
///
/// # Errors
/// [`XgvmiError`].
pub(super) fn create_alias<C: Commands>(
    card: &mut C,
    vhca: u16,
    key: Mkey,
    secret: &Secret,
    domain: u32,
) -> Result<(Mkey, C::Object), XgvmiError> {
    let bytes = command::create_alias(vhca, key, secret, domain);
    create::<C, { alias::COMMAND }>(card, Command::CreateAlias, &bytes, command::alias_key)
}

/// Destroys an object.
///
/// # Errors
/// [`XgvmiError::Call`].
pub(super) fn destroy<C: Commands>(card: &mut C, object: C::Object) -> Result<(), XgvmiError> {
    card.destroy(object).map_err(|error| XgvmiError::Call { command: Command::Destroy, error })
}
