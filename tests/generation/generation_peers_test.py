"""What is written, beside transformers: ids of random models, in float64."""

import dataclasses
import random

import double_precision
import jax
import numpy as np
import pytest
from parity.encoder_decoders import options_of
from random_encoder_decoders import FAMILIES, VOCABULARY, random_params

from etc_jax.base import registry
from etc_jax.conversion import hugging_face
from etc_jax.data.pretraining.global_tokens import global_index
from etc_jax.generation import decoding, loop as generation
from etc_jax.generation.loop import Options
from etc_jax.models.led.config import LedConfig
from etc_jax.ops import sampling

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("float64")]

MODELS, SETTINGS = 20, 3


def settings(rng: random.Random, config) -> dict:
    """Of transformers' `generate`."""
    beams = rng.randint(1, 6)
    found = {
        "num_beams": beams,
        "max_new_tokens": rng.randint(2, 9),
        "min_new_tokens": rng.choice((0, 0, 2)),
        "no_repeat_ngram_size": rng.choice((0, 1, 2, 3)),
        "repetition_penalty": rng.choice((1.0, 1.0, 1.3, 0.8)),
        # A token that comes often, in place of one that hardly ever does.
        "eos_token_id": rng.randrange(3, VOCABULARY),
        "num_return_sequences": rng.randint(1, beams),
        "forced_bos_token_id": rng.choice((None, None, 5)),
        "forced_eos_token_id": rng.choice((None, 7)),
    }
    first = found["forced_bos_token_id"]
    if first == found["eos_token_id"] or found["max_new_tokens"] < 4:
        # There would be fewer texts than beams, and transformers fills up with others.
        found["forced_bos_token_id"] = None
    if beams > 1:
        found["length_penalty"] = rng.choice((-1.0, 0.0, 0.6, 1.0, 2.0))
        found["early_stopping"] = rng.choice((False, True, "never"))
    return found


def inputs_of(config, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs of different lengths, with padding on the left or on the right."""
    b, n = rng.integers(1, 6), rng.integers(2, 30)
    tokens = rng.integers(3, VOCABULARY, (b, n))
    mask = np.arange(n)[None] < rng.integers(1, n + 1, (b, 1))
    if rng.random() < 0.5:
        mask = mask[:, ::-1]
    batch = {
        "input_ids": np.where(mask, tokens, config.pad_id),
        "attention_mask": mask.astype(np.int64),
    }
    if isinstance(config, LedConfig):
        first = np.argmax(mask, axis=1)[:, None]
        batch["global_attention_mask"] = (np.arange(n)[None] == first).astype(np.int64)
    return batch


def written(found, options: Options) -> list[list[int]]:
    texts = np.asarray(found.tokens).reshape(-1, options.max_tokens).tolist()
    lengths = np.asarray(found.lengths).ravel()
    return [text[:n] for text, n in zip(texts, lengths, strict=True)]


def until_end(ids: list[int], end: int) -> list[int]:
    return ids[: ids.index(end) + 1] if end in ids else ids


@pytest.mark.parametrize("seed", range(MODELS))
def test_transformers_writes_the_same(seed, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    rng = random.Random(seed)
    config = FAMILIES[seed % len(FAMILIES)](rng)
    # With more layers in its decoder, transformers' T5 runs out of its cache.
    fewer = min(config.num_layers, config.num_decoder_layers)
    config = dataclasses.replace(config, num_decoder_layers=fewer)
    params = random_params(config, seed)
    hugging_face.save(tmp_path / "model", params, config)
    theirs = transformers.AutoConfig.from_pretrained(tmp_path / "model")
    kind = getattr(transformers, theirs.architectures[0])
    model = kind.from_pretrained(tmp_path / "model", attn_implementation="eager")
    model = model.double().eval()
    wide = dataclasses.replace(config, dtype="float64")
    params = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    family = registry.name_of("model_config", type(config))
    decoder = decoding.decoder_of(family, wide)
    batch = inputs_of(config, np.random.default_rng(seed))
    index = batch.get("global_attention_mask")
    memory = generation.encode(
        decoder,
        params,
        batch["input_ids"],
        batch["attention_mask"],
        None if index is None else global_index(index),
    )
    prompt = np.full((len(batch["input_ids"]), 1), config.decoder_start_id)
    for _ in range(SETTINGS):
        given = settings(rng, config)
        with double_precision.theirs():
            want = model.generate(
                **{name: torch.tensor(x).long() for name, x in batch.items()},
                **given,
                do_sample=False,
                pad_token_id=config.pad_id,
                decoder_start_token_id=config.decoder_start_id,
            )
        options = options_of(config, given)
        found = generation.write(decoder, params, prompt, options, memory=memory)
        end = given["eos_token_id"]
        want = [until_end(ids, end) for ids in want[:, 1:].tolist()]
        got = written(found, options)
        # Theirs are cut where the longest text of all ends.
        assert got == want, given


def test_what_is_drawn_from_is_transformers_s():
    torch = pytest.importorskip("torch")
    logits_process = pytest.importorskip("transformers.generation.logits_process")
    rng = np.random.default_rng(0)
    for _ in range(50):
        logits = rng.normal(0, 2, (3, 40))
        temperature = rng.uniform(0.3, 3)
        k, p = int(rng.integers(0, 41)), float(rng.uniform(0.05, 1))
        got = sampling.filtered(logits, temperature, top_k=k, top_p=p)
        want = logits_process.TemperatureLogitsWarper(temperature)(
            None, torch.tensor(logits)
        )
        if k:
            want = logits_process.TopKLogitsWarper(k)(None, want)
        want = logits_process.TopPLogitsWarper(p)(None, want)
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-12)
