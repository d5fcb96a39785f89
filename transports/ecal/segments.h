// The shared memory that eCAL makes for us, which has random names: noted, so that the host can remove it after a kill.
#ifndef TRIPMETER_ECAL_SEGMENTS_H
#define TRIPMETER_ECAL_SEGMENTS_H

#include <cstdio>
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
    }

    // Adds what is mapped and not noted yet, as lines `INODE NAME`.
    void note()
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
            if (noted_.insert(entry).second) {
                added += entry + "\n";
            }
        }
        if (added.empty()) {
            return;
        }
        if (std::FILE* const file = std::fopen(file_.c_str(), "a")) {
            std::fputs(added.c_str(), file);
            std::fclose(file);
        }
    }

private:
    const std::string file_;
    std::set<std::string> noted_;
};

#endif // TRIPMETER_ECAL_SEGMENTS_H
