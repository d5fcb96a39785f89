// What Fast DDS says about its errors, which it tells to its log only.

#ifndef TRIPMETER_FASTDDS_LOG_H
#define TRIPMETER_FASTDDS_LOG_H

#include <string>

// Starts to listen to Fast DDS's log, once per process.
void watch_log();

// The latest errors that were logged, with ": " before them, or nothing.
std::string logged_errors();

#endif // TRIPMETER_FASTDDS_LOG_H
