"""Jobs that are started, watched, lost and started again, around fake programs."""

import json
import os

import fake_cloud
import pytest

from etc_jax.launch import __main__ as launch, babysit
from etc_jax.launch.backend import Phase

GOOGLE = ["--name=job", "--hardware=v5e:4x4", "--zone=z"]
TRAIN = ["--", "train", "--config=x", "--workdir=gs://b/run"]
FLAGS = {
    "tpu_vm": GOOGLE,
    "queued": GOOGLE,
    "jobset": ["--name=job", "--hardware=v5e:4x4", "--image=i"],
    "xpk": [*GOOGLE, "--image=i", "--cluster=c"],
    "slurm": ["--name=job", "--hardware=h100:8"],
}


def service(state, code=0):
    return f"LoadState=loaded\nActiveState={state}\nExecMainStatus={code}"


def jobset(restarts, condition=None, active=1):
    conditions = [{"type": condition, "status": "True"}] if condition else []
    status = {"restarts": restarts, "conditions": conditions}
    return json.dumps(
        {"status": status | {"replicatedJobsStatus": [{"active": active}]}}
    )


def pods(*codes):
    ended = [{"state": {"terminated": {"exitCode": code}}} for code in codes]
    return json.dumps({"items": [{"status": {"containerStatuses": ended}}]})


GOES, SETS_UP = service("active"), "LoadState=not-found\nActiveState=inactive\n"
SETS_UP += "ExecMainStatus=0"
# Lives of a job on slices that are taken away three times.
AT_ONCE = [["CREATING", ""], ["READY", SETS_UP], ["READY", GOES], ["PREEMPTED", ""]]
QUEUE = [["ACCEPTED", ""], ["PROVISIONING", ""], ["ACTIVE", GOES], ["SUSPENDED", ""]]
RENAMED = [["WAITING_FOR_RESOURCES", ""], ["ACTIVE", service("activating")]]
DONE = service("inactive")


class Clock:
    """Seconds that pass where a program would wait."""

    def __init__(self):
        self.now, self.pauses = 0.0, []

    def sleep(self, secs):
        self.pauses.append(secs)
        self.now += secs


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    """Gives (function that makes a back end with the lives of its job, its calls)."""

    def make(name, *lives, more=()):
        programs = fake_cloud.install(tmp_path, list(lives))
        monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
        monkeypatch.setenv("FAKE_CLOUD", str(tmp_path))
        argv = [*FLAGS[name], f"--folder={tmp_path}/files", *more, *TRAIN]
        return launch.recipe_of(name, argv)[0]

    return make


def watch(backend_, clock):
    (code,) = babysit.babysit(
        [backend_], sleep_fn=clock.sleep, clock_fn=lambda: clock.now, poll_secs=1.0
    )
    return code


def verbs(folder):
    """Of the commands that start and end."""
    wanted = ("create", "delete", "apply", "sbatch", "scancel")
    return [
        word for call in fake_cloud.calls(folder) for word in call if word in wanted
    ]


@pytest.mark.parametrize(
    "name, lost, last",
    [
        ("tpu_vm", AT_ONCE, [["READY", GOES], ["READY", DONE]]),
        ("queued", QUEUE, [*RENAMED, ["ACTIVE", GOES], ["ACTIVE", DONE]]),
    ],
)
def test_a_job_whose_slices_are_taken_away_three_times_ends(
    name, lost, last, cloud, tmp_path, capsys
):
    backend_ = cloud(name, lost, lost, lost, last)
    clock = Clock()
    assert watch(backend_, clock) == 0
    # In the end the machines are given back.
    assert verbs(tmp_path) == ["create", "delete"] * 4
    # The machines were asked for at once, and then after longer and longer pauses.
    assert 30 + 60 + 120 < clock.now < 30 + 60 + 120 + 20
    text = capsys.readouterr().out
    assert text.count(f"job {Phase.LOST.value}") == 3
    assert text.rstrip().endswith("job ended (inactive), exit code 0")


def test_a_cluster_starts_a_job_again_by_itself(cloud, tmp_path):
    looks = [jobset(0, active=0), jobset(0), jobset(1, active=0), jobset(2), jobset(3)]
    looks.append(jobset(3, "Completed", active=0))
    backend_ = cloud("jobset", [[look, ""] for look in looks])
    assert watch(backend_, Clock()) == 0
    assert verbs(tmp_path) == ["apply"]


@pytest.mark.parametrize("code", [2, 3, 4])
@pytest.mark.parametrize("name", ["tpu_vm", "queued", "jobset", "xpk"])
def test_what_would_end_in_the_same_way_is_left_alone(
    name, code, cloud, tmp_path, capsys
):
    ready = {"tpu_vm": "READY", "queued": "ACTIVE"}
    look = [ready.get(name), service("failed", code)]
    if name not in ready:  # one container was faster; the others were killed
        look = [jobset(0, "Failed", active=0), pods(137, code, 1)]
    backend_ = cloud(name, [look])
    assert watch(backend_, Clock()) == code
    ends = ["delete"] if name in ready else []
    assert verbs(tmp_path) == ["apply" if name == "jobset" else "create", *ends]
    shown = capsys.readouterr().out
    assert "the same command would end in the same way; what it printed last:" in shown


@pytest.mark.parametrize(
    "answer, phase, code",
    [
        (service("activating"), Phase.RUNNING, None),
        (service("inactive", 0), Phase.ENDED, 0),
        (service("failed", 17), Phase.ENDED, 17),  # as often as it may be
        (service("failed", 0), Phase.ENDED, 1),  # its package was not installed
        (SETS_UP, Phase.WAITING, None),
    ],
)
def test_a_service_is_understood(answer, phase, code, cloud):
    backend_ = cloud("tpu_vm", [["READY", answer]])
    babysit.give(backend_.start())
    state = backend_.state(babysit.run)
    assert (state.phase, state.code) == (phase, code)


def test_a_job_is_lost_as_often_as_it_may_be(cloud, tmp_path, capsys):
    backend_ = cloud("queued", *[[["FAILED", ""]]] * 9, more=["--restarts=2"])
    assert watch(backend_, Clock()) == 1
    assert "job was lost, or could not be started, 3 times" in capsys.readouterr().err
    assert verbs(tmp_path).count("create") == 3


def test_a_back_end_that_stops_answering_is_given_up(cloud, tmp_path, capsys):
    backend_, clock = cloud("queued", [["ACTIVE", GOES]]), Clock()
    answers = []

    def run(argv):
        answers.append(argv)
        if len(answers) < 6:
            return babysit.run(argv)
        return babysit.Answer(1, "", "ERROR: no network\n")

    assert babysit.babysit([backend_], run_fn=run, sleep_fn=clock.sleep) == [1]
    assert "describe ... exited with 1: ERROR: no n" in capsys.readouterr().err
    assert verbs(tmp_path) == ["create"]


def test_the_command_writes_its_files_starts_shows_and_stops(cloud, tmp_path, capsys):
    cloud("queued", [["ACTIVE", GOES]])
    files = f"--folder={tmp_path}/files"
    for action in ("run", "status", "logs", "rerun", "stop"):
        assert launch.main(["queued", action, *FLAGS["queued"], files, *TRAIN]) == 0
    text = capsys.readouterr().out
    assert "ACTIVE\nLoadState=loaded\n" in text
    script = tmp_path / "files/start.sh"
    assert "etc-jax train --config=x" in script.read_text()
    create, *_, delete = fake_cloud.calls(tmp_path)
    assert f"--metadata-from-file=startup-script={script}" in create
    assert delete[4:6] == ["delete", "job"]
    assert launch.main(["queued", "status", *FLAGS["queued"], files]) == 1  # it is gone
    assert "NOT_FOUND" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv, message",
    [
        (["quued"], "there is no back end quued; did you mean 'queued'?"),
        (["queued", *FLAGS["queued"]], "nothing to run: put a command after --"),
        (["queued", "--name=A_", *GOOGLE[1:], *TRAIN], "--name is 'A_'; expected"),
        (["queued", *GOOGLE[:2], *TRAIN], "--zone is needed"),
        (["queued", *GOOGLE, "--env=A", *TRAIN], "--env is 'A'; expected NAME=VALUE"),
        (["queued", *GOOGLE, "--env=1=2", *TRAIN], "--env is 1='2'; expected"),
        (["queued", *GOOGLE, "--slices=0", *TRAIN], "--slices is 0; expected at least"),
        (["queued", *GOOGLE, "--spot", "--reserved", *TRAIN], "exclude each other"),
        (["queued", *GOOGLE, "--", "train", "a\nb"], "has a line feed"),
        (["tpu_vm", *GOOGLE, "--slices=2", *TRAIN], "launch them by queued"),
        (["tpu_vm", "--name=a", *TRAIN], "--hardware is needed"),
        (
            ["tpu_vm", "--name=a", "--hardware=v5e:4x5", *TRAIN],
            "--hardware=v5e:4x5 is not known; did you mean 'v5e:4x",
        ),
        (
            ["tpu_vm", "--name=a", "--zone=z", "--hardware=tpu7x:2x2x1", *TRAIN],
            "is lent through Kubernetes alone",
        ),
        (
            ["jobset", *FLAGS["jobset"], "--hardware=v3:4x4", *TRAIN],
            "--hardware=v3:4x4 is not in Kubernetes",
        ),
        (
            ["queued", "--name=a", "--zone=z", "--hardware=h100:8", *TRAIN],
            "queued has TPUs alone",
        ),
        (["slurm", "--name=a", "--hardware=v5e:2x2", *TRAIN], "slurm has no TPUs"),
        (["jobset", *FLAGS["jobset"][:2], *TRAIN], "--image is needed"),
        (["xpk", *FLAGS["jobset"], *TRAIN], "--cluster is needed"),
        (["variables", "--name=a", "--hardware=h100:8", *TRAIN], "--address is needed"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_started(argv, message, capsys):
    assert launch.main(argv) == 2
    assert message in capsys.readouterr().err


def test_a_program_that_is_not_installed_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    files = f"--folder={tmp_path}/files"
    assert launch.main(["queued", "run", *FLAGS["queued"], files, *TRAIN]) == 1
    assert "gcloud is not installed here" in capsys.readouterr().err
