//! A 64-bit number for bytes of any length: SipHash-2-4.
//!
//! The number is written to disk and compared after a restart, so it must never change between versions; the standard
//! library promises that for none of its hashers. It is keyed, because some of the bytes are secret: who does not have
//! the key learns nothing from the number, not even by guessing (I-12).

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

/// A number in the making.
#[derive(Clone, Debug)]
pub(crate) struct Fingerprint(SipHasher24);

impl Fingerprint {
    pub(crate) fn new(key: [u64; 2]) -> Self {
        Self(SipHasher24::new_with_keys(key[0], key[1]))
    }

    /// Adds a field. Its length goes in too, so that neighbors cannot be confused.
    pub(crate) fn field(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.write(bytes);
    }

    /// Adds a number: its bytes, not `write_u64`, which differs between machines.
    pub(crate) fn number(&mut self, number: u64) {
        self.0.write(&number.to_le_bytes());
    }

    /// The number for all that was added.
    pub(crate) fn finish(self) -> u64 {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> u64 {
        let mut fingerprint = Fingerprint::new([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        // In two parts: how the bytes come does not matter.
        let (first, second) = bytes.split_at(bytes.len() / 3);
        fingerprint.0.write(first);
        fingerprint.0.write(second);
        fingerprint.finish()
    }

    /// The vectors of the SipHash paper and its reference implementation: records of earlier versions hold these numbers.
    #[test]
    fn it_is_siphash() {
        let bytes: Vec<u8> = (0..16).collect();
        assert_eq!(of(&[]), 0x726f_db47_dd0e_0e31);
        assert_eq!(of(&bytes[..1]), 0x74f8_39c5_93dc_67fd);
        assert_eq!(of(&bytes[..8]), 0x93f5_f579_9a93_2462);
        assert_eq!(of(&bytes[..15]), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        let two = |first: &str, second: &str| {
            let mut fingerprint = Fingerprint::new([0, 0]);
            fingerprint.field(first.as_bytes());
            fingerprint.field(second.as_bytes());
            fingerprint.finish()
        };
        assert_ne!(two("ab", "c"), two("a", "bc"));
    }
}
