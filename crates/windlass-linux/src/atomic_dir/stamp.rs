//! The names of versions: `..2026_11_15_12_00_00.123456`, the time in UTC and a random number.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::Mode;
use rustix::io::Errno;

use super::{Contents, Error, Step};
use crate::name::Name;
use crate::path_error::PathError;
use crate::safe_path::Place;

/// Makes the directory of a new version, and returns its name. It has its mode from the start, as far as the umask lets
/// it; we may write in it whatever its mode will be.
pub(super) fn new_stamp(target: &Place, contents: &Contents, before: &mut dyn FnMut(Step)) -> Result<Name, Error> {
    // Names differ in a random number of 32 bits, so twice the same is rare and three times is not chance.
    const TRIES: usize = 100;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let mut failed = Errno::EXIST;
    for _ in 0..TRIES {
        let random = random().map_err(|source| PathError::new("write", target.path(), source))?;
        let name = Name::new("version", stamp(seconds, random)).expect("a plain name");
        before(Step::MakeVersion);
        match rustix::fs::mkdirat(target, name.as_path(), contents.directory_mode | Mode::RWXU) {
            Ok(()) => return Ok(name),
            Err(Errno::EXIST) => {}
            Err(errno) => {
                failed = errno;
                break;
            }
        }
    }
    Err(PathError::new("write", target.path().join("..(new version)"), failed).into())
}

/// A random number. The kernel is asked for some at a time.
fn random() -> Result<u32, Errno> {
    const AT_ONCE: usize = 16;
    thread_local! {
        static LEFT: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    }
    LEFT.with_borrow_mut(|left| {
        if left.is_empty() {
            let mut bytes = [0; 4 * AT_ONCE];
            let read = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
            left.extend(bytes[..read].chunks_exact(4).map(|it| u32::from_ne_bytes([it[0], it[1], it[2], it[3]])));
        }
        left.pop().ok_or(Errno::IO)
    })
}

fn stamp(seconds: u64, random: u32) -> String {
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("..{year:04}_{month:02}_{day:02}_{hour:02}_{minute:02}_{second:02}.{random}")
}

/// The date of a day counted from 1970-01-01. The year is taken to begin in March, so that the day which is not in
/// every year is its last.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let days = days + 719_468; // since 0000-03-01
    let (cycle, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // months since March: 31, 30, 31, 30, 31 days repeat
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (400 * cycle + year + u64::from(month <= 2), month, day)
}

/// Whether a name is that of a version. Nothing else is ever taken for one, however it begins.
pub(super) fn is_stamp(name: &Name) -> bool {
    const SHAPE: &[u8] = b"..0000_00_00_00_00_00.";
    let name = name.as_bytes();
    let fits = |(shape, byte): (&u8, &u8)| if *shape == b'0' { byte.is_ascii_digit() } else { byte == shape };
    name.len() > SHAPE.len() && SHAPE.iter().zip(name).all(fits) && name[SHAPE.len()..].iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_named_by_its_time() {
        assert_eq!(stamp(0, 7), "..1970_01_01_00_00_00.7");
        assert_eq!(stamp(951_827_696, 1), "..2000_02_29_12_34_56.1");
        assert_eq!(stamp(1_735_689_599, u32::MAX), "..2024_12_31_23_59_59.4294967295");
        assert_eq!(stamp(4_107_542_400, 1), "..2100_03_01_00_00_00.1");
    }

    #[test]
    fn every_day_has_the_date_after_the_day_before() {
        let mut before = date(0);
        for day in 1..200_000 {
            let (year, month, of_month) = date(day);
            let next_day = before.0 == year && before.1 == month && before.2 + 1 == of_month;
            let next_month = of_month == 1 && before.2 >= 28 && (before.0 * 12 + before.1 + 1 == year * 12 + month);
            assert!(next_day || next_month, "{before:?} {:?}", (year, month, of_month));
            before = (year, month, of_month);
        }
    }

    #[test]
    fn only_names_of_versions_are_taken_for_versions() {
        let version = |name: &str| is_stamp(&Name::new("name", name).unwrap());
        assert!(version("..2026_11_15_12_00_00.123456"));
        for other in ["..data", "..data_tmp", "..2026_11_15_12_00_00.", "..2026_11_15_12_00_00.x", "..2026_11_15"] {
            assert!(!version(other), "{other}");
        }
        assert!(!version("..2026_11_15_12_00_00.1 "));
        assert!(!version("a.2026_11_15_12_00_00.1"));
    }
}
