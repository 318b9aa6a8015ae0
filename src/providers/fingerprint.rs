//! A digest of what was seen, made for lists of many thousands: no serialising, no allocation.
//!
//! FNV-1a, because its form is fixed (what is computed is stored), and because nobody gains by making two states of
//! their own server look alike.

pub(in crate::providers) struct Fingerprint(u64);

impl Fingerprint {
    pub const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub const fn value(&self) -> u64 {
        self.0
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub fn number(&mut self, number: impl Into<u64>) {
        self.bytes(&number.into().to_le_bytes());
    }

    /// The length first, so that no two sequences of texts run into one.
    pub fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }
}
