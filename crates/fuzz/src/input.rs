//! Values drawn from the bytes of an input; zeros behind its end.

/// What is left of an input.
pub(crate) struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn u8(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    pub fn u32(&mut self) -> u32 {
        self.bytes(4).iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
    }
}
