//! Message queues that a run left behind. Neither rustix nor the standard library supports them.
#![expect(unsafe_code, reason = "system calls")]

use super::process::user_id;
use std::ffi::CString;
use std::mem::MaybeUninit;

pub fn unlink_queue(name: &str) {
    if let Ok(name) = CString::new(name) {
        // SAFETY: the name is NUL-terminated.
        unsafe { libc::mq_unlink(name.as_ptr()) };
    }
}

/// Removes a System V queue, given by a line `ID CTIME`. A queue of another user or with another change time stays: the
/// system reuses IDs.
pub fn remove_queue(line: &str) {
    let Some((id, ctime)) = line.split_once(' ') else { return };
    let (Ok(id), Ok(ctime)) = (id.parse(), ctime.parse::<i64>()) else { return };
    if status(id).is_some_and(|found| found.msg_perm.uid == user_id() && found.msg_ctime == ctime) {
        // SAFETY: IPC_RMID uses no buffer.
        unsafe { libc::msgctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

fn status(id: libc::c_int) -> Option<libc::msqid_ds> {
    let mut status = MaybeUninit::<libc::msqid_ds>::zeroed();
    // SAFETY: msgctl(2) with IPC_STAT takes any number as queue and writes at most one `msqid_ds` to the pointer.
    let result = unsafe { libc::msgctl(id, libc::IPC_STAT, status.as_mut_ptr()) };
    // SAFETY: all zeros are valid, and on success it has been written.
    (result == 0).then(|| unsafe { status.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_queue_that_was_listed_is_removed() {
        let [listed, replaced] = [(); 2].map(|()| {
            // SAFETY: touches no memory.
            let id = unsafe { libc::msgget(libc::IPC_PRIVATE, libc::IPC_CREAT | 0o600) };
            (id, status(id).unwrap().msg_ctime)
        });
        for line in ["", "x", "-1 0", "99999999999 1", &format!("{}", replaced.0), &format!("{} x", replaced.0)] {
            remove_queue(line);
        }
        remove_queue(&format!("{} {}", replaced.0, replaced.1 - 1));
        remove_queue(&format!("{} {}", listed.0, listed.1));
        assert!(status(listed.0).is_none() && status(replaced.0).is_some());
        remove_queue(&format!("{} {}", replaced.0, replaced.1));
        assert!(status(replaced.0).is_none());
    }
}
