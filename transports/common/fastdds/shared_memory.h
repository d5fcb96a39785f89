// Notes for the host about shared memory that Fast DDS makes for a run. Used by `fastdds` and `ros2`.

#ifndef TRIPMETER_FASTDDS_SHARED_MEMORY_H
#define TRIPMETER_FASTDDS_SHARED_MEMORY_H

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <thread>

// Free bytes in /dev/shm; 0 if it does not exist.
uint64_t free_shared_memory();

// Throws Failure (TM_LIMIT) if shared memory has no room for a participant. Its pages are allocated at their first
// write, which is too late for an error.
void check_room(uint64_t segment_bytes);

// Notes, for the host, the names of all shared memory that Fast DDS has made or opened in this process. They consist of
// ports and random numbers, so the host cannot tell which run they belong to.
class SharedMemoryNotes
{
  public:
    // Names of segments begin with `prefix`: "fastrtps_" in Fast DDS 2, "fastdds_" in 3. All ports of `own_domain`, if
    // given, belong to this run.
    SharedMemoryNotes(const std::string& scratch_dir, const char* prefix, std::optional<uint32_t> own_domain)
        : path_(scratch_dir + "/shared-memory")
        , prefix_(prefix)
        , own_domain_(own_domain)
    {
    }

    // Notes new names. Throws Failure.
    void note();

    // Notes new names before and after leaving: Fast DDS recreates a port whose other side is stopped or seems dead,
    // e.g. after a step of the clock.
    void note_again() noexcept;

    // Allocates all pages of Fast DDS's memory that this process maps: a lack of room later would end it by SIGBUS.
    // Throws Failure (TM_LIMIT).
    void take_pages() const;

    // Notes repeatedly while `work` runs, as a process may be killed at any time.
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
    std::set<std::string> mapped_segments() const;
    bool is_own_port(const std::string& segment) const;
    bool is_ours(const std::string& segment, const std::set<std::string>& mapped) const;

    const std::string path_;
    const std::string prefix_;
    const std::optional<uint32_t> own_domain_;
    std::set<std::string> noted_;
};

#endif // TRIPMETER_FASTDDS_SHARED_MEMORY_H
