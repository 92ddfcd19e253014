//! Quantities (`10Mi`, `1e3`, `100m`), against a model with wide numbers.

use windlass::inner::quantity::{self, MAX};

/// Bytes and thousandths agree with each other, and with the model where its numbers are wide enough.
pub(crate) fn target(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let (whole, thousandths) = (quantity::bytes(text), quantity::thousandths(text));
    assert_eq!(whole.is_ok(), thousandths.is_ok(), "{text:?} is a quantity or is none");
    if let (Ok(whole), Ok(thousandths)) = (&whole, &thousandths) {
        assert!(*whole <= MAX && *thousandths <= MAX, "{text:?} is not above the largest");
        assert!(whole <= thousandths, "{text:?}: {whole} is not more than a thousand times as much");
        assert_eq!(quantity::bytes(&whole.to_string()), Ok(*whole), "a whole number is itself");
    }
    if let Some((over, under)) = model(text) {
        let rounded = |scale: u128| u64::try_from((over * scale).div_ceil(under)).unwrap_or(u64::MAX).min(MAX);
        assert_eq!(whole, Ok(rounded(1)), "{text:?}");
        assert_eq!(thousandths, Ok(rounded(1000)), "{text:?}");
    }
}

/// What a text says, as a fraction; `None` if that is not known here.
fn model(text: &str) -> Option<(u128, u128)> {
    let end = text.find(|it: char| !(it.is_ascii_digit() || it == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (before, after) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{before}{after}");
    if digits.is_empty() || digits.len() > 15 || digits.contains('.') {
        return None;
    }
    let (over, under) = (digits.parse::<u128>().ok()?, 10_u128.pow(u32::try_from(after.len()).ok()?));
    let (up, down): (u128, u128) = match unit {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1000),
        "k" => (1000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        _ => return None,
    };
    Some((over * up, under * down))
}
