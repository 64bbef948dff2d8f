"""Records that cannot be used: named with file and number, and the others are read."""

import json

import pytest
from data_sets import SAMPLES, in_array, in_lines, task_of
from natural_questions_samples import original
from openkp_samples import PLAIN, page

from etc_jax.datasets.records import BadRecordError, Problems

GONE = object()
HUGE = 10**400
# Where a record is not the sample.
VALUES = {
    "squad": {"id": "r1", "question": "Who was a baker?", "context": "Ann Lee."},
}
OPTIONS = {"retrieval": {"negatives_column": "hard", "negatives": 1}}
TILE = "VDOM does not tile the text"
FEATURES = "wrong features"
OUTSIDE = "offsets outside of the document"

# By data set and what a problem is called: changes of fields, each with what is said.
# A path leads into fields and lists, and into JSON that is a text.
BAD = {
    "hotpotqa": {
        "no context": [({"context": []}, "'a1'")],
        "wrong type": [
            ({"context": [["T", "text"]]}, "'context[0][1]' is str 'text', expected a"),
            ({"context": [["T", ["a", 3]]]}, "'context[0][1][1]' is int '3'"),
            ({"context": [["T", None]]}, "'context[0][1]' is NoneType"),
            ({"context": [["T"]]}, "expected a list of two"),
            ({"context": {"T": ["a"]}}, "'context' is dict"),
            ({"supporting_facts": [["T", HUGE]]}, "int '1000"),
            ({"supporting_facts": [["T", "0"]]}, "expected a whole number"),
            ({"supporting_facts": [["T", True]]}, "[1]' is bool 'True'"),
            ({"_id": 7}, "'_id' is int '7'"),
        ],
        "empty field": [
            ({"question": "  "}, "'question' is blank"),
            ({"answer": ""}, "'answer' is blank"),
        ],
    },
    "wikihop": {
        "answer is no candidate": [({"answer": "ton"}, "'ton' is not in ['norland'")],
        "empty field": [
            ({"candidates": []}, "'candidates' is an empty list"),
            ({"supports": []}, "'supports' is an empty list"),
            ({"query": ""}, "'query' is blank"),
        ],
        "empty candidate": [({"candidates": ["norland", " "]}, "candidates [1]")],
        "wrong type": [
            ({"candidates": "norland"}, "expected a list"),
            ({"supports": [3]}, "'supports[0]' is int '3', expected a string"),
        ],
        "no document": [({"supports": [" ", ""]}, "has 2 blank ones")],
    },
    "natural_questions": {
        "missing field": [
            *(({x: GONE}, f"no '{x}'") for x in ("question_text", "document_tokens")),
            ({"example_id": GONE}, "no 'example_id'"),
            (
                {"annotations.0.short_answers": [{}]},
                "no 'annotations[0].short_answers.start_token'",
            ),
        ],
        "wrong type": [
            ({"example_id": True}, "'example_id' is bool 'True'"),
            ({"example_id": 1.5}, "'example_id' is float '1.5'"),
            ({"document_tokens": "a b"}, "expected a list"),
            ({"document_tokens.1": "x"}, "in 'document_tokens'"),
            ({"document_tokens.1.token": 3}, "no string"),
            ({"document_tokens.1.html_token": 0}, "true or false"),
            ({"document_tokens.1.end_byte": "3"}, "no number"),
            (["a list"], "expected an object"),
            (
                {"annotations.0.short_answers.0.end_token": None},
                "expected a whole number",
            ),
            (
                {"long_answer_candidates.0.top_level": None},
                "long_answer_candidates[0]",
            ),
        ],
        "empty field": [({"question_text": " "}, "'question_text' is blank")],
        "no text": [
            (original("<P> <Br> </P>", said=[]), "3 tokens, all of them HTML tags")
        ],
        "no top-level candidate": [
            (original("<H1> a </H1>", said=[]), "0 candidates, none of top level")
        ],
        OUTSIDE: [
            ({"long_answer_candidates.0.end_token": 99}, "from word 3 to 99 of 34"),
            ({"long_answer_candidates.0.start_token": 12}, "from word 12 to 12"),
            (
                {"annotations.0.long_answer.start_token": -1},
                "annotations[0].long_answer is from word -1 to 12",
            ),
        ],
        "wrong value": [
            ({"annotations.0.yes_no_answer": "MAYBE"}, "yes_no_answer 'maybe'")
        ],
    },
    "openkp": {
        "missing field": [
            *(({x: GONE}, f"no '{x}'; fields are:") for x in ("url", "text", "VDOM")),
            ({"VDOM.2.text": GONE}, "no 'VDOM[2].text'"),
        ],
        "wrong type": [
            ({"url": 3}, "'url' is int '3', expected a string"),
            ({"text": None}, "'text' is NoneType"),
            ({"VDOM": []}, "'VDOM' is list '[]', expected a string"),
            ({"VDOM": "{}"}, "'VDOM' is dict '{}', expected a list"),
            ({"VDOM": "[3]"}, "int '3', expected an object"),
            ({"VDOM.0.end_idx": 2.0}, "[0].end_idx' is float"),
            ({"VDOM.0.start_idx": False}, "[0].start_idx' is bool"),
            ({"VDOM.0.end_idx": 2**31}, "from 0 to 2147483647"),
            ({"KeyPhrases": [5]}, "'KeyPhrases[0]' is int '5', expected a"),
            ({"KeyPhrases": "mill"}, "expected a list"),
            ({"KeyPhrases": ["mill"]}, "'KeyPhrases[0]' is str 'mill', expected"),
            ([], "expected an object"),
        ],
        "empty field": [
            ({"text": " "}, "'text' is blank"),
            ({"KeyPhrases": []}, "'KeyPhrases' has no phrase"),
            ({"KeyPhrases": [[], [""]]}, "'KeyPhrases' has no phrase"),
        ],
        "broken VDOM": [({"VDOM": "[{"}, "VDOM is no JSON")],
        TILE: [
            ({"VDOM": "[]"}, "elements end at word 0 of 15"),
            ({"text": "Old Mill and more"}, "element 1 is 'The old mill"),
            ({"VDOM.1.start_idx": 3}, "words 3 to 9"),
            ({"VDOM.1.end_idx": 8}, "element 1"),
            ({"VDOM.3.text": "country of ton"}, "element 3"),
            ({"VDOM.3": GONE}, "end at word 12 of 15"),
        ],
        FEATURES: [
            ({"VDOM.1.feature": PLAIN}, "has 10 numbers"),
            ({"VDOM.1.feature": GONE}, "no 'VDOM[1].feature'"),
            ({"VDOM.1.feature.8": "14"}, "expected a finite"),
            ({"VDOM.1.feature.8": True}, "expected a finite"),
            ({"VDOM.2.feature.0": float("nan")}, "VDOM[2]"),
            ({"VDOM.2.feature.0": HUGE}, "int '1000"),
            ({"VDOM.2.feature.0": 1e39}, "float '1e+39'"),
            ({"VDOM.2.feature.14": 0.5}, "0 or 1 in columns [4,"),
        ],
        "no Unicode": [(page(("Old \ud800",)), "half a character")],
    },
    "imdb": {
        "unknown label": [
            ({"label": 2}, ": int '2', expected 0 or 'neg', 1 or 'pos'"),
            ({"label": -1}, ": int '-1'"),
            ({"label": True}, ": bool 'True'"),
            ({"label": "unsup"}, ": str 'unsup'"),
            ({"label": ["pos"]}, "['pos']"),
        ],
        "unknown rating": [
            ({"rating": 0}, ": int '0', expected a whole number, 1 to 10"),
            ({"rating": "8"}, ": str '8'"),
            ({"rating": 7.5}, ": float '7.5'"),
        ],
        "empty review": [({"text": ""}, "is blank")],
        "wrong type": [({"text": None}, "'text' is NoneType")],
        "empty field": [({"id": " "}, "'id' is blank")],
    },
    "classification": {
        "wrong type": [({"label": x}, "'label' is ") for x in (["a"], 1.5, {"a": 1})],
        "empty field": [({"text": x}, "'text'") for x in ("", " \t ")],
    },
    "coreference": {
        "empty field": [({"doc_key": " "}, "'doc_key'")],
        "no text": [({"sentences": []}, "'bn/a/00/a_0001_0' has no word")],
        "wrong type": [
            ({"sentences": [["a", ""]]}, "expected a word"),
            ({"clusters": [3]}, "'clusters[0]' is int '3', expected a list"),
            ({"clusters": [[[0, True]]]}, "[0][1]' is bool"),
        ],
        "wrong mention": [
            ({"clusters": [[[0, 12]]]}, "[0, 12]"),
            ({"clusters": [[[0, 12]]]}, "of 12 words"),
            ({"clusters": [[[2, 1]]]}, "[2, 1]"),
        ],
        "mention in two clusters": [({"clusters": [[[0, 1]], [[0, 1]]]}, "(0, 1)")],
        "wrong speakers": [({"speakers": [["a"]]}, "for each word")],
    },
    "squad": {
        "wrong type": [
            ({"answer": 3}, "'answer' is int '3', expected a list"),
            ({"answer": "x", "answer_start": "b"}, "expected a whole number"),
            ({"answer": "x", "answer_start": "--1"}, "expected a whole number"),
            (
                {"answer": ["x"], "answer_start": [1, 2]},
                "a list of 1, one for each answer",
            ),
        ],
        "empty field": [
            ({"answer": ["x", " "]}, "is blank, expected text"),
            ({"question": " "}, "'question' is blank"),
        ],
    },
    # Questions of the official file; those of one's own, before, are lines.
    "squad/release": {
        "empty field": [({"id": ""}, "'id' is blank")],
        "missing field": [
            ({"question": GONE}, "no 'question'"),
            ({"answers": [{"text": "x"}]}, "answer_start'"),
        ],
        "no answer": [({"answers": []}, "questions of SQuAD 2.0")],
        "wrong type": [
            ({"answers": ["Ann"]}, "expected an object"),
            (
                {"answers": [{"text": "x", "answer_start": "3"}]},
                "answer_start' is str '3', expected a whole number",
            ),
        ],
        "id twice": [({"id": "b"}, "'b', first in")],
    },
    "multiple_choice": {
        "wrong type": [
            ({"difficult": "often"}, "'difficult' is str 'often', expected 1 or 0")
        ],
        "empty field": [
            ({"options": ["a", " "]}, "'options[1]' is blank"),
            ({"article": ""}, "'article' is blank"),
        ],
    },
    "retrieval": {
        "wrong type": [
            ({"passage": 3}, "'passage' is int '3', expected a string"),
            ({"hard": 3}, "'hard' is int '3', expected a list of passages"),
        ],
        "empty field": [
            ({"query": ""}, "'query' is blank"),
            ({"passage": " "}, "'passage' is blank"),
            ({"hard": ["a", ""]}, "is blank"),
        ],
    },
    "wmt14_en_de": {
        "wrong type": [([], "expected an object"), ({"de": None}, "'de'")],
        "missing field": [({x: GONE}, f"no '{x}'") for x in ("id", "en")],
    },
}
ROWS = [
    pytest.param(name, kind, *row, id=f"{name}-{kind}-{number}")
    for name, kinds in BAD.items()
    for kind, rows in kinds.items()
    for number, row in enumerate(rows)
]


def changed(value, path, new):
    """A value with another one, or none, at the end of a path."""
    if isinstance(value, str):
        return json.dumps(changed(json.loads(value), path, new))
    step, _, rest = path.partition(".")
    key, value = int(step) if isinstance(value, list) else step, value.copy()
    if new is GONE and not rest:
        del value[key]
    else:
        value[key] = changed(value[key], rest, new) if rest else new
    return value


@pytest.mark.parametrize("name, kind, changes, message", ROWS)
def test_a_bad_record_is_named_and_the_others_are_read(
    tmp_path, name, kind, changes, message
):
    data_set, _, is_release = name.partition("/")
    sample = SAMPLES[data_set]
    task = task_of(data_set).with_options(OPTIONS.get(name, {}))
    value = VALUES.get(name, sample.value)
    before, after = ({**value, sample.id: x} for x in ("b", "c"))
    if isinstance(changes, dict):
        for path, new in changes.items():
            value = changed(value, path, new)
    else:
        value = changes
    write = sample.write if is_release or sample.write is in_array else in_lines
    path, problems = write(tmp_path, [before, value, after], "a"), Problems()
    assert [record.id for record in task.read([path], problems)] == ["b", "c"]
    assert problems.counts == {kind: 1} and (problems.read, problems.lost) == (2, 1)
    [text] = problems.messages[kind]
    assert text.startswith(f"{path}, record 2: ") and message in text
    with pytest.raises(BadRecordError, match="a.json.*, record 2: "):
        list(task.read([path], None))
