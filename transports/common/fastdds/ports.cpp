#include "ports.h"

#include "agreement.h"
#include "tripmeter_plugin.hpp"

#include <arpa/inet.h>
#include <cstdlib>
#include <dirent.h>
#include <fstream>
#include <memory>
#include <netinet/in.h>
#include <set>
#include <sys/socket.h>

using tripmeter::Failure;

namespace {

// Ports of the UDP sockets of this process.
std::set<uint32_t> own_ports()
{
    std::set<uint32_t> ports;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
    while (const dirent* const entry = folder != nullptr ? readdir(folder.get()) : nullptr) {
        const int descriptor = std::atoi(entry->d_name);
        int type = 0;
        socklen_t type_length = sizeof type;
        sockaddr_storage found{};
        socklen_t length = sizeof found;
        if (getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &type_length) != 0 || type != SOCK_DGRAM
            || getsockname(descriptor, reinterpret_cast<sockaddr*>(&found), &length) != 0) {
            continue;
        }
        if (found.ss_family == AF_INET) {
            ports.insert(ntohs(reinterpret_cast<const sockaddr_in&>(found).sin_port));
        } else if (found.ss_family == AF_INET6) {
            ports.insert(ntohs(reinterpret_cast<const sockaddr_in6&>(found).sin6_port));
        }
    }
    return ports;
}

[[noreturn]] void refuse(const std::string& what)
{
    throw Failure(TM_UNAVAILABLE, what + " (`ss -ulpn` lists who has which)");
}

} // namespace

void check_ports(uint32_t domain, const std::string& address, bool is_between_hosts)
{
    const uint32_t first = first_port(domain);
    // RTPS: the first port of a domain is for discovery; from the tenth on, even ones are for metadata and odd ones for
    // data.
    size_t receiving = 0;
    size_t others = 0;
    bool is_discovered = is_between_hosts;
    for (const uint32_t port : own_ports()) {
        const bool is_in = port >= first && port - first < kPortsPerDomain;
        is_discovered = is_discovered || port == first;
        receiving += is_in && port != first ? 1 : 0;
        others += port != 0 && port != first ? 1 : 0;
    }
    const std::string other = ", or name another domain with setting domain";
    if (!is_discovered) {
        refuse("UDP port " + std::to_string(first) + " of " + address + ", by which domain " + std::to_string(domain)
               + " is discovered, is in use; end the program that has it" + other);
    }
    if (receiving < 2) {
        refuse("no two UDP ports of " + address + " from " + std::to_string(first + 10) + " to "
               + std::to_string(first + kPortsPerDomain - 1) + ", of domain " + std::to_string(domain)
               + ", are free; end programs that have them" + other);
    }
    // The kernel chooses the port to send from, which may lie in the domain's range.
    if (others < 3) {
        std::string from;
        std::string to;
        std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> from >> to;
        refuse("no UDP port of " + address + " to send from is free: net.ipv4.ip_local_port_range is " + from + " to " + to
               + "; widen it, or end the programs that have them");
    }
}
