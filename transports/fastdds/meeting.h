// What the processes of one run agree on: domain, port, credentials. It stands in a folder of the run's scratch folder.

#ifndef TRIPMETER_FASTDDS_MEETING_H
#define TRIPMETER_FASTDDS_MEETING_H

#include "settings.h"

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <thread>

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

class Meeting
{
  public:
    // Whoever comes first decides on the domain, and makes the credentials, if any are needed; an intruder never does.
    // Throws Failure.
    Meeting(const tm_node_options& options, const Settings& settings);

    uint32_t domain() const
    {
        return domain_;
    }

    // Folder of the credentials of the true pair, or, of an intruder with foreign ones, of a folder of its own.
    const std::string& credentials() const
    {
        return credentials_;
    }

    // The domain is now taken visibly, because our sockets are open: the claim on it can go.
    void settled()
    {
        claim_ = Descriptor();
    }

    // Tells the port that the leader listens at.
    void tell_port(uint16_t port) const;

    // The port that the leader listens at; waits for it. Throws Failure after the time.
    uint16_t hear_port(std::chrono::milliseconds time) const;

  private:
    void agree(const tm_node_options& options, const Settings& settings);
    void choose_domain(const std::string& run_id);

    std::string folder_;
    std::string credentials_;
    uint32_t domain_{};
    Descriptor claim_;
};

// A TCP port of the loopback that is free now. Throws Failure.
uint16_t free_tcp_port();

// Whether a socket of this process listens at a TCP port.
bool listens_at(uint16_t port);

// Notes, for the host, the names of all shared memory that Fast DDS has made or opened in this process: it names its
// segments after ports and random numbers, not after the run.
class SharedMemoryNotes
{
  public:
    // Ports of `own_domain`, if there is one, belong to this run, whoever opens them.
    SharedMemoryNotes(const std::string& scratch_dir, std::optional<uint32_t> own_domain)
        : path_(scratch_dir + "/shared-memory")
        , own_domain_(own_domain)
    {
    }

    // Notes what is new. Throws Failure.
    void note();

    // The same again and again while `work` runs: a process may be killed at any time.
    template <typename Work>
    void note_during(Work&& work)
    {
        std::atomic<bool> is_done{false};
        auto taker = std::async(std::launch::async, [&] {
            while (!is_done) {
                note();
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        });
        try {
            work();
        } catch (...) {
            is_done = true;
            taker.wait();
            throw;
        }
        is_done = true;
        taker.get();
        note();
    }

  private:
    bool is_ours(const std::string& name, const std::set<std::string>& mapped) const;

    const std::string path_;
    const std::optional<uint32_t> own_domain_;
    std::set<std::string> noted_;
};

#endif // TRIPMETER_FASTDDS_MEETING_H
