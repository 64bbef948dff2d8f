"""A pattern and a family of one's own, in one file outside of the package."""

import sys

import numpy as np
import pytest
import tiny_texts
from pattern_cases import (
    PatternCase,
    check_a_split_sequence,
    check_full_length,
    check_pairs,
    check_who_sees_whom,
)
from random_params import random_params
from repository import ROOT

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.loading.model import LoadedModel
from etc_jax.models.encoder.body import EncoderForMaskedLm
from etc_jax.training.run import train_and_evaluate

SIZES = {
    "embed_dim": 16,
    "num_layers": 2,
    "num_heads": 2,
    "mlp_dim": 32,
    "max_length": 48,
    "radius": 1,
    "stride": 5,
}


@pytest.fixture
def strided(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    registry.import_plugin("strided_attention")
    yield sys.modules.pop("strided_attention")
    # What else was imported and registered meanwhile stays.
    for table in registry._TABLES.values():
        table.pop("strided_bert", None)


def sees(ids):
    place = np.arange(len(ids))
    offset = place[None] - place[:, None]
    return (abs(offset) <= 6) | (offset % 5 == 0)


def test_the_pattern_keeps_what_patterns_promise(strided):
    case = PatternCase(strided.Strided(6, 5), sees)
    check_who_sees_whom(case)
    check_pairs(case)
    check_full_length(case)
    check_a_split_sequence(case)


@pytest.mark.full
def test_its_family_learns_on_a_mesh(strided, tmp_path):
    (tmp_path / "text").write_bytes(bytes(range(97, 122)) * 400)
    config = config_lib.default_config("strided_bert")
    config.model.update(vocab_size=260, **SIZES)
    config.objective.name = "masked_lm"
    config.data.update(source="bytes", vocab_size=260, input_length=48)
    config.data.paths = (str(tmp_path / "text"),)
    config.optimizer.update(learning_rate=2e-2)
    config.schedule.warmup_steps = 0
    config.train.update(num_steps=4, batch_size=8, log_every_steps=1)
    config.mesh.update(data=2, fsdp=2, tensor=2)
    run = train_and_evaluate(config_lib.from_config_dict(config), tmp_path / "run")
    assert run.exit_code == 0


def test_its_family_gives_vectors(strided):
    config = strided.StridedBertConfig(vocab_size=len(tiny_texts.PIECES), **SIZES)
    params = random_params(EncoderForMaskedLm(config).init, np.ones((1, 4), np.int32))
    tokenizer = tiny_texts.tiny("bert").tokenizer
    model = LoadedModel(
        config=config, params=params, tokenizer=tokenizer, max_length=48
    )
    vectors = model.encode(tiny_texts.texts(3, 20))
    assert vectors.shape == (3, 16) and np.isfinite(vectors).all()
