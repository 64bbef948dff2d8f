"""What a batch may not hold is found before anything is compiled."""

import contextlib

import finetuned_run
import jax
import numpy as np
import pytest

from etc_jax.data.schema import stacked
from etc_jax.data.tokenizers.grown import grown
from etc_jax.formats.structured import StructuredSizes
from etc_jax.prediction import runner as runner_lib
from etc_jax.prediction.model_files import open_model
from etc_jax.tasks import openkp
from etc_jax.training.errors import UserError

NAME = "openkp"
NOTHING = jax.jit(lambda params, batch: 0)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    made = finetuned_run.config(NAME)
    return open_model(finetuned_run.save_run(tmp_path_factory.mktemp("run"), made))


@pytest.fixture
def inputs():
    [value] = finetuned_run.records(NAME, 1)
    record = openkp.records.parse(value, lambda *note: None)
    sizes = StructuredSizes(*finetuned_run.LENGTHS[NAME])
    return stacked(openkp.inputs.features(record, finetuned_run.tokenizer(NAME), sizes))


@pytest.fixture
def start(model, monkeypatch):
    """Starts a runner on a batch, which must be refused."""

    def never(*args):
        raise AssertionError("compiled")

    def start(batch):
        with monkeypatch.context() as patch:
            patch.setattr(runner_lib, "_compiled", lambda task: never)
            with pytest.raises(UserError) as caught:
                runner_lib.Runner(model, 8).start(batch)
        return str(caught.value)

    return start


def test_ids_beyond_a_table_are_named(start, inputs):
    assert "long_tokens holds ids from 0 to 99999" in start(
        {**inputs, "long_tokens": np.where(inputs["long_tokens"] > 0, 99999, 0)}
    )


@pytest.mark.parametrize("lacking", [0, 1])
def test_each_batch_is_looked_at_if_a_token_may_lack_its_row(
    model, inputs, lacking, monkeypatch
):
    monkeypatch.setattr(runner_lib, "_compiled", lambda task: NOTHING)
    runner = runner_lib.Runner(model, 8)
    rows, known = model.config.model.vocab_size, model.tokenizer.vocab_size
    more = [f"[new{i}]" for i in range(rows - known + lacking)]
    if more:
        monkeypatch.setattr(runner, "_tokenizer", grown(model.tokenizer, more))
    runner.start(inputs)
    last = {**inputs, "long_tokens": np.full_like(inputs["long_tokens"], rows)}
    with pytest.raises(UserError) if lacking else contextlib.nullcontext():
        runner.start(last)


def test_further_inputs_are_checked_as_in_training(start, inputs):
    looks = inputs["visual"]
    odd = {**looks, "font": np.full_like(looks["font"], 24)}
    assert "visual.font holds 24, but there are 24 fonts" in start(
        {**inputs, "visual": odd}
    )
    bare = {k: x for k, x in inputs.items() if k != "visual"}
    assert "the batch lacks visual" in start(bare)
