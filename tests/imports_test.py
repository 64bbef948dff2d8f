"""What importing costs, what it needs, and which way imports go."""

import ast
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
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
)

# Parts that use the rest, which knows nothing of them; files of theirs import seqio and
# tensorflow at the top.
USERS = ("configs", "tasks")

IMPORT_ALL = """
import json, sys, time

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in %r:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, Blocked())
start = time.process_time()
import absl.app, flax.linen, jax, ml_collections, numpy, optax, orbax.checkpoint
import jax.experimental.pallas.triton  # for kernels, which nothing imports at its top
import safetensors, scipy, sentencepiece, tokenizers, tqdm
cpu = time.process_time()
import importlib, pkgutil, resource
import etc_jax
names = [m.name for m in pkgutil.walk_packages(etc_jax.__path__, "etc_jax.")]
names = [name for name in names if name.split(".")[1] not in %r]
for name in names:
    importlib.import_module(name)
peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
if sys.platform == "linux":
    # ru_maxrss begins with the peak of the process that started this one.
    status = open("/proc/self/status").read()
    peak_mib = int(status.split("VmHWM:")[1].split()[0]) / 2**10
print(json.dumps({
    "modules": names,
    "required_cpu_secs": cpu - start,
    "cpu_secs": time.process_time() - cpu,
    "mib": peak_mib,
}))
"""


def import_all(blocked=BLOCKED) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", IMPORT_ALL % (blocked, USERS)],
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
        timeout=120,
    )


@pytest.fixture(scope="module")
def imports():
    """Measurements of three imports of everything, each in a process of its own."""
    runs = [import_all() for _ in range(3)]
    assert all(run.returncode == 0 for run in runs), runs[0].stderr
    return [json.loads(run.stdout) for run in runs]


def test_every_module_imports_without_the_heavy_packages(imports):
    files = {
        f"etc_jax.{source.removesuffix('.py').replace('/', '.')}"
        for source in sources()
        if not source.endswith("__init__.py")
    }
    assert files <= set(imports[0]["modules"])


def test_the_block_works():
    got = import_all(blocked=("tqdm",))
    assert got.returncode != 0 and "tqdm is blocked" in got.stderr


def test_kernels_are_imported_where_they_are_used():
    text = "import sys; from etc_jax.models import encoder, etc; "
    text += "sys.exit('jax.experimental.pallas.triton' in sys.modules)"
    subprocess.run([sys.executable, "-c", text], cwd=ROOT, check=True)


def test_importing_everything_adds_less_than_what_it_requires(imports):
    ratio = min(x["cpu_secs"] / x["required_cpu_secs"] for x in imports)
    mib = min(x["mib"] for x in imports)
    print(f"importing all: {ratio:.2f} of what it requires, {mib:.0f} MiB")
    assert ratio < MAX_RATIO
    assert mib < MAX_MIB


# Part of the package -> parts that it may import besides itself. A part is the first
# name below etc_jax: a package or a module.
BASE = {
    *("command_line", "field_texts"),
    *("local_paths", "types", "registry", "model_fields", "strict_json", "terminal"),
    *("config_upgrades", "extras", "cores"),
}
OPS = BASE | {"structure", "sharding"}
LAYERS = OPS | {"ops", "weight_gathering"}
MODELS = LAYERS | {"layers"}
CONFIG = BASE | {"sharding", "config_fields", "config_sections", "config_kinds"}
# conversion: models that it saved are read.
TRAINING = BASE | {
    *("sharding", "batch_sharding", "weight_gathering"),
    *("config", "config_fields", "config_kinds", "conversion"),
}
OBJECTIVES = (
    MODELS
    | TRAINING
    | {"models", "data", "config_sections", "training", "builders", "datasets"}
    | {"formats", "decoding", "generation", "generation_config", "config_checks"}
    | {"model_source"}
)
PREDICTION = OBJECTIVES | {"objectives", "conversion", "scoring"}
COMMANDS = {"encoder_source", "model_commands", "model_source"}
ALLOWED = {
    "extras": set(),
    "cores": set(),
    "types": set(),
    "local_paths": set(),
    # The parser and the errors of all commands.
    "command_line": {"local_paths", "registry", "terminal"},
    "field_texts": set(),
    "model_fields": set(),
    "registry": set(),
    "strict_json": set(),
    "config_upgrades": {"registry"},
    "terminal": {"registry"},
    "structure": BASE,
    "sharding": BASE,
    "batch_sharding": BASE | {"sharding"},
    "weight_gathering": BASE | {"sharding"},
    "builders": BASE | {"structure"},
    "ops": OPS,
    "layers": LAYERS,
    "models": MODELS,
    "config_fields": BASE,
    "config_sections": BASE | {"config_fields"},
    "config_kinds": BASE | {"config_fields", "config_sections"},
    "config_checks": CONFIG,
    "config": CONFIG | {"config_checks"},
    "recipes": MODELS | {"config", "models"},
    "prepared_recipes": (
        MODELS
        | {"config", "models", "recipes", "conversion", "data", "datasets"}
        | {"model_source"}
    ),
    # config_sections: a source of data has a section of its own.
    "data": BASE | {"structure", "config_fields", "config_sections"},
    "training": TRAINING,
    "formats": BASE | {"structure", "data"},
    # What the data sets in `tasks`, and in packages of users, are to the library.
    "datasets": BASE | {"structure", "data", "formats", "scoring", "config"},
    "corpora": BASE | {"data"},
    "prepare": BASE | {"data", "datasets", "formats"},
    # loading: vectors are learnt as they are made afterwards.
    "objectives": OBJECTIVES | {"loading"},
    "drawing": OPS | {"ops"},
    # It finds the decoders of models by their names.
    "decoding": OPS | {"ops"},
    "beam_search": BASE | {"ops"},
    "generation": OPS | {"ops", "decoding", "beam_search"},
    "generation_config": OPS | {"ops", "generation", "beam_search", "config_fields"},
    # Plain Python values in, plain Python values out.
    "scoring": {"strict_json", "extras", "data"},
    # Tables name the config of the family that they convert to.
    "conversion": MODELS | {"models", "config_fields", "config_sections", "data"},
    "prediction": PREDICTION,
    # Command lines.
    "__main__": {"command_line"},
    "config_flag": CONFIG | {"config"},
    "config_help": CONFIG | {"config"},
    "config_variants": {"config"},
    # It reads the models that a config starts from.
    "init_from": TRAINING | {"training", "data", "model_source", "config_sections"},
    "train": (
        OBJECTIVES
        | {"objectives", "config_flag", "config_help", "config_variants", "init_from"}
        | {"next_steps"}
    ),
    # A model of any folder, with its tokenizer and the names of its labels.
    "model_source": TRAINING | {"training", "data", "datasets", "generation_config"},
    "next_steps": OBJECTIVES | {"loading", "conversion", "model_source"},
    "model_commands": (
        {"command_line", "data", "conversion", "model_source", "next_steps"}
    ),
    "convert": (
        OBJECTIVES
        | {"objectives", "conversion", "prediction", "extend", "grow", "model_commands"}
        | {"model_source", "config_flag"}
    ),
    "encoder_source": {"local_paths", "models", "model_commands", "model_source"},
    "extend": {"command_line", "conversion"} | COMMANDS,
    "grow": {"command_line", "conversion", "data"} | COMMANDS,
    "text_codecs": BASE | {"data", "training"},
    "text_writer": OBJECTIVES | {"text_codecs", "beam_search"},
    "language_model": (
        (OPS | {"ops", "data", "training", "conversion", "text_codecs"})
        | {"decoding", "generation", "generation_config"}
    ),
    "generate": (
        OBJECTIVES
        | {"conversion", "beam_search", "text_writer", "language_model", "model_source"}
    ),
    "loading": (
        OBJECTIVES | {"conversion", "text_writer", "language_model", "model_source"}
    ),
    # `etc_jax.load`, when it is asked for.
    "__init__": {"loading"},
    "embed": OBJECTIVES | {"loading"},
    "evaluate": PREDICTION | {"prediction"},
    "predict": PREDICTION | {"prediction"},
    "inspect": OPS | {"ops", "builders", "data", "drawing"},
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
        ("layers/new.py", "import etc_jax.models.etc", "layers may not import"),
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
