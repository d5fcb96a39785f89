// Causes of Fast DDS's errors, which it writes only to its log.

#ifndef TRIPMETER_FASTDDS_LOG_H
#define TRIPMETER_FASTDDS_LOG_H

#include <string>

// Starts to listen to Fast DDS's log, once per process.
void watch_log();

// Up to three latest errors of the log, prefixed with ": "; empty if there are none.
std::string logged_errors();

#endif // TRIPMETER_FASTDDS_LOG_H
