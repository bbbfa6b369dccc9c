//! `"500ms"`, `"30s"`, `"5m"`, `"1h"` and ranges of them.

use std::time::Duration;

/// A year: more is a mistake, and far from what clocks can add.
const LONGEST: Duration = Duration::from_secs(8760 * 3600);

/// What is wrong with a duration.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// Not a whole number and a unit.
    Form,
    /// Nothing.
    Zero,
    /// More than [`LONGEST`].
    Long,
}

/// Reads a duration.
pub(super) fn parse(text: &str) -> Result<Duration, Problem> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 3600 * 1000,
        _ => return Err(Problem::Form),
    };
    if number.is_empty() {
        return Err(Problem::Form);
    }
    // A number that does not fit is long, too.
    let millis = number.parse::<u64>().ok().and_then(|number| number.checked_mul(millis)).ok_or(Problem::Long)?;
    match Duration::from_millis(millis) {
        Duration::ZERO => Err(Problem::Zero),
        duration if duration > LONGEST => Err(Problem::Long),
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_and_a_unit() {
        let table = [
            ("500ms", Ok(Duration::from_millis(500))),
            ("30s", Ok(Duration::from_secs(30))),
            ("5m", Ok(Duration::from_secs(300))),
            ("1h", Ok(Duration::from_secs(3600))),
            ("8760h", Ok(LONGEST)),
            ("0s", Err(Problem::Zero)),
            ("00ms", Err(Problem::Zero)),
            ("8761h", Err(Problem::Long)),
            ("99999999999999999999s", Err(Problem::Long)),
            ("18446744073709551615h", Err(Problem::Long)),
        ];
        for (text, want) in table {
            assert_eq!(parse(text), want, "{text}");
        }
    }

    #[test]
    fn anything_else_is_not() {
        for text in ["", "30", "s", "30 s", " 30s", "1.5s", "-1s", "+1s", "30S", "30sec", "1m30s", "1d", "٣s", "30s "]
        {
            assert_eq!(parse(text), Err(Problem::Form), "{text}");
        }
    }
}
