// Time limit for closing, which may hang in Fast DDS. Used by `fastdds` and `ros2`.

#ifndef TRIPMETER_FASTDDS_CLOSING_H
#define TRIPMETER_FASTDDS_CLOSING_H

#include <functional>

// Runs `close` in its own thread; `whose`, leader or follower, is for the message. False after 2 s: then the thread
// goes on, this library stays loaded for it, and the process ends without the destructors of Fast DDS, which would hang
// too.
//
// Cause: a listener of shared memory is closed under the lock of its port. If the owner of the lock was killed or gets
// no CPU time, Fast DDS goes on without the lock, and joins the listener's thread, which was not told to end.
bool closes_in_time(const char* whose, std::function<void()> close) noexcept;

// Skips closing. If a process was killed while it held such a lock, the listener's thread opens the port anew even
// during closing, and then reads memory that is no longer mapped.
void leave_unclosed(const char* whose) noexcept;

#endif // TRIPMETER_FASTDDS_CLOSING_H
