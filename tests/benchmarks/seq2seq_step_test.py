"""The training step beside transformers: both sides compute one function."""

import dataclasses

import pytest

from benchmarks.kit.harness import WrongSideError
from benchmarks.speed import seq2seq_step
from benchmarks.speed.seq2seq_step import StepSizes

# It has another name from transformers 5.24 on.
_WARNING = "ignore:.*gradient_checkpointing_enable:FutureWarning"
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings(_WARNING)]


@pytest.mark.parametrize("model", seq2seq_step.MODELS)
def test_both_sides_have_one_loss_and_its_gradients(model, monkeypatch):
    sizes = StepSizes(model, length=40, target_length=9, num_layers=1)
    narrow = dataclasses.replace(
        seq2seq_step.SIZES[model], embed_dim=24, num_heads=2, mlp_dim=16
    )
    monkeypatch.setitem(seq2seq_step.SIZES, model, narrow)
    sides, error = seq2seq_step.make_sides(sizes)
    assert error < 1e-4
    loss, other = (side.arrays(side.run())["loss"] for side in sides)
    assert loss == pytest.approx(other, rel=1e-5)
    # Other weights on one side are found out.
    of_step = seq2seq_step.TransformersStep
    monkeypatch.setattr(
        seq2seq_step,
        "TransformersStep",
        lambda sizes: of_step(dataclasses.replace(sizes, seed=1)),
    )
    with pytest.raises(WrongSideError, match="gradients differ"):
        seq2seq_step.make_sides(sizes)
