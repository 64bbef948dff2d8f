"""Jobs in Kubernetes: a JobSet of one's own, or one that XPK makes."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from typing import Any

import yaml

from etc_jax.launch import backend
from etc_jax.launch.backend import Phase, RunFn, State
from etc_jax.launch.job import FINAL_CODES, GRACE_SECS, Argv, Step
from etc_jax.training.errors import CRASHED, PREEMPTED

_MANIFEST = "jobset.yaml"
_CONTAINER = "etc-jax"
_REPLICAS = "slice"  # the name of the replicated job
_PORT = 8476  # where processes with GPUs meet
_INDEX = "batch.kubernetes.io/job-completion-index"
_NAME_LABEL = "jobset.sigs.k8s.io/jobset-name"
_KEPT_SECS = 12 * 3600  # after the end
# Words that kubectl reads as numbers or as yes and no, where PyYAML does not: 1e-4, y.
_OTHER_THAN_TEXT = re.compile(r"[-+]?\.?\d.*|[yYnN]", re.DOTALL)
# Sizes that XPK has no name for.
_NOT_IN_XPK = ("v5e:1x1", "v5e:2x2")


class _Dumper(yaml.SafeDumper):
    """Writes YAML whose texts are texts for kubectl too."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "'" if _OTHER_THAN_TEXT.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent_text)


def _literal(text: str) -> str:
    """Text of a container, where $(NAME) would be replaced and $$ be $."""
    return text.replace("$", "$$")


class _Kubernetes(backend.Backend):
    """What both share: what kubectl is asked."""

    @classmethod
    def add_flags(cls, parser: argparse.ArgumentParser) -> None:
        """Adds the flags of both."""
        add = parser.add_argument
        add("--image", type=str, help="of the container, which has etc-jax in it")
        add("--namespace", type=str, default="default", help="of Kubernetes")
        add("--priority", type=str, help="class of the pods, or XPK's word for it")

    def problems(self) -> list[str]:
        """What is wrong with the job here, or with flags."""
        wrong = super().problems()
        if not self.args.image:
            wrong.append("--image is needed: a container that has etc-jax in it")
        if not self.job.slice.kind.gke:
            wrong.append(
                f"--hardware={self.job.slice.name} is not in Kubernetes: launch it by "
                "tpu_vm or queued"
            )
        return wrong

    def _kubectl(self, *words: str) -> Argv:
        return ["kubectl", f"--namespace={self.args.namespace}", *words]

    def _pods(self, *more: str) -> str:
        return "--selector=" + ",".join([f"{_NAME_LABEL}={self.job.name}", *more])

    def logs(self) -> list[Argv]:
        """The newest lines of the first process of each slice."""
        pods = self._pods(f"{_INDEX}=0")
        return [self._kubectl("logs", pods, "--tail=100", "--prefix")]

    def state(self, run_fn: RunFn) -> State:
        """How far it is."""
        argv = self._kubectl("get", "jobset", self.job.name, "--output=json")
        answer = run_fn(argv)
        if answer.code and "NotFound" in answer.error:
            return State(Phase.ABSENT)
        status = json.loads(backend.checked_answer(answer, argv)).get("status", {})
        restarts = f"{status.get('restarts', 0)} restarts"
        for condition in status.get("conditions", []):
            if condition["status"] == "True" and condition["type"] == "Completed":
                return State(Phase.ENDED, restarts, 0)
            if condition["status"] == "True" and condition["type"] == "Failed":
                return State(Phase.ENDED, restarts, self._exit_code(run_fn))
        active = sum(x.get("active", 0) for x in status.get("replicatedJobsStatus", []))
        return State(Phase.RUNNING if active else Phase.WAITING, restarts)

    def _exit_code(self, run_fn: RunFn) -> int:
        """That says most, of the containers that have ended."""
        argv = self._kubectl("get", "pods", self._pods(), "--output=json")
        pods = json.loads(backend.checked_answer(run_fn(argv), argv))["items"]
        codes = [
            container["state"]["terminated"]["exitCode"]
            for pod in pods
            for container in pod["status"].get("containerStatuses", [])
            if "terminated" in container["state"]
        ]
        for code in (*FINAL_CODES, *codes):
            if code and code in codes:
                return code
        return CRASHED


@backend.register
class Jobset(_Kubernetes):
    """A JobSet in Kubernetes, whose queue may be Kueue's: kubectl apply."""

    name = "jobset"
    takes_gpus = True

    @classmethod
    def add_flags(cls, parser: argparse.ArgumentParser) -> None:
        """Adds its flags."""
        super().add_flags(parser)
        add = parser.add_argument
        add("--queue", type=str, help="a LocalQueue of Kueue; default: none")
        add("--service_account", type=str, help="of Kubernetes, that pods act as")

    def files(self) -> dict[str, str]:
        """The manifest."""
        text = yaml.dump(self.manifest(), Dumper=_Dumper, sort_keys=False)
        return {_MANIFEST: text}

    def start(self) -> list[Step]:
        """Hands the manifest in."""
        argv = self._kubectl("apply", f"--filename={self.path(_MANIFEST)}")
        return [Step("the JobSet", argv)]

    def status(self) -> list[Argv]:
        """Of the JobSet, and of its pods."""
        return [
            self._kubectl("get", "jobset", self.job.name),
            self._kubectl("get", "pods", self._pods(), "--output=wide"),
        ]

    def stop(self) -> list[Argv]:
        """Deletes the JobSet."""
        return [self._kubectl("delete", "jobset", self.job.name)]

    def manifest(self) -> dict[str, Any]:
        """The JobSet; see jobset.sigs.k8s.io and "TPUs in GKE" (cloud.google.com)."""
        job, slice_ = self.job, self.job.slice
        # A replica is what one fast network joins: TPUs of a slice, or all hosts.
        replicas, pods = job.slices, slice_.hosts
        if not slice_.is_tpu:
            replicas, pods = 1, job.slices
        labels = {"kueue.x-k8s.io/queue-name": self.args.queue}
        metadata = {
            "name": job.name,
            "namespace": self.args.namespace,
            "labels": {k: v for k, v in labels.items() if v},
            "annotations": {
                "alpha.jobset.sigs.k8s.io/exclusive-topology": (
                    "cloud.google.com/gke-nodepool"
                )
            },
        }
        if not slice_.is_tpu:
            del metadata["annotations"]
        template = {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": {
                            "containerName": _CONTAINER,
                            "operator": "In",
                            "values": list(FINAL_CODES),
                        },
                    }
                ]
            },
            "template": {"spec": self._pod()},
        }
        rule = {"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
        return {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {k: v for k, v in metadata.items() if v},
            "spec": {
                "ttlSecondsAfterFinished": _KEPT_SECS,
                "failurePolicy": {"maxRestarts": job.restarts, "rules": [rule]},
                "replicatedJobs": [
                    {
                        "name": _REPLICAS,
                        "replicas": replicas,
                        "template": {"spec": template},
                    }
                ],
            },
        }

    def _pod(self) -> dict[str, Any]:
        slice_ = self.job.slice
        if slice_.is_tpu:
            resource = "google.com/tpu"
            selector = {
                "cloud.google.com/gke-tpu-accelerator": slice_.kind.gke,
                "cloud.google.com/gke-tpu-topology": slice_.size_name,
            }
        else:
            resource = "nvidia.com/gpu"
            selector = {"cloud.google.com/gke-accelerator": slice_.kind.gke}
        pod: dict[str, Any] = {
            "restartPolicy": "Never",
            "nodeSelector": selector,
            "tolerations": [{"key": resource, "operator": "Exists"}],
            "hostNetwork": True,
            "dnsPolicy": "ClusterFirstWithHostNet",
            "terminationGracePeriodSeconds": GRACE_SECS,
            "containers": [
                {
                    "name": _CONTAINER,
                    "image": self.args.image,
                    "command": [_literal(word) for word in self.job.argv],
                    "env": self._environ(),
                    "resources": {"limits": {resource: slice_.chips_per_host}},
                    # libtpu locks pages of memory, and asks for devices.
                    "securityContext": {"privileged": True},
                    "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                }
            ],
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
        }
        if self.args.service_account:
            pod["serviceAccountName"] = self.args.service_account
        if self.args.priority:
            pod["priorityClassName"] = self.args.priority
        return pod

    def _environ(self) -> list[dict[str, Any]]:
        variables: list[dict[str, Any]] = [
            {"name": name, "value": _literal(value)}
            for name, value in self.job.variables.items()
        ]
        if self.job.slice.is_tpu:
            return variables  # GKE says to TPU programs where they meet
        first = f"{self.job.name}-{_REPLICAS}-0-0.{self.job.name}:{_PORT}"
        index = {"fieldRef": {"fieldPath": f"metadata.annotations['{_INDEX}']"}}
        return variables + [
            {"name": "JAX_COORDINATOR_ADDRESS", "value": first},
            {"name": "JAX_NUM_PROCESSES", "value": str(self.job.slices)},
            {"name": "JAX_PROCESS_ID", "valueFrom": index},
        ]


@backend.register
class Xpk(_Kubernetes):
    """TPUs of a cluster that XPK has made: xpk workload create."""

    name = "xpk"

    @classmethod
    def add_flags(cls, parser: argparse.ArgumentParser) -> None:
        """Adds its flags."""
        super().add_flags(parser)
        add = parser.add_argument
        add("--cluster", type=str, help="that xpk cluster create has made")
        add("--zone", type=str, help="of Google Cloud, such as us-west4-a")
        add("--project", type=str, help="of Google Cloud; default: gcloud's own")

    def problems(self) -> list[str]:
        """What is wrong with the job here, or with flags."""
        flags = [name for name in ("cluster", "zone") if not getattr(self.args, name)]
        wrong = super().problems() + [f"--{name} is needed" for name in flags]
        if self.job.slice.name in _NOT_IN_XPK:
            wrong.append(
                f"--hardware={self.job.slice.name} has no name in XPK, whose smallest "
                "of the kind is v5e:2x4; launch it by jobset"
            )
        for name, value in self.job.environ.items():
            if set(value) & set('"\\'):  # XPK puts it between quotes as it is
                wrong.append(
                    f'--env is {name}={value}; XPK takes no " and no \\ in a value'
                )
        return wrong

    def _xpk(self, *words: str) -> Argv:
        project = self.args.project and f"--project={self.args.project}"
        return [
            *("xpk", "workload", *words, f"--cluster={self.args.cluster}"),
            *filter(None, (f"--zone={self.args.zone}", project)),
            # By itself it takes that which kubectl was set to last.
            f"--namespace={self.args.namespace}",
        ]

    def start(self) -> list[Step]:
        """Hands the job in."""
        job, kind = self.job, self.job.slice.kind
        # Of kinds that GKE alone has, xpk spells the size.
        type_ = f"tpu7x-{job.slice.size_name}"
        options = [
            f"--tpu-type={job.slice.accelerator_type if kind.accelerator else type_}",
            f"--num-slices={job.slices}",
            f"--docker-image={self.args.image}",
            # A shell reads it there.
            f"--command={_literal(shlex.join(job.argv))}",
            f"--max-restarts={job.restarts}",
            # By itself it restarts after 42 and 127 to 255 alone.
            f"--restart-on-exit-codes={CRASHED},{PREEMPTED}",
            f"--termination-grace-period-seconds={GRACE_SECS}",
        ]
        if self.args.priority:
            options.append(f"--priority={self.args.priority}")
        for name, value in job.variables.items():
            options += ["--env", f"{name}={_literal(value)}"]
        argv = self._xpk("create", f"--workload={job.name}")
        return [Step("the workload", [*argv, *options])]

    def status(self) -> list[Argv]:
        """Of the workload."""
        return [self._xpk("list", f"--filter-by-job={self.job.name}")]

    def stop(self) -> list[Argv]:
        """Deletes the workload."""
        return [self._xpk("delete", f"--workload={self.job.name}", "--force")]
