//! An amount of money, exactly as it was written.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A decimal number that is never a float: `199.00` goes through JSON and the database without becoming `199` or `198.99999`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Amount(String);

impl FromStr for Amount {
    type Err = &'static str;

    /// Up to 15 digits, then perhaps a dot and up to 4 more; no sign, no exponent.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (whole, cents) = text.split_once('.').unwrap_or((text, "0"));
        let digits =
            |part: &str, most: usize| (1..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        if digits(whole, 15) && digits(cents, 4) && (whole == "0" || !whole.starts_with('0')) {
            Ok(Self(text.to_owned()))
        } else {
            Err("an amount is a number like 199.00")
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.0.clone()).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        raw.get().parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_keeps_its_digits() {
        for text in ["0", "0.5", "199.00", "199", "999999999999999.9999"] {
            let amount = serde_json::from_str::<Amount>(text).ok();
            assert_eq!(amount.and_then(|amount| serde_json::to_string(&amount).ok()).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_is_not_an_amount_is_refused() {
        for text in ["-1", "1e3", "01", "1.", ".5", "1.23456", "\"199.00\"", "null", "[]", "1000000000000000"] {
            assert!(serde_json::from_str::<Amount>(text).is_err(), "{text}");
        }
    }
}
