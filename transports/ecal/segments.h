// Notes about eCAL's shared memory, which has random names, so that the host can remove it after a kill.
#ifndef TRIPMETER_ECAL_SEGMENTS_H
#define TRIPMETER_ECAL_SEGMENTS_H

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

// Topics are unique to a run, so every object of eCAL's that this process maps belongs to it: memory files, their
// mutexes and their events, made by this process or by its peer.
class Segments {
public:
    explicit Segments(std::string file)
        : file_(std::move(file))
    {
        if (nodes_++ == 0) {
            last_file_ = file_;
            last_resort_ = std::get_terminate();
            std::set_terminate(end);
        }
    }

    ~Segments()
    {
        if (--nodes_ == 0) {
            std::set_terminate(last_resort_);
        }
    }

    Segments(const Segments&) = delete;
    Segments& operator=(const Segments&) = delete;

    // Adds new mappings as lines `INODE NAME`.
    void note() { note(file_, noted_); }

private:
    static void note(const std::string& to, std::set<std::string>& noted)
    {
        static const std::string folder = "/dev/shm/";
        std::ifstream maps("/proc/self/maps");
        std::string line;
        std::string added;
        while (std::getline(maps, line)) {
            const auto at = line.find(folder + "ecal_");
            if (at == std::string::npos) {
                continue;
            }
            std::istringstream fields(line);
            std::string range, permissions, offset, device, inode;
            fields >> range >> permissions >> offset >> device >> inode;
            const std::string entry = inode + " " + line.substr(at + folder.size());
            if (noted.insert(entry).second) {
                added += entry + "\n";
            }
        }
        if (added.empty()) {
            return;
        }
        if (std::FILE* const file = std::fopen(to.c_str(), "a")) {
            std::fputs(added.c_str(), file);
            std::fclose(file);
        }
    }

    // Notes once more before the process ends: a thread of eCAL's ends it if it cannot start another thread, right
    // after it has made a memory file.
    [[noreturn]] static void end()
    {
        try {
            std::set<std::string> none;
            note(last_file_, none);
        } catch (const std::exception&) {
            // Out of memory: no note is possible.
        }
        if (last_resort_ != nullptr) {
            last_resort_();
        }
        std::abort();
    }

    static inline std::atomic<int> nodes_{0}; // in this process
    static inline std::string last_file_;     // file of the first node: the mappings are of the whole process
    static inline std::terminate_handler last_resort_ = nullptr;
    const std::string file_;
    std::set<std::string> noted_;
};

#endif // TRIPMETER_ECAL_SEGMENTS_H
