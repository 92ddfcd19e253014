//! Sizes as people write them: `10Gi`, `64M`, `1048576`.

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{text}\" is not a size: write a whole number with Ki, Mi, Gi, Ti, k, M, G, T or nothing after it, such as 10Gi"
)]
pub struct Error {
    text: String,
}

/// What follows the number, and what it stands for.
const UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("k", 1_000),
    ("K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
];

/// The number of bytes that a text says.
///
/// ```
/// assert_eq!(windlass_loop::size::parse("10Gi"), Ok(10 << 30));
/// assert!(windlass_loop::size::parse("10 GB").is_err());
/// ```
pub fn parse(text: &str) -> Result<u64, Error> {
    let failed = || Error { text: text.chars().take(40).collect::<String>().escape_debug().to_string() };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| failed())?;
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(failed)?;
    // CSI counts in signed numbers.
    number.checked_mul(*factor).filter(|it| i64::try_from(*it).is_ok()).ok_or_else(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_whole_number_and_a_unit() {
        for (text, bytes) in [("0", 0), ("17", 17), ("1Ki", 1024), ("3M", 3_000_000), ("2Ti", 2 << 40)] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "Gi", "1.5Gi", "-1", "1Gib", "1 Gi", "99999999999999999999", "9999999Ti", "١"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
