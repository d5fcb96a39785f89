/// Size of the prefix before each packet, or before each message of a stream, in bytes.
pub const PREFIX_BYTES: usize = 16;

pub(super) const DATA: u32 = 0;
pub(super) const FAREWELL: u32 = 1;

/// Prefix in the machine's byte order, which must be the same at both ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Prefix {
    pub id: u32,
    pub total: u32,
    pub offset: u32,
    pub kind: u32,
}

impl Prefix {
    #[inline]
    pub fn bytes(self) -> [u8; PREFIX_BYTES] {
        let mut bytes = [0; PREFIX_BYTES];
        for (to, word) in bytes.chunks_exact_mut(4).zip([self.id, self.total, self.offset, self.kind]) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[inline]
    pub fn read(bytes: &[u8; PREFIX_BYTES]) -> Self {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self { id: word(0), total: word(4), offset: word(8), kind: word(12) }
    }
}

#[inline]
pub(super) fn head(window: &mut [u8]) -> &mut [u8; PREFIX_BYTES] {
    window.first_chunk_mut().expect("a window begins with room for a prefix")
}
