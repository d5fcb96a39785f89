#include "meeting.h"

#include "failure.h"
#include "security.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <utility>
#include <unistd.h>

namespace {

// RTPS: the ports of domain d begin at 7400 + 250 d.
constexpr uint32_t kPortBase = 7400;
constexpr uint32_t kPortsPerDomain = 250;
// Ports of domains above are among those that Linux gives to clients (32768 and up).
constexpr uint32_t kMostOwnDomains = 101;

const std::string kSharedMemory = "/dev/shm/";
const std::string kSegmentPrefix = "fastrtps_";

[[noreturn]] void failed(const std::string& what)
{
    throw Failure(TM_FAILED, what + ": " + std::strerror(errno));
}

void make_folder(const std::string& path)
{
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
        failed("folder '" + path + "' cannot be created");
    }
}

// A file that appears whole or not at all.
void write_whole(const std::string& path, const std::string& content)
{
    const std::string draft = path + "." + std::to_string(getpid());
    std::ofstream(draft) << content;
    if (rename(draft.c_str(), path.c_str()) != 0) {
        failed("file '" + path + "' cannot be written");
    }
}

// The number in a file, or -1.
long read_number(const std::string& path)
{
    long number = -1;
    std::ifstream(path) >> number;
    return number;
}

// Calls `use` with every name in shared memory.
template <typename Use>
void for_each_name(Use&& use)
{
    DIR* const folder = opendir(kSharedMemory.c_str());
    if (folder == nullptr) {
        return;
    }
    while (const dirent* const entry = readdir(folder)) {
        use(std::string(entry->d_name));
    }
    closedir(folder);
}

// Segments of Fast DDS that this process has mapped.
std::set<std::string> mapped_segments()
{
    std::set<std::string> segments;
    std::ifstream maps("/proc/self/maps");
    std::string line;
    while (std::getline(maps, line)) {
        const auto path = line.find(kSharedMemory + kSegmentPrefix);
        if (path != std::string::npos) {
            // A segment that is removed while it is mapped has a word behind its name.
            const auto name = path + kSharedMemory.size();
            segments.insert(line.substr(name, line.find(' ', name) - name));
        }
    }
    return segments;
}

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
    for_each_name([&](const std::string& name) {
        unsigned port = 0;
        if (std::sscanf(name.c_str(), "fastrtps_port%u", &port) == 1) {
            add(port);
        }
    });
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

Meeting::Meeting(const tm_node_options& options, const Settings& settings)
    : folder_(text(options.scratch_dir) + "/fastdds")
    , credentials_(folder_)
{
    if (options.intruder == 0) {
        make_folder(folder_);
        agree(options, settings);
        return;
    }
    const long domain = read_number(folder_ + "/domain");
    if (domain < 0) {
        throw Failure(TM_INVALID, "an intruder comes to a pair that has not agreed on a domain");
    }
    domain_ = static_cast<uint32_t>(domain);
    if (options.intruder == TM_INTRUDER_FOREIGN) {
        credentials_ = folder_ + "/foreign-" + std::to_string(getpid());
        make_folder(credentials_);
        make_credentials(credentials_, domain_, text(options.run_id));
    }
}

void Meeting::agree(const tm_node_options& options, const Settings& settings)
{
    const Descriptor lock(open((folder_ + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (lock.get() < 0 || flock(lock.get(), LOCK_EX) != 0) {
        failed("file '" + folder_ + "/lock' cannot be locked");
    }
    const std::string file = folder_ + "/domain";
    const long agreed = read_number(file);
    if (agreed >= 0) {
        domain_ = static_cast<uint32_t>(agreed);
        return;
    }
    if (settings.domain) {
        domain_ = *settings.domain;
    } else {
        choose_domain(text(options.run_id));
    }
    if (settings.is_secured) {
        make_credentials(folder_, domain_, text(options.run_id));
    }
    write_whole(file, std::to_string(domain_));
}

void Meeting::choose_domain(const std::string& run_id)
{
    const auto used = domains_in_use();
    const auto first = static_cast<uint32_t>(std::hash<std::string>()(run_id) % kMostOwnDomains);
    for (uint32_t i = 0; i < kMostOwnDomains; ++i) {
        domain_ = 1 + (first + i) % kMostOwnDomains;
        if (used.count(domain_) == 0) {
            claim_ = claim(domain_);
            if (claim_.get() >= 0) {
                return;
            }
        }
    }
    throw Failure(TM_UNAVAILABLE, "all " + std::to_string(kMostOwnDomains)
                                      + " domains are in use (UDP ports from 7650, /dev/shm/fastrtps_port*); name one "
                                        "with setting domain");
}

void Meeting::tell_port(uint16_t port) const
{
    write_whole(folder_ + "/port", std::to_string(port));
}

uint16_t Meeting::hear_port(std::chrono::milliseconds time) const
{
    const auto deadline = std::chrono::steady_clock::now() + time;
    long port = read_number(folder_ + "/port");
    while (port < 0) {
        if (std::chrono::steady_clock::now() >= deadline) {
            throw Failure(TM_FAILED, "the leader does not listen after " + std::to_string(time.count()) + " ms");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        port = read_number(folder_ + "/port");
    }
    return static_cast<uint16_t>(port);
}

uint16_t free_tcp_port()
{
    sockaddr_in address{};
    socklen_t length = sizeof address;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (socket.get() < 0 || bind(socket.get(), any, length) != 0 || getsockname(socket.get(), any, &length) != 0) {
        failed("no TCP port is free");
    }
    return ntohs(address.sin_port);
}

bool listens_at(uint16_t port)
{
    constexpr int kMostDescriptors = 1024;
    for (int descriptor = 0; descriptor < kMostDescriptors; ++descriptor) {
        sockaddr_in address{};
        socklen_t length = sizeof address;
        int is_listening = 0;
        socklen_t flag_length = sizeof is_listening;
        if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &flag_length) == 0 && is_listening != 0
            && getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) == 0
            && address.sin_family == AF_INET && ntohs(address.sin_port) == port) {
            return true;
        }
    }
    return false;
}

bool SharedMemoryNotes::is_ours(const std::string& name, const std::set<std::string>& mapped) const
{
    // Beside a segment X there are X_el and X_sl, which are locked, and sem.X_mutex, which comes before it.
    const std::string prefix = "sem.";
    const std::string segment = name.compare(0, prefix.size(), prefix) == 0 ? name.substr(prefix.size()) : name;
    unsigned port = 0;
    if (own_domain_ && std::sscanf(segment.c_str(), "fastrtps_port%u", &port) == 1 && port >= kPortBase) {
        return (port - kPortBase) / kPortsPerDomain == *own_domain_;
    }
    const auto end = segment.find('_', kSegmentPrefix.size());
    return mapped.count(segment.substr(0, end)) != 0;
}

void SharedMemoryNotes::note()
{
    std::string lines;
    const auto mapped = mapped_segments();
    for_each_name([&](const std::string& name) {
        struct stat file {
        };
        if (is_ours(name, mapped) && stat((kSharedMemory + name).c_str(), &file) == 0) {
            const auto entry = std::to_string(file.st_ino) + ' ' + name + '\n';
            lines += noted_.insert(entry).second ? entry : "";
        }
    });
    if (lines.empty()) {
        return;
    }
    // One short write to a file opened for appending: the processes of a run do not mix their lines.
    const Descriptor list(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (list.get() < 0 || write(list.get(), lines.data(), lines.size()) != static_cast<ssize_t>(lines.size())) {
        failed("the names of shared memory cannot be noted in '" + path_ + "'");
    }
}
