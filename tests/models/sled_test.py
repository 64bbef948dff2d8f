"""SLED over encoder-decoders: windows encoded by themselves, memory, meshes, errors."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from encoder_decoder_test import (
    CONFIGS,
    apply,
    check_on_a_mesh,
    losses,
    model_of,
    random_params,
    tokens,
)

from etc_jax import config as config_lib, sharding
from etc_jax.configs.text_to_text import sled
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.models.encoder_decoder import flops
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.sled import body
from etc_jax.models.sled.config import SledConfig
from etc_jax.objectives.seq2seq import Seq2Seq

# Reformer's encoder cuts its input into chunks itself, by the length that it is given.
BACKBONES = pytest.mark.parametrize("name", ["bart", "t5", "reformer"])
WINDOWS = SledConfig(window=8, prefix_length=3)


def with_sled(name, **changes):
    sled = dataclasses.replace(WINDOWS, **changes)
    return dataclasses.replace(CONFIGS[name], sled=sled)


@functools.cache
def encoder_of(config):
    model = model_of(config)

    def rows(params, *args):
        return model.apply({"params": params}, *args, method="encode").rows

    return jax.jit(rows)


def rows_of(config, params, *args):
    with jax.default_matmul_precision("highest"):
        return np.asarray(encoder_of(config)(params, *args))


def by_hand(config, params, prefix, document):
    """One document's rows, each window encoded alone by the backbone (figure 2)."""
    plain, sled = dataclasses.replace(config, sled=SledConfig()), config.sled
    size, margin = sled.windows
    p, n = len(prefix), len(document)
    before = prefix if sled.prefix_in_windows else prefix[:0]
    rows, kept = [], 0
    while kept < n:
        start = min(max(kept - margin, 0), max(n - size, 0))
        window = np.concatenate([before, document[start : start + size]])
        found = rows_of(plain, params, window[None])[0, len(before) :]
        end = n if start + size >= n else start + size - margin
        rows.append(found[kept - start : end - start])
        kept = end
    if p and sled.prefix_in_memory:
        rows.insert(0, rows_of(plain, params, prefix[None])[0])
    return np.concatenate(rows)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"padding_share": 0.0, "prefix_in_memory": False},
        {"prefix_in_windows": False},
        {"window": 1, "prefix_in_windows": False},
        {"window": 1},
        {"prefix_length": 0, "window": 5, "padding_share": 0.4},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["bart", "t5"])
@pytest.mark.full(
    but=[
        "bart-{}",
        "t5-{'prefix_in_windows': False}",
        "bart-{'window': 1}",
        "t5-{'prefix_length': 0, 'window': 5, 'padding_share': 0.4}",
        "bart-{'padding_share': 0.0, 'prefix_in_memory': False}",
    ]
)
def test_rows_are_those_of_windows_encoded_one_by_one(name, changes):
    config = with_sled(name, **changes)
    params, p = random_params(config), config.sled.prefix_length
    read = tokens(2, p + 21)
    # The second document is shorter, and ends with padding of the batch.
    lengths = (21, 14)
    ids = np.int32(np.arange(p + 21)[None] < p + np.array(lengths)[:, None])
    got = rows_of(config, params, read, ids)
    for row, rest, n in zip(got, read, lengths, strict=True):
        want = by_hand(config, params, rest[:p], rest[p : p + n])
        np.testing.assert_allclose(row[: len(want)], want, atol=2e-5)


def test_a_short_prefix_is_padded_in_its_places():
    config = with_sled("bart")
    params, read = random_params(config), tokens(1, 3 + 21)
    ids = np.ones_like(read)
    ids[0, 2] = 0
    got = rows_of(config, params, read, ids)
    other = read.copy()
    other[0, 2] = 1 + other[0, 2]
    again = rows_of(config, params, other, ids)
    seen = ids[0] > 0
    np.testing.assert_allclose(got[0, seen], again[0, seen], atol=1e-6)


@BACKBONES
@pytest.mark.full(but=["t5"])
def test_one_window_is_the_backbone(name):
    config = with_sled(name, window=32, prefix_length=0)
    params, read, written = random_params(config), tokens(2, 24), tokens(2, 4)
    plain = dataclasses.replace(config, sled=SledConfig())
    args = (params, read, written)
    # The window has more places than the document; the rest of it is padding.
    np.testing.assert_allclose(apply(config, *args), apply(plain, *args), atol=2e-5)


@pytest.mark.parametrize("name", ["bart", "t5"])
@pytest.mark.full
def test_some_windows_at_a_time_are_all_at_once(name):
    read, written = tokens(2, 3 + 45), tokens(2, 4)
    ids = np.int32(np.arange(48)[None] < np.array([[48], [30]]))
    found = []
    for at_once in (0, 3):
        config = with_sled(name, windows_at_once=at_once)
        params = random_params(config)
        found.append(losses(config, params, read, written, tokens(2, 4, seed=3), ids))
    for got, want in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(got, want, atol=2e-5)


@pytest.mark.full
def test_memory_is_that_of_the_windows_at_once():
    """Beyond rows of the whole input, of which there are a few, nothing grows."""

    def working(n):
        config = with_sled(
            "bart", window=16, prefix_length=0, input_length=n, windows_at_once=4
        )
        model, params = EncoderDecoder(config), random_params(config)

        def loss(params, read):
            found = model.apply({"params": params}, read, method="encode")
            return jnp.sum(jnp.sin(found.rows))

        compiled = jax.jit(jax.grad(loss)).lower(params, tokens(1, n)).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    row = 4 * CONFIGS["bart"].embed_dim
    first, second = 2048, 8192
    grown = (working(second) - working(first)) / (second - first)
    # All layers of one window have many times more for each of its tokens.
    assert grown < 8 * row


@pytest.mark.full
@pytest.mark.parametrize(
    "axes",
    [{"data": 1, "sequence": 8}, {"data": 2, "sequence": 2, "tensor": 2}],
    ids=str,
)
def test_windows_split_over_devices(axes):
    config = with_sled("bart", windows_at_once=1)
    args = (tokens(2, 3 + 45), tokens(2, 4), tokens(2, 4, seed=3))
    check_on_a_mesh(config, axes, args, 2e-5)


@pytest.mark.parametrize(
    "at_once, steps", [(0, (1, 24)), (1, (6, 4)), (2, (3, 8)), (5, (2, 12))]
)
def test_each_device_encodes_as_many_as_are_wanted(at_once, steps):
    """Gradients are summed over devices after each step: none has less to do."""
    mesh = sharding.make_mesh(sharding.MeshConfig(data=2, sequence=4))
    with jax.set_mesh(mesh), sharding.logical_rules(sharding.DEFAULT_RULES):
        assert body._steps(23, at_once) == steps


def test_parameters_are_made_where_windows_are_split():
    """Of a pattern that does not work on a split sequence."""
    mesh = sharding.make_mesh(sharding.MeshConfig(data=2, sequence=4))
    seq2seq = Seq2Seq(with_sled("bart"), EncoderDecoder)
    whole = jax.eval_shape(seq2seq.init, jax.random.key(0))
    with jax.set_mesh(mesh), sharding.logical_rules(sharding.DEFAULT_RULES):
        assert jax.eval_shape(seq2seq.init, jax.random.key(0)) == whole


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"window": -1}, "window is -1; expected 0 or more"),
        ({"window": 0}, "window is 0, so that .* but prefix_length says otherwise"),
        ({"padding_share": 1.0}, "padding_share is 1.0; expected a number in"),
        ({"input_length": 3}, "input_length is 3; expected more than the 3 places"),
        ({"window": 62}, "window is 62, with prefix_length 3 more than the 64"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    config = with_sled("bart", **changes)
    lines = [f"{f.removeprefix('sled.')} {text}" for f, text in config.problems()]
    assert any(re.search(message, line) for line in lines), lines


def test_global_tokens_and_inputs_of_a_prefix_alone_are_refused():
    led = with_sled("led")
    assert any("global tokens" in text for _, text in led.problems())
    config = with_sled("bart")
    params = random_params(config)
    with pytest.raises(ValueError, match="has 3 places, expected more than the 3 of"):
        model_of(config).apply({"params": params}, tokens(1, 3), method="encode")


def test_an_input_longer_than_the_windows_cover_is_refused():
    made = sled.get_config("short")
    made.data.input_length = 2048
    message = "data.input_length: is 2048, more than the 1024 tokens of model.sled.inp"
    with pytest.raises(config_lib.ConfigError, match=message):
        config_lib.from_config_dict(made)


def test_useful_flops_are_those_of_the_windows():
    config = with_sled("bart", prefix_in_memory=False)
    plain = dataclasses.replace(config, sled=SledConfig())
    target = SequenceInputs(np.ones((1, 4), np.int32))

    def encoder(config, ids):
        """Without the decoder, which reads nothing."""
        given = SequenceInputs(np.asarray(ids, np.int32)), target
        nothing = SequenceInputs(np.zeros((1, 1), np.int32)), target
        return flops.body(config, given) - flops.body(plain, nothing)

    # A prefix of 3 alone, then behind it two windows of 8 of 12 tokens.
    whole = encoder(config, np.ones((1, 3 + 12)))
    parts = [encoder(plain, np.ones((1, n))) for n in (3, 11, 11)]
    ones = np.ones((1, 11), np.int32)
    cross = [
        flops.cross_attention(plain, np.ones((1, n), np.int32), ones[:, :4])
        for n in (12, 3, 11, 11)
    ]
    layers = plain.num_decoder_layers
    none = flops.cross_attention(plain, 0 * ones, ones[:, :4])
    mine, *others = (layers * (x - none) for x in cross)
    assert whole - mine == pytest.approx(sum(parts) - sum(others))
