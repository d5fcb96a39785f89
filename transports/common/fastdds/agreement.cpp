#include "agreement.h"

#include "tripmeter_plugin.hpp"

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <set>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>

using tripmeter::Failure;

namespace {

// Ports of domains above are among those that Linux gives to clients (32768 and up).
constexpr uint32_t kMostOwnDomains = 101;

// Domains that sockets or segments of this host belong to.
std::set<uint32_t> domains_in_use()
{
    std::set<uint32_t> used;
    const auto add = [&used](unsigned long port) {
        if (port >= kPortBase) {
            used.insert(static_cast<uint32_t>(port - kPortBase) / kPortsPerDomain);
        }
    };
    for (const char* const table : {"/proc/net/udp", "/proc/net/udp6"}) {
        std::ifstream file(table);
        std::string line;
        while (std::getline(file, line)) {
            unsigned port = 0;
            if (std::sscanf(line.c_str(), " %*d: %*[0-9A-Fa-f]:%x", &port) == 1) {
                add(port);
            }
        }
    }
    DIR* const folder = opendir("/dev/shm");
    while (const dirent* const entry = folder != nullptr ? readdir(folder) : nullptr) {
        unsigned port = 0;
        if (std::sscanf(entry->d_name, "fastrtps_port%u", &port) == 1
            || std::sscanf(entry->d_name, "fastdds_port%u", &port) == 1) {
            add(port);
        }
    }
    if (folder != nullptr) {
        closedir(folder);
    }
    return used;
}

// Claims a domain among runs that choose at the same time; an abstract socket leaves nothing behind.
Descriptor claim(uint32_t domain)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string name = "tripmeter-fastdds-domain-" + std::to_string(domain);
    name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const bool is_ours = bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0;
    return is_ours ? std::move(socket) : Descriptor();
}

} // namespace

Descriptor::~Descriptor()
{
    if (descriptor_ >= 0) {
        close(descriptor_);
    }
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1))
{
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept
{
    std::swap(descriptor_, other.descriptor_);
    return *this;
}

void failed(const std::string& what)
{
    throw Failure(TM_FAILED, what + ": " + std::strerror(errno));
}

void make_folder(const std::string& path)
{
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
        failed("folder '" + path + "' cannot be created");
    }
}

void write_whole(const std::string& path, const std::string& content)
{
    const std::string draft = path + "." + std::to_string(getpid());
    std::ofstream(draft) << content;
    if (rename(draft.c_str(), path.c_str()) != 0) {
        failed("file '" + path + "' cannot be written");
    }
}

std::string read_word(const std::string& path)
{
    std::string word;
    std::ifstream(path) >> word;
    return word;
}

long read_number(const std::string& path)
{
    long number = -1;
    std::ifstream(path) >> number;
    return number;
}

Descriptor lock_file(const std::string& path)
{
    Descriptor lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (lock.get() < 0 || flock(lock.get(), LOCK_EX) != 0) {
        failed("file '" + path + "' cannot be locked");
    }
    return lock;
}

Descriptor lock_in_turn(const std::string& path)
{
    constexpr auto kPatience = std::chrono::seconds(5);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    Descriptor lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    while (lock.get() >= 0 && flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return lock;
}

Descriptor lock_shared(const std::string& path)
{
    Descriptor lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (lock.get() < 0 || flock(lock.get(), LOCK_SH) != 0) {
        failed("file '" + path + "' cannot be locked");
    }
    return lock;
}

ClaimedDomain claim_domain(const std::string& run_id)
{
    const auto used = domains_in_use();
    const auto first = static_cast<uint32_t>(std::hash<std::string>()(run_id) % kMostOwnDomains);
    for (uint32_t i = 0; i < kMostOwnDomains; ++i) {
        const uint32_t domain = 1 + (first + i) % kMostOwnDomains;
        if (used.count(domain) == 0) {
            auto ours = claim(domain);
            if (ours.get() >= 0) {
                return {domain, std::move(ours)};
            }
        }
    }
    throw Failure(TM_UNAVAILABLE, "all " + std::to_string(kMostOwnDomains)
                                      + " domains are in use (UDP ports from 7650, /dev/shm/fast*_port*); name one "
                                        "with setting domain");
}
