#![expect(unsafe_code, reason = "the C boundary")]

use crate::{Message, raw};
use std::ffi::c_void;

/// Callback of the host for wait `callback`.
#[derive(Clone, Copy)]
pub struct Callback {
    /// Function that receives each message.
    pub function: raw::tm_on_message,
    /// First argument of `function`.
    pub context: *mut c_void,
}

// SAFETY: the contract of `tm_on_message` lets any one thread at a time call it with its context.
unsafe impl Send for Callback {}
// SAFETY: as above; the caller serialises calls per link.
unsafe impl Sync for Callback {}

impl Callback {
    /// Passes a message to the host; the transport still owns it.
    pub fn call(&self, message: &Message) {
        // SAFETY: the host keeps function and context valid until the link is closed.
        unsafe { (self.function)(self.context, message) }
    }
}
