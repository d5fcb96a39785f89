//! System calls, except clock readings. The standard library is preferred, then rustix, procfs and memmap2; each call
//! of libc states its reason.

mod counters;
pub(crate) mod descriptors;
mod exhausted;
mod files;
mod for_this_user;
mod process;
mod queues;
mod scheduling;
mod shared;
mod sockets;
mod threads;

pub use counters::CpuCounters;
pub(crate) use exhausted::{no_port, shared_memory, stopped_child, tight_limits, with_lack, with_lack_of};
pub(crate) use files::{FOLDER, NO_LINK, NO_WAIT, ONLY_A_PATH, lock_file_to_start};
pub use files::{file_size_limit, lock_file, make_fifo, names_in, raise_file_limit, space, stranger_at};
pub use for_this_user::ForThisUser;
pub use process::{
    ProcessIdentity, Whose, become_worker, boot, ensure_stack, full_files_are_errors, is_beyond_signals,
    is_kept_waiting, is_stopped, is_zombie, lock_memory, mapped_below, peak_memory_bytes, process_cpu_ns, usage,
    user_id,
};
pub(crate) use process::{handles, kill_group, signal};
pub(crate) use queues::{remove_queue, unlink_queue};
pub(crate) use rustix::process::Signal;
pub use scheduling::{may_schedule, real_time_limit_us, schedule_process, step_aside};
pub use shared::MemoryFile;
pub(crate) use shared::{PAGE, SharedMemory, SharedPage, forget_translations};
pub(crate) use sockets::interfaces;
pub(crate) use sockets::stdin_socket;
pub use sockets::{check_peer, peer_pid, wait_readable};
pub use threads::{
    Target, allowed_by_any_thread, allowed_cpus, confine_process, confine_thread, online_cpus, pin_thread,
    sleep_precisely, sleep_until, timer_slack_ns,
};
