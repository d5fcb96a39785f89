// The shared memory that Fast DDS makes for a run, noted for the host. Used by `fastdds` and `ros2`.

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

// Bytes that are free in shared memory; 0 if it is not there.
uint64_t free_shared_memory();

// Whether a participant finds room for its shared memory, whose pages are taken when they are first written: then it is too
// late for an error. Throws Failure (TM_LIMIT).
void check_room(uint64_t segment_bytes);

// Notes, for the host, the names of all shared memory that Fast DDS has made or opened in this process: it names its
// segments after ports and random numbers, not after the run.
class SharedMemoryNotes
{
  public:
    // Names of segments begin with `prefix`: "fastrtps_" in Fast DDS 2, "fastdds_" in 3. Ports of `own_domain`, if there
    // is one, belong to this run, whoever opens them.
    SharedMemoryNotes(const std::string& scratch_dir, const char* prefix, std::optional<uint32_t> own_domain)
        : path_(scratch_dir + "/shared-memory")
        , prefix_(prefix)
        , own_domain_(own_domain)
    {
    }

    // Notes what is new. Throws Failure.
    void note();

    // The same before leaving and after: a port whose other side seems to be dead, as after a step of the date, or is
    // stopped, is made again.
    void note_again() noexcept;

    // Takes all pages of what this process maps of Fast DDS: a page that finds no room later ends the process by SIGBUS.
    // Throws Failure (TM_LIMIT).
    void take_pages() const;

    // Notes again and again while `work` runs: a process may be killed at any time.
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
