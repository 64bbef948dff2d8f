"""Machines with TPUs of one's own in Google Cloud: at once, or from a queue."""

from __future__ import annotations

import argparse
import re

from etc_jax.launch import backend, machine_script
from etc_jax.launch.backend import Answer, LaunchError, Phase, RunFn, State
from etc_jax.launch.job import Argv, Step
from etc_jax.training.errors import CRASHED

_VM = "tpu-vm"
_SCRIPT = "start.sh"
_REMOTE = "/tmp/etc_jax_start.sh"


class _Gcloud(backend.Backend):
    """What both share: flags, the script, the service on the first machine."""

    is_lent = True
    group: str  # of `gcloud compute tpus`
    field = "state"  # of what `describe` prints
    # States in which its machines run, and in which they are to be made anew; in others
    # one waits for the next.
    ready: str
    lost: tuple[str, ...]

    @classmethod
    def add_flags(cls, parser: argparse.ArgumentParser) -> None:
        """Adds the flags of Google Cloud."""
        add = parser.add_argument
        add("--zone", type=str, help="of Google Cloud, such as us-west4-a")
        add("--project", type=str, help="of Google Cloud; default: gcloud's own")
        add("--spot", action="store_true", help="cheaper, and may be taken away")
        add("--reserved", action="store_true", help="of a reservation")
        add("--network", type=str, help="of the machines; default: that of the project")
        add("--service_account", type=str, help="that the machines act as")
        add(
            "--install",
            type=str,
            default=f"etc_jax[{machine_script.EXTRAS}]",
            metavar="REQUIREMENT",
            help="what pip installs there; such as a wheel of yours at gs://BUCKET/, "
            f"or 'etc_jax[{machine_script.EXTRAS}] @ git+https://HOST/REPOSITORY'",
        )

    def problems(self) -> list[str]:
        """What is wrong with the job here, or with flags."""
        wrong = super().problems()
        if not self.args.zone:
            wrong.append("--zone is needed, such as --zone=us-west4-a")
        if not wrong and not self.job.slice.kind.accelerator:
            wrong.append(
                f"--hardware={self.job.slice.name} is lent through Kubernetes alone: "
                "launch it by jobset or xpk"
            )
        if self.args.spot and self.args.reserved:
            wrong.append("--spot and --reserved exclude each other")
        return wrong

    def files(self) -> dict[str, str]:
        """The script."""
        return {_SCRIPT: machine_script.script(self.job, self.args.install)}

    def _gcloud(self, *words: str, group: str = "") -> Argv:
        project = self.args.project and f"--project={self.args.project}"
        group = group or self.group
        return [
            *("gcloud", "compute", "tpus", group, *words),
            *filter(None, (f"--zone={self.args.zone}", project)),
        ]

    def _options(self, version_flag: str) -> list[str]:
        """Of machines that are made."""
        options = [
            f"--accelerator-type={self.job.slice.accelerator_type}",
            f"--{version_flag}={self.job.slice.kind.runtime}",
        ]
        options += [f"--{x}" for x in ("spot", "reserved") if getattr(self.args, x)]
        if self.args.network:
            options.append(f"--network={self.args.network}")
        if self.args.service_account:
            options.append(f"--service-account={self.args.service_account}")
        options.append(f"--metadata-from-file=startup-script={self.path(_SCRIPT)}")
        return options

    def _slices(self) -> list[str]:
        """Their names."""
        return [self.job.name]

    def rerun(self) -> list[Step]:
        """Copies the script to machines that are there, and runs it on all of them."""
        steps = []
        for name in self._slices():
            copied = self.path(_SCRIPT), f"{name}:{_REMOTE}"
            again = f"sudo bash {_REMOTE} {machine_script.AGAIN}"
            steps += [
                Step(
                    "the script, to all machines",
                    self._vm("scp", *copied, worker="all"),
                ),
                Step(
                    "the job", self._vm("ssh", name, f"--command={again}", worker="all")
                ),
            ]
        return steps

    def _vm(self, *words: str, worker: str) -> Argv:
        """A command on one machine of a slice, or on all."""
        # Quiet: to make a key, the first time, it would ask.
        return self._gcloud(*words, f"--worker={worker}", "--quiet", group=_VM)

    def _ask_first(self, command: str) -> Argv:
        """A command on the first machine of the first slice."""
        return self._vm("ssh", self._slices()[0], f"--command={command}", worker="0")

    def _describe(self) -> Argv:
        return self._gcloud("describe", self.job.name, f"--format=value({self.field})")

    def status(self) -> list[Argv]:
        """Of what was asked for, and of the service of its first machine."""
        return [self._describe(), self._ask_first(machine_script.SHOW)]

    def logs(self) -> list[Argv]:
        """The newest lines of the first process."""
        return [self._ask_first(f"sudo {machine_script.LOGS}")]

    def _of_request(self, run_fn: RunFn) -> str:
        """The state of what was asked for; "" if there is nothing."""
        argv = self._describe()
        answer = run_fn(argv)
        if answer.code and "NOT_FOUND" in answer.error:
            return ""
        return backend.checked_answer(answer, argv).strip()

    def state(self, run_fn: RunFn) -> State:
        """How far it is."""
        request = self._of_request(run_fn)
        if not request:
            return State(Phase.ABSENT)
        if request in self.lost:
            return State(Phase.LOST, request)
        if request != self.ready:
            return State(Phase.WAITING, request)
        return self._of_service(run_fn)

    def _of_service(self, run_fn: RunFn) -> State:
        answer = run_fn(self._ask_first(machine_script.SHOW))
        if answer.code:  # it is about to start, or to go
            return State(Phase.WAITING, "the machine does not answer")
        return service_state(answer)


def service_state(answer: Answer) -> State:
    """Of a job, by what the service of its first process is in.

    Raises:
      LaunchError: if that is not what systemd prints.
    """
    shown = machine_script.properties(answer.out)
    active, code = shown.get("ActiveState"), shown.get("ExecMainStatus", "")
    if active is None or not re.fullmatch(r"\d+", code):
        raise LaunchError(f"systemctl show printed {answer.out!r}")
    if shown.get("LoadState") == "not-found":
        return State(Phase.WAITING, "the machine has not begun its script")
    if active not in ("inactive", "failed"):
        return State(Phase.RUNNING, active)
    # Of one whose package could not be installed there is no main program.
    failed = active == "failed" and code == "0"
    return State(Phase.ENDED, active, CRASHED if failed else int(code))


@backend.register
class TpuVm(_Gcloud):
    """A slice of TPUs in Google Cloud, made at once: gcloud compute tpus tpu-vm."""

    name = "tpu_vm"
    group = _VM
    # Of a machine: "Manage TPUs" (cloud.google.com/tpu).
    ready = "READY"
    lost = ("PREEMPTED", "TERMINATED", "STOPPING", "STOPPED", "DELETING")

    def problems(self) -> list[str]:
        """What is wrong with the job here, or with flags."""
        wrong = super().problems()
        if self.job.slices > 1:
            wrong.append(
                f"--slices is {self.job.slices}: slices that belong together come from "
                "the queue; launch them by queued"
            )
        return wrong

    def start(self) -> list[Step]:
        """Makes the slice, whose machines run the script as they start."""
        create = self._gcloud("create", self.job.name, *self._options("version"))
        return [Step("a slice; its machines run the script as they start", create)]

    def stop(self) -> list[Argv]:
        """Deletes the slice."""
        return [self._gcloud("delete", self.job.name, "--quiet")]


@backend.register
class Queued(_Gcloud):
    """Slices of TPUs in Google Cloud, when they are free: queued-resources."""

    name = "queued"
    group = "queued-resources"
    field = "state.state"
    # Before, WAITING_FOR_RESOURCES was called ACCEPTED.
    ready = "ACTIVE"
    lost = ("SUSPENDING", "SUSPENDED", "FAILED", "DELETING")

    @classmethod
    def add_flags(cls, parser: argparse.ArgumentParser) -> None:
        """Adds the flags of Google Cloud, and the queue's."""
        super().add_flags(parser)
        add = parser.add_argument
        add("--valid_for", type=str, help="how long it may wait, such as 6h")

    def _slices(self) -> list[str]:
        """Their names."""
        name, count = self.job.name, self.job.slices
        return [name] if count == 1 else [f"{name}-{i}" for i in range(count)]

    def start(self) -> list[Step]:
        """Asks for the slices; their machines run the script whenever they start."""
        name = self.job.name
        nodes = [f"--node-id={name}"]
        if self.job.slices > 1:
            nodes = [f"--node-count={self.job.slices}", f"--node-prefix={name}"]
        options = self._options("runtime-version")
        if self.args.valid_for:
            options.append(f"--valid-until-duration={self.args.valid_for}")
        create = self._gcloud("create", name, *nodes, *options)
        what = "a place in the queue; machines run the script as they start"
        return [Step(what, create)]

    def stop(self) -> list[Argv]:
        """Deletes the slices, and their place in the queue."""
        return [self._gcloud("delete", self.job.name, "--force", "--quiet")]
