#!/usr/bin/env bash
# Runs a command beside several hosts: scripts/hosts.sh COUNT COMMAND [ARGUMENT...]. Each host is a set of namespaces
# (network, mount, process, IPC, host name) with its own sshd. One bridge connects all hosts, and nothing else. Needs
# root, `ip` from iproute2, ssh and sshd; scripts/install-middleware.sh installs them.
#
# The command has the addresses 10.77.0.254 and fd77::fe; host N is `hN`, with 10.77.0.N and fd77::N. TRIPMETER_SSH
# names an ssh configuration, in the folder $TRIPMETER_HOSTS, by which the command and the hosts reach each other. Tests
# cut a link with `ip link set hN down`, and set its MTU.
#
# The hosts named in $HOSTS_SHIFTED have no TSC, and their CLOCK_MONOTONIC is 5000 s ahead.
#
# The hosts have the program $TRIPMETER, else COMMAND if that is a tripmeter, else the one built last. They also have
# the transports in $TRIPMETER_TRANSPORTS.
set -euo pipefail

self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
fail() {
    echo "hosts.sh: $1" >&2
    exit 69
}
[ "$(id -u)" -eq 0 ] || fail "hosts of one machine need root"
command -v ip >/dev/null || fail "no 'ip': install iproute2"
own=$self/../target/tools/openssh
sshd=$(command -v /usr/sbin/sshd || true)
if [ -z "$sshd" ]; then
    [ -x "$own/usr/sbin/sshd" ] || fail "no sshd: scripts/install-middleware.sh gets one"
    sshd=$(readlink -f "$own/usr/sbin/sshd")
    libraries=$(readlink -f "$own"/usr/lib/*-linux-gnu)
fi
command -v ssh-keygen >/dev/null || fail "no ssh: install openssh-client"

if [ "${HOSTS_INSIDE:-}" != yes ]; then
    HOSTS_INSIDE=yes exec "$self/isolated.sh" "$self/hosts.sh" "$@"
fi

count=$1
shift
program=${TRIPMETER:-}
if [ -z "$program" ]; then
    for built in "$self"/../target/{release,debug}/tripmeter; do
        if [ -x "$built" ] && [ ! "$program" -nt "$built" ]; then program=$built; fi
    done
    case ${1:-} in
        */tripmeter) program=$1 ;;
    esac
fi
[ -x "$program" ] || fail "no program '${program:-target/release/tripmeter}': build it (cargo build --release) or name it in TRIPMETER"
folder=$(mktemp -d /tmp/tripmeter-hosts.XXXXXX)
# `ip` keeps names of network namespaces below /run, and sshd needs a folder there and its own user.
mount -n -t tmpfs none /run
if ! getent passwd sshd >/dev/null; then
    { cat /etc/passwd && echo "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin"; } >"$folder/passwd"
    mount -n --bind "$folder/passwd" /etc/passwd
fi
mkdir -p "$folder/bin" /run/sshd
ln -s "$(readlink -f "$program")" "$folder/bin/tripmeter"
ssh-keygen -q -t ed25519 -N '' -f "$folder/key"
ssh-keygen -q -t ed25519 -N '' -f "$folder/host_key"
cp "$folder/key.pub" "$folder/authorized_keys"

# Separates a host from this machine: it has its own /tmp and /dev/shm, and its processes are not visible here.
# shellcheck disable=SC2016
enter='
hostname "$1"
mount -n -t tmpfs none /dev/shm
mkdir -p /dev/shm/hosts
mount -n --rbind "$2" /dev/shm/hosts
mount -n -t tmpfs -o mode=1777 none /tmp
mkdir -p "$2"
mount -n --move /dev/shm/hosts "$2"
rmdir /dev/shm/hosts
mount -n -t proc proc /proc
if [ -e /etc/machine-id ]; then
    # Fast DDS 3 tells hosts apart by this file.
    printf "%s\n" "$1" | md5sum | cut -c1-32 >"$2/$1.machine-id"
    mount -n --bind "$2/$1.machine-id" /etc/machine-id
fi
case " ${HOSTS_SHIFTED:-} " in
    *" $1 "*)
        echo shifted >"$2/$1.clock"
        mount -n --bind "$2/$1.clock" /sys/devices/system/clocksource/clocksource0/current_clocksource
        clock="unshare --time --monotonic=5000 --fork --kill-child"
        ;;
esac
export LD_LIBRARY_PATH=$4
exec ${clock:-} "$3" -D -e -f "$2/$1.conf"
'
ip link add lab type bridge
ip address add 10.77.0.254/24 dev lab
ip -6 address add fd77::fe/64 dev lab nodad
ip link set lab up
for number in $(seq 1 "$count"); do
    host=h$number
    ip netns add "$host"
    ip link add "$host" type veth peer name eth0 netns "$host"
    ip link set "$host" master lab up
    ip -n "$host" link set lo up
    ip -n "$host" address add "10.77.0.$number/24" dev eth0
    ip -n "$host" -6 address add "fd77::$number/64" dev eth0 nodad
    ip -n "$host" link set eth0 up
    cat >"$folder/$host.conf" <<EOF
ListenAddress 10.77.0.$number
ListenAddress fd77::$number
HostKey $folder/host_key
AuthorizedKeysFile $folder/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin yes
SetEnv PATH=$folder/bin:/usr/local/bin:/usr/bin:/bin XDG_CACHE_HOME=/tmp/cache TRIPMETER_TRANSPORTS=${TRIPMETER_TRANSPORTS:-} HOME=/root "TRIPMETER_SSH=ssh -F $folder/config"
EOF
    cat >>"$folder/config" <<EOF
Host $host
    HostName 10.77.0.$number
Host $host-v6
    HostName fd77::$number
EOF
    ip netns exec "$host" unshare --mount --pid --ipc --uts --fork --kill-child sh -euc "$enter" sh "$host" "$folder" "$sshd" \
        "${libraries:-}" 2>"$folder/$host.log" &
done
for number in $(seq 1 "$count"); do
    echo "10.77.0.$number,fd77::$number $(cut -d' ' -f1,2 "$folder/host_key.pub")"
done >"$folder/known_hosts"
cat >>"$folder/config" <<EOF
Host *
    User root
    IdentityFile $folder/key
    IdentitiesOnly yes
    UserKnownHostsFile $folder/known_hosts
    LogLevel ERROR
EOF
for number in $(seq 1 "$count"); do
    for _ in $(seq 1 100); do
        ssh -F "$folder/config" "h$number" true 2>/dev/null && break
        sleep 0.1
    done
done
export TRIPMETER_SSH="ssh -F $folder/config" TRIPMETER_HOSTS="$folder"
code=0
"$@" || code=$?
exit "$code"
