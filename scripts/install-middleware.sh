#!/usr/bin/env bash
# Installs the middleware that transports need: every Debian package named in transports/*/transport.toml. Unless
# --packages is given, also the Python packages named there, for the user who runs this (`tripmeter install --all
# --python`). With --slurm also Slurm, for scripts/slurm.sh. It can be run again at any time, and skips what is
# installed.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    echo "install-middleware: $1" >&2
    exit 69
}

# The entries of the list `packages` of every sidecar, one per line.
packages() {
    local file
    for file in transports/*/transport.toml; do
        [[ -e $file ]] || continue
        awk '/^packages *=/ { on = 1 } on { print } /]/ { on = 0 }' "$file" | grep -o '"[^"]*"' | tr -d '"' || true
    done | sort -u
}

as_root() {
    if [[ $(id -u) -eq 0 ]]; then
        "$@"
    else
        sudo "$@"
    fi
}

command -v apt-get >/dev/null ||
    fail "no apt-get here; install what \`packages\` in transports/*/transport.toml names by other means"

# Build tools for plugins in C and C++, here and in the packages of a release.
mapfile -t wanted < <(packages)
# Tests run in network namespaces that `ip` sets up, reach each other by ssh, trace system calls, step clocks, and open
# reports in Chromium, which Node.js drives. Packages are made by dpkg-dev, and checked by lintian.
wanted=(g++ make pkg-config cmake iproute2 openssh-client procps strace libfaketime chromium dpkg-dev lintian "${wanted[@]}")
command -v npm >/dev/null || wanted+=(nodejs npm)
python=0
if grep -q '^python_packages' transports/*/transport.toml; then
    python=1
    # Debian keeps this module apart from Python itself.
    python3 -c 'import ensurepip, venv' 2>/dev/null || wanted+=(python3-venv)
fi
mapfile -t missing < <(for name in "${wanted[@]}"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$name" 2>/dev/null | grep -qx installed || echo "$name"
done)
if [[ ${#missing[@]} -eq 0 ]]; then
    echo "install-middleware: already installed: ${wanted[*]}"
else
    [[ $(id -u) -eq 0 ]] || command -v sudo >/dev/null ||
        fail "not root, and there is no sudo; as root: apt-get install ${missing[*]}"
    echo "install-middleware: ${missing[*]}"
    as_root apt-get -o DPkg::Lock::Timeout=600 update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -q -y --no-install-recommends "${missing[@]}"
fi
# sshd for the tests, without the package's service, which would listen on every address of this machine.
if ! command -v /usr/sbin/sshd >/dev/null && [[ ! -x target/tools/openssh/usr/sbin/sshd ]]; then
    echo "install-middleware: sshd to target/tools/openssh"
    mkdir -p target/tools/openssh
    (
        cd target/tools/openssh
        apt-get download -q openssh-server libwrap0 2>/dev/null || {
            as_root apt-get -o DPkg::Lock::Timeout=600 update -q
            apt-get download -q openssh-server libwrap0
        }
        for package in ./*.deb; do dpkg-deb -x "$package" .; done
    )
fi
# Slurm's programs, without its services; only on request.
if [[ " $* " == *" --slurm "* && ! -x target/tools/slurm/usr/sbin/slurmctld-wlm ]]; then
    echo "install-middleware: Slurm to target/tools/slurm"
    mkdir -p target/tools/slurm
    (
        cd target/tools/slurm
        slurm=(libhwloc15 liblua5.1-0 libmunge2 slurm-wlm-basic-plugins slurm-client slurmctld slurmd)
        apt-get download -q "${slurm[@]}" 2>/dev/null || {
            as_root apt-get -o DPkg::Lock::Timeout=600 update -q
            apt-get download -q "${slurm[@]}"
        }
        for package in ./*.deb; do dpkg-deb -x "$package" .; done
        rm ./*.deb
    )
fi
if [[ $python -eq 1 && " $* " != *" --packages "* ]]; then
    cargo run --quiet --locked -p tripmeter -- install --all --python
fi
echo "install-middleware: done; next: scripts/build-transports.sh"
