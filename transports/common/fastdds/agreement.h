// What the processes of one run agree on through files, and a DDS domain of their own. Used by `fastdds` and `ros2`.

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

// Throws Failure (TM_FAILED) with `what` and what errno says.
[[noreturn]] void failed(const std::string& what);

// Throws Failure, unless it is there already.
void make_folder(const std::string& path);

// Writes a file that appears whole or not at all. Throws Failure.
void write_whole(const std::string& path, const std::string& content);

// The word in a file; empty if there is none.
std::string read_word(const std::string& path);

// The number in a file, or -1.
long read_number(const std::string& path);

// Keeps all others out who lock this file. Throws Failure.
Descriptor lock_file(const std::string& path);

// Keeps others out who do the same, but does not wait long for them: one of them may hang.
Descriptor lock_in_turn(const std::string& path);

// Keeps those out, but not others who do this. Throws Failure.
Descriptor lock_shared(const std::string& path);

// A domain whose ports, sockets and names in shared memory are in use by nobody on this host, and the claim on it among
// runs that choose at the same time.
struct ClaimedDomain {
    uint32_t domain;
    Descriptor claim;
};

// Throws Failure (TM_UNAVAILABLE) if none is free.
ClaimedDomain claim_domain(const std::string& run_id);

// Throws Failure (TM_UNAVAILABLE) if a name in shared memory that the domain uses is neither this user's nor root's: Fast DDS
// maps whatever is there, and ends or waits for good at what is no port.
void check_names(uint32_t domain);

// RTPS: the ports of domain d begin at 7400 + 250 d.
constexpr uint32_t kPortBase = 7400;
constexpr uint32_t kPortsPerDomain = 250;

constexpr uint32_t first_port(uint32_t domain)
{
    return kPortBase + kPortsPerDomain * domain;
}

// A reader with network flows of its own, which rmw has one of for each context, takes the first free port from 400 below
// the port base of its participant. So many are kept free.
constexpr uint32_t kFlowPorts = 100;

constexpr uint32_t first_flow_port(uint32_t domain)
{
    return first_port(domain) - 400;
}

// Whether the port is one that the domain uses.
bool is_of(uint32_t port, uint32_t domain);

// The largest domain for which all ports are below 65536.
constexpr uint32_t kLargestDomain = 232;

#endif // TRIPMETER_FASTDDS_AGREEMENT_H
