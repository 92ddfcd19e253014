//! Kubernetes quantities (`10Mi`, `1e3`, `100m`, `1.5Gi`) as whole numbers, rounded up: of bytes, or of thousandths.
//!
//! The arithmetic is exact: a number of any length is kept as its decimal digits until it is rounded at the end.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// The largest value a quantity has in Kubernetes; what is larger counts as this.
pub const MAX: u64 = i64::MAX as u64;

/// Why a text is not a number of bytes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing.
    #[error("quantity is empty")]
    Empty,
    /// It does not begin with a number.
    #[error("quantity \"{0}\" does not begin with a number")]
    NotANumber(String),
    /// What follows the number is no unit.
    #[error("quantity \"{text}\" has the unknown unit \"{unit}\"")]
    Unit {
        /// The whole quantity.
        text: String,
        /// What follows its number.
        unit: String,
    },
    /// A number of bytes cannot be less than zero.
    #[error("quantity \"{0}\" is negative")]
    Negative(String),
}

/// The number of bytes that `text` says, rounded up and capped at [`MAX`].
pub fn bytes(text: &str) -> Result<u64, Error> {
    parse(text, 0)
}

/// The number of thousandths that `text` says, rounded up and capped at [`MAX`]: what processors are counted in.
pub fn thousandths(text: &str) -> Result<u64, Error> {
    parse(text, 3)
}

/// The number that `text` says, times ten to the power of `scale`.
fn parse(text: &str, scale: i64) -> Result<u64, Error> {
    if text.is_empty() {
        return Err(Error::Empty);
    }
    let (negative, unsigned) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned.find(|it: char| !(it.is_ascii_digit() || it == '.')).unwrap_or(unsigned.len());
    let (number, unit) = unsigned.split_at(end);
    let mut number = Decimal::parse(number).ok_or_else(|| Error::NotANumber(text.into()))?;
    match Unit::parse(unit) {
        Some(Unit::Tens(exponent)) => number.point = number.point.saturating_add(exponent),
        Some(Unit::Twos(exponent)) => (0..exponent).for_each(|_| number.double()),
        None => return Err(Error::Unit { text: text.into(), unit: unit.into() }),
    }
    number.point = number.point.saturating_add(scale);
    match number.rounded_up() {
        0 => Ok(0),
        _ if negative => Err(Error::Negative(text.into())),
        value => Ok(value),
    }
}

/// The number of bytes that `list` has for `name`; `None` if it has none.
pub(crate) fn bytes_of(list: Option<&BTreeMap<String, Quantity>>, name: &str) -> Result<Option<u64>, Error> {
    list.and_then(|it| it.get(name)).map(|it| bytes(&it.0)).transpose()
}

/// What a number is multiplied by: a power of ten or of two.
enum Unit {
    Tens(i64),
    Twos(u32),
}

impl Unit {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "n" => Self::Tens(-9),
            "u" => Self::Tens(-6),
            "m" => Self::Tens(-3),
            "" => Self::Tens(0),
            "k" => Self::Tens(3),
            "M" => Self::Tens(6),
            "G" => Self::Tens(9),
            "T" => Self::Tens(12),
            "P" => Self::Tens(15),
            "E" => Self::Tens(18),
            "Ki" => Self::Twos(10),
            "Mi" => Self::Twos(20),
            "Gi" => Self::Twos(30),
            "Ti" => Self::Twos(40),
            "Pi" => Self::Twos(50),
            "Ei" => Self::Twos(60),
            _ => Self::Tens(text.strip_prefix(['e', 'E'])?.parse().ok()?),
        })
    }
}

/// A number of any length: `0.d1 d2 d3… × 10^point`. The first digit is not zero.
struct Decimal {
    digits: Vec<u8>,
    point: i64,
}

impl Decimal {
    /// Digits with at most one point among them, and at least one digit.
    fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if fraction.contains('.') || whole.len() + fraction.len() == 0 {
            return None;
        }
        let digits = whole.bytes().chain(fraction.bytes()).map(|it| it - b'0');
        let zeros = digits.clone().take_while(|it| *it == 0).count();
        let point = i64::try_from(whole.len()).ok()? - i64::try_from(zeros).ok()?;
        Some(Self { digits: digits.skip(zeros).collect(), point })
    }

    fn double(&mut self) {
        let mut carry = 0;
        for digit in self.digits.iter_mut().rev() {
            let twice = *digit * 2 + carry;
            (*digit, carry) = (twice % 10, twice / 10);
        }
        if carry > 0 {
            self.digits.insert(0, carry);
            self.point = self.point.saturating_add(1);
        }
    }

    fn rounded_up(&self) -> u64 {
        if self.digits.is_empty() {
            return 0;
        }
        // Nineteen digits hold every value up to the cap.
        let Ok(length) = usize::try_from(self.point) else { return 1 };
        if length > 19 {
            return MAX;
        }
        let digit = |place: usize| u64::from(self.digits.get(place).copied().unwrap_or(0));
        let whole = (0..length).fold(0_u64, |value, place| value * 10 + digit(place));
        let fraction = self.digits.iter().skip(length).any(|it| *it != 0);
        (whole + u64::from(fraction)).min(MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_become_bytes() {
        for (text, expected) in [
            ("0", 0),
            ("-0", 0),
            ("+7", 7),
            ("100", 100),
            ("1e3", 1000),
            ("1E3", 1000),
            ("1e+3", 1000),
            ("12e-1", 2),
            ("1k", 1000),
            ("10Mi", 10 << 20),
            ("1.5Gi", 3 << 29),
            (".5Ki", 512),
            ("5.Ki", 5120),
            ("1E", 1_000_000_000_000_000_000),
            ("1Ei", 1 << 60),
            ("100m", 1),
            ("1001m", 2),
            ("1n", 1),
            ("0.000000000000000000000000001", 1),
            ("0.1Ei", 115_292_150_460_684_698),
            ("1e-999999999999", 1),
            ("0e999999999999", 0),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn processors_are_counted_in_thousandths() {
        for (text, expected) in [("0", 0), ("4", 4000), ("1500m", 1500), ("0.1", 100), ("1u", 1), ("2k", 2_000_000)] {
            assert_eq!(thousandths(text), Ok(expected), "{text}");
        }
        assert_eq!(thousandths("9223372036854775807"), Ok(MAX));
        assert_eq!(thousandths("-1m"), Err(Error::Negative("-1m".into())));
    }

    #[test]
    fn what_is_too_large_counts_as_the_largest() {
        for text in [
            "9223372036854775807",
            "9223372036854775808",
            "10E",
            "8Ei",
            "1e19",
            "1e999999999999",
            "99999999999999999999",
        ] {
            assert_eq!(bytes(text), Ok(MAX), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_says_why() {
        for (text, why) in [
            ("", "quantity is empty"),
            ("-", "quantity \"-\" does not begin with a number"),
            (".", "quantity \".\" does not begin with a number"),
            ("Mi", "quantity \"Mi\" does not begin with a number"),
            ("1.2.3", "quantity \"1.2.3\" does not begin with a number"),
            ("--1", "quantity \"--1\" does not begin with a number"),
            ("10 Mi", "quantity \"10 Mi\" has the unknown unit \" Mi\""),
            ("10MB", "quantity \"10MB\" has the unknown unit \"MB\""),
            ("1i", "quantity \"1i\" has the unknown unit \"i\""),
            ("1e", "quantity \"1e\" has the unknown unit \"e\""),
            ("1e1.5", "quantity \"1e1.5\" has the unknown unit \"e1.5\""),
            ("-1Ki", "quantity \"-1Ki\" is negative"),
            ("ä", "quantity \"ä\" does not begin with a number"),
        ] {
            assert_eq!(bytes(text).map_err(|it| it.to_string()), Err(why.to_string()), "{text}");
        }
    }

    #[test]
    fn a_list_without_the_name_has_no_bytes() {
        let list = BTreeMap::from([("storage".to_string(), Quantity("1Ki".into()))]);
        assert_eq!(bytes_of(Some(&list), "storage"), Ok(Some(1024)));
        assert_eq!(bytes_of(Some(&list), "cpu"), Ok(None));
        assert_eq!(bytes_of(None, "storage"), Ok(None));
    }

    proptest! {
        #[test]
        fn a_whole_number_is_itself(number in 0..=MAX) {
            prop_assert_eq!(bytes(&number.to_string()), Ok(number));
        }

        #[test]
        fn thousandths_and_kibibytes_agree_with_wide_arithmetic(number in 0..u64::MAX / 4096, fraction in 0..1000_u32) {
            let exact = (u128::from(number) * 1000 + u128::from(fraction)) * 1024;
            let expected = exact.div_ceil(1000).min(u128::from(MAX));
            prop_assert_eq!(bytes(&format!("{number}.{fraction:03}Ki")).map(u128::from), Ok(expected));
        }

        #[test]
        fn no_text_makes_it_panic(text in "[-+]?[0-9.]{0,40}[a-zA-Z]{0,2}[-+]?[0-9]{0,30}|.*") {
            let _ = bytes(&text);
        }

        #[test]
        fn zeros_around_a_number_do_not_count(number in 0..1_000_000_u64, before in 0..30_usize, after in 0..30_usize) {
            let text = format!("{}{number}.{}Mi", "0".repeat(before), "0".repeat(after));
            prop_assert_eq!(bytes(&text), Ok(number << 20));
        }
    }
}
