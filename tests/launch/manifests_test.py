"""What launch makes, read by the tools that it is for, none of which reaches a cloud.

Schemas of Kubernetes and of JobSets, kubectl, gcloud's linter, systemd's parser; and
what XPK 1.16.0 makes of the same job.
"""

import json
import os
import re
import shlex
import shutil
import subprocess

import limits
import pytest
import yaml
from golden_data import require_shared

from etc_jax.launch import machine_script, slices
from etc_jax.launch.__main__ import recipe_of
from etc_jax.launch.job import FINAL_CODES, GRACE_SECS, Job
from etc_jax.training.errors import UserError

# What a shell, YAML, Kubernetes or systemd would read as something else.
WORDS = (
    *("train", "--note=it's", 'say "x"', "two  words", "", " ", "tab\there", "é"),
    *("100%", "%n %%h", "$HOME", "${HOME} x", "$(HOME)", "a$$b", "$$$", "$"),
    *("\\", "back\\slash", "end\\", "\\n", ";", "a;b", "\\;", "#x", "a #b", "a: b"),
    *("1e-4", "1", "-1", ".5", "0o17", "1_0", "2026-11-28", "y", "N", "no", "null"),
    *("~", "*", "&x", "!x", "|", ">", "-", "{x}", "[x]", "@x", "`id`", "=", "<<"),
    "a long  line " * 20,
)
KUBERNETES = ["--name=run", "--image=gcr.io/project/image:1"]
JOBSETS = {
    "tpu": ["--hardware=v5e:4x4"],
    "tpus": [
        *("--hardware=v4:2x2x2", "--slices=2", "--queue=tpus", "--priority=high"),
        *("--service_account=runner", "--env=A=$(B) 1e-4", "--namespace=team"),
    ],
    "gpu": ["--hardware=h100:8", "--slices=4", "--env=A=y"],
}
XPK = [*KUBERNETES, "--cluster=pool", "--zone=us-west4-a"]
ENVIRON = {"A": "$HOME 50% it's", "B": "", "C": 'a\\tb "c"', "D": "${X} $$"}


def recipe(name, *flags, words=WORDS):
    return recipe_of(name, [*flags, "--", *words])[0]


def jobset(case):
    return recipe("jobset", *KUBERNETES, *JOBSETS[case])


def run(*argv, **options):
    options = {"capture_output": True, "text": True, "timeout": limits.SECS, **options}
    return subprocess.run(argv, **options)


def need(program):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed here")


def job_of(manifest):
    """The template of its jobs."""
    [replicated] = manifest["spec"]["replicatedJobs"]
    return replicated["template"]["spec"]


def pod_of(manifest):
    return job_of(manifest)["template"]["spec"]


def lost(before, after, path=""):
    """Paths of what is in one tree and not, or not the same, in the other."""
    if isinstance(before, dict) and isinstance(after, dict):
        pairs = [(f"{path}.{k}", v, after.get(k)) for k, v in before.items()]
    elif isinstance(before, list) and isinstance(after, list):
        padded = [*after, *[None] * (len(before) - len(after))]
        pairs = [(f"{path}[{i}]", v, padded[i]) for i, v in enumerate(before)]
    else:
        return [] if before == after else [path]
    return [x for at, one, other in pairs for x in lost(one, other, at)]


@pytest.fixture(scope="module")
def schema_problems():
    """Says what the schemas refuse, or do not know, of a JobSet."""
    validate = pytest.importorskip("kubernetes_validate")
    model = pytest.importorskip("kubeflow_trainer_api.models").JobsetV1alpha2JobSet

    def problems(manifest):
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}}
        job["spec"] = job_of(manifest)
        try:
            validate.validate(job, validate.latest_version(), strict=True)
        except validate.ValidationError as error:
            return [error.message]
        # It drops what it does not know.
        return lost(manifest, model.from_dict(manifest).to_dict())

    return problems


@pytest.mark.torch
@pytest.mark.parametrize("case", JOBSETS)
def test_schemas_know_each_field_of_a_jobset(schema_problems, case):
    # Catches a field that is misspelt, in the wrong place, or of another type.
    assert schema_problems(jobset(case).manifest()) == []


@pytest.mark.torch
@pytest.mark.parametrize(
    "change, message",
    [
        (lambda x: job_of(x).update(backofLimit=1), "backofLimit"),
        (lambda x: pod_of(x)["containers"][0].update(imag="x"), "imag"),
        (lambda x: pod_of(x).update(hostNetwork="yes"), "yes"),
        (lambda x: x["spec"].update(failurPolicy={}), "spec.failurPolicy"),
        (lambda x: x["spec"]["failurePolicy"].update(restarts=1), "Policy.restarts"),
    ],
)
def test_schemas_refuse_a_misspelt_field(schema_problems, change, message):
    manifest = jobset("tpu").manifest()
    change(manifest)
    [problem] = schema_problems(manifest)
    assert message in problem


# Plain words that are no text to the parser of kubectl (goyaml.v2/resolve.go of
# sigs.k8s.io/yaml), and are to PyYAML.
KUBECTL_NO_TEXT = re.compile(
    r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?|[-+]?0[xob][\da-fA-F]+|[yYnN]"
)


@pytest.mark.parametrize("case", JOBSETS)
def test_the_yaml_is_the_manifest(case):
    # Catches texts that come back as numbers, dates or truth.
    planned = jobset(case)
    [text] = planned.files().values()
    assert yaml.safe_load(text) == planned.manifest()
    scalars = [x for x in yaml.parse(text) if isinstance(x, yaml.ScalarEvent)]
    plain = [x.value for x in scalars if not x.style]
    texts = [x for x in plain if isinstance(yaml.safe_load(x), str)]
    assert "JobSet" in texts and not [x for x in texts if KUBECTL_NO_TEXT.fullmatch(x)]


@pytest.mark.parametrize("case", JOBSETS)
def test_kubectl_reads_the_manifest(tmp_path, case):
    # Catches what its parser reads otherwise: 1e-4 and y without quotes.
    need("kubectl")
    planned = jobset(case)
    [text] = planned.files().values()
    (tmp_path / "jobset.yaml").write_text(text)
    file = f"--filename={tmp_path / 'jobset.yaml'}"
    got = run("kubectl", "annotate", "--local", file, "a=b", "--output=json")
    assert got.returncode == 0, got.stderr
    assert lost(planned.manifest(), json.loads(got.stdout)) == []


@pytest.mark.parametrize("name, flags", [("jobset", KUBERNETES), ("xpk", XPK)])
def test_kubectl_takes_the_flags(tmp_path, name, flags):
    # Catches a flag that it does not have; nothing answers at the address.
    need("kubectl")
    planned = recipe(name, *flags, "--hardware=v4:2x2x2", f"--folder={tmp_path}")
    for file, text in planned.files().items():
        (tmp_path / file).write_text(text)
    commands = [x.argv for x in planned.start()]
    commands += [*planned.status(), *planned.logs(), *planned.stop()]
    commands = [argv for argv in commands if argv[0] == "kubectl"]
    assert commands
    for argv in [*commands, [*commands[0], "--misspelt"]]:
        server = "--server=http://127.0.0.1:1"
        error = run(*argv, server, env={**os.environ, "KUBECONFIG": "/dev/null"}).stderr
        assert ("unknown flag" if "--misspelt" in argv else "refused") in error


def expanded(text):
    """Of a container, by Kubernetes' rules, where no variable is set."""
    return re.sub(r"\$\$|\$\([^)]*\)", lambda x: "$" if x[0] == "$$" else "OTHER", text)


def test_words_and_variables_reach_the_process_unchanged():
    # Catches what Kubernetes (of both) and a shell (of XPK's) put in their stead.
    argv = ["etc-jax", *WORDS]
    flags = ["--env=A=a$$b $(B)", "--hardware=v4:2x2x2"]
    [container] = pod_of(recipe("jobset", *KUBERNETES, *flags).manifest())["containers"]
    assert [expanded(x) for x in container["command"]] == argv
    assert expanded(container["env"][-1]["value"]) == "a$$b $(B)"
    [start] = recipe("xpk", *XPK, *flags).start()
    options = dict(x.split("=", 1) for x in start.argv if x.startswith("--command="))
    assert shlex.split(expanded(options["--command"])) == argv
    assert expanded(start.argv[-1]) == "A=a$$b $(B)"


def test_xpk_puts_the_job_where_kubectl_looks():
    # By itself it takes the namespace that kubectl was set to last.
    planned = recipe("xpk", *XPK, "--hardware=v4:2x2x2", "--namespace=team")
    commands = [*(x.argv for x in planned.start()), *planned.status(), *planned.stop()]
    assert all("--namespace=team" in argv for argv in [*commands, *planned.logs()])


@pytest.mark.parametrize(
    "hardware, type_",
    [("v4:2x2x2", "v4-16"), ("v5e:2x4", "v5litepod-8"), ("tpu7x:2x2x2", "tpu7x-2x2x2")],
)
def test_xpk_has_a_name_for_the_slice(hardware, type_):
    # Names of the table of XPK 1.16.0.
    [start] = recipe("xpk", *XPK, f"--hardware={hardware}").start()
    assert f"--tpu-type={type_}" in start.argv


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--hardware=v5e:1x1"], "v5e:1x1 has no name in XPK"),
        (["--hardware=v5e:2x2"], "v5e:2x2 has no name in XPK"),
        (["--hardware=h100:8"], "xpk has TPUs alone"),
        # XPK writes them into YAML between quotes, as they are.
        (["--hardware=v6e:1x1", '--env=A="b"'], r'takes no " and no \\ in a value'),
        (["--hardware=v6e:1x1", "--env=A=b\\c"], r'takes no " and no \\ in a value'),
    ],
)
def test_what_xpk_does_not_take_is_refused(flags, message):
    with pytest.raises(UserError, match=message):
        recipe("xpk", *XPK, *flags)


def meaning(manifest):
    """What decides where a job runs, and how it ends."""
    spec, job, pod = manifest["spec"], job_of(manifest), pod_of(manifest)
    [container], [replicated] = pod["containers"], spec["replicatedJobs"]
    of_pod = ["restartPolicy", "nodeSelector", "tolerations", "hostNetwork"]
    of_pod += ["dnsPolicy", "priorityClassName"]
    return {
        "annotations": manifest["metadata"]["annotations"],
        "queue": manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"],
        "replicas": replicated["replicas"],
        **{x: spec[x] for x in ("failurePolicy", "ttlSecondsAfterFinished")},
        **{x: job[x] for x in ("parallelism", "completions", "backoffLimit")},
        **{x: pod[x] for x in of_pod},
        **{x: container[x] for x in ("image", "resources", "securityContext")},
        "mounts": [x["mountPath"] for x in container["volumeMounts"]],
        "volumes": [x["emptyDir"] for x in pod["volumes"]],
    }


def test_a_jobset_says_what_that_of_xpk_says():
    # Catches a field whose meaning differs; the file is of the same job.
    path = require_shared("prototypes/beyond_one_machine/job.yaml")
    theirs = yaml.safe_load(path.read_text())
    flags = ["--hardware=v4:2x2x2", "--slices=2", "--restarts=3", "--priority=medium"]
    flags += ["--image=gcr.io/my-proj/img:1", "--queue=multislice-queue"]
    ours = recipe("jobset", "--name=etc-run", *flags).manifest()
    assert meaning(ours) == meaning(theirs)
    grace = "terminationGracePeriodSeconds"
    assert pod_of(theirs)[grace] == 30 and pod_of(ours)[grace] == GRACE_SECS


def test_exit_codes_that_start_again_are_those_of_xpk_and_more():
    path = require_shared("prototypes/beyond_one_machine/job.yaml")
    theirs = restarting(yaml.safe_load(path.read_text()))
    ours = restarting(jobset("tpus").manifest())
    assert {17, 130, 137, 143} <= theirs < ours and not ours & {0, *FINAL_CODES}
    assert ours - theirs == {1, *range(5, 17), *range(18, 42), *range(43, 127)}
    [start] = recipe("xpk", *XPK, "--hardware=v4:2x2x2").start()
    assert "--restart-on-exit-codes=1,17" in start.argv


def restarting(manifest):
    """Exit codes after which a job starts again."""
    [rule] = job_of(manifest)["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob"
    codes = rule["onExitCodes"]
    inside = codes["operator"] == "In"
    return {x for x in range(1, 256) if (x in codes["values"]) != inside}


@pytest.mark.parametrize(
    "name, accelerator, hosts, chips, gke",
    [
        ("v4:2x2x1", "v4-8", 1, 4, "tpu-v4-podslice"),
        ("v4:4x4x4", "v4-128", 16, 4, "tpu-v4-podslice"),
        ("v5e:1x1", "v5litepod-1", 1, 1, "tpu-v5-lite-podslice"),
        ("v5e:2x4", "v5litepod-8", 2, 4, "tpu-v5-lite-podslice"),
        ("v5e:16x16", "v5litepod-256", 64, 4, "tpu-v5-lite-podslice"),
        ("v5p:2x2x2", "v5p-16", 2, 4, "tpu-v5p-slice"),
        ("v5p:4x8x8", "v5p-512", 64, 4, "tpu-v5p-slice"),
        ("v6e:1x1", "v6e-1", 1, 1, "tpu-v6e-slice"),
        ("v6e:2x2", "v6e-4", 1, 4, "tpu-v6e-slice"),
        ("v6e:8x16", "v6e-128", 32, 4, "tpu-v6e-slice"),
        ("tpu7x:2x2x1", None, 1, 4, "tpu7x"),
        ("tpu7x:4x4x8", None, 32, 4, "tpu7x"),
        ("h100:8", None, 1, 8, "nvidia-h100-80gb"),
        ("h200:8", None, 1, 8, "nvidia-h200-141gb"),
    ],
)
def test_slices_are_those_of_xpks_table(name, accelerator, hosts, chips, gke):
    # Catches a wrong count of cores or hosts; the whole table was compared by hand.
    slice_ = slices.parse(name)
    assert (slice_.hosts, slice_.chips_per_host, slice_.kind.gke) == (hosts, chips, gke)
    if accelerator:
        assert slice_.accelerator_type == accelerator
    else:
        assert not slice_.kind.accelerator


def gcloud_commands():
    """All of both back ends, with all flags."""
    shared = ["--name=run", "--zone=us-east5-a", "--network=n", "--project=p"]
    shared.append("--service_account=a@b.iam.gserviceaccount.com")
    queued = ["--hardware=v5p:4x4x4", "--slices=2", "--spot", "--valid_for=6h"]
    for name, flags in (
        ("tpu_vm", ["--hardware=v6e:2x4", "--spot"]),
        ("queued", queued),
    ):
        planned = recipe(name, *shared, *flags)
        yield from (x.argv for x in [*planned.start(), *planned.rerun()])
        yield from [*planned.status(), *planned.logs(), *planned.stop()]
    planned = recipe("queued", *shared, "--hardware=v4:2x2x2", "--reserved")
    yield from (x.argv for x in planned.start())


@pytest.mark.full
def test_gcloud_takes_the_commands(tmp_path):
    # Catches a flag or a group that it does not have, and a flag that it needs; a third
    # of a second each.
    need("gcloud")
    commands = list(gcloud_commands())
    create = next(x for x in commands if "queued-resources" in x)
    no_runtime = [x for x in create if not x.startswith("--runtime-version")]
    wrong = [[*create, "--misspelt"], no_runtime, [*create[:4], "crate", *create[5:]]]
    lines = [{"command_string": shlex.join(x)} for x in [*commands, *wrong]]
    (tmp_path / "commands.json").write_text(json.dumps(lines))
    got = run(
        *("gcloud", "meta", "lint-gcloud-commands"),
        f"--commands-file={tmp_path / 'commands.json'}",
        env={**os.environ, "HOME": str(tmp_path), "CLOUDSDK_CONFIG": str(tmp_path)},
    )
    assert got.returncode == 0, got.stderr
    # The same command twice has one answer.
    errors = [x["error_message"] for x in json.loads(got.stdout)]
    assert len(errors) == len({x["command_string"] for x in lines})
    assert errors[:-3] == [None] * (len(errors) - 3)
    expected = ("unrecognized arguments: --misspelt", "--runtime-version", "crate")
    for error, message in zip(errors[-3:], expected, strict=True):
        assert message in error


@pytest.fixture
def unit(tmp_path):
    """Makes the service's file as the script does, below a folder; returns its path."""
    programs = tmp_path / "opt/etc_jax/venv/bin"
    programs.mkdir(parents=True)
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    for program in (programs / "etc-jax", programs / "systemctl"):
        program.write_text(f"#!/bin/sh\necho $@ >> {tmp_path}/calls\n[ $1 != cat ]\n")
        program.chmod(0o755)

    def make(*words, **environ):
        job = Job("run", words, slices.parse("v5e:4x4"), environ=environ)
        text = machine_script.script(job, "etc_jax[tpu] @ git+https://host/it's")
        text = re.sub("/(opt|etc)/(etc_jax|systemd)", rf"{tmp_path}/\1/\2", text)
        path = f"{programs}:{os.environ['PATH']}"
        got = run("bash", "-c", text, env={**os.environ, "PATH": path})
        assert (got.returncode, got.stderr) == (0, "")
        return tmp_path / "etc/systemd/system/etc_jax.service"

    return make


def verify(unit, level="info"):
    """What systemd says of it, and at the level debug: what it has read."""
    need("systemd-analyze")
    environ = {**os.environ, "SYSTEMD_LOG_LEVEL": level}
    return run("systemd-analyze", "verify", str(unit), env=environ)


def dumped(unit, name):
    """Values of that name, as systemd has read the file."""
    lines = verify(unit, "debug").stdout.splitlines()
    return [x.partition(": ")[2] for x in lines if x.strip().startswith(f"{name}: ")]


def words_of(line):
    """Words that systemd prints: some between double quotes, with escapes."""

    def plain(match):
        if match[1] is None:
            return match[0]
        return re.sub(r"\\(.)", lambda x: {"t": "\t"}.get(x[1], x[1]), match[1])

    return [plain(x) for x in re.finditer(r'"((?:\\.|[^"\\])*)"|\S+', line)]


def at_start(word):
    """What systemd makes of a word as it starts a program: $ begins a name, $$ is $."""
    assert "$" not in word.replace("$$", "")
    return word.replace("$$", "$")


def test_systemd_has_nothing_to_say_of_the_service(unit):
    # Catches a setting that it does not know, or cannot read.
    path = unit(*WORDS, **ENVIRON)
    got = verify(path)
    assert got.returncode == 0 and "etc_jax" not in got.stdout + got.stderr
    assert dumped(path, "TimeoutStopSec") == ["5min"]
    assert dumped(path, "Restart") == ["on-failure"]
    path.write_text(path.read_text().replace("RestartSec", "RestartSecs"))
    assert "RestartSecs" in verify(path).stderr


def test_systemd_reads_words_and_variables_unchanged(unit):
    # Catches quotes, %, $ and backslashes, of which it has rules of its own.
    path = unit(*WORDS, **ENVIRON)
    *_, line = dumped(path, "Command Line")
    program, *words = map(at_start, words_of(line))
    assert program.endswith("/opt/etc_jax/venv/bin/etc-jax")
    assert words == list(WORDS)
    environ = dict(x.partition("=")[::2] for x in dumped(path, "Environment"))
    assert environ == {"PYTHONUNBUFFERED": "1", "HOME": "/root", **ENVIRON}


def test_the_script_makes_files_that_bash_reads_and_starts_the_service(unit, tmp_path):
    unit("train")
    install = tmp_path / "opt/etc_jax/install.sh"
    assert run("bash", "-n", str(install)).returncode == 0
    [wanted] = [x for x in install.read_text().splitlines() if x[:7] == "wanted="]
    got = run("bash", "-c", f'{wanted}; printf %s "$wanted"').stdout
    assert got == "etc_jax[tpu] @ git+https://host/it's"
    *_, last = (tmp_path / "calls").read_text().splitlines()
    assert last == "restart --no-block etc_jax"
