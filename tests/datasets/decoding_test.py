"""What decoding of all data sets shares, by hand and against a plain loop."""

import math
import types

import numpy as np
import pytest

from etc_jax.datasets.decoding import check_outputs, one_hot, require_gold, softmax


def windows(*names, **labels):
    made = [types.SimpleNamespace(id=name) for name in names]
    return [types.SimpleNamespace(record=record, labels=labels) for record in made]


def test_logits_of_other_windows_are_refused():
    logits = np.zeros((2, 3))
    check_outputs({"": logits, "end": logits[:, 0]}, windows("a", "b"), {"": (3,)})
    check_outputs({"": logits}, [], {"": (9,)})
    for wrong in (logits[:1], logits[:, :2], logits[..., None]):
        with pytest.raises(ValueError, match="^logits have shape .*expected .2, 3.: g"):
            check_outputs({"": wrong}, windows("a", "b"), {"": (3,)})
    with pytest.raises(ValueError, match="^end logits have shape .2, 3., expected .2,"):
        check_outputs({"end": logits}, windows("a", "b"), {"end": ()})
    for bad in (np.nan, np.inf):
        logits[1, 2] = bad
        with pytest.raises(ValueError, match="^logits of 'b' hold NaN or infinity; ex"):
            check_outputs({"": logits}, windows("a", "b"), {"": (3,)})


def test_probabilities_are_those_of_a_plain_loop():
    for logits in ([2.0, -1.0], [0.5, 0.75], [3.0, 3.0]):
        odds = [math.exp(x) for x in logits]
        want = [x / sum(odds) for x in odds]
        assert softmax(np.float32(logits)).tolist() == pytest.approx(want)
    assert softmax(np.float32([1e4, -1e4])).tolist() == [1.0, 0.0]
    assert softmax(np.zeros((2, 2))).tolist() == [[0.25] * 2] * 2


def test_gold_outputs_are_sure_of_the_label_and_need_one():
    assert one_hot(windows("a", label=1), "label", 3).tolist() == [[0, 20, 0]]
    assert one_hot([], "label", 3).shape == (0, 3)
    require_gold(windows("a"), lambda record: record.id)
    with pytest.raises(ValueError, match="'b' has no gold answer; give records of"):
        require_gold(windows("a", "b"), lambda record: record.id < "b" or None)
