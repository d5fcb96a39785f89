#!/usr/bin/env bash
# Runs a command with Slurm on the hosts of scripts/hosts.sh: scripts/hosts.sh 2 scripts/slurm.sh COMMAND [ARGUMENT...].
# The nodes are `h1`, `h2`, …; partition `lab` has all. `scripts/install-middleware.sh --slurm` installs Slurm.
#
# Authentication is off: nothing but these hosts reaches the controller.
set -euo pipefail

self=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
fail() {
    echo "slurm.sh: $1" >&2
    exit 69
}
[[ -n ${TRIPMETER_HOSTS:-} ]] || fail "no hosts: run it by scripts/hosts.sh"
[[ -x $self/../target/tools/slurm/usr/sbin/slurmctld-wlm ]] || fail "no Slurm: scripts/install-middleware.sh --slurm gets it"
slurm=$(readlink -f "$self/../target/tools/slurm")
plugins=$(echo "$slurm"/usr/lib/*-linux-gnu/slurm-wlm)
libraries=$(dirname "$plugins"):$plugins
folder=$TRIPMETER_HOSTS/slurm
mkdir -p "$folder/state"
mapfile -t hosts < <(sed -n 's/^Host \(h[0-9]*\)$/\1/p' "$TRIPMETER_HOSTS/config")
export SLURM_CONF=$folder/slurm.conf
{
    cat <<EOF
ClusterName=lab
SlurmctldHost=$(hostname)(10.77.0.254)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
PluginDir=$plugins
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.%n.log
ReturnToService=2
PartitionName=lab Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE
EOF
    for host in "${hosts[@]}"; do
        echo "NodeName=$host NodeAddr=10.77.0.${host#h} CPUs=$(nproc)"
    done
} >"$SLURM_CONF"
echo "CgroupPlugin=cgroup/v1" >"$folder/cgroup.conf"

LD_LIBRARY_PATH=$libraries "$slurm/usr/sbin/slurmctld-wlm" -D >"$folder/slurmctld.out" 2>&1 &
for host in "${hosts[@]}"; do
    mkdir "$folder/spool.$host"
    ssh -F "$TRIPMETER_HOSTS/config" "$host" "LD_LIBRARY_PATH=$libraries SLURM_CONF=$SLURM_CONF \
        $slurm/usr/sbin/slurmd-wlm -D -N $host -d $slurm/usr/sbin/slurmstepd-wlm" >"$folder/$host.out" 2>&1 &
done

# Wrappers set LD_LIBRARY_PATH for Slurm's programs only.
mkdir "$folder/bin"
for program in "$slurm"/usr/bin/s*; do
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$libraries" "$program" >"$folder/bin/$(basename "$program")"
done
chmod +x "$folder"/bin/*
# Jobs inherit the environment of the command that submits them.
export PATH=$folder/bin:$TRIPMETER_HOSTS/bin:$PATH
for _ in $(seq 100); do
    [[ $(sinfo -h -t idle -o %D 2>/dev/null) == "${#hosts[@]}" ]] && exec "$@"
    sleep 0.2
done
sinfo >&2 || true
fail "the nodes are not ready; see the logs above"
