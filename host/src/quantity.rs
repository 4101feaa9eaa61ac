//! Sizes, lapses and rates as people write and read them.
//!
//! Input: `64K`, `8MiB`, `20ms`, `1.5s`. Binary units for bytes (`K` is 1024), decimal ones for time. Output keeps three
//! significant digits and picks the unit.
//!
//! ```
//! use umbra::quantity::{Bytes, Nanos, parse_bytes, parse_lapse};
//! assert_eq!(parse_bytes("64K")?, 65_536);
//! assert_eq!(parse_lapse("20ms")?.0, 20_000_000);
//! assert_eq!(Bytes(65_536).to_string(), "64.0 KiB");
//! assert_eq!(Nanos(1_234).to_string(), "1.23 µs");
//! # Ok::<(), umbra::quantity::QuantityError>(())
//! ```

use std::fmt;

use umbra_core::time::Lapse;

/// Why text is not a quantity.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum QuantityError {
    /// No number in front.
    NoNumber(String),
    /// The unit is not one of those listed.
    UnknownUnit {
        /// What was written behind the number.
        unit: String,
        /// The units that are understood.
        known: &'static str,
    },
    /// The product does not fit into 64 bits.
    TooLarge(String),
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuantityError::NoNumber(text) => write!(f, "`{text}` does not start with a number"),
            QuantityError::UnknownUnit { unit, known } => write!(f, "unknown unit `{unit}`: use one of {known}"),
            QuantityError::TooLarge(text) => write!(f, "`{text}` does not fit into 64 bits"),
        }
    }
}
impl std::error::Error for QuantityError {}

fn parse(text: &str, factor: impl Fn(&str) -> Option<f64>, known: &'static str) -> Result<u64, QuantityError> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim();
    let factor = factor(unit).ok_or_else(|| match number {
        "" => QuantityError::NoNumber(text.to_owned()),
        _ => QuantityError::UnknownUnit { unit: unit.to_owned(), known },
    })?;
    let number = number.replace('_', "");
    // Whole numbers stay exact; only a fraction goes through floating point.
    if let Ok(whole) = number.parse::<u64>() {
        let product = u128::from(whole) * factor as u128;
        return u64::try_from(product).map_err(|_| QuantityError::TooLarge(text.to_owned()));
    }
    match number.parse::<f64>() {
        Ok(value) if value * factor < u64::MAX as f64 => Ok((value * factor).round() as u64),
        Ok(_) => Err(QuantityError::TooLarge(text.to_owned())),
        Err(_) if number.bytes().all(|b| b.is_ascii_digit()) && !number.is_empty() => {
            Err(QuantityError::TooLarge(text.to_owned()))
        }
        Err(_) => Err(QuantityError::NoNumber(text.to_owned())),
    }
}

/// Reads a number of bytes; without a unit it counts bytes.
///
/// # Errors
/// [`QuantityError`] if the text is not a number with a known unit, or too large.
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    let factor = |unit: &str| {
        let power = match unit {
            "" | "B" => 0,
            "K" | "Ki" | "KiB" | "k" => 1,
            "M" | "Mi" | "MiB" => 2,
            "G" | "Gi" | "GiB" => 3,
            "T" | "Ti" | "TiB" => 4,
            _ => return None,
        };
        Some(1024_f64.powi(power))
    };
    parse(text, factor, "B, K, M, G, T (powers of 1024)")
}

/// Reads a length of time; without a unit it counts seconds.
///
/// # Errors
/// [`QuantityError`] if the text is not a number with a known unit, or too large.
pub fn parse_lapse(text: &str) -> Result<Lapse, QuantityError> {
    let factor = |unit: &str| match unit {
        "ns" => Some(1.0),
        "us" | "µs" => Some(1e3),
        "ms" => Some(1e6),
        "" | "s" => Some(1e9),
        "m" | "min" => Some(60e9),
        _ => None,
    };
    parse(text, factor, "ns, us, ms, s, min").map(Lapse)
}

fn three_digits(f: &mut fmt::Formatter<'_>, value: f64, unit: &str) -> fmt::Result {
    // The rounded value decides, so that 9.996 becomes "10.0" and not "10.00".
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    f.pad(&format!("{value:.digits$} {unit}"))
}

/// A number of bytes, shown in binary units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        let (value, unit) = binary(self.0 as f64);
        three_digits(f, value, unit)
    }
}

/// Bytes a second, shown in binary units.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rate(pub f64);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_finite() || self.0 <= 0.0 {
            return f.pad("–");
        }
        let (value, unit) = binary(self.0);
        three_digits(f, value, &format!("{unit}/s"))
    }
}

fn binary(mut value: f64) -> (f64, &'static str) {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    (value, units[unit])
}

/// A length of time in nanoseconds, shown in the unit that fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nanos(pub u64);

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        match self.0 {
            0..1_000 => f.pad(&format!("{} ns", self.0)),
            1_000..999_500 => three_digits(f, ns / 1e3, "µs"),
            999_500..999_500_000 => three_digits(f, ns / 1e6, "ms"),
            _ => three_digits(f, ns / 1e9, "s"),
        }
    }
}

/// A count with its thousands set apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count(pub u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() + digits.len() / 3);
        for (i, digit) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

/// `1 member`, `2 members`.
#[must_use]
pub fn counted(number: impl Into<u64>, one: &str, many: &str) -> String {
    match number.into() {
        1 => format!("1 {one}"),
        number => format!("{} {many}", Count(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_powers_of_1024() {
        for (text, bytes) in [("0", 0), ("17", 17), ("1K", 1024), ("1.5 KiB", 1536), ("8M", 8 << 20), ("2GiB", 2 << 30)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn lapses_are_read_with_their_unit_and_default_to_seconds() {
        for (text, ns) in [("20ms", 20_000_000), ("1.5s", 1_500_000_000), ("3", 3_000_000_000), ("7us", 7_000)] {
            assert_eq!(parse_lapse(text), Ok(Lapse(ns)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_would_do() {
        assert!(matches!(parse_bytes("many"), Err(QuantityError::NoNumber(_) | QuantityError::UnknownUnit { .. })));
        assert!(matches!(parse_bytes(""), Err(QuantityError::NoNumber(_))));
        assert!(matches!(parse_bytes("-1"), Err(QuantityError::NoNumber(_))));
        assert!(matches!(parse_bytes("5 parsecs"), Err(QuantityError::UnknownUnit { .. })));
        assert!(matches!(parse_bytes("1.2.3"), Err(QuantityError::NoNumber(_))));
        assert!(matches!(parse_bytes("99999999999999999999"), Err(QuantityError::TooLarge(_))));
        assert!(matches!(parse_bytes("99999999T"), Err(QuantityError::TooLarge(_))));
        assert!(matches!(parse_lapse("3 fortnights"), Err(QuantityError::UnknownUnit { .. })));
    }

    #[test]
    fn figures_keep_three_digits_at_every_border() {
        let shown: Vec<String> = [999, 1_000, 9_994, 9_996, 999_499, 999_500, 1_000_000, 61_000_000_000]
            .map(|ns| Nanos(ns).to_string())
            .into();
        assert_eq!(shown, ["999 ns", "1.00 µs", "9.99 µs", "10.0 µs", "999 µs", "1.00 ms", "1.00 ms", "61.0 s"]);
        assert_eq!(Bytes(1023).to_string(), "1023 B");
        assert_eq!(Bytes((1 << 20) - 1).to_string(), "1.00 MiB");
        assert_eq!(Rate(0.0).to_string(), "–");
        assert_eq!(Count(1_234_567).to_string(), "1,234,567");
        assert_eq!(Count(12).to_string(), "12");
    }
}
