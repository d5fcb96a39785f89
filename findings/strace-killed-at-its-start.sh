#!/usr/bin/env bash
# strace 6.1 (Debian 12), killed while it starts, leaves a process behind that sleeps for ever.
#
# Guess: a strace that is killed before it has started its program leaves nothing, as it has started nothing yet.
# Seen: it first tries PTRACE_SEIZE out on a copy of itself, which pauses until strace kills it. Killed in between, strace
# leaves the copy, under its own command line, to init.
# Users meet this where a harness starts strace, and kills it soon after: by a time limit, or as the run ends. Kill the
# process group, not the process.
#
# Needs Debian 12. Installs into a temporary folder only. The window of a few microseconds is widened by a second strace,
# which delays the system call of the first.
set -euo pipefail

version=6.1-0.1
place=$(mktemp -d)
outer= left=
clean() {
    kill -KILL $outer $left 2>/dev/null || true
    rm -rf -- "$place"
}
trap clean EXIT
cd "$place"
apt-get download strace="$version" libunwind8=1.6.2-3 liblzma5 >apt.log 2>&1 || { cat apt.log >&2; exit 69; }
for package in *.deb; do dpkg -x "$package" root; done
export LD_LIBRARY_PATH=$place/root/usr/lib/$(uname -m)-linux-gnu:$place/root/lib/$(uname -m)-linux-gnu
strace=$place/root/usr/bin/strace

"$strace" -f -o outer -e trace=ptrace -e inject=ptrace:delay_enter=3000000 "$strace" -o inner true &
outer=$!
children() { cat "/proc/$1/task/$1/children" 2>/dev/null || true; }
for _ in {1..500}; do
    inner=$(children "$outer")
    left=$([[ -z $inner ]] || children "${inner%% *}")
    [[ -z $left ]] || break
    sleep 0.01
done
kill -KILL "${inner%% *}" "$outer"
wait "$outer" 2>/dev/null || true
sleep 2
seen=nothing
[[ ! -d /proc/${left// /} ]] || seen="$(tr '\0' ' ' <"/proc/${left// /}/cmdline" | sed "s|$place/root||g"), state $(awk '/^State/ { print $2 }' "/proc/${left// /}/status")"
printf 'strace %s, killed at its start, leaves: %s\n' "$version" "$seen"
if [[ $seen != '/usr/bin/strace -o inner true , state S' ]]; then
    echo 'CHANGED' >&2
    exit 1
fi
