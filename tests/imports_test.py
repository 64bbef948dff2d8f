"""What importing costs, what it needs, and which way imports go."""

import ast
import json
import os
import subprocess
import sys

import limits
import pytest
from repository import ROOT

PACKAGE = ROOT / "etc_jax"
# CPU time of importing all of etc_jax, to that of importing what it requires, both from
# bytecode: a ratio of one process, which is the same on a slow machine.
MAX_RATIO = 0.55
MAX_MIB = 300
BLOCKED = (
    "tensorflow",
    "seqio",
    "torch",
    "grain",
    "tensorboardX",
    "pyarrow",
    "wandb",
    "nupunkt",
    "matplotlib",
    "sacrebleu",
    "rouge_score",
    "nltk",
    "sacremoses",
    "sklearn",
    "seqeval",
    "distributed",
)

# Parts that use the rest, which knows nothing of them; files of theirs import seqio and
# tensorflow at the top.
USERS = ("configs", "launch", "papers", "tasks")

IMPORT_ALL = """
import json, sys, time

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in %r:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, Blocked())
start = time.process_time()
import absl.app, flax.linen, jax, ml_collections, numpy, optax, orbax.checkpoint
# For kernels, which nothing imports at its top.
import jax.experimental.pallas.tpu, jax.experimental.pallas.triton
import safetensors, scipy, sentencepiece, tokenizers, tqdm
cpu = time.process_time()
import importlib, resource
for name in sys.argv[1:]:
    importlib.import_module(name)
peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
if sys.platform == "linux":
    # ru_maxrss begins with the peak of the process that started this one.
    status = open("/proc/self/status").read()
    peak_mib = int(status.split("VmHWM:")[1].split()[0]) / 2**10
print(json.dumps({
    "required_cpu_secs": cpu - start,
    "cpu_secs": time.process_time() - cpu,
    "mib": peak_mib,
}))
"""


def modules() -> list[str]:
    """Names of all modules but those of USERS, which `pkgutil` would import to list."""
    names = (f"etc_jax/{source}".removesuffix(".py") for source in sources())
    return [name.removesuffix("/__init__").replace("/", ".") for name in names]


def import_all(blocked=BLOCKED) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", IMPORT_ALL % (blocked,), *modules()],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            # What is required was compiled when it was installed; the first run leaves
            # the bytecode of etc_jax to the others.
            "PYTHONDONTWRITEBYTECODE": "",
        },
        capture_output=True,
        text=True,
        timeout=limits.SECS,
    )


@pytest.fixture(scope="module")
def imports():
    """Measurements of three imports of everything, each in a process of its own.

    They need none of the heavy packages, which are blocked.
    """
    runs = [import_all() for _ in range(3)]
    for run in runs:
        assert run.returncode == 0, run.stderr
    return [json.loads(run.stdout) for run in runs]


def test_the_block_works():
    got = import_all(blocked=("tqdm",))
    assert got.returncode != 0 and "tqdm is blocked" in got.stderr


def test_kernels_are_imported_where_they_are_used():
    text = "import sys; import etc_jax.models.encoder.body; "
    text += "sys.exit('jax.experimental.pallas.triton' in sys.modules)"
    subprocess.run([sys.executable, "-c", text], cwd=ROOT, check=True)


def test_importing_everything_needs_no_heavy_package_and_little_time(imports):
    ratio = min(x["cpu_secs"] / x["required_cpu_secs"] for x in imports)
    mib = min(x["mib"] for x in imports)
    print(f"importing all: {ratio:.2f} of what it requires, {mib:.0f} MiB")
    assert ratio < MAX_RATIO
    assert mib < MAX_MIB


# Room, the first name below etc_jax -> rooms that it may import besides itself. A room
# imports only those above it.
FILES = {"base", "config", "data", "datasets", "training"}
ALLOWED = {
    "base": set(),
    "structure": {"base"},
    "sharding": {"base"},
    "config": {"base", "sharding"},
    "ops": {"base", "sharding", "structure"},
    "layers": {"base", "ops", "sharding", "structure"},
    # A source of data has a section of its own.
    "data": {"base", "config", "structure"},
    "formats": {"base", "data", "structure"},
    # Plain Python values in, plain Python values out.
    "scoring": {"base", "data"},
    # What the data sets in `tasks`, and in packages of users, are to the library.
    "datasets": {"base", "config", "data", "formats", "scoring", "structure"},
    # Tables of names and files, whatever the family.
    "conversion": {"base", "config", "data"},
    # conversion: a family has the names of its weights in other projects.
    "models": (
        {"base", "config", "conversion", "layers", "ops", "sharding", "structure"}
    ),
    # conversion: models that it saved are read.
    "training": {"base", "config", "conversion", "sharding"},
    "generation": FILES | {"conversion", "formats", "ops"},
    # A model of any folder, with its tokenizer and the names of its labels.
    "loading": (
        FILES | {"conversion", "formats", "generation", "models", "ops", "structure"}
    ),
    # loading: vectors are learnt as they are made afterwards.
    "objectives": (
        FILES
        | {"conversion", "formats", "generation", "layers", "loading", "models", "ops"}
        | {"sharding", "structure"}
    ),
    "recipes": FILES | {"conversion", "formats", "loading", "models"},
    "prediction": (
        FILES
        | {"conversion", "generation", "loading", "objectives", "scoring", "sharding"}
        | {"structure"}
    ),
    "cli": (
        FILES
        | {"conversion", "generation", "loading", "models", "objectives", "ops"}
        | {"prediction", "recipes", "structure"}
    ),
    "__main__": {"base", "cli"},
    # `etc_jax.load`, when it is asked for.
    "__init__": {"loading"},
}
# Package -> the only parts (or files) that may import it.
OWNERS = {
    "flax": ("layers/", "models/"),
    "orbax": ("training/checkpoints/orbax_io.py",),
    "optax": ("training/",),
}
NEVER = ("launch", "benchmarks", "tests")


def sources() -> list[str]:
    found = (p.relative_to(PACKAGE).as_posix() for p in PACKAGE.rglob("*.py"))
    return sorted(x for x in found if part_of(x) not in USERS)


def imported(source: str, text: str) -> set[str]:
    """Full names that a file imports, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{source}: relative import; write the whole name"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def part_of(source: str) -> str:
    return source.partition("/")[0].removesuffix(".py")


def problems(source: str, text: str) -> list[str]:
    """What a file of the package imports against the rules."""
    part, wrong = part_of(source), []
    if part != "__init__" and part not in ALLOWED:
        return [f"{source}: add {part!r} to ALLOWED in tests/imports_test.py"]
    for name in sorted(imported(source, text)):
        top, _, rest = name.partition(".")
        other = rest.partition(".")[0]
        if top == "etc_jax" and other not in ALLOWED.get(part, set()) | {part}:
            wrong.append(f"{source}: {part} may not import {name}")
        if top in NEVER:
            wrong.append(f"{source}: etc_jax may not import {name}")
        if top in OWNERS and not source.startswith(OWNERS[top]):
            wrong.append(f"{source}: only {', '.join(OWNERS[top])} may import {top}")
    return wrong


@pytest.mark.parametrize("source", sources())
def test_imports_go_one_way(source):
    assert problems(source, (PACKAGE / source).read_text()) == []


@pytest.mark.parametrize(
    "source, text, message",
    [
        ("ops/new.py", "from etc_jax.layers import common", "ops may not import"),
        ("layers/new.py", "import etc_jax.models.etc.body", "layers may not import"),
        ("models/new.py", "from etc_jax import training", "models may not import"),
        ("data/new.py", "from etc_jax.objectives import cpc", "data may not import"),
        ("training/new.py", "def f():\n  import etc_jax.models", "may not import"),
        ("ops/new.py", "from flax import linen", "may import flax"),
        ("training/run.py", "import orbax.checkpoint", "may import orbax"),
        (
            "conversion/new.py",
            "import etc_jax.tasks.nq",
            "conversion may not import etc_jax.tasks.nq",
        ),
        ("novelty/new.py", "", "add 'novelty' to ALLOWED"),
    ],
)
def test_a_wrong_import_is_found(source, text, message):
    (problem,) = problems(source, text)
    assert message in problem


def test_the_order_has_no_circle():
    left = {part: needs - {part} for part, needs in ALLOWED.items()}
    while left:
        free = [part for part, needs in left.items() if not needs & left.keys()]
        assert free, f"parts that import each other: {sorted(left)}"
        for part in free:
            del left[part]
