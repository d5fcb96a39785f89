// Closing that may hang in Fast DDS. Used by `fastdds` and `ros2`.

#ifndef TRIPMETER_FASTDDS_CLOSING_H
#define TRIPMETER_FASTDDS_CLOSING_H

#include <functional>

// Closes what is `whose` in a thread of its own. False if that takes longer than closings that end: then the thread goes on,
// this library stays loaded for it, and the process ends without the destructors of Fast DDS, which would wait as well.
//
// A listener of shared memory is closed under the lock of its port. If Fast DDS does not get that lock in time, because its
// owner was killed or kept from its CPU, it goes on without it, and joins the listener's thread, which was not told to end.
bool closes_in_time(const char* whose, std::function<void()> close) noexcept;

// Does not even begin to close. Where a process was killed while it had such a lock, the listener's thread gives up the port and
// opens it anew, whoever is about to close it: that reads memory which is not mapped any more.
void leave_unclosed(const char* whose) noexcept;

#endif // TRIPMETER_FASTDDS_CLOSING_H
