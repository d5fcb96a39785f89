#!/bin/sh
# Runs a command in network, IPC, mount and process namespaces of its own, with an empty /tmp and /dev/shm:
# scripts/isolated.sh COMMAND [ARGUMENT...]. Tests that run this way share no port, name, daemon or counter with anything
# else on the machine, and nothing that they start outlives them. Needs root or user namespaces, and `ip` of iproute2.
#
# If namespaces are not possible, it prints the reason and exits with 69. With --check it only tries.
set -eu

# Inside the namespaces: $1 is the working directory, $2 folders below /tmp that stay visible.
# shellcheck disable=SC2016
enter='
folder=$1 kept=$2
shift 2
ip link set lo up multicast on
ip route add multicast 224.0.0.0/4 dev lo
mount -n -t tmpfs -o mode=1777 none /dev/shm
if [ -d /dev/mqueue ]; then mount -n -t mqueue none /dev/mqueue; fi
for name in $kept; do
    mkdir "/dev/shm/$name"
    mount -n --rbind "/tmp/$name" "/dev/shm/$name"
done
mount -n -t tmpfs -o mode=1777 none /tmp
for name in $kept; do
    mkdir "/tmp/$name"
    mount -n --move "/dev/shm/$name" "/tmp/$name"
    rmdir "/dev/shm/$name"
done
cd "$folder"
# Limit for the message queues of this user: the kernel counts those of all tests together, in any namespace.
prlimit --pid $$ --msgqueue=8388608:8388608 2>/dev/null || true
# No XDG_RUNTIME_DIR, because all tests share /run.
export TMPDIR=/tmp XDG_RUNTIME_DIR=
# Lets tests do things that would do harm outside of namespaces.
export TRIPMETER_ISOLATED=1
# No exec: the command would be process 1, to which signals do nothing.
code=0
"$@" || code=$?
exit "$code"
'

namespaces="--mount --ipc --net --pid --fork --kill-child --mount-proc"
[ "$(id -u)" -eq 0 ] || namespaces="--user --map-root-user $namespaces"

repository=$(cd "$(dirname "$0")/.." && pwd -P)
kept=
for path in "$repository" "$PWD" "${CARGO_TARGET_DIR:-}" "${HOME:-}" "${XDG_DATA_HOME:-}"; do
    case $path in
        /tmp/*)
            name=${path#/tmp/}
            name=${name%%/*}
            case " $kept " in *" $name "*) ;; *) kept="$kept $name" ;; esac
            ;;
    esac
done

if [ "${1:-}" = --check ]; then
    # shellcheck disable=SC2086
    why=$(unshare $namespaces sh -euc "$enter" sh / "$kept" true 2>&1) || {
        echo "isolated.sh: no namespaces of our own: $why" >&2
        exit 69
    }
    exit 0
fi
# shellcheck disable=SC2086
exec unshare $namespaces sh -euc "$enter" sh "$PWD" "$kept" "$@"
