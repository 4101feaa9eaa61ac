//! Which device, port and address a process speaks through.
//!
//! Outside, they are written `NAME[:PORT[:GID_INDEX]]`.

use std::fmt;
use std::str::FromStr;

use super::{Device, Port, VerbsError};

/// A device, and, if somebody cares, its port and the index of the address in the port's table.
///
/// ```
/// use umbra::verbs::Choice;
/// let choice: Choice = "mlx5_0:1:3".parse()?;
/// assert_eq!((choice.device.as_str(), choice.port, choice.gid), ("mlx5_0", Some(1), Some(3)));
/// assert_eq!(choice.to_string(), "mlx5_0:1:3");
/// # Ok::<(), umbra::verbs::NotADevice>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The device's name.
    pub device: String,
    /// Its port, from 1; the first that carries data if not given.
    pub port: Option<u8>,
    /// The place of the address in the port's table; the preferred one if not given.
    pub gid: Option<u32>,
}

/// Text that names no device.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{0:?} is not NAME[:PORT[:GID_INDEX]], as `umbra devices` shows them: ports count from 1, GID indices are below 256"
)]
pub struct NotADevice(pub String);

impl FromStr for Choice {
    type Err = NotADevice;

    fn from_str(text: &str) -> Result<Choice, NotADevice> {
        let bad = || NotADevice(text.to_owned());
        let mut parts = text.split(':');
        let device = parts.next().unwrap_or_default();
        if device.is_empty() || device.contains(|c: char| c.is_whitespace() || c.is_control() || c == '/') {
            return Err(bad());
        }
        let port = parts.next().map(str::parse::<u8>).transpose().map_err(|_| bad())?;
        // A queue pair names the place in one byte.
        let gid = parts.next().map(str::parse::<u8>).transpose().map_err(|_| bad())?;
        if port == Some(0) || parts.next().is_some() {
            return Err(bad());
        }
        Ok(Choice { device: device.to_owned(), port, gid: gid.map(u32::from) })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.device)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        match (self.port, self.gid) {
            (Some(_), Some(gid)) => write!(f, ":{gid}"),
            _ => Ok(()),
        }
    }
}

impl Choice {
    /// Opens what is named; without a choice the first port that carries data, of the first device that has one.
    ///
    /// # Errors
    /// [`VerbsError`]: what is not there, and what is.
    pub fn open(choice: Option<&Choice>) -> Result<Port, VerbsError> {
        let device = Device::open(choice.map(|choice| choice.device.as_str()))?;
        let gid = choice.and_then(|choice| choice.gid);
        if let Some(number) = choice.and_then(|choice| choice.port) {
            return device.active_port(number, gid);
        }
        let mut first = None;
        for number in 1..=device.ports() {
            match device.active_port(number, gid) {
                Ok(port) => return Ok(port),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or(VerbsError::NoDevice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_names_no_device_is_refused_with_its_form() {
        for good in ["rxe0", "mlx5_0:2", "mlx5_0:2:255", "a-b.c:1:0"] {
            assert_eq!(good.parse::<Choice>().map(|choice| choice.to_string()).as_deref(), Ok(good));
        }
        for bad in [
            "",
            ":1",
            "rxe0:",
            "rxe0:0",
            "rxe0:256",
            "rxe0:1:",
            "rxe0:1:256",
            "rxe0:1:1:1",
            "rxe 0",
            "rxe0:one",
            "../x",
        ] {
            let why = bad.parse::<Choice>().map_err(|error| error.to_string());
            assert!(why.as_ref().is_err_and(|why| why.contains("NAME[:PORT[:GID_INDEX]]")), "{bad}: {why:?}");
        }
    }
}
