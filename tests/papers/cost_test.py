"""What a run would take is what its steps take."""

import numpy as np
import pytest

from benchmarks.speed import input_pipeline
from etc_jax.cli import flag
from etc_jax.config import from_config_dict
from etc_jax.objectives.pretraining import Pretraining
from etc_jax.papers import cost


@pytest.mark.parametrize("side, variants", [("mlm_cpc", ""), ("no_cpc", ":no_cpc")])
def test_pretraining_takes_the_flops_of_its_batches(tmp_path, side, variants):
    """Of full windows; what CPC masks of a window varies by some sentences."""
    changes = "--config.data.source=jsonl", "--config.data.paths=('x.jsonl',)"
    values = flag.read(f"etc_base_pretrain{variants}", changes)
    values.data.tokenizer = None
    config = from_config_dict(values)
    sizes = input_pipeline.Sizes(batch_size=16, text_tokens=400_000)
    assert (sizes.long_length, sizes.global_length) == (
        config.data.long_length,
        config.data.global_length,
    )
    cache = input_pipeline.write_text(tmp_path, sizes.text_tokens)
    batch = input_pipeline.make_reader(cache, sizes, side).batch_at(0)
    tokens = input_pipeline.real_tokens(batch)
    took = Pretraining(config.model, config.objective).useful_flops(batch) / tokens
    per_token = cost.step_flops(config) / config.train.batch_size / sizes.long_length
    assert np.isclose(per_token, took, rtol=0.05)
