//! Restriction of all files and shared memory of this process to its user, whatever libraries ask for.
//!
//! Some libraries clear the umask around each file that they create (eCAL). Others open their shared memory to
//! everybody afterwards (boost in Fast DDS, iceoryx2). So the program has its own functions `umask` and `fchmod`. The
//! dynamic linker searches the program before libraries, so all plugins use them (ld.so(8), elf(5)).
#![expect(unsafe_code, reason = "functions of the C library, defined anew")]

use rustix::fs::Mode;
use std::sync::{Mutex, MutexGuard, PoisonError};

const OTHERS: Mode = Mode::RWXG.union(Mode::RWXO);

/// Guard: while it lives, new files of this process are accessible only to its user.
#[derive(Debug)]
pub struct ForThisUser(());

/// Shared state of the guards: leader and follower may be threads of one process.
struct Umask {
    guards: u32,
    /// Calls of [`umask`] that a library has not undone yet by a second call, which restores the former value.
    calls: u32,
    before: Mode,
    /// True once this process has opened a transport: libraries create more files while they are used.
    has_opened: bool,
}

static UMASK: Mutex<Umask> = Mutex::new(Umask { guards: 0, calls: 0, before: Mode::empty(), has_opened: false });

impl Umask {
    fn get() -> MutexGuard<'static, Self> {
        UMASK.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_on(&self) -> bool {
        self.guards + self.calls > 0
    }

    fn change(&mut self, change: impl FnOnce(&mut Self)) {
        let was_on = self.is_on();
        change(self);
        match (was_on, self.is_on()) {
            (false, true) => self.before = rustix::process::umask(OTHERS),
            (true, false) => drop(rustix::process::umask(self.before)),
            _ => {}
        }
    }
}

impl ForThisUser {
    pub fn begin() -> Self {
        Umask::get().change(|state| {
            state.guards += 1;
            state.has_opened = true;
        });
        Self(())
    }
}

impl Drop for ForThisUser {
    fn drop(&mut self) {
        Umask::get().change(|state| state.guards -= 1);
    }
}

/// Replaces umask(2) for libraries: the umask is 077, until each library has restored its value. Then the program's own
/// umask applies again.
///
/// # Source
/// umask(2).
#[unsafe(no_mangle)]
extern "C" fn umask(wanted: libc::mode_t) -> libc::mode_t {
    Umask::get().change(|state| {
        if wanted == OTHERS.bits() && state.calls > 0 {
            state.calls -= 1;
        } else {
            state.calls += 1;
        }
    });
    OTHERS.bits()
}

/// Replaces fchmod(2): once this process has opened a transport, others get no access.
#[unsafe(no_mangle)]
extern "C" fn fchmod(file: libc::c_int, mode: libc::mode_t) -> libc::c_int {
    let given = if Umask::get().has_opened { mode & !OTHERS.bits() } else { mode };
    // SAFETY: fchmod(2) takes numbers only, and answers a file that is not open with an error, in `errno`.
    unsafe { libc::syscall(libc::SYS_fchmod, file, given) as libc::c_int }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A single test, because the umask is global.
    #[test]
    fn no_library_lifts_the_umask_and_each_takes_back_only_its_own_call() {
        let real = || {
            let mask = rustix::process::umask(OTHERS);
            rustix::process::umask(mask);
            mask
        };
        let before = rustix::process::umask(Mode::WOTH);
        let first = umask(0);
        assert_eq!((first, real()), (0o077, OTHERS));
        let second = umask(0o022);
        assert_eq!((umask(second), real()), (0o077, OTHERS), "the first library is not done");
        umask(first);
        assert_eq!(real(), Mode::WOTH);

        let file = tempfile::tempfile().unwrap();
        let mode = || {
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            (fchmod(fd, 0o666), std::os::unix::fs::MetadataExt::mode(&file.metadata().unwrap()) & 0o777)
        };
        assert_eq!(mode(), (0, 0o666), "no transport was opened");
        assert_eq!(fchmod(-1, 0o600), -1);

        let guard = ForThisUser::begin();
        let within = umask(0);
        umask(within);
        assert_eq!(real(), OTHERS, "a library's call does not end the program's own wish");
        drop(guard);
        assert_eq!((real(), mode()), (Mode::WOTH, (0, 0o600)));
        rustix::process::umask(before);
    }
}
