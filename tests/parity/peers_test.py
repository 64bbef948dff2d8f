"""Comparing with golden cases that have some of the outputs."""

import numpy as np
import pytest

from parity.peers import Comparison

MASK = np.ones((1, 2), np.int32)
LOGITS = np.ones((1, 2, 3))


def _compared(outputs, start="") -> Comparison:
    """As the runners do: every output that a model has is offered."""
    compare = Comparison(outputs, MASK, start)
    compare.rows("logits", LOGITS + 0.5)
    compare.value("loss", 2.0)
    compare.gradient_norms({"w": np.array([3.0, 4.0])})
    return compare


@pytest.mark.parametrize(
    "names, worst",
    [
        (("logits",), 0.5),
        (("loss",), 1.0),
        (("grad_norm.names", "grad_norm.values"), 0.0),
        (("logits", "loss", "grad_norm.names", "grad_norm.values"), 1.0),
    ],
)
def test_what_a_case_has_is_compared(names, worst):
    every = {
        "logits": LOGITS,
        "loss": np.array(1.0),
        "grad_norm.names": np.array(["w"]),
        "grad_norm.values": np.array([5.0]),
    }
    assert _compared({name: every[name] for name in names}).finish() == worst


def test_a_part_is_compared_by_the_start_of_its_names():
    outputs = {"exact.logits": LOGITS, "logits": LOGITS + 9}
    assert _compared(outputs, "exact.").finish() == 0.5


def test_an_output_that_no_runner_knows_is_refused():
    with pytest.raises(AssertionError, match="unknown outputs.*'logit'"):
        _compared({"loss": np.array(2.0), "logit": LOGITS}).finish()


def test_a_case_without_outputs_is_refused():
    with pytest.raises(AssertionError, match="no outputs"):
        _compared({"generate.ids": LOGITS}).finish()


def test_a_wrong_gradient_norm_is_found():
    outputs = {
        "grad_norm.names": np.array(["w"]),
        "grad_norm.values": np.array([5.1]),
    }
    with pytest.raises(AssertionError, match="w: 5.0, expected 5.1"):
        _compared(outputs)
