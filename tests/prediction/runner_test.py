"""What a batch may not hold is found before anything is compiled."""

import finetuned_run
import numpy as np
import pytest

from etc_jax.data.schema import stacked
from etc_jax.formats.structured import StructuredSizes
from etc_jax.prediction import runner as runner_lib
from etc_jax.prediction.model_files import open_model
from etc_jax.tasks import openkp
from etc_jax.training.errors import UserError

NAME = "openkp"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    made = finetuned_run.config(NAME)
    return open_model(finetuned_run.save_run(tmp_path_factory.mktemp("run"), made))


@pytest.fixture
def inputs():
    [value] = finetuned_run.records(NAME, 1)
    record = openkp.parse(value, lambda *note: None)
    sizes = StructuredSizes(*finetuned_run.LENGTHS[NAME])
    return stacked(openkp.features(record, finetuned_run.tokenizer(NAME), sizes))


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


def test_further_inputs_are_checked_as_in_training(start, inputs):
    looks = inputs["visual"]
    odd = {**looks, "font": np.full_like(looks["font"], 24)}
    assert "visual.font holds 24, but there are 24 fonts" in start(
        {**inputs, "visual": odd}
    )
    bare = {k: x for k, x in inputs.items() if k != "visual"}
    assert "the batch lacks visual" in start(bare)
