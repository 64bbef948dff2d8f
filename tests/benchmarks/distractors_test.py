"""A paragraph among others: the questions, the rows, and what they begin with."""

import pathlib

import pytest
from stand_ins import differing

from benchmarks.data import distractor_items
from benchmarks.kit import finetuning_runs
from benchmarks.rows import distractors
from etc_jax.tasks.squad.records import read

# ml_collections loads config files in a way that Python announces to give up.
pytestmark = pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")

SIZES = {"items": 64, "short_items": 128, "validation": 64, "count": 3}


@pytest.fixture(scope="module")
def argv(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distractors")
    given = [f"--{name}={value}" for name, value in SIZES.items()]
    return [*given, "--short_steps=4", f"--workdir={folder}"]


@pytest.fixture(scope="module")
def workdir(argv):
    return pathlib.Path(argv[-1].partition("=")[2])


@pytest.fixture(scope="module")
def short(workdir):
    amount = {"questions": SIZES["short_items"], "validation": SIZES["validation"]}
    return distractor_items.write_short(workdir / "short", **amount)


@pytest.fixture(scope="module")
def items(workdir, short):
    paragraphs = SIZES["count"] + 1
    return distractor_items.write_items(
        workdir / f"{SIZES['items']}_of_{paragraphs}" / "items",
        short.tokenizer,
        questions=SIZES["items"],
        validation=SIZES["validation"],
        paragraphs=paragraphs,
    )


def test_every_second_short_text_does_not_have_the_answer(short):
    records = list(read([short.train["short"]]))
    assert len(records) == SIZES["short_items"]
    lengths = set()
    for i, record in enumerate(records):
        [answer] = record.answers
        assert record.context.startswith(answer.text, answer.start)
        thing = record.question.split()[3]
        assert (answer.text == "nothing") == (i % 2 == 1)
        if i % 2 == 0:
            assert f"{record.title} is {answer.text} ." in f"{record.context} ."
        elif i % 4 == 1:
            assert thing in record.context and record.title not in record.context
        lengths.add(len(record.context.split()))
    # A paragraph or a piece, and `nothing`.
    assert lengths == {distractor_items.PARAGRAPH + 1, distractor_items.PIECE + 1}
    cache, _ = short.caches("short", distractor_items.SHORT_LENGTH, {})
    # The question is not padded here.
    assert cache.longest["input"] == distractor_items.SHORT_LENGTH - 1


def test_all_paragraphs_tell_the_same_things_of_other_names(items):
    for record in read([items.validation["shuffled"]]):
        thing = record.question.split()[3]
        paragraphs = record.context.split("\n")
        assert len(paragraphs) == SIZES["count"] + 1
        assert sum(record.title in p.split() for p in paragraphs) == 1
        assert all(f"the {thing} of " in p for p in paragraphs)


@pytest.mark.parametrize("row", distractors.NAMES)
def test_a_row_reads_what_it_says(items, short, row, tmp_path):
    caches = distractors.make_caches(row, items, SIZES["count"] + 1)
    made = distractors.config_of(row, 1, caches, tmp_path, ())
    sled, system = made.model.sled, row.partition("-")[0]
    paragraphs = {"alone": 1, "truncated": 2}.get(system, 4)
    length = distractor_items.length_of(paragraphs)
    if system == "bart_ls":
        # 57 words, 17 of them in a block of 28.
        length = 4 * 28
    assert made.data.input_length == length
    # Nothing but what is meant is cut, and little is padded.
    longest = caches[0].longest["input"]
    spare = 11 if system == "bart_ls" else 2
    assert length - spare <= longest <= length or system == "truncated"
    assert (sled.window, sled.prefix_length) == {
        "sled": (18, distractor_items.QUESTION),
        "no_prefix": (18, distractor_items.QUESTION),
        "one_token": (1, distractor_items.QUESTION),
    }.get(system, (0, 0))
    assert sled.prefix_in_windows == (system != "no_prefix")
    assert made.train.num_steps == SIZES["items"] // 32
    backbone = distractors.short_config(
        short.caches("short", distractor_items.SHORT_LENGTH, {}), 4, ()
    )
    family = {"led_local": "led"}.get(system, system)
    if family in ("led", "bart_ls"):
        assert made.checkpoint.init_from == f"{tmp_path}_{family}"
        seen = {"led": 10, "led_local": 1, "bart_ls": 0}[system]
        assert made.objective.global_tokens == seen
        return
    model = {x for x in differing(made, backbone) if x.startswith("model.")}
    assert all(x.startswith("model.sled.") for x in model)


def test_a_part_of_the_paragraphs_is_read(items):
    lengths = [
        distractors.make_caches(row, items, SIZES["count"] + 1, 2)[0].sizes["input"]
        for row in ("led-shuffled", "bart_ls-shuffled", "alone")
    ]
    assert lengths == [41, 56, 27]


def test_other_families_begin_with_the_backbone_made_long(
    argv, trained, run, tmp_path, monkeypatch
):
    asked = []
    monkeypatch.setattr(finetuning_runs, "convert", lambda *argv: asked.append(argv))
    given = [*argv, "--rows=led-shuffled,bart_ls-shuffled", "--seeds=0", "--read=2"]
    code, got = run(distractors.main, *given, f"--workdir={tmp_path}")
    assert code == 0 and got["read"] == 2
    assert {"--to=led", "--window=18"} <= set(asked[0])
    assert {"--to=bart_ls", "--block_size=28"} <= set(asked[1])
    starts = [x.checkpoint.init_from for x in trained if x.checkpoint.init_from]
    made = [argv[-1].removeprefix("--out=") for argv in asked]
    assert starts == made and len(set(made)) == 2


def test_all_rows_and_seeds_begin_with_one_backbone(argv, trained, run):
    given = [*argv, "--rows=alone,sled-ordered", "--seeds=2,3"]
    code, got = run(distractors.main, *given, "--config.model.mlp_dim=32")
    assert code == 0
    backbone, *others = trained
    assert backbone.checkpoint.init_from is None and backbone.train.num_steps == 4
    assert [x.train.seed for x in others] == [2, 2, 3, 3]
    [start] = {x.checkpoint.init_from for x in others}
    assert start.endswith("backbone") and {x.model.mlp_dim for x in trained} == {32}
    assert got["short"] == {"accuracy": 50.0} | got["short"]
    assert [r["row"] for r in got["runs"]] == ["alone", "sled-ordered"] * 2
