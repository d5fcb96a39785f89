// Between hosts: restricts eCAL to one interface, and to a multicast group for the run. By default eCAL sends multicast
// where the routing table says, and receives on all addresses; here its sockets are bound to the interface.

#ifndef TRIPMETER_ECAL_INTERFACE_H
#define TRIPMETER_ECAL_INTERFACE_H

#include "tripmeter_plugin.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fstream>
#include <functional>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>

class Interface {
public:
    // Throws Failure if there is no such address.
    explicit Interface(const tm_node_options& options)
        : address(tripmeter::address(options))
    {
        ifaddrs* all = nullptr;
        getifaddrs(&all);
        for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
            char text[INET_ADDRSTRLEN] = "";
            if (one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET) {
                const auto* const found = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
                inet_ntop(AF_INET, &found->sin_addr, text, sizeof text);
            }
            name = address == text ? one->ifa_name : name;
        }
        freeifaddrs(all);
        if (name.empty()) {
            throw tripmeter::Failure(TM_FAILED, "no interface has the address " + address);
        }
        // Organization-local groups; the hash gives both ends the same one.
        const size_t hash = std::hash<std::string>()(tripmeter::text(options.run_id));
        group = "239." + std::to_string(192 + hash % 4) + "." + std::to_string(hash / 4 % 256) + "."
                + std::to_string(1 + hash / 1024 % 254);
    }

    // Writes eCAL's configuration.
    void write(const std::string& file) const
    {
        std::ofstream(file) << "communication_mode: network\n"
                               "transport_layer:\n"
                               "  udp:\n"
                               "    config_version: v2\n"
                               "    mask: 255.255.255.255\n" // one group for all topics
                               "    network:\n"
                               "      group: " << group << "\n"
                               "      ttl: 4\n";
    }

    // Binds all UDP sockets of this process to the interface, and lets those that listen join the group there. May be
    // repeated. Throws Failure.
    void take_sockets() const
    {
        DIR* const folder = opendir("/proc/self/fd");
        while (const dirent* const entry = folder != nullptr ? readdir(folder) : nullptr) {
            const int fd = std::atoi(entry->d_name);
            int kind = 0;
            int family = 0;
            socklen_t length = sizeof kind;
            if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &length) == 0 && kind == SOCK_DGRAM
                && getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) == 0 && family == AF_INET && !take(fd)) {
                const std::string why = std::strerror(errno);
                closedir(folder);
                throw tripmeter::Failure(TM_FAILED, "a socket cannot be bound to '" + name + "': " + why);
            }
        }
        if (folder != nullptr) {
            closedir(folder);
        }
    }

private:
    bool take(int fd) const
    {
        ip_mreqn membership{};
        membership.imr_ifindex = static_cast<int>(if_nametoindex(name.c_str()));
        const unsigned char off = 0;
        sockaddr_in bound{};
        socklen_t length = sizeof bound;
        if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name.c_str(), static_cast<socklen_t>(name.size() + 1)) != 0
            || setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &membership, sizeof membership) != 0
            || setsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &off, sizeof off) != 0
            || getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
            return false;
        }
        inet_pton(AF_INET, group.c_str(), &membership.imr_multiaddr);
        return bound.sin_port == 0 || setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof membership) == 0
               || errno == EADDRINUSE;
    }

    const std::string address;
    std::string name;
    std::string group;
};

#endif // TRIPMETER_ECAL_INTERFACE_H
