//! Turn-taking of the system's thread and the main thread, under wait `callback`.
#![expect(unsafe_code, reason = "calls from the system's threads")]

use super::Failure;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use tripmeter_abi::{Callback, Message};

/// Receiver of a link's messages: it drops them, or calls the handler of the current phase.
///
/// Both threads share one atomic flag, which the holder of the turn sets. The main thread takes the turn only to change
/// handlers, and for a few checks per loss time-out. So the flag is normally free in the measured window.
#[derive(Default)]
pub struct Inbox {
    taken: AtomicBool,
    /// True once an invalid message came, which must not be touched.
    is_broken: AtomicBool,
    handler: UnsafeCell<Option<Handler>>,
}

type Handler = Box<dyn FnMut(&Message)>;

// SAFETY: `handler` is only touched by the holder of the turn (`taken`), one thread at a time.
unsafe impl Sync for Inbox {}
// SAFETY: handlers are made by `serve`, from state that may be used by one thread at a time.
unsafe impl Send for Inbox {}

impl Inbox {
    /// Callback for a link; the inbox must outlive that link.
    pub fn callback(&self) -> Callback {
        Callback { function: deliver, context: (&raw const *self).cast_mut().cast() }
    }

    fn turn<R>(&self, work: impl FnOnce(&mut Option<Handler>) -> R) -> R {
        while self.taken.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            std::thread::yield_now();
        }
        let _given_back = GiveBack(&self.taken);
        // SAFETY: this thread holds the turn.
        work(unsafe { &mut *self.handler.get() })
    }

    /// Handles messages with `handle` while `wait` runs in this thread; both get `state`, one at a time.
    pub fn serve<S, R>(
        &self,
        state: &mut S,
        handle: fn(&mut S, &Message),
        wait: impl FnOnce(&HandlerTurns<'_, S>) -> R,
    ) -> R {
        let state: *mut S = state;
        let handler: Box<dyn FnMut(&Message) + '_> = Box::new(move |message| {
            // SAFETY: the handler runs in its turn only, and is removed before `state`'s borrow ends.
            handle(unsafe { &mut *state }, message);
        });
        // SAFETY: only the lifetime changes; the handler is removed below, before this function returns, on unwinding too.
        let handler: Handler = unsafe { std::mem::transmute(handler) };
        self.turn(|slot| *slot = Some(handler));
        let _removed_at_the_end = RemoveHandler(self);
        wait(&HandlerTurns { inbox: self, state })
    }
}

/// Guard that returns the turn even after a panic, as removing the handler takes it again.
struct GiveBack<'a>(&'a AtomicBool);

impl Drop for GiveBack<'_> {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

struct RemoveHandler<'a>(&'a Inbox);

impl Drop for RemoveHandler<'_> {
    fn drop(&mut self) {
        self.0.turn(|slot| *slot = None);
    }
}

/// Access of the waiting thread to the state of a handler.
pub struct HandlerTurns<'a, S> {
    inbox: &'a Inbox,
    state: *mut S,
}

impl<S> HandlerTurns<'_, S> {
    /// Runs `work` on the state while no message is handled.
    pub fn with<R>(&self, work: impl FnOnce(&mut S) -> R) -> R {
        // SAFETY: the state is used by the holder of the turn only.
        self.inbox.turn(|_| work(unsafe { &mut *self.state }))
    }

    /// Fails if an invalid message came.
    pub fn check(&self) -> Result<(), Failure> {
        const WHY: &str = "`on_message` was called with a message that is NULL or misaligned, or whose data is NULL";
        let is_broken = self.inbox.is_broken.load(Relaxed);
        if is_broken { Err(tripmeter_abi::Error::failed(WHY).into()) } else { Ok(()) }
    }
}

unsafe extern "C" fn deliver(context: *mut c_void, message: *const Message) {
    // SAFETY: the context is an inbox that outlives its link.
    let inbox = unsafe { &*context.cast::<Inbox>() };
    if message.is_null() || !message.is_aligned() {
        return inbox.is_broken.store(true, Relaxed);
    }
    // SAFETY: the message is neither NULL nor misaligned, and valid during the call.
    let message = unsafe { &*message };
    if message.data.is_null() || message.length > isize::MAX as usize {
        return inbox.is_broken.store(true, Relaxed);
    }
    inbox.turn(|slot| {
        if let Some(handler) = slot {
            handler(message);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_gives_the_turn_back() {
        let inbox = Inbox::default();
        let panics =
            std::panic::AssertUnwindSafe(|| inbox.serve(&mut (), |(), _| (), |turns| turns.with(|()| panic!("meant"))));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(!inbox.taken.load(Relaxed));
    }
}
