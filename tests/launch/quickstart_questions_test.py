"""The second half of the quickstart around its commands; they are stood in for here."""

import json
import pathlib
import shutil
import signal
import sys
import textwrap

import numpy as np
import pytest

from etc_jax.cli import prepare
from etc_jax.configs.quickstart import quickstart_wikihop
from etc_jax.data.tokenizers.wordpiece_training import (
    SPECIAL_TOKENS,
    WordPieceTokenizer,
)
from etc_jax.data.windows.cache import WindowCache
from etc_jax.data.windows.token_types import GLOBAL_TYPE
from etc_jax.formats.structured import StructuredSizes
from etc_jax.tasks import wikihop
from etc_jax.tasks.synthetic import teachers
from etc_jax.tasks.synthetic.maker import write_records
from launch import (
    quickstart_pictures,
    quickstart_questions,
    quickstart_report,
    quickstart_runs,
)
from launch.quickstart_questions import Questions
from launch.quickstart_runs import QuickstartError, Workdir

WIKIHOP_TASK = wikihop.DATA_SET.in_format()

# Stands for all commands: notes that it was called, and leaves what they would leave.
# A file FAIL-<module> in the working directory makes it fail, WAIT-<module> wait.
COMMAND = """
    import json, os, pathlib, sys, time
    module, *arguments = sys.argv[1:]
    given = dict(a.partition("=")[::2] for a in arguments if a.startswith("--"))
    with open("calls.jsonl", "a") as calls:
        calls.write(json.dumps([module, arguments]) + "\\n")
    if os.path.exists(f"FAIL-{module}"):
        sys.exit(3)
    while os.path.exists(f"WAIT-{module}"):
        time.sleep(0.01)

    def write(path, value):
        path = pathlib.Path(path)
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(json.dumps(value))

    if module == "synthetic":
        record = {"query": "teacher ann lee", "answer": "Mask1"}
        count = int(given["--count"])
        write(given["--out"], [{"id": f"r{i}", **record} for i in range(min(count, 5))])
    elif module == "prepare":
        write(given["--out"] + "/header.json", {})
    elif module == "train":
        folder = pathlib.Path(given["--workdir"])
        train = {"num_steps": 20, "batch_size": 16}
        model = {"num_layers": 2, "embed_dim": 64}
        write(folder / "run.json", {"config": {"train": train, "model": model}})
        line = {"kind": "train", "step": 20, "tokens_per_s": 800.0, "accuracy": 0.75}
        (folder / "metrics.jsonl").write_text(json.dumps(line) + "\\n")
        write(folder / "last_checkpoint.json", {"step": 20})
    elif module == "evaluate":
        out, right = pathlib.Path(given["--out"]), "structured" in given["--model"]
        answer = "Mask1" if right else "Mask2"
        write(out / "predictions.json", {f"r{i}": answer for i in range(5)})
        accuracy = 0.95 if right else 0.25
        write(out / "scores.json", {"metrics": {"accuracy": accuracy}})
    else:
        pathlib.Path(given["--html"]).write_text("a page")
"""
STAGES = [
    *["synthetic"] * 3,
    *["prepare"] * 2,
    *["train", "evaluate"] * 2,
    "predict",
]


@pytest.fixture
def questions(tmp_path, monkeypatch):
    """A second half whose commands are stood in for, in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(quickstart_runs, "_POLL_SECS", 0.02)
    script = tmp_path / "command.py"
    script.write_text(textwrap.dedent(COMMAND))
    monkeypatch.setattr(
        quickstart_questions,
        "_command",
        lambda module: [sys.executable, str(script), module],
    )
    pretraining = Workdir(tmp_path / "run")
    pretraining.folder.mkdir()
    config = {"data": {"vocab_size": 4096}}
    (pretraining.folder / "run.json").write_text(json.dumps({"config": config}))
    folder = pretraining.folder / "questions"
    return Questions(folder, pretraining, ["--config.train.seed=3"])


def calls() -> list[tuple[str, list[str]]]:
    path = pathlib.Path("calls.jsonl")
    lines = path.read_text().splitlines() if path.exists() else []
    return [tuple(json.loads(line)) for line in lines]


def modules() -> list[str]:
    return [module for module, _ in calls()]


def arguments_of(module) -> list[list[str]]:
    return [arguments for name, arguments in calls() if name == module]


def test_stages_follow_each_other_and_are_not_repeated(questions):
    questions.run()
    assert modules() == STAGES
    questions.run()
    assert modules() == STAGES
    assert [[c[2], c[3:]] for c in questions.commands()] == [list(c) for c in calls()]


def test_both_runs_differ_in_structure_alone(questions):
    questions.run()
    structured, flat = map(set, arguments_of("train"))
    config = "--config=quickstart_wikihop"
    folder = questions.folder
    assert structured - flat == {config, f"--workdir={folder / 'structured'}"}
    assert flat - structured == {f"{config}:flat", f"--workdir={folder / 'flat'}"}
    assert {"--config.train.seed=3", f"--config.data.paths=('{folder}/train',)"} <= flat
    assert not any("vocab_size" in argument for argument in flat)
    one, other = (
        quickstart_questions.flat_items(quickstart_wikihop.get_config(x).to_dict())
        for x in ("", "flat")
    )
    assert {k for k in one if one[k] != other[k]} == {"data.flat"}


def test_another_vocabulary_reaches_both_runs(questions):
    config = {"data": {"vocab_size": 480}}
    record = questions.pretraining.folder / "run.json"
    record.write_text(json.dumps({"config": config}))
    questions.run()
    for arguments in arguments_of("train"):
        sizes = [x for x in arguments if "vocab_size" in x]
        assert sizes == [
            "--config.data.vocab_size=480",
            "--config.model.vocab_size=480",
        ]


def test_each_training_question_comes_up_once_and_those_shown_are_of_dev(questions):
    questions.run()
    train, dev, shown = (dict(x.split("=") for x in a) for a in arguments_of(STAGES[0]))
    assert int(train["--count"]) == 200 * 32
    assert train["--seed"] != dev["--seed"] == shown["--seed"]


@pytest.mark.parametrize("stage", list(dict.fromkeys(STAGES)))
def test_after_a_failure_the_stages_before_are_not_repeated(questions, stage):
    fault = pathlib.Path(f"FAIL-{stage}")
    fault.touch()
    with pytest.raises(QuickstartError, match="exit code 3"):
        questions.run()
    before = modules()
    assert before == STAGES[: STAGES.index(stage) + 1]
    fault.unlink()
    questions.run()
    assert modules() == before + STAGES[STAGES.index(stage) :]


@pytest.mark.parametrize("stage", ["prepare", "evaluate"])
def test_an_interrupted_stage_ends_and_is_begun_again(questions, stage, monkeypatch):
    fault = pathlib.Path(f"WAIT-{stage}")
    fault.touch()
    children = []
    popen = quickstart_runs.subprocess.Popen

    class Interrupted(popen):
        """Ctrl-C comes while the quickstart waits for it."""

        def poll(self):
            if stage in self.args and not children:
                children.append(self)
                raise KeyboardInterrupt
            return super().poll()

    monkeypatch.setattr(quickstart_runs.subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        questions.run()
    assert children[0].returncode == -signal.SIGTERM
    fault.unlink()
    questions.run()
    assert modules()[-1] == STAGES[-1] and questions.page.exists()


def test_a_run_whose_evaluation_is_missing_is_not_trained_again(questions):
    questions.run()
    shutil.rmtree(questions.folder / "flat" / "dev")
    questions.run()
    assert modules() == [*STAGES, "evaluate"]


# --- report ---------------------------------------------------------------------------


def test_the_report_has_both_models_side_by_side(questions):
    questions.run()
    text = "\n".join(quickstart_report._questions(questions))
    for part in (
        "| with structure | 95.0% |\n| flat | 25.0% |\n| by chance | 25.0% |",
        "2 layers of width 64",
        "| teacher ann lee | Mask1 | Mask1 | Mask2 |",
        "(questions/answers.html)",
    ):
        assert part in text, part
    shown = quickstart_report._commands(questions).splitlines()
    assert len(shown) == len(STAGES) + 2


@pytest.mark.parametrize(
    "structured, flat, holds",
    [(0.9, 0.5, True), (0.899, 0.2, False), (0.95, 0.551, False), (1.0, 0.6, True)],
)
def test_the_bars_are_the_accuracy_and_the_lead(questions, structured, flat, holds):
    questions.run()
    for name, accuracy in (("structured", structured), ("flat", flat)):
        path = questions.folder / name / "dev" / "scores.json"
        path.write_text(json.dumps({"metrics": {"accuracy": accuracy}}))
    check = quickstart_report._question_check(questions)
    assert check.passed is holds
    assert check.measured == f"{structured:.1%} with structure, {flat:.1%} flat"


# --- picture --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A second half with a real question in `dev`, and configs of both runs."""
    folder = tmp_path_factory.mktemp("drawn")
    words = "teacher is a has quarrel with studied under . mask kim lee".split()
    digits = [f"##{i}" for i in range(100)]
    tokenizer = WordPieceTokenizer([*SPECIAL_TOKENS, *words, *digits])
    write_records(folder / "dev.json", teachers.records(1, seed=2))
    prepare.prepare(
        WIKIHOP_TASK,
        [folder / "dev.json"],
        tokenizer,
        folder / "dev",
        sizes=StructuredSizes(256, 40),
    )
    for name, variant in quickstart_questions.RUNS.items():
        config = quickstart_wikihop.get_config(variant)
        config.data.update(paths=("train",), validation_paths=("dev",))
        (folder / name).mkdir()
        text = json.dumps({"config": config.to_dict()})
        (folder / name / "run.json").write_text(text)
    return Questions(folder, Workdir(folder))


def test_the_picture_ties_each_person_to_the_words_that_mention_it(drawn):
    batch, rules = drawn.example("structured"), drawn.rules("structured")
    structure = batch["structure"]
    kinds = quickstart_pictures._kinds(structure, rules)
    tokenizer = WindowCache.open(drawn.cache("dev")).load_tokenizer()
    g = int(np.sum(structure.global_example_ids))
    pieces = tokenizer.pieces(batch["long_tokens"][0][: len(kinds) - g])
    [record] = json.loads(drawn.raw("dev").read_text())
    mask = {number: name for number, name in enumerate(record["candidates"])}
    for person, name in mask.items():
        (tied,) = np.nonzero(kinds[person, g:] == 4)
        number = "##" + name.removeprefix("Mask")
        wanted = [i for i, piece in enumerate(pieces) if piece == number]
        assert [i for i in tied if pieces[i] != "mask"] == wanted and len(wanted) > 1
    assert np.array_equal(kinds == 4, (kinds == 4).T)
    flat = quickstart_pictures._kinds(drawn.example("flat")["structure"], rules)
    assert flat.shape == kinds.shape and not np.any(flat == 4)
    assert np.mean(kinds > 0) < 0.5 and np.mean(flat > 0) < 0.5  # sparse


def test_the_picture_names_the_parts_of_the_input(drawn, tmp_path):
    batch = drawn.example("structured")
    edges, names = quickstart_pictures._groups(batch["structure"])
    assert len(edges) == len(names) + 1 == 10
    [record] = json.loads(drawn.raw("dev").read_text())
    lengths = dict(zip(names, np.diff(edges), strict=True))
    assert lengths["global: persons"] == 4 == len(record["candidates"])
    assert lengths["persons"] == 8  # two pieces each
    # A global token for each document and each of its sentences.
    real = batch["global_types"][batch["structure"].global_example_ids > 0]
    assert lengths["global: documents"] == 4 + np.sum(real == GLOBAL_TYPE)
    assert lengths["global: question"] == lengths["question"]
    quickstart_pictures._draw_structure(drawn, tmp_path / "structure.png")
    assert (tmp_path / "structure.png").read_bytes().startswith(b"\x89PNG")
