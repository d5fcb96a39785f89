// The UDP ports that a participant of Fast DDS must have got. Used by `fastdds` and `ros2`.

#ifndef TRIPMETER_FASTDDS_PORTS_H
#define TRIPMETER_FASTDDS_PORTS_H

#include <cstdint>
#include <string>

// Throws Failure (TM_UNAVAILABLE) if this process has not all kinds of sockets that a participant needs at `address`: to be
// discovered (by multicast, unless `is_between_hosts`), to receive, and to send. Where a port is taken, Fast DDS does without
// the socket, says nothing, and finds nobody.
void check_ports(uint32_t domain, const std::string& address, bool is_between_hosts);

#endif // TRIPMETER_FASTDDS_PORTS_H
