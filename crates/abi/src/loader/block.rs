//! Structures of a shared library that may be shorter or longer than ours.
#![expect(unsafe_code, reason = "the C boundary")]

use std::mem::MaybeUninit;
use std::ptr;

/// Copies a block of `size` bytes: missing fields are zero, and fields beyond `T` are ignored.
///
/// # Safety
/// `block` points to `size` readable bytes, and `T` may be all zeros.
pub(super) unsafe fn read_block<T>(block: *const T, size: usize) -> T {
    let mut whole = MaybeUninit::<T>::zeroed();
    // SAFETY: the caller's contract; `whole` has room for `size_of::<T>()` bytes, and zeros are a valid `T`.
    unsafe {
        ptr::copy_nonoverlapping(block.cast::<u8>(), whole.as_mut_ptr().cast(), size.min(size_of::<T>()));
        whole.assume_init()
    }
}
