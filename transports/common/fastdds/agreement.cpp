#include "agreement.h"

#include "tripmeter_plugin.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
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

// Largest domain whose ports lie below those that Linux gives to clients (32768 and up).
constexpr uint32_t kMostOwnDomains = 101;

constexpr const char* kSharedMemory = "/dev/shm";

// Port that a file in shared memory belongs to: segment X, its lock files X_el and X_sl, or sem.X_mutex.
std::optional<uint32_t> port_of(const char* name)
{
    unsigned port = 0;
    for (const char* const form : {"fastrtps_port%u", "fastdds_port%u", "sem.fastrtps_port%u", "sem.fastdds_port%u"}) {
        if (std::sscanf(name, form, &port) == 1) {
            return port;
        }
    }
    return std::nullopt;
}

// Calls `use` with each name in shared memory that belongs to a port, and with that port.
template <typename Use>
void for_each_port(Use&& use)
{
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(kSharedMemory), closedir);
    while (const dirent* const entry = folder != nullptr ? readdir(folder.get()) : nullptr) {
        if (const auto port = port_of(entry->d_name)) {
            use(std::string(entry->d_name), *port);
        }
    }
}

// Ports of sockets and segments of this host.
std::set<uint32_t> ports_in_use()
{
    std::set<uint32_t> used;
    for (const char* const table : {"/proc/net/udp", "/proc/net/udp6"}) {
        std::ifstream file(table);
        std::string line;
        while (std::getline(file, line)) {
            unsigned port = 0;
            if (std::sscanf(line.c_str(), " %*d: %*[0-9A-Fa-f]:%x", &port) == 1) {
                used.insert(port);
            }
        }
    }
    for_each_port([&used](const std::string&, uint32_t port) { used.insert(port); });
    return used;
}

// The abstract socket by which a domain is claimed.
std::string claim_name(uint32_t domain)
{
    return "tripmeter-fastdds-domain-" + std::to_string(domain);
}

// Claims a domain against runs that choose at the same time; an abstract socket leaves nothing behind.
Descriptor claim(uint32_t domain)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string name = claim_name(domain);
    name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket.get() < 0) {
        failed("the socket that claims a domain cannot be created");
    }
    const bool is_ours = bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0;
    if (!is_ours && errno != EADDRINUSE) {
        failed("a domain cannot be claimed by the abstract socket '@" + name + "'");
    }
    return is_ours ? std::move(socket) : Descriptor();
}

} // namespace

bool is_of(uint32_t port, uint32_t domain)
{
    const auto is_in = [port](uint32_t first, uint32_t count) { return port >= first && port - first < count; };
    return is_in(first_port(domain), kPortsPerDomain) || is_in(first_flow_port(domain), kFlowPorts);
}

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
    const auto used = ports_in_use();
    const auto first = static_cast<uint32_t>(std::hash<std::string>()(run_id) % kMostOwnDomains);
    // Number of domains that only such a socket claims, and the name of one.
    uint32_t claimed = 0;
    std::string name;
    for (uint32_t i = 0; i < kMostOwnDomains; ++i) {
        const uint32_t domain = 1 + (first + i) % kMostOwnDomains;
        if (std::none_of(used.begin(), used.end(), [domain](uint32_t port) { return is_of(port, domain); })) {
            auto ours = claim(domain);
            if (ours.get() >= 0) {
                return {domain, std::move(ours)};
            }
            ++claimed;
            name = claim_name(domain);
        }
    }
    // /proc/net/unix shows who bound it.
    const std::string sockets
        = claimed == 0 ? "" : "; " + std::to_string(claimed) + " by abstract sockets such as '@" + name + "'";
    throw Failure(TM_UNAVAILABLE, "all " + std::to_string(kMostOwnDomains)
                                      + " domains are in use (UDP ports from 7650, /dev/shm/fast*_port*" + sockets
                                      + "); name one with setting domain");
}

void check_names(uint32_t domain)
{
    for_each_port([domain](const std::string& name, uint32_t port) {
        const std::string path = std::string(kSharedMemory) + '/' + name;
        struct stat found {
        };
        // A file that is gone by now does no harm.
        if (is_of(port, domain) && lstat(path.c_str(), &found) == 0 && found.st_uid != geteuid() && found.st_uid != 0) {
            throw Failure(TM_UNAVAILABLE, "'" + path + "', which Fast DDS uses in domain " + std::to_string(domain)
                                              + ", is of user " + std::to_string(found.st_uid)
                                              + ", and is used only if it is this user's or root's; name another domain with "
                                                "setting domain, or have it removed");
        }
    });
}
