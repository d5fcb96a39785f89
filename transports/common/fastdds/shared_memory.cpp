#include "shared_memory.h"

#include "agreement.h"
#include "tripmeter_plugin.hpp"

#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

using tripmeter::Failure;

namespace {

const std::string kSharedMemory = "/dev/shm/";
// Shared memory that a participant needs beside its segment's payload: ports, locks, and the segment's own tables.
constexpr uint64_t kBesideSegment = UINT64_C(1) << 20;

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

} // namespace

uint64_t free_shared_memory()
{
    struct statvfs space {
    };
    return statvfs(kSharedMemory.c_str(), &space) == 0 ? static_cast<uint64_t>(space.f_bavail) * space.f_frsize : 0;
}

void check_room(uint64_t segment_bytes)
{
    const uint64_t free = free_shared_memory();
    const uint64_t needed = segment_bytes + kBesideSegment;
    if (free < needed) {
        throw Failure(TM_LIMIT, "/dev/shm has " + std::to_string(free) + " bytes left, and a participant needs "
                                    + std::to_string(needed) + "; make room there, or set segment_size to less than "
                                    + std::to_string(segment_bytes));
    }
}

void SharedMemoryNotes::take_pages() const
{
    for (const auto& name : mapped_segments()) {
        const Descriptor segment(open((kSharedMemory + name).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
        struct stat file {
        };
        // Skips files that were removed meanwhile.
        if (segment.get() < 0 || fstat(segment.get(), &file) != 0) {
            continue;
        }
        int result = 0;
        do {
            result = fallocate(segment.get(), 0, 0, file.st_size);
        } while (result != 0 && errno == EINTR);
        if (result != 0 && errno == ENOSPC) {
            throw Failure(TM_LIMIT, "'" + kSharedMemory + name + "' needs " + std::to_string(file.st_size)
                                        + " bytes, and /dev/shm has no room for them; make room there, or ask for less by "
                                          "setting segment_size");
        }
    }
}

std::set<std::string> SharedMemoryNotes::mapped_segments() const
{
    std::set<std::string> segments;
    std::ifstream maps("/proc/self/maps");
    std::string line;
    while (std::getline(maps, line)) {
        const auto path = line.find(kSharedMemory + prefix_);
        if (path != std::string::npos) {
            // " (deleted)" follows the name of a segment that is removed while it is mapped.
            const auto name = path + kSharedMemory.size();
            segments.insert(line.substr(name, line.find(' ', name) - name));
        }
    }
    return segments;
}

bool SharedMemoryNotes::is_own_port(const std::string& segment) const
{
    unsigned port = 0;
    return own_domain_ && std::sscanf(segment.c_str(), (prefix_ + "port%u").c_str(), &port) == 1 && is_of(port, *own_domain_);
}

bool SharedMemoryNotes::is_ours(const std::string& segment, const std::set<std::string>& mapped) const
{
    return is_own_port(segment) || mapped.count(segment.substr(0, segment.find('_', prefix_.size()))) != 0;
}

void SharedMemoryNotes::note_again() noexcept
{
    try {
        note();
    } catch (...) {
        // Leaving goes on; shared memory that is not noted stays behind.
    }
}

void SharedMemoryNotes::note()
{
    std::string lines;
    const auto mapped = mapped_segments();
    for_each_name([&](const std::string& name) {
        // Beside a segment X there are its lock files X_el and X_sl, and sem.X_mutex, which is created first.
        const std::string prefix = "sem.";
        const std::string segment = name.compare(0, prefix.size(), prefix) == 0 ? name.substr(prefix.size()) : name;
        const auto add = [&](const std::string& what) {
            const auto entry = what + ' ' + name + '\n';
            lines += noted_.insert(entry).second ? entry : "";
        };
        struct stat file {
        };
        if (is_ours(segment, mapped) && stat((kSharedMemory + name).c_str(), &file) == 0) {
            add(std::to_string(file.st_ino));
            // A port whose other side seems dead may be created anew at any time. "own" tells the host that only this
            // run uses the name, even if another process created the file that is there at the end.
            if (is_own_port(segment)) {
                add("own");
            }
        }
    });
    if (lines.empty()) {
        return;
    }
    // One short write to a file opened for appending, so that lines of several processes do not mix.
    const Descriptor list(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (list.get() < 0 || write(list.get(), lines.data(), lines.size()) != static_cast<ssize_t>(lines.size())) {
        failed("the names of shared memory cannot be noted in '" + path_ + "'");
    }
}
