// Files through which the processes of a run agree, and the choice of a free DDS domain. Used by `fastdds` and `ros2`.

#ifndef TRIPMETER_FASTDDS_AGREEMENT_H
#define TRIPMETER_FASTDDS_AGREEMENT_H

#include <cstdint>
#include <string>

// A file descriptor that closes itself.
class Descriptor
{
  public:
    explicit Descriptor(int descriptor = -1)
        : descriptor_(descriptor)
    {
    }
    ~Descriptor();
    Descriptor(Descriptor&& other) noexcept;
    Descriptor& operator=(Descriptor&& other) noexcept;

    int get() const
    {
        return descriptor_;
    }

  private:
    int descriptor_;
};

// Throws Failure (TM_FAILED) with `what` and the text of errno.
[[noreturn]] void failed(const std::string& what);

// Creates a folder if it does not exist. Throws Failure.
void make_folder(const std::string& path);

// Writes a file atomically. Throws Failure.
void write_whole(const std::string& path, const std::string& content);

// First word in a file; empty if there is none.
std::string read_word(const std::string& path);

// Number in a file, or -1.
long read_number(const std::string& path);

// Locks a file exclusively. Throws Failure.
Descriptor lock_file(const std::string& path);

// Locks a file exclusively, but gives up soon and goes on without the lock: its owner may hang.
Descriptor lock_in_turn(const std::string& path);

// Locks a file shared: excludes only exclusive locks. Throws Failure.
Descriptor lock_shared(const std::string& path);

// A domain whose ports and names in shared memory nobody uses on this host, and the claim on it against runs that
// choose at the same time.
struct ClaimedDomain {
    uint32_t domain;
    Descriptor claim;
};

// Finds and claims a free domain. Throws Failure (TM_UNAVAILABLE) if there is none.
ClaimedDomain claim_domain(const std::string& run_id);

// Throws Failure (TM_UNAVAILABLE) if a file in shared memory that the domain uses is neither this user's nor root's.
// Fast DDS maps any file of that name; if it is not a port, the process ends or hangs.
void check_names(uint32_t domain);

// RTPS: the ports of domain d begin at 7400 + 250 d.
constexpr uint32_t kPortBase = 7400;
constexpr uint32_t kPortsPerDomain = 250;

constexpr uint32_t first_port(uint32_t domain)
{
    return kPortBase + kPortsPerDomain * domain;
}

// Ports that are kept free for readers with their own network flow, of which rmw has one per context: each takes the
// first free port from 400 below the port base of its participant.
constexpr uint32_t kFlowPorts = 100;

constexpr uint32_t first_flow_port(uint32_t domain)
{
    return first_port(domain) - 400;
}

// True if the domain uses the port.
bool is_of(uint32_t port, uint32_t domain);

// Largest domain whose ports are all below 65536.
constexpr uint32_t kLargestDomain = 232;

#endif // TRIPMETER_FASTDDS_AGREEMENT_H
