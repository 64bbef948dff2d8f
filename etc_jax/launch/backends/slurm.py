"""Jobs of a Slurm cluster."""

from __future__ import annotations

import argparse
import pathlib
import shlex

from etc_jax.launch import backend
from etc_jax.launch.backend import Phase, RunFn, State
from etc_jax.launch.job import FINAL_CODES, GRACE_SECS, Argv, Step
from etc_jax.training.errors import CRASHED, PREEMPTED

_SCRIPT = "job.sbatch"
_LOG = "log.txt"
_CODE = "exit_code"
_STOPPED = "stopped"
# States in which Slurm is going to start a job, or to start it again.
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SUSPENDED")

_TEXT = """\
#!/bin/bash
{options}

# Slurm asks the processes to save and end {grace} s before the job's time is over. What
# was cut short, or crashed, is put into the queue again; what would end in the same way
# is not. srun gives the highest code of all: when one process has ended the others have
# a minute to end too, for cut off at once they would hide the code that tells why.
rm -f {code_file}
[ "${{SLURM_RESTART_COUNT:-0}}" = 0 ] && rm -f {stopped_file}
{environ}srun --kill-on-bad-exit=0 --wait=60 {command}
code=$?
restarts=${{SLURM_RESTART_COUNT:-0}}
echo "exit code $code after $restarts restarts" >&2
case $code in
  {done}) ;;
  *) [ ! -e {stopped_file} ] && [ "$restarts" -lt {restarts} ] &&
    scontrol requeue "$SLURM_JOB_ID" && sleep 60 ;;
esac
echo $code > {code_file}
exit $code
"""


@backend.register
class Slurm(backend.Backend):
    """A job of a Slurm cluster, with a process for each GPU: sbatch."""

    name = "slurm"
    takes_gpus = True
    takes_tpus = False

    @classmethod
    def add_flags(cls, parser: argparse.ArgumentParser) -> None:
        """Adds the flags of Slurm."""
        add = parser.add_argument
        add("--time", type=str, help="that the job may take, such as 24:00:00")
        for name in ("partition", "account", "qos"):
            add(f"--{name}", type=str, help="as sbatch has it")
        add(
            "--sbatch",
            type=str,
            action="append",
            default=[],
            metavar="OPTION",
            help="another line of options, such as --sbatch=--mem=0; several times",
        )

    def files(self) -> dict[str, str]:
        """The script."""
        job, args = self.job, self.args
        options = [
            f"--job-name={job.name}",
            f"--nodes={job.slices}",
            f"--ntasks-per-node={job.slice.chips}",
            f"--gpus-per-node={job.slice.chips}",
            "--requeue",
            f"--signal=TERM@{GRACE_SECS}",
            "--open-mode=append",
            f"--output={self.path(_LOG)}",
            # Of two jobs of one name, which share a workdir, the later one waits.
            "--dependency=singleton",
        ]
        for name in ("time", "partition", "account", "qos"):
            if value := getattr(args, name):
                options.append(f"--{name}={value}")
        text = _TEXT.format(
            options="\n".join(
                f"#SBATCH {x}" for x in [*map(shlex.quote, options), *args.sbatch]
            ),
            grace=GRACE_SECS,
            environ="".join(
                f"export {name}={shlex.quote(value)}\n"
                for name, value in job.variables.items()
            ),
            command=shlex.join(job.argv),
            done="|".join(map(str, (0, *FINAL_CODES))),
            restarts=job.restarts,
            stopped_file=shlex.quote(self.path(_STOPPED)),
            code_file=shlex.quote(self.path(_CODE)),
        )
        return {_SCRIPT: text}

    def start(self) -> list[Step]:
        """Puts the script into the queue."""
        return [
            Step("no exit code of before", ["rm", "-f", self.path(_CODE)]),
            Step("the job, into the queue", ["sbatch", self.path(_SCRIPT)]),
        ]

    def _queue(self, *words: str) -> Argv:
        return ["squeue", "--me", f"--name={self.job.name}", *words]

    def status(self) -> list[Argv]:
        """Of the job in the queue."""
        return [self._queue()]

    def logs(self) -> list[Argv]:
        """The newest lines of all processes."""
        return [["tail", "-n", "100", self.path(_LOG)]]

    def stop(self) -> list[Argv]:
        """Ends the job: its processes save, for as long as that takes."""
        cancel = ["scancel", "--me", f"--name={self.job.name}"]
        return [
            ["touch", self.path(_STOPPED)],  # the script does not queue it again
            [*cancel, "--state=PENDING"],
            [*cancel, "--state=RUNNING", "--signal=TERM"],
        ]

    def state(self, run_fn: RunFn) -> State:
        """How far it is."""
        argv = self._queue("--noheader", "--format=%T")
        states = backend.checked_answer(run_fn(argv), argv).split()
        if runs := [x for x in states if x not in _WAITING]:
            return State(Phase.RUNNING, runs[0])
        if states:
            return State(Phase.WAITING, states[0])
        file = pathlib.Path(self.path(_CODE))
        if file.exists():
            return State(Phase.ENDED, "", int(file.read_text()))
        if pathlib.Path(self.path(_STOPPED)).exists():
            return State(Phase.ENDED, "stopped while it waited", PREEMPTED)
        if pathlib.Path(self.path(_LOG)).exists():
            return State(Phase.ENDED, "Slurm has forgotten it", CRASHED)
        return State(Phase.ABSENT)
