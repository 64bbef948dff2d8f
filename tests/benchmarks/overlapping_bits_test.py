"""Bits of overlapping windows, beside one byte at a time."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.quality import overlapping_bits
from etc_jax import config as config_lib
from etc_jax.data.bytes.stream import StreamSlice
from etc_jax.models.encoder.lm import EncoderForCausalLm
from etc_jax.training.checkpoints.checkpointer import Checkpointer
from etc_jax.training.state import TrainState

LENGTH, SCORED = 16, 5
STEP = 3
# So many bytes that the last window is cut: 400 = 320 + 40 + 40.
NUM_BYTES = 400


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "some.bin"
    path.write_bytes(np.random.default_rng(0).bytes(NUM_BYTES))
    return path


@pytest.fixture(scope="module")
def config(file):
    values = config_lib.default_config("longformer")
    values.model.update(
        vocab_size=256,
        embed_dim=8,
        num_layers=1,
        num_heads=2,
        mlp_dim=8,
        max_length=LENGTH,
        attention_window=(2 * LENGTH,),
        causal=True,
        positions="sinusoidal",
    )
    values.objective.name = "causal_lm"
    values.data.update(source="bytes", paths=(str(file),), vocab_size=256)
    values.data.update(input_length=8, validation_fraction=0.1)
    return config_lib.from_config_dict(values)


@functools.cache
def random_params(model):
    rng, module = np.random.default_rng(0), EncoderForCausalLm(model)
    tokens = np.zeros((1, 1), np.int32)
    abstract = jax.eval_shape(lambda: module.init(jax.random.key(0), tokens))["params"]
    return jax.tree.map(
        lambda x: rng.normal(0.1, 0.4, x.shape).astype(np.float32), abstract
    )


def one_at_a_time(model, stream, start, stop):
    """-ln p of each byte of a part: whole windows, then steps of SCORED bytes."""
    module, params = EncoderForCausalLm(model), {"params": random_params(model)}

    @jax.jit
    def chances(tokens):
        return jax.nn.log_softmax(module.apply(params, tokens[None])[0])

    found = []
    for place in range(start, stop):
        end = min(start + LENGTH, stop)
        while end <= place:
            end = min(end + SCORED, stop)
        first = end - LENGTH
        tokens = np.zeros(LENGTH, np.int32)
        for i in range(place - first + 1):
            tokens[i] = stream[first + i - 1]
        found.append(-chances(tokens)[place - first, stream[place]])
    return np.float64(found)


@pytest.mark.parametrize("part", overlapping_bits.PARTS)
def test_each_byte_counts_once_with_what_stands_before_it(part, config, file):
    stream = np.frombuffer(file.read_bytes(), np.uint8)
    start = {"valid": 320, "test": 360}[part]
    want = one_at_a_time(config.model, stream, start, start + 40)
    found = overlapping_bits.nats_of(
        random_params(config.model),
        config,
        overlapping_bits.part_of(config, part),
        length=LENGTH,
        scored=SCORED,
        batch_size=3,
    )
    np.testing.assert_allclose(found, want, rtol=1e-4)


def adapting_by_hand(model, stream, start, stop, rate):
    """As `one_at_a_time`, with a step down the gradient after each window."""
    module, params = EncoderForCausalLm(model), random_params(model)

    @jax.jit
    def step(params, tokens, true, count):
        """-ln p of all bytes, and parameters that have seen the last ones."""

        def mean(params):
            logits = module.apply({"params": params}, tokens[None])[0]
            chances = jax.nn.log_softmax(logits)
            nats = -jnp.take_along_axis(chances, true[:, None], axis=-1)[:, 0]
            is_last = jnp.arange(LENGTH) >= LENGTH - count
            return jnp.sum(nats * is_last) / count, nats

        slope, nats = jax.grad(mean, has_aux=True)(params)
        return nats, jax.tree.map(lambda x, g: x - rate * g, params, slope)

    found, known = [], start
    while known < stop:
        end = min(known + (SCORED if found else LENGTH), stop)
        first = end - LENGTH  # never 0: the training bytes stand before
        tokens, true = (jnp.int32(stream[i : i + LENGTH]) for i in (first - 1, first))
        nats, params = step(params, tokens, true, count=end - known)
        found.extend(nats[known - end :].tolist())
        known = end
    return np.float64(found)


@pytest.mark.full
def test_the_model_learns_from_what_it_has_predicted(config, file):
    stream = np.frombuffer(file.read_bytes(), np.uint8)
    part = overlapping_bits.part_of(config, "test")
    nats = {
        rate: overlapping_bits.nats_of(
            random_params(config.model),
            config,
            part,
            length=LENGTH,
            scored=SCORED,
            adapt=rate,
        )
        for rate in (0.0, 0.3)
    }
    want = adapting_by_hand(config.model, stream, part.start, part.stop, 0.3)
    np.testing.assert_allclose(nats[0.3], want, rtol=1e-4)
    np.testing.assert_allclose(nats[0.3][:LENGTH], nats[0.0][:LENGTH], rtol=1e-5)
    assert (abs(nats[0.3] - nats[0.0])[LENGTH:] > 1e-3).all()


@pytest.mark.parametrize("repeated, low, high", [(False, 7.9, 8.1), (True, 0.0, 1.0)])
def test_xz_knows_the_bytes_that_were_trained_on(repeated, low, high):
    noise = np.frombuffer(np.random.default_rng(0).bytes(2500), np.uint8)
    stream = np.concatenate(
        [noise[:2000], noise[300:800] if repeated else noise[2000:]]
    )
    train, part = (StreamSlice(stream, *ends) for ends in ((0, 2000), (2000, 2500)))
    assert low < overlapping_bits.xz_bits(part, train) < high


def save_run(folder, config, **changes):
    values = config_lib.to_dict(config)
    values["data"] |= changes
    params = jax.tree.map(jnp.asarray, random_params(config.model))
    with Checkpointer(folder, keep=1) as checkpointer:
        state = TrainState(jnp.int32(STEP), params, {"count": jnp.int32(STEP)})
        checkpointer.save(state, {"step": STEP, "config": values}, step=STEP)
    return folder


def test_the_command_prints_the_bits_of_a_run(config, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(overlapping_bits, "_REPORT_EVERY", 4)
    folder = save_run(tmp_path, config)
    part = overlapping_bits.part_of(config, "test")
    want = one_at_a_time(config.model, part.stream, part.start, part.stop)
    argv = [f"--model={folder}", "--part=test", f"--length={LENGTH}", "--xz"]
    assert overlapping_bits.main([*argv, f"--scored={SCORED}"]) == 0
    *progress, last, xz = capsys.readouterr().out.splitlines()
    assert len(progress) == 1 and progress[0].startswith("batch 4 of 6: ")
    bits = float(re.fullmatch(r"test: (\d+\.\d{4}) bits a byte of 40", last)[1])
    assert bits == pytest.approx(want.mean() / np.log(2), abs=1e-3)
    found = re.fullmatch(
        r"xz: (\d+\.\d{4}) bits a byte; the model needs (\d\.\d{3}) of them", xz
    )
    assert float(found[2]) == pytest.approx(bits / float(found[1]), abs=1e-3)


@pytest.mark.parametrize(
    "argv, message",
    [
        ([], "--length is 32256, more than the model's max_length = 16"),
        ([f"--length={LENGTH}"], "scored_length is 512, expected 1..16"),
        ([f"--length={LENGTH}", "--step=4"], "no finished checkpoint of step 4"),
        (
            [f"--length={LENGTH}", f"--scored={SCORED}", "--adapt=-1"],
            "--adapt is -1.0; expected a number from 0 on",
        ),
    ],
)
def test_what_cannot_be_evaluated_is_named(argv, message, config, tmp_path, capsys):
    folder = save_run(tmp_path, config)
    assert overlapping_bits.main([f"--model={folder}", *argv]) == 2
    out, err = capsys.readouterr()
    assert message in err and not out


def test_a_run_on_other_data_is_named(config, tmp_path, capsys):
    folder = save_run(tmp_path, config, source="duplication", paths=())
    assert overlapping_bits.main([f"--model={folder}"]) == 2
    assert "'causal_lm' on data.source='duplication'" in capsys.readouterr().err
