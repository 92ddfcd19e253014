//! A 64-bit number for bytes of any length: SipHash-2-4.
//!
//! The number is written to disk and compared after a restart, so it must never change between versions; the standard
//! library promises that for none of its hashers. It is keyed, because some of the bytes are secret: who does not have
//! the key learns nothing from the number, not even by guessing (I-12).

/// A number in the making.
#[derive(Clone, Debug)]
pub(crate) struct Fingerprint {
    state: [u64; 4],
    tail: u64,
    length: u64,
}

impl Fingerprint {
    pub(crate) fn new(key: [u64; 2]) -> Self {
        let [k0, k1] = key;
        let state = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        Self { state, tail: 0, length: 0 }
    }

    /// Adds a field. Its length goes in too, so that neighbours cannot be confused.
    pub(crate) fn field(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.raw(bytes);
    }

    /// Adds a number.
    pub(crate) fn number(&mut self, number: u64) {
        self.raw(&number.to_le_bytes());
    }

    /// The number for all that was added.
    pub(crate) fn finish(mut self) -> u64 {
        self.block(self.tail | self.length << 56);
        self.state[2] ^= 0xff;
        (0..4).for_each(|_| self.round());
        self.state.iter().fold(0, |all, it| all ^ it)
    }

    fn raw(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.tail |= u64::from(*byte) << (self.length % 8 * 8);
            self.length += 1;
            if self.length.is_multiple_of(8) {
                self.block(self.tail);
                self.tail = 0;
            }
        }
    }

    fn block(&mut self, block: u64) {
        self.state[3] ^= block;
        (0..2).for_each(|_| self.round());
        self.state[0] ^= block;
    }

    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.state;
        a = a.wrapping_add(b);
        c = c.wrapping_add(d);
        b = b.rotate_left(13) ^ a;
        d = d.rotate_left(16) ^ c;
        a = a.rotate_left(32);
        a = a.wrapping_add(d);
        c = c.wrapping_add(b);
        d = d.rotate_left(21) ^ a;
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.state = [a, b, c, d];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> u64 {
        let mut fingerprint = Fingerprint::new([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        fingerprint.raw(bytes);
        fingerprint.finish()
    }

    /// The vectors of the SipHash paper and its reference implementation.
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
