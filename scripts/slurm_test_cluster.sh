#!/bin/sh
# A SLURM cluster of one node on this machine, for the tests: slurm_test_cluster.sh up|down FOLDER
# Needs slurmctld, slurmd and munged (Debian: slurm-wlm munge), and the right to run them (root).
# After `up`, use it with: export SLURM_CONF=FOLDER/slurm.conf
set -eu

usage() {
    echo "usage: $0 up|down FOLDER" >&2
    exit 2
}

[ $# -eq 2 ] || usage
action=$1
folder=$(realpath -m "$2")
host=$(hostname -s)
memory=$(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo)

stop() { # the daemon whose process number is in a file
    if [ -f "$1" ]; then
        kill "$(cat "$1")" 2>/dev/null || true
        rm -f "$1"
    fi
}

down() {
    if [ -f "$folder/slurm.conf" ] && SLURM_CONF="$folder/slurm.conf" scancel --me 2>/dev/null; then
        sleep 1
    fi
    stop "$folder/slurmd.pid"
    stop "$folder/slurmctld.pid"
    stop "$folder/munged.pid"
}

up() {
    for program in munged slurmctld slurmd sinfo; do
        command -v "$program" >/dev/null || { echo "$program is not installed" >&2; exit 1; }
    done
    mkdir -p "$folder/state" "$folder/spool"
    [ -f "$folder/munge.key" ] || dd if=/dev/urandom of="$folder/munge.key" bs=1024 count=1 2>/dev/null
    chmod 600 "$folder/munge.key"
    cat >"$folder/slurm.conf" <<CONF
ClusterName=fedincent
SlurmctldHost=$host
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,bf_interval=2
ReturnToService=2
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
KillWait=5
NodeName=$host NodeAddr=127.0.0.1 CPUs=${SLURM_TEST_CPUS:-2} RealMemory=$memory State=UNKNOWN
PartitionName=test Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
    export SLURM_CONF="$folder/slurm.conf"
    trap 'down' EXIT # unless all is well
    munged --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
        --log-file="$folder/munged.log" --seed-file="$folder/munged.seed"
    slurmctld -f "$SLURM_CONF"
    slurmd -f "$SLURM_CONF" -N "$host"
    for _ in $(seq 60); do
        if sinfo --noheader --format=%T 2>/dev/null | grep -q idle; then
            trap - EXIT
            exit 0
        fi
        sleep 0.5
    done
    echo "the node did not come up; see $folder/slurmctld.log and $folder/slurmd.log" >&2
    exit 1
}

case $action in
up) up ;;
down) down ;;
*) usage ;;
esac
