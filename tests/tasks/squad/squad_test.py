"""SQuAD as text: inputs, the answer that is learnt, and all that are right."""

import json

import multihop_samples
import numpy as np
import pytest
from golden_data import require_shared
from written_samples import QUESTION, write_release

from etc_jax.datasets.records import Problems
from etc_jax.formats.text_to_text import TextToTextSizes, written_text
from etc_jax.prediction.raw_records import read_inputs
from etc_jax.tasks import squad

TASK = squad.DATA_SET.in_format()


def record(**changes):
    return TASK.parse({**QUESTION, **changes}, lambda *note: None)


def test_the_input_is_that_of_t5_and_the_target_the_first_answer():
    pair = squad.text.pair_of(record())
    assert f"{pair.prefix} {pair.input}" == (
        "question: who owned the old mill? "
        "context: The old mill stands in Ton. Ann Lee owned it."
    )
    assert (pair.id, pair.target) == ("q1", "Ann Lee")
    tokenizer = multihop_samples.tokenizer()
    [window] = TASK.features(record(), tokenizer, TextToTextSizes(80, 8))
    assert window.unusable is None
    assert written_text(window.target_tokens, tokenizer) == "ann lee"
    assert TASK.record_length(record(), tokenizer) == window.input_example_ids.sum()


def test_any_answer_is_right_and_a_question_without_one_is_wrong():
    gold = [TASK.gold(record(id=x)) for x in ("a", "b")]
    found = TASK.score(gold, TASK.official({"a": "Lee"}))
    assert dict(found.metrics) == {"exact_match": 0.5, "f1": 0.5}
    assert found.missing == {"answer": ("b",)}


def test_a_reader_sees_the_question_and_the_paragraph():
    windows = TASK.features(record(), multihop_samples.tokenizer())
    [told] = TASK.explain(np.array([" Ann Lee "], object), windows, None)
    assert (told.question, told.answer) == (QUESTION["question"], "Ann Lee")
    [document] = told.documents
    assert document.title.text == "Mill"
    assert [x.text for x in document.passages] == [QUESTION["context"]]


def test_scores_of_files_are_those_of_the_official_script(tmp_path):
    """Through records, which keep what the script reads of a release."""
    path = require_shared("data/metric_goldens/squad_v1.1/cases.json")
    cases = json.loads(path.read_text())["cases"]
    file = tmp_path / "dev.json"
    for case in cases:
        file.write_text(json.dumps({"data": case["data"]}))
        gold = [TASK.gold(x) for x in TASK.read([file], Problems())]
        found = TASK.score(gold, TASK.official(case["predictions"]))
        for name, value in found.metrics.items():
            assert 100 * value == pytest.approx(case["official"][name], abs=1e-9)
    assert len(cases) > 5


def test_predict_reads_a_release_and_questions_by_themselves(tmp_path):
    lines = tmp_path / "a.jsonl"
    asked = {k: x for k, x in QUESTION.items() if k not in ("answers", "title")}
    lines.write_text(json.dumps({**asked, "id": "q2"}) + "\n")
    files = [str(write_release(tmp_path, [QUESTION])), str(lines)]
    found = [TASK.parse(x.value, None) for x in read_inputs(files, TASK.release)]
    assert found[0] == record() and found[1].answers is None
    assert squad.text.pair_of(found[1]).target is None and TASK.gold(found[1]) is None


def test_no_answer_is_an_empty_text_to_be_written():
    made = record(answers=[], is_impossible=True)
    assert squad.text.pair_of(made).target == ""
    [window] = TASK.features(made, multihop_samples.tokenizer())
    assert window.unusable is None
    assert written_text(window.target_tokens, multihop_samples.tokenizer()) == ""
    gold = [TASK.gold(made)]
    scores = [TASK.score(gold, TASK.official({"q1": x})) for x in ("", "Ann")]
    assert [x.metrics["f1"] for x in scores] == [1.0, 0.0]
