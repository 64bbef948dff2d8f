"""Mistakes in a config: each is refused before anything is made of it."""

import pytest
import toy_job
from bad_input_bench import Bench, mistakes

from etc_jax import config as config_lib

MISTAKES, mistake, plain = mistakes()
of_config = plain(Bench.config)

of_config(
    1,
    "a model with fewer ids than the vocabulary",
    "model.vocab_size: is 31",
    "data.vocab_size = 32",
    "at least as large",
    model__vocab_size=31,
)
of_config(
    6,
    "a seed of 41 bits",
    "train.seed: is 1099511627776",
    "expected a whole number from 0",
    train__seed=2**40,
)
of_config(
    12,
    "a negative learning rate",
    "optimizer.learning_rate: is -0.001",
    "expected more than 0",
    optimizer__learning_rate=-1e-3,
)
of_config(
    12,
    "a learning rate that is not a number",
    "optimizer.learning_rate: is nan",
    "expected a finite",
    optimizer__learning_rate=float("nan"),
)
of_config(
    18,
    "a dimension that its mesh axis does not divide",
    "model.mlp_dim: is 33",
    "mesh.tensor = 2",
    "nearest valid: 32 or 34",
    model__mlp_dim=33,
    mesh__tensor=2,
)
of_config(
    19,
    "a batch that the mesh does not divide",
    "train.batch_size: is 9",
    "mesh.data x mesh.fsdp",
    "8 or 10",
    train__batch_size=9,
    mesh__fsdp=2,
)
of_config(
    19,
    "a batch that microbatches do not divide",
    "is 8, not divisible by 3",
    "train.accumulation_steps",
    "6 or 9",
    train__batch_size=8,
    train__accumulation_steps=3,
)
of_config(
    20,
    "a mesh axis that does not exist",
    "mesh.tensors: unknown key",
    "did you mean 'tensor'?",
    mesh__tensors=2,
)


@mistake(21, "a misspelt section", "optimiser: unknown section", "'optimizer'")
def _(bench):
    values = toy_job.config_dict().to_dict()
    values["optimiser"] = {}
    return bench.config(values)


of_config(
    21,
    "a misspelt field",
    "train.bach_size: unknown key",
    "'batch_size'",
    train__bach_size=8,
)
of_config(
    21,
    "a misspelt field of a nested section",
    "optimizer.adafactor.decay_rat",
    "'decay_rate'",
    optimizer__adafactor={"decay_rat": 0.8},
)
of_config(
    22,
    "a string for an integer",
    "train.batch_size: is '8' (str); expected an int",
    train__batch_size="8",
)
of_config(
    22,
    "a float for an integer",
    "train.num_steps: is 1000.0 (float); expected an int",
    train__num_steps=1e3,
)
of_config(
    23,
    "a warm-up longer than the run",
    "schedule.warmup_steps: is 13",
    "train.num_steps = 12",
    "no larger",
    schedule__warmup_steps=13,
)
of_config(
    25,
    "an objective that does not exist",
    "objective.name: no objective named 'mlm_cpcc'",
    "did you mean 'mlm_cpc'?",
    objective__name="mlm_cpcc",
)
of_config(
    25,
    "a kind of source that does not exist",
    "data.source: no source config named 'json'",
    "did you mean 'jsonl'?",
    data__source="json",
)


@mistake(
    28,
    "a sequence longer than the positions of the model",
    "data.long_length: is 128",
    "positions for 100",
    "model.max_positions to 128",
)
def _(bench):
    with pytest.raises(config_lib.ConfigError) as caught:
        bench.text_config(model__max_positions=100)
    return str(caught.value)


of_config(
    28,
    "a sequence that its mesh axis does not divide",
    "data.long_length: is 129",
    "mesh.sequence = 2",
    "128 or 130",
    data__long_length=129,
    mesh__sequence=2,
)
