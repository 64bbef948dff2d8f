"""Configs of encoders that transformers has no counterpart of."""

import dataclasses

import pytest

from etc_jax.models.encoder.hf_config import config_from_hf, config_to_hf
from etc_jax.models.longformer.config import LongformerConfig

CONFIG = LongformerConfig(num_layers=2, attention_window=(8,))


@pytest.mark.parametrize(
    "windows, expected",
    [
        ((8,), [8] * 5),
        ((8, 4), [8, 4, 8, 4, 8]),
        ((2, 4, 6, 8, 10, 12), [2, 4, 6, 8, 10]),
    ],
)
def test_windows_are_repeated_as_far_as_there_are_layers(windows, expected):
    config = LongformerConfig(num_layers=5, attention_window=windows)
    assert not list(config.problems())
    values = config_to_hf(config)
    assert values["attention_window"] == expected
    # Each layer has its own entry there.
    back = config_from_hf(values)
    assert back.patterns == config.patterns
    assert len(back.patterns) in (1, 5)


def test_a_longformer_that_is_read_has_a_table_of_positions():
    back = config_from_hf(config_to_hf(CONFIG))
    assert back == CONFIG and back.positions == "learnt"


@pytest.mark.parametrize(
    "change, message",
    [
        ({"positions": "sinusoidal"}, "positions are 'sinusoidal', .* has a table"),
        ({"positions": "none", "causal": True}, "positions are 'none'"),
        ({"causal": True}, "causal or dilated"),
        ({"attention_dilation": (2,)}, "causal or dilated"),
        ({"pre_norm": True}, "norms after the residuals"),
        ({"head_dim": 5}, "head_dim is 5, of 12 heads in a width of 768"),
    ],
)
def test_what_transformers_cannot_compute_is_not_written(change, message):
    with pytest.raises(ValueError, match=f"{message}.* keep this model here"):
        config_to_hf(dataclasses.replace(CONFIG, **change))
