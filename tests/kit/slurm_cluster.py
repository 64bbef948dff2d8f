"""A cluster of Slurm on this machine: one node with two GPUs, which are none."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
from collections.abc import Iterator

import limits
import processes
import pytest

from etc_jax.base import child_process

_DAEMONS = ("slurmctld", "slurmd")
# Without munge, which needs a key of the machine: whoever asks is believed to be root,
# so that all listen on loopback alone.
_CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/none
CredType=cred/none
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=5
SelectType=select/cons_tres
GresTypes=gpu
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 Gres=gpu:2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_GPUS = "Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n"


@contextlib.contextmanager
def cluster(folder: pathlib.Path) -> Iterator[None]:
    """Slurm's commands reach the cluster while it is open; no process is left of it.

    Args:
      folder: for its files.
    """
    if not all(map(shutil.which, _DAEMONS)):
        pytest.skip("no Slurm here: apt-get install slurm-wlm")
    if os.geteuid() != 0:
        pytest.skip("a node of Slurm starts jobs as root alone")
    host = socket.gethostname().partition(".")[0]
    ports = processes.free_port(), processes.free_port()
    path = folder / "slurm.conf"
    path.write_text(_CONFIG.format(host=host, folder=folder, ports=ports))
    (folder / "gres.conf").write_text(_GPUS)
    (folder / "state").mkdir()
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setenv("SLURM_CONF", str(path))
        for name in _DAEMONS:
            stack.enter_context(_started(name, path))
        stack.callback(_end_jobs)
        limits.until(lambda: said("sinfo", "--format=%T") == "idle", _logs(folder))
        yield


@contextlib.contextmanager
def _started(name: str, config: pathlib.Path) -> Iterator[None]:
    with config.with_name(f"{name}.txt").open("w") as log:
        daemon = subprocess.Popen(
            child_process.tied([name, "-D", "-f", str(config)]),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
    finally:
        daemon.terminate()
        daemon.wait(limits.SECS)


def _end_jobs() -> None:
    subprocess.run(["scancel", "--me"], check=True)
    limits.until(lambda: not said("squeue"))


def _logs(folder: pathlib.Path):
    return lambda: "\n".join((folder / f"{x}.txt").read_text() for x in _DAEMONS)


def said(*command: str) -> str:
    """What a command of Slurm prints, without a line of titles."""
    done = subprocess.run(
        [command[0], "--noheader", *command[1:]], capture_output=True, text=True
    )
    return done.stdout.strip()


def pids(job: str) -> list[int]:
    """The processes that a job's step has started, in order; they run on this node.

    Args:
      job: its number.
    """
    done = subprocess.run(
        ["scontrol", "listpids", job], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    tasks = {row[3]: int(row[0]) for row in rows if row[2] == "0" and row[3] != "-"}
    return [pid for _, pid in sorted(tasks.items())]
