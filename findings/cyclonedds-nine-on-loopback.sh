#!/usr/bin/env bash
# Cyclone DDS 0.10.2 (Debian 12) allows nine participants, not ten, in a domain on a loopback without multicast.
#
# Guess: ten processes get a participant, as MaxAutoParticipantIndex is 9 and the index starts at 0.
# Seen: nine get one. The tenth gets DDS_RETCODE_ERROR and logs "Failed to find a free participant index". With
# MaxAutoParticipantIndex 3 three get one, with 10 ten: the highest index is never given out.
# Users meet this in containers without a network and with ROS 2 nodes on localhost only. The remedies are a higher
# MaxAutoParticipantIndex and multicast on the loopback.
# Source: the loop of rtps_init (src/core/ddsi/src/q_init.c) counts the index up once more after it found a free one, and then
# compares it with the limit. eclipse-cyclonedds/cyclonedds#1475 names the range as 0 to 9.
#
# Needs Debian 12, gcc, python3 and unshare (util-linux). Installs into a temporary folder only.
set -euo pipefail

version=0.10.2-2
iceoryx=2.0.3+dfsg-1
packages=(cyclonedds-dev="$version" libddsc0debian="$version" libiceoryx-binding-c2="$iceoryx" libiceoryx-posh2="$iceoryx"
    libiceoryx-hoofs2="$iceoryx" libiceoryx-platform2="$iceoryx")
place=$(mktemp -d)
trap 'rm -rf -- "$place"' EXIT
cd "$place"
apt-get download "${packages[@]}" >apt.log 2>&1 || { cat apt.log >&2; exit 69; }
for package in *.deb; do dpkg -x "$package" root; done

cat >participant.c <<'END'
#include <dds/dds.h>
#include <stdio.h>

int main(void)
{
    const dds_entity_t made = dds_create_participant(0, NULL, NULL);
    puts(made > 0 ? "participant" : dds_strretcode(made));
    fflush(stdout);
    getchar();
    return 0;
}
END
lib=$(dirname "$(find "$place/root" -name libddsc.so.0.10.2)")
gcc -I root/usr/include participant.c -o participant -L "$lib" -lddsc -Wl,-rpath-link,"$lib"

# Starts twelve, one after the other; each keeps what it got until all have an answer.
cat >twelve.py <<'END'
import subprocess

with open("log", "w") as log:
    started, answers = [], []
    for _ in range(12):
        one = subprocess.Popen(["./participant"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        started.append(one)
        answers.append(one.stdout.readline().strip())
    for one in started:
        one.communicate("\n", timeout=60)
print("with participant:", answers.count("participant"))
print("without, each after the last with one:", ", ".join(sorted(set(answers[answers.count("participant") :]))))
logged = [line for line in open("log") if line.endswith("Failed to find a free participant index for domain 0\n")]
print('"Failed to find a free participant index":', len(logged))
END
export LD_LIBRARY_PATH=$lib
# In a network of its own, with a loopback only.
run() {
    env -u CYCLONEDDS_URI "$@" timeout 300 unshare --user --map-root-user --net sh -c "ip link set lo up && python3 twelve.py"
}
limit() {
    local index="<MaxAutoParticipantIndex>$1</MaxAutoParticipantIndex>"
    run CYCLONEDDS_URI="<CycloneDDS><Domain><Discovery>$index</Discovery></Domain></CycloneDDS>"
}
default=$(run)
three=$(limit 3)
ten=$(limit 10)
printf 'Cyclone DDS %s, twelve processes\n' "$version"
printf '%s:\n%s\n' 'default configuration' "$default" 'MaxAutoParticipantIndex 3' "$three" 'MaxAutoParticipantIndex 10' "$ten"
expect() {
    printf 'with participant: %d\nwithout, each after the last with one: Error\n"Failed to find a free participant index": %d' \
        "$1" "$((12 - $1))"
}
if [[ $default != "$(expect 9)" || $three != "$(expect 3)" || $ten != "$(expect 10)" ]]; then
    echo 'CHANGED' >&2
    exit 1
fi
