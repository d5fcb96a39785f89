#!/usr/bin/env bash
# Fast DDS 2.9.1 (Debian 12) creates a participant without an error where every unicast port of its domain is taken.
#
# Guess: create_participant gives a null pointer, or an error is logged, as nobody can reach the participant.
# Seen: it gives a participant, prints nothing, and the participant has one UDP socket in the ports of its domain, that of
# multicast discovery (7400): it hears others, and nobody can answer it.
# Users meet this as a discovery that never ends, on hosts where a domain's ports lie among those that the kernel hands out.
# Source: the RTPS ports are 7400 + 250 * domain, and from + 10 on unicast (DDSI-RTPS 2.2, 9.6.1.1); eProsima/Fast-DDS#6528 tells
# of the silent move to another port.
#
# Needs Debian 12, g++, python3 and unshare (util-linux). Installs into a temporary folder only.
set -euo pipefail

version='2.9.1+ds-1+deb12u2'
packages=(libfastrtps-dev="$version" libfastrtps2.9="$version" libfastcdr-dev=1.0.26-1 libfastcdr1=1.0.26-1
    libfoonathan-memory-dev=0.7.2-3 libfoonathan-memory0.7.2=0.7.2-3 libtinyxml2-9=9.0.0+dfsg-3.1)
place=$(mktemp -d)
trap 'rm -rf -- "$place"' EXIT
cd "$place"
apt-get download "${packages[@]}" >apt.log 2>&1 || { cat apt.log >&2; exit 69; }
for package in *.deb; do dpkg -x "$package" root; done

cat >participant.cpp <<'END'
#include <cstdio>
#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/rtps/transport/UDPv4TransportDescriptor.h>
#include <memory>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace fast = eprosima::fastdds;

int main()
{
    fast::dds::DomainParticipantQos qos;
    qos.transport().use_builtin_transports = false;
    qos.transport().user_transports.push_back(std::make_shared<fast::rtps::UDPv4TransportDescriptor>());
    auto* const made = fast::dds::DomainParticipantFactory::get_instance()->create_participant(0, qos);
    std::printf("participant: %s\n", made != nullptr ? "created" : "refused");
    for (int descriptor = 3; descriptor < 64; descriptor++) {
        sockaddr_in name{};
        socklen_t length = sizeof name;
        if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &length) == 0 && name.sin_family == AF_INET) {
            const int port = ntohs(name.sin_port);
            if (port >= 7400 && port < 7650) {
                std::printf("listens at %d\n", port);
            }
        }
    }
    std::fflush(stdout);
    _exit(0);
}
END
lib=$(dirname "$(find "$place/root" -name 'libfastrtps.so.2.9*' | head -n 1)")
g++ -std=c++17 -I root/usr/include participant.cpp -o participant -L "$lib" -lfastrtps -lfastcdr -Wl,-rpath-link,"$lib"

# In a network of its own, with its own ports.
cat >taken.py <<'END'
import socket, subprocess, sys
ports = range(7410, 7650) if sys.argv[1] == "taken" else ()
taken = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in ports]
for one, port in zip(taken, ports):
    one.bind(("0.0.0.0", port))
sys.exit(subprocess.run(["./participant"]).returncode)
END
run() { LD_LIBRARY_PATH=$lib unshare --user --map-root-user --net sh -c "ip link set lo up && python3 taken.py $1" 2>&1 | sort -u; }
free=$(run free)
taken=$(run taken)
printf 'Fast DDS %s\nports free:\n%s\nports taken:\n%s\n' "$version" "$free" "$taken"
if [[ $free != $'listens at 7400\nlistens at 7410\nlistens at 7411\nparticipant: created' ]]; then
    echo 'CHANGED: with free ports' >&2
    exit 1
fi
if [[ $taken != $'listens at 7400\nparticipant: created' ]]; then
    echo 'CHANGED: with taken ports' >&2
    exit 1
fi
