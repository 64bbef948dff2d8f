"""Two stages: a first model keeps paragraphs, a second one reads what is left."""

import dataclasses
import json

import jax
import numpy as np
import pytest
import training_test as training
from multihop_samples import HOTPOT, tokenizer_for

from etc_jax import config as config_lib
from etc_jax.datasets.task import find_task
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.prediction.model_files import TrainedModel
from etc_jax.scoring import hotpotqa as scoring
from etc_jax.tasks import hotpotqa
from etc_jax.tasks.hotpotqa import select as hotpotqa_select
from etc_jax.tasks.hotpotqa.records import read
from etc_jax.training.errors import UserError

HOTPOTQA_SEQUENCE = hotpotqa.DATA_SET.in_format("sequence")

NAME = "hotpotqa"
SIZES = SequenceSizes(60, 24)


def records(count=9):
    """The answer is in "film", beside a paragraph that turns up anywhere."""
    places = ([1, 0, 2], [0, 2, 1], [2, 1, 0])
    made = []
    for i in range(count):
        context = [
            ["ton", ["it is a town.", "in a country."]],
            ["mill", ["it burned.", "it stands."]],
            [
                "film",
                ["York owned it." if i % 2 else "Norland owned it.", "it is old."],
            ],
        ]
        made.append(
            HOTPOT
            | {
                "_id": f"h{i}",
                "question": "who owned it",
                "answer": "York" if i % 2 else "Norland",
                "supporting_facts": [["mill", 0], ["film", 0]],
                "context": [context[place] for place in places[i % 3]],
            }
        )
    return made


@pytest.fixture(scope="module")
def model():
    """A first stage that has learnt which paragraphs support the answers."""
    found = training.learned(NAME, records(), (60, 24), steps=60, rate=0.02)
    assert found.losses[-1] < found.losses[0] / 4
    values = config_lib.default_config("longformer").to_dict()
    values["model"] |= dataclasses.asdict(found.learner.model)
    values["objective"]["name"] = NAME
    tokenizer = tokenizer_for(find_task(NAME, "sequence"))
    values["data"] |= {
        "source": "windows",
        "paths": ("train",),
        "validation_paths": ("dev",),
        "vocab_size": tokenizer.vocab_size,
        "input_length": SIZES.input_length,
        "global_length": SIZES.global_length,
    }
    config = config_lib.from_config_dict(values)
    params = jax.tree.map(np.asarray, found.params)
    return TrainedModel(params, config, tokenizer, "runs/stage1", 60)


def kept(model, values, tmp_path, **options):
    file, out = tmp_path / "raw.json", tmp_path / "kept.json"
    file.write_text(json.dumps(values))
    options = {"batch_size": 8, "workers": 0} | options
    selection = hotpotqa_select.select(model, [file], out, **options)
    return selection, json.loads(out.read_text())


def test_the_relevant_paragraphs_stay_in_their_order(model, tmp_path):
    values = records()
    selection, written = kept(model, values, tmp_path, keep=2)
    for value, got in zip(values, written, strict=True):
        want = [p for p in value["context"] if p[0] != "ton"]
        assert got == {**value, "context": want}
    assert selection.records == 9
    assert selection.paragraphs == (18, 27) and selection.facts == (18, 18)
    assert "18 of 18 supporting facts are still there (100.00 %)" in selection.report()


def test_lost_paragraphs_count_as_missed_in_the_official_score(model, tmp_path):
    selection, _ = kept(model, records(), tmp_path, keep=1)
    assert selection.paragraphs == (9, 27) and selection.facts == (9, 18)
    # A second model that is sure of all that is left.
    second = list(read([tmp_path / "kept.json"]))
    assert all(len(r.paragraphs) == 1 and len(r.support) == 2 for r in second)
    official = {
        "answer": {r.id: r.answer for r in second},
        "sp": {
            r.id: [f for f in r.support if f[0] == r.paragraphs[0].title]
            for r in second
        },
    }
    gold = [HOTPOTQA_SEQUENCE.gold(r) for r in second]
    assert scoring.score(gold, official).metrics["sp_recall"] == 0.5


def test_a_record_that_is_no_input_stays_whole(model, tmp_path):
    values = records(2)
    values[1]["question"] = "who owned it " * 30
    selection, written = kept(model, values, tmp_path, keep=1)
    assert len(written[0]["context"]) == 1
    assert written[1]["context"] == values[1]["context"]
    assert selection.whole == {"question too long": 1}


def test_equal_paragraphs_stay_from_the_front():
    window = type("Window", (), {"paragraphs": (0, 2, 3, 5)})
    logits = np.array([1.0, 3.0, 1.0, 1.0, 99.0])
    assert hotpotqa_select.most_relevant(logits, window, 2) == (0, 2)
    assert hotpotqa_select.most_relevant(logits, window, 9) == (0, 2, 3, 5)


def test_what_does_not_fit_is_told_and_nothing_is_written(model, tmp_path, capsys):
    with pytest.raises(UserError, match="--keep is 0; expected 1 or more"):
        kept(model, records(1), tmp_path, keep=0)
    out = tmp_path / "out.json"
    given = [f"--model={tmp_path}", f"--out={out}", str(tmp_path / "none.json")]
    assert hotpotqa_select.main(given) == 2
    assert capsys.readouterr().err.startswith(
        "python -m etc_jax.tasks.hotpotqa.select: "
    )
    assert not out.exists() and not list(tmp_path.glob("*.part"))
