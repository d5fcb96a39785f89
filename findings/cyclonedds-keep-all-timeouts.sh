#!/usr/bin/env bash
# Cyclone DDS 0.10.2 (Debian 12): a KEEP_ALL writer whose reader stands still times out in steps; most writes in between succeed.
#
# Guess: about the 31st write of 1 KiB times out after max_blocking_time, as the high-water mark starts at 30 kB, and so do those
# after it until the reader goes on.
# Seen: after a write that timed out, about a dozen succeed, then one times out again, and so on. The amount that the reader has
# not acknowledged exceeds each limit before. The reader later gets all that succeeded. With WhcAdaptive false no write succeeds
# after the first timeout, while the reader stands still and is not taken for dead.
# Users meet this where they take a write that succeeds for a reader that keeps up, or retry after a timeout.
# Source: maybe_grow_whc in src/core/ddsi/src/q_transmit.c raises the mark by 1/32 of what is left to WhcHigh (500 kB), at most
# every 10 ms. A write that waited 100 ms gives the next one a higher mark. Timing decides which write is the first.
#
# Needs Debian 12, gcc, python3 and unshare (util-linux). Installs into a temporary folder only.
set -euo pipefail

version=0.10.2-2
iceoryx=2.0.3+dfsg-1
packages=(cyclonedds-dev="$version" cyclonedds-tools="$version" libcycloneddsidl0="$version" libddsc0debian="$version"
    libiceoryx-binding-c2="$iceoryx" libiceoryx-posh2="$iceoryx" libiceoryx-hoofs2="$iceoryx" libiceoryx-platform2="$iceoryx")
place=$(mktemp -d)
trap 'rm -rf -- "$place"' EXIT
cd "$place"
apt-get download "${packages[@]}" >apt.log 2>&1 || { cat apt.log >&2; exit 69; }
for package in *.deb; do dpkg -x "$package" root; done

cat >Message.idl <<'END'
@final struct Message { long number; octet payload[1024]; };
END
cat >end.c <<'END'
#include "Message.h"
#include <dds/dds.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static Message message;

static void writes(dds_entity_t writer)
{
    int count;
    while (scanf("%d", &count) == 1) {
        while (count-- > 0) {
            message.number++;
            const dds_return_t returned = dds_write(writer, &message);
            printf("%s ", dds_strretcode(-returned));
        }
        puts("");
    }
}

static int take(dds_entity_t reader)
{
    int taken = 0;
    void* sample[1] = {&message};
    dds_sample_info_t info;
    while (dds_take(reader, sample, &info, 1, 1) > 0) {
        taken += info.valid_data;
    }
    return taken;
}

int main(int count, char** arguments)
{
    const bool is_writer = count > 1 && strcmp(arguments[1], "writer") == 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    const dds_entity_t participant = dds_create_participant(0, NULL, NULL);
    const dds_entity_t topic = dds_create_topic(participant, &Message_desc, "finding", NULL, NULL);
    dds_qos_t* const qos = dds_create_qos();
    dds_qset_reliability(qos, DDS_RELIABILITY_RELIABLE, DDS_MSECS(100));
    dds_qset_history(qos, DDS_HISTORY_KEEP_ALL, 0);
    const dds_entity_t end =
        (is_writer ? dds_create_writer : dds_create_reader)(participant, topic, qos, NULL);
    dds_publication_matched_status_t written = {0};
    dds_subscription_matched_status_t read = {0};
    for (int wait = 0; wait < 60000 && written.current_count + read.current_count == 0; wait++) {
        if (is_writer) {
            dds_get_publication_matched_status(end, &written);
        } else {
            dds_get_subscription_matched_status(end, &read);
        }
        dds_sleepfor(DDS_MSECS(1));
    }
    puts(written.current_count + read.current_count > 0 ? "matched" : "not matched");
    if (is_writer) {
        writes(end);
    } else {
        for (int total = 0; getchar() != EOF;) {
            total += take(end);
            printf("%d\n", total);
        }
    }
    dds_delete(participant);
    return 0;
}
END
lib=$(dirname "$(find "$place/root" -name libddsc.so.0.10.2)")
export LD_LIBRARY_PATH=$lib
root/usr/bin/idlc Message.idl
gcc -I root/usr/include -I . end.c Message.c -o end -L "$lib" -lddsc -Wl,-rpath-link,"$lib"

cat >drive.py <<'END'
import atexit, signal, subprocess, sys, time

TEXT = {"text": True, "bufsize": 1}


def start(role):
    started = subprocess.Popen(["./end", role], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **TEXT)
    atexit.register(started.kill)
    return started


def ask(process, line=""):
    process.stdin.write(f"{line}\n")
    return process.stdout.readline().strip()


reader, writer = start("reader"), start("writer")
print("reader and writer:", reader.stdout.readline().strip(), "and", writer.stdout.readline().strip())
reader.send_signal(signal.SIGSTOP)
while " T " not in open(f"/proc/{reader.pid}/stat").readline():
    time.sleep(0.01)
returned = ask(writer, sys.argv[1]).split()
reader.send_signal(signal.SIGCONT)
succeeded, first = returned.count("Success"), returned.index("Timeout")
got, end = 0, time.monotonic() + 60
while got < succeeded and time.monotonic() < end:
    got = int(ask(reader))
    time.sleep(0.05)
writer.stdin.close()
writer.wait(60)
got = int(ask(reader))
reader.stdin.close()
reader.wait(60)
timeouts = [number for number, answer in enumerate(returned, 1) if answer == "Timeout"]
print("timed out:", *timeouts)
after = returned[first + 1 :]
print("other answers than success and timeout:", len(returned) - succeeded - len(timeouts))
more = after.count("Success") / len(after)
print("after the first timeout:", "most succeed" if more > 0.5 else "some succeed" if more > 0 else "none succeeds")
print("two timeouts in a row:", "yes" if any(b - a == 1 for a, b in zip(timeouts, timeouts[1:])) else "no")
print("received of those that succeeded:", "all" if got == succeeded else f"{got} of {succeeded}")
END
# In a network of its own, with a loopback only.
run() { timeout 300 unshare --user --map-root-user --net sh -c "ip link set lo up && python3 drive.py $1"; }
export CYCLONEDDS_URI='<CycloneDDS/>'
adaptive=$(run 200)
marks='<Watermarks><WhcAdaptive>false</WhcAdaptive></Watermarks>'
CYCLONEDDS_URI="<CycloneDDS><Domain><Internal>$marks</Internal></Domain></CycloneDDS>"
fixed=$(run 60)
printf 'Cyclone DDS %s\n' "$version"
printf '%s:\n%s\n' 'default configuration, 200 writes' "$adaptive" 'WhcAdaptive false, 60 writes' "$fixed"
expect() {
    printf '%s\n' 'reader and writer: matched and matched' 'other answers than success and timeout: 0' \
        "after the first timeout: $1" "two timeouts in a row: $2" 'received of those that succeeded: all'
}
without_numbers() { grep -v '^timed out: ' <<<"$1"; }
if [[ $(without_numbers "$adaptive") != "$(expect 'most succeed' no)" ||
    $(without_numbers "$fixed") != "$(expect 'none succeeds' yes)" ]]; then
    echo 'CHANGED' >&2
    exit 1
fi
