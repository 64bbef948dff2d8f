"""The second half of the quickstart around its commands; they are stood in for here."""

import json
import pathlib
import shutil
import signal
import sys
import textwrap

import pytest

from etc_jax.data.wordpiece import WordPieceTokenizer
from launch import quickstart, quickstart_hotpotqa, quickstart_runs
from launch import quickstart_hotpotqa_report as hotpotqa_report
from launch.quickstart_hotpotqa import QUESTION, Finetuning, made_up, whole_words
from launch.quickstart_record import Workdir
from launch.quickstart_runs import QuickstartError
from tasks.offsets import encode

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RECORDS, DEV_RECORDS = 4, 2

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

    if module == "tasks.prepare":
        write(given["--out"] + "/header.json", {})
    elif module == "etc_jax.train":
        folder = pathlib.Path(given["--workdir"])
        train = {"num_steps": 20, "batch_size": 16}
        config = {"train": train, "data": {"long_length": 256, "global_length": 48}}
        write(folder / "run.json", {"config": config})
        lines = [{"kind": "train", "step": 20, "tokens_per_s": 800.0}]
        for step in (10, 20):
            figures = {"loss": 3.0, "support_f1": 0.5, "span_accuracy": 0.25}
            lines.append({"kind": "eval", "step": step, **figures})
        (folder / "metrics.jsonl").write_text(
            "".join(json.dumps(line) + "\\n" for line in lines))
        write(folder / "last_checkpoint.json", {"step": 20})
    else:
        out = pathlib.Path(given["--out"])
        right = "pretrained" in given["--model"]
        answers = {"r0": "name0" if right else "name1", "r1": ""}
        facts = {"r0": [["Ann", 1], ["Bob", 0]][:1 + right], "r1": []}
        write(out / "predictions.json", {"answer": answers, "sp": facts})
        write(out / "scores.json", {"records": 2, "threshold": 0.4,
              "model": {"step": 20}})
"""
STAGES = [
    "tasks.prepare",
    "tasks.prepare",
    "etc_jax.train",
    "etc_jax.evaluate",
    "etc_jax.train",
    "etc_jax.evaluate",
]


# Made of three letters twice, so that none is in another.
WORDS = [2 * f"{a}{b}{c}" for a in "bdgz" for b in "aeiou" for c in "lnrs"]


def records(count, seed, words):
    """Stand for those that are made up; the most frequent answer is name0."""
    context = [["Ann", ["Ann is old.", " She taught Bob."]], ["Bob", ["He left."]]]
    for i in range(count):
        yield {
            "_id": f"r{i}",
            "question": f"Who {i}?",
            "answer": f"name{i % 3}",
            "supporting_facts": [["Ann", 1], ["Bob", 0]],
            "context": context,
        }


def vocabulary(words=WORDS):
    return WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])


@pytest.fixture
def half(tmp_path, monkeypatch):
    """A second half whose commands are stood in for, in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(quickstart_runs, "_POLL_SECS", 0.02)
    monkeypatch.setattr(quickstart_hotpotqa, "made_up", records)
    script = tmp_path / "command.py"
    script.write_text(textwrap.dedent(COMMAND))
    monkeypatch.setattr(
        quickstart_hotpotqa,
        "_command",
        lambda module: [sys.executable, str(script), module],
    )
    pretrained = Workdir(tmp_path / "run")
    pretrained.folder.mkdir()
    config = {"model": {"embed_dim": 192, "radius": 16}, "data": {"vocab_size": 4096}}
    (pretrained.folder / "run.json").write_text(json.dumps({"config": config}))
    vocabulary().save(pretrained.folder / "tokenizer.json")
    return Finetuning(
        pretrained.folder / "hotpotqa",
        pretrained,
        ["--config.train.seed=3"],
        records=RECORDS,
        dev_records=DEV_RECORDS,
    )


def calls() -> list[tuple[str, list[str]]]:
    path = pathlib.Path("calls.jsonl")
    lines = path.read_text().splitlines() if path.exists() else []
    return [tuple(json.loads(line)) for line in lines]


def modules() -> list[str]:
    return [module for module, _ in calls()]


def arguments_of(module) -> list[list[str]]:
    return [arguments for name, arguments in calls() if name == module]


def test_stages_follow_each_other_and_are_not_repeated(half):
    half.run()
    assert modules() == STAGES
    half.run()
    assert modules() == STAGES


def test_both_runs_differ_in_what_they_start_from_alone(half):
    half.run()
    pretrained, from_scratch = map(set, arguments_of("etc_jax.train"))
    folder = half.folder
    assert pretrained - from_scratch == {
        "--config=configs/quickstart_hotpotqa.py",
        f"--workdir={folder / 'pretrained'}",
        f"--config.checkpoint.init_from={half.pretrained.folder}",
    }
    assert from_scratch - pretrained == {
        "--config=configs/quickstart_hotpotqa.py:from_scratch",
        f"--workdir={folder / 'from_scratch'}",
    }
    assert "--config.train.seed=3" in pretrained
    assert f"--config.data.paths=('{folder / 'train_4'}',)" in pretrained
    assert f"--config.data.held_back_paths=('{folder / 'dev_2'}',)" in pretrained


def test_the_model_is_that_of_pretraining(half):
    half.run()
    for arguments in arguments_of("etc_jax.train"):
        given = [x for x in arguments if x.startswith("--config.model.")]
        assert given == ["--config.model.radius=16"]
        assert not any(x.startswith("--config.data.vocab_size") for x in arguments)


def test_training_and_development_records_are_of_different_series(half, monkeypatch):
    monkeypatch.setattr(quickstart_hotpotqa, "made_up", made_up)
    half.run()
    train, dev = (json.loads(half.raw(x).read_text("utf-8")) for x in ("train", "dev"))
    assert (len(train), len(dev)) == (RECORDS, DEV_RECORDS)
    assert {r["_id"] for r in train}.isdisjoint(r["_id"] for r in dev)


def test_names_are_single_tokens_of_the_vocabulary():
    tokenizer = vocabulary()
    words = whole_words(tokenizer)
    assert set(WORDS) <= set(words)
    for record in made_up(5, seed=1, words=words):
        name = record["question"].removeprefix(QUESTION).removesuffix("?")
        both = encode(tokenizer, [name, record["answer"]])
        assert [len(encoded.ids) for encoded in both] == [1, 1]


def test_a_vocabulary_without_words_is_named():
    with pytest.raises(QuickstartError, match="has 2 tokens that are words of 5 to 9"):
        whole_words(vocabulary(["walnut", "acorn", "of", "9", "straightforward"]))


def test_a_question_leads_from_one_document_to_another():
    """The answer is found by reading, with no use of the gold facts."""
    for record in made_up(20, seed=5):
        asked = record["question"].removeprefix(QUESTION).removesuffix("?")
        documents = dict(record["context"])
        assert len(documents) == 3
        (ally,) = [
            sentence.split(" is allied with ")[1].removesuffix(".")
            for sentence in documents[asked]
            if " is allied with " in sentence
        ]
        (capital,) = [
            sentence.split(" has its capital in ")[1].removesuffix(".")
            for sentence in documents[ally]
            if " has its capital in " in sentence
        ]
        assert capital == record["answer"]
        assert {title for title, _ in record["supporting_facts"]} == {asked, ally}


@pytest.mark.parametrize("stage", list(dict.fromkeys(STAGES)))
def test_after_a_failure_the_stages_before_are_not_repeated(half, stage):
    fault = pathlib.Path(f"FAIL-{stage}")
    fault.touch()
    with pytest.raises(QuickstartError, match="exit code 3"):
        half.run()
    before = modules()
    assert before == STAGES[: STAGES.index(stage) + 1]
    fault.unlink()
    half.run()
    assert modules() == before + STAGES[STAGES.index(stage) :]


@pytest.mark.parametrize("stage", ["tasks.prepare", "etc_jax.evaluate"])
def test_an_interrupted_stage_ends_and_is_begun_again(half, stage, monkeypatch):
    fault = pathlib.Path(f"WAIT-{stage}")
    fault.touch()
    children = []
    popen = quickstart_runs.subprocess.Popen

    class Interrupted(popen):
        """Ctrl-C comes while the quickstart waits for it."""

        def wait(self, timeout=None):
            if stage in self.args and not children:
                children.append(self)
                raise KeyboardInterrupt
            return super().wait(timeout)

    monkeypatch.setattr(quickstart_runs.subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        half.run()
    assert children[0].returncode == -signal.SIGTERM
    fault.unlink()
    half.run()
    assert modules()[-1] == "etc_jax.evaluate"
    assert half.scores("from_scratch")["records"] == DEV_RECORDS


def test_a_run_whose_evaluation_is_missing_is_not_trained_again(half):
    half.run()
    shutil.rmtree(half.folder / "from_scratch" / "dev")
    half.run()
    assert modules() == [*STAGES, "etc_jax.evaluate"]


# --- report ---------------------------------------------------------------------------


def test_the_report_compares_both_runs_with_the_best_constant_guess(half):
    half.run()
    found = hotpotqa_report.figures(half)
    text = hotpotqa_report.section(half, found)
    for part in (
        # The most frequent of name0, name1, name2, name0 is right for r0.
        "| best constant guess | 50.0% | 50.0% | 100.0% | 100.0% | 50.0% |",
        # No sentence has an answer that could be read.
        "| reading without names | 0.0% | 0.0% | 100.0% | 100.0% | 0.0% |",
        "| pre-trained | 50.0% | 50.0% | 50.0% | 50.0% | 50.0% |",
        "| from scratch | 0.0% | 0.0% | 33.3% | 0.0% | 0.0% |",
        "the same 20 steps of 16 questions",
        "*Who 0?*",
        "- right: **name0**: (Ann) She taught Bob. (Bob) He left.",
        "- from scratch: **name1**: (Ann) She taught Bob.",
        "- pre-trained: **no answer**: no reason",
        "- from scratch, step 20, threshold 0.4",
        "- speed: 800 tokens/s",
    ):
        assert part in text, part


@pytest.mark.parametrize(
    "guess, more, holds",
    [(0.0, 0.0, True), (0.0, -0.001, False), (0.5, 0.001, True), (0.5, -0.001, False)],
)
def test_the_bar_is_over_the_constant_guess(half, guess, more, holds):
    half.run()
    reached = {"joint_f1": guess + hotpotqa_report.JOINT_BAR + more}
    found = {"pre-trained": reached, "best constant guess": {"joint_f1": guess}}
    (check,) = hotpotqa_report.checks(half, found)
    assert check.passed is holds
    assert "on 2 questions" in check.measured


def test_the_whole_report_fails_by_the_second_half_alone(half, monkeypatch, capsys):
    for name, value in (("checks", []), ("draw_curves", None), ("facts", {})):
        monkeypatch.setattr(quickstart, name, lambda *_, value=value: list(value or []))
    monkeypatch.setattr(quickstart, "report", lambda _, done, more: more)
    (half.pretrained.folder / "final_report.json").write_text("{}")
    assert quickstart.run(["/nonexistent/command"], half.pretrained, half) == 1
    out, err = capsys.readouterr()
    # As good as the constant guess, whose answer is right for r0.
    assert "FAILED: questions over documents" in err
    assert (half.pretrained.folder / "report.md").read_text() == out.removesuffix("\n")
    picture = (half.pretrained.folder / "finetuning.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
