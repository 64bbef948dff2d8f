"""What folders with a generation_config.json write, beside transformers, id by id."""

import contextlib
import dataclasses
import functools
import json
import random

import double_precision
import jax
import numpy as np
import pytest
from generation_peers_test import written
from random_encoder_decoders import FAMILIES, VOCABULARY, random_params

from etc_jax.base import registry
from etc_jax.conversion import hugging_face
from etc_jax.conversion.formats import generation_file
from etc_jax.generation import decoding, loop as generation
from etc_jax.generation.writer import config_of

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("float64")]

FILES = 50  # of each of four families
BATCH, LENGTH = 2, 9


def ids(rng: random.Random, most: int) -> list[int]:
    return rng.sample(range(3, VOCABULARY), rng.randint(1, most))


def random_file(rng: random.Random, config) -> dict:
    """Options of `generate`; a third of them are not there."""
    # More than half of the vocabulary, and than all of it, are searches too.
    beams = rng.choice((1, 1, 1, 2, 3, 14, 30))
    values = {
        "num_beams": beams,
        "eos_token_id": rng.choice((ids(rng, 1)[0], ids(rng, 3))),
        "no_repeat_ngram_size": rng.choice((0, 2, 3)),
        "encoder_no_repeat_ngram_size": rng.choice((0, 1, 2)),
        "repetition_penalty": rng.choice((1.0, 1.3, 0.8)),
        "forced_bos_token_id": ids(rng, 1)[0],
        # Several are as likely as each other, and of two beams either may be first.
        "forced_eos_token_id": ids(rng, 1)[0] if beams > 1 else ids(rng, 2),
        "suppress_tokens": ids(rng, 4),
        "begin_suppress_tokens": ids(rng, 4),
        "bad_words_ids": [ids(rng, 3) for _ in range(rng.randint(1, 4))],
        "length_penalty": rng.choice((-1.0, 0.0, 0.6, 2.0)),
        "early_stopping": rng.choice((False, True, "never")),
        "num_return_sequences": rng.randint(1, beams),
        "bos_token_id": 3,
        # They act where tokens are drawn alone.
        "do_sample": False,
        "temperature": 0.5,
        "top_k": 3,
        "top_p": 0.5,
        "use_cache": True,
    }
    values = {name: x for name, x in values.items() if rng.random() < 0.6}
    # Transformers takes 20 tokens where nothing is said, this project 200.
    most = rng.choice((5, 9))
    values |= rng.choice(({"max_length": most}, {"max_new_tokens": most - 1}))
    if rng.random() < 0.5:
        least = rng.randint(1, 3)
        values |= rng.choice(({"min_length": least}, {"min_new_tokens": least}))
    values["num_beams"] = beams
    values["decoder_start_token_id"] = rng.choice((config.decoder_start_id, 5))
    values["pad_token_id"] = config.pad_id
    # What rules out all that there is, is an error in both projects.
    for name in ("forced_bos_token_id", "forced_eos_token_id"):
        forced = values.get(name, ())
        forced = forced if isinstance(forced, list) else [forced]
        if {*forced} & {*values.get("suppress_tokens", ())}:
            del values[name]
    if "forced_bos_token_id" in values:
        # There would be fewer texts than beams, and transformers fills up with others.
        values.pop("num_return_sequences", None)
    return values


def until_any(text: list[int], ends: tuple[int, ...]) -> list[int]:
    """What was written until an end; theirs are cut where the longest text ends."""
    last = next((i for i, token in enumerate(text) if token in ends), len(text))
    return text[: last + 1]


@pytest.fixture
def quick_to_compile():
    """Each file is a program of its own, which runs once."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.usefixtures("quick_to_compile")
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_folders_write_as_in_transformers(family, tmp_path, request):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    rng = random.Random(family.__name__)
    config = family(rng)
    runs = len(config.patterns)
    config = dataclasses.replace(config, num_layers=runs, num_decoder_layers=1)
    params = random_params(config, 0)
    hugging_face.save(tmp_path / "model", params, config)
    wide = dataclasses.replace(config, dtype="float64")
    params = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    decoder = decoding.decoder_of(registry.name_of("model_config", type(config)), wide)
    tokens = np.random.default_rng(0).integers(3, VOCABULARY, (BATCH, LENGTH))
    memory = generation.encode(decoder, params, tokens)
    theirs = transformers.AutoConfig.from_pretrained(tmp_path / "model")
    kind = getattr(transformers, theirs.architectures[0])
    model = kind.from_pretrained(tmp_path / "model", attn_implementation="eager")
    model = model.double().eval()
    request.addfinalizer(functools.partial(torch.set_default_dtype, torch.float32))
    torch.set_default_dtype(torch.float64)
    stack = contextlib.ExitStack()
    request.addfinalizer(stack.close)  # before the one above
    stack.enter_context(double_precision.theirs())
    path = tmp_path / "model" / generation_file.FILE
    for _ in range(FILES):
        values = random_file(rng, config)
        path.write_text(json.dumps(values))
        model.generation_config = transformers.GenerationConfig.from_pretrained(
            tmp_path / "model"
        )
        want = model.generate(input_ids=torch.tensor(tokens))[:, 1:].tolist()
        file = generation_file.read(tmp_path / "model")
        options = config_of(file, config).options(config, 200)
        prompt = generation.prompt_of(decoder, options, BATCH)
        found = generation.write(
            decoder, params, prompt, options, memory=memory, inputs=tokens
        )
        ends = options.rules.eos_ids
        want = [until_any(text, ends) for text in want]
        assert written(found, options) == want, values
