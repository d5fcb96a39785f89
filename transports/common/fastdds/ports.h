// Check that a participant of Fast DDS has got its UDP ports. Used by `fastdds` and `ros2`.

#ifndef TRIPMETER_FASTDDS_PORTS_H
#define TRIPMETER_FASTDDS_PORTS_H

#include <cstdint>
#include <string>

// Throws Failure (TM_UNAVAILABLE) if this process lacks a socket that a participant needs at `address`: for discovery
// (by multicast, unless `is_between_hosts`), for receiving, or for sending. Fast DDS does not report a port that is in
// use: it goes on without the socket, and finds no peer.
void check_ports(uint32_t domain, const std::string& address, bool is_between_hosts);

#endif // TRIPMETER_FASTDDS_PORTS_H
