"""Loaded models: hidden states and vectors of texts."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from causal_pairs import PIECES
from random_params import random_params
from tiny_texts import (
    CLS,
    CONFIGS,
    ENCODERS,
    MAX_LENGTH,
    SEP,
    params_of,
    texts,
    tiny,
)

from etc_jax.cli import generate
from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer
from etc_jax.generation import text_writer
from etc_jax.generation.writer import Text
from etc_jax.loading import pooling
from etc_jax.loading.model import LoadedModel
from etc_jax.models.encoder.body import Encoder
from etc_jax.models.encoder.lm import EncoderForCausalLm
from etc_jax.models.encoder_decoder.body import EncoderDecoder

TEXTS = texts(7, 40)
GLOBAL = {"longformer": 1, "led": 1, "big_bird with globals": 3}
# Of one padded length, unless padding matters; the shorter one has padding.
TWO = [" ".join(["red", "green is", "the blue"] * n) for n in (14, 18)]


def alone(name: str, text: str) -> np.ndarray:
    """Hidden states `[t, e]` of one text without padding."""
    config, params = CONFIGS[name], params_of(name)
    [(ids, _)] = WordPieceTokenizer(PIECES).encode_batch([text])
    first = [] if name in ("t5", "long_t5") else [CLS]
    tokens = jnp.array([[*first, *ids, SEP]], jnp.int32)
    index = jnp.zeros((1, 1), jnp.int32) if name in ("longformer", "led") else None

    @jax.jit
    def states(params):
        if name in ENCODERS:
            own = {"params": params["encoder"]}
            return Encoder(config).apply(own, tokens, global_index=index)
        given = {"params": params}, tokens, None, index
        return EncoderDecoder(config).apply(*given, method="encode").rows

    return np.asarray(states(params)[0])


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.full(but=["longformer", "big_bird", "t5", "sled"])
def test_states_are_those_of_each_text_alone(name):
    model = tiny(name)
    want = [alone(name, text) for text in TWO]
    found = model(TWO)
    assert found.states.shape == (2, len(want[1]), 8)
    np.testing.assert_array_equal(found.lengths, [len(x) for x in want])
    for row, length, states in zip(*found, want, strict=True):
        np.testing.assert_allclose(row[:length], states, atol=1e-5)
        assert not row[length:].any()


@pytest.mark.parametrize("name, count", GLOBAL.items())
@pytest.mark.full(but=["longformer-1"])
def test_the_global_tokens_are_pooled(name, count):
    model = tiny(name)
    want = model(TWO).states[:, :count].mean(axis=1)
    np.testing.assert_allclose(model.encode(TWO, pooling="global"), want, atol=1e-6)


def test_vectors_keep_their_order_whatever_the_batches():
    model = tiny("bert")
    rows = [x[:n] for x, n in zip(*model(TEXTS), strict=True)]
    means = np.stack([x.mean(axis=0) for x in rows])
    for size in (1, 4):
        got = model.encode(TEXTS, batch_size=size)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, means, atol=1e-5)
    firsts = np.stack([x[0] for x in rows])
    np.testing.assert_allclose(model.encode(TEXTS, pooling="cls"), firsts, atol=1e-5)
    norms = np.linalg.norm(means, axis=1, keepdims=True)
    got = model.encode(TEXTS, normalize=True)
    np.testing.assert_allclose(got, means / norms, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_global_tokens_that_are_not_read_are_not_pooled(name):
    with pytest.raises(ValueError, match="does not have; expected mean or cls$"):
        tiny(name).encode(TEXTS, pooling="global")


def test_a_thousand_texts_are_a_handful_of_programs():
    model = tiny("bert")
    many = texts(1000, MAX_LENGTH - 2, seed=1)
    before = pooling.vectors._cache_size()
    model.encode(many, batch_size=32)
    first = pooling.vectors._cache_size() - before
    assert 0 < first <= 8
    model.encode(many[::-1], batch_size=32)
    assert pooling.vectors._cache_size() - before == first


def test_apply_is_compiled_and_differentiated_by_its_users():
    model = tiny("longformer")
    batch = model.batch(model.inputs_of(TEXTS[:3]))

    apply = jax.jit(model.apply)
    states = model(TEXTS[:3]).states
    got = apply(model.params, batch)[:, : states.shape[1]]
    real = np.asarray(batch["example_ids"][..., None] > 0)
    np.testing.assert_allclose(np.where(real, got, 0), states, atol=1e-5)
    gradient = jax.grad(lambda params: (apply(params, batch) ** 2).mean())(model.params)
    assert jax.tree.structure(gradient) == jax.tree.structure(model.params)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(gradient))
    table = gradient["encoder"]["embeddings"]["token_embedder"]["embedding"]
    assert np.abs(table).max() > 0


def test_ids_are_read_as_they_are():
    model = tiny("bert")
    ids = [one.ids for one in model.inputs_of(TEXTS)]
    assert ids[0][0] == CLS and ids[0][-1] == SEP
    given = [row.tolist() for row in ids]
    np.testing.assert_array_equal(model.encode(given), model.encode(TEXTS))
    bare = dataclasses.replace(model, tokenizer=None)
    np.testing.assert_array_equal(bare.encode(ids), model.encode(TEXTS))
    with pytest.raises(ValueError, match="has no tokenizer.*; give ids"):
        bare.encode(TEXTS)


def test_an_empty_text_is_its_special_tokens():
    found = tiny("bert")([""])
    assert found.lengths.tolist() == [2]
    np.testing.assert_allclose(found.states[0], alone("bert", ""), atol=1e-5)
    assert tiny("bert").encode([]).shape == (0, 8)


def test_long_texts_are_cut_with_one_warning():
    model = tiny("bert", max_length=10)
    long = ["red green " * 9, "red", "blue " * 30]
    told = "2 of 3 texts have more than the 10 tokens that the model reads, up to 32"
    with pytest.warns(UserWarning, match=told) as caught:
        got = model.encode(long)
    assert len(caught) == 1 and caught[0].filename == __file__
    # [CLS] and [SEP] are there.
    want = model.encode(["red green " * 4, "red", "blue " * 8])
    np.testing.assert_allclose(got, want, atol=1e-6)
    with pytest.raises(ValueError, match=f"{told}; cut them"):
        model.encode(long, on_long="error")


@pytest.mark.parametrize(
    "given, message",
    [
        ({"texts": "red"}, r"texts is one text; expected a list: give \[text\]"),
        ({"texts": ["red", [3]]}, "texts.1. is .3.; expected a text"),
        ({"texts": ["red", None]}, "texts.1. is None; expected a text"),
        ({"texts": None}, "texts is None; expected a list of texts"),
        ({"texts": 3}, "texts is 3; expected a list"),
        ({"texts": {"a": 1}}, "texts is {'a': 1}; expected a list"),
        ({"texts": b"red"}, "texts is one text; expected a list"),
        ({"texts": [[1], [2, [3]]]}, "texts.1. is neither a text nor a list of ids"),
        ({"texts": ["red", "a \ud800"]}, "texts.1.: half a character in 'a "),
        ({"texts": ["red"], "batch_size": "8"}, "batch_size is '8'; expected 1"),
        ({"texts": ["red"], "batch_size": None}, "batch_size is None; expected 1"),
        ({"texts": [[3], [3, 99]]}, r"texts\[1\] is neither a text nor a list of ids"),
        ({"texts": [[]]}, r"texts\[0\] is neither a text nor a list of ids from 0 to"),
        ({"texts": [[1.5]]}, r"texts\[0\] is neither"),
        (
            {"pooling": "max"},
            "'max', which a BertConfig does not have; expected mean or cls$",
        ),
        ({"batch_size": 0}, "batch_size is 0; expected 1 or more"),
        ({"on_long": "drop"}, "on_long is 'drop'; expected 'cut' or 'error'"),
    ],
)
def test_what_cannot_be_encoded_is_told(given, message):
    with pytest.raises(ValueError, match=message):
        tiny("bert").encode(**{"texts": ["red"], **given})


def test_special_tokens_in_a_text_are_read_as_such_where_that_is_asked():
    model, texts = tiny("bert"), ["red [SEP] green"]
    [plain], [asked] = (
        model.inputs_of(texts, special_tokens_in_text=x) for x in (False, True)
    )
    red, green = (PIECES.index(word) for word in ("red", "green"))
    ids = [CLS, red, SEP, green, SEP]
    assert asked.ids.tolist() == ids and SEP not in plain.ids[:-1]
    want = model.encode([ids])
    got = model.encode(texts, special_tokens_in_text=True)
    np.testing.assert_array_equal(got, want)
    assert model(texts, special_tokens_in_text=True).lengths == [5]
    with pytest.raises(ValueError, match="special_tokens_in_text is given with ids"):
        model.encode([ids], special_tokens_in_text=True)


@pytest.mark.parametrize("by", ["model", "command"])
def test_special_tokens_are_read_by_what_writes(by, tmp_path, capsys, monkeypatch):
    def write(writer, inputs, how, **_):
        for one in inputs:
            yield one.id, [Text(str(one.ids.tolist()), 0.0)]

    monkeypatch.setattr(text_writer.TextWriter, "write", write)
    model = tiny("t5")
    if by == "model":
        found = model.generate(["red [SEP] green"], special_tokens_in_text=True)
    else:
        model.save(tmp_path / "t5")
        given = f"--model={tmp_path / 't5'}", "--prompt=red [SEP] green"
        assert generate.main([*given, "--special_tokens_in_text"]) == 0
        found = capsys.readouterr().out.splitlines()
    red, green = (PIECES.index(word) for word in ("red", "green"))
    assert found == [str([red, SEP, green, SEP])]


def language_model():
    config, tokens = CONFIGS["causal longformer"], np.ones((1, 4), np.int32)
    params = random_params(EncoderForCausalLm(config).init, tokens, spread=0.5)
    tokenizer = WordPieceTokenizer(PIECES)
    return LoadedModel(config=config, params=params, tokenizer=tokenizer)


@pytest.mark.parametrize(
    "how", [{"num_beams": 2}, {"temperature": 2.0, "top_k": 9, "seed": 3}]
)
@pytest.mark.parametrize("kind", ["encoder-decoder", "language model"])
def test_texts_are_written_as_by_the_command(kind, how, tmp_path, capsys):
    is_pair = kind == "encoder-decoder"
    model = tiny("t5") if is_pair else language_model()
    model.save(tmp_path / "model")
    asked = ["red green", "is blue the", "the"] if is_pair else ["red green"]
    written = model.generate(asked, num_tokens=4, **how)
    (tmp_path / "asked.txt").write_text("\n".join(asked))
    inputs = f"--inputs={tmp_path / 'asked.txt'}", "--batch_size=2"
    argv = [f"--{name}={value}" for name, value in how.items()]
    argv += [f"--model={tmp_path / 'model'}", "--num_tokens=4"]
    assert generate.main([*argv, *(inputs if is_pair else ["--prompt=red green"])]) == 0
    out = capsys.readouterr().out
    lines = [json.loads(x)["output"] for x in out.splitlines()] if is_pair else [out]
    assert written == lines and any(written)


@pytest.mark.parametrize(
    "texts, how, message",
    [
        (["red"], {"num_beam": 2}, "no option num_beam of writing; there are"),
        ("red", {}, "texts is one text"),
        (["red"], {"batch_size": 0}, "batch_size is 0"),
    ],
)
def test_what_cannot_be_written_is_told(texts, how, message):
    with pytest.raises(ValueError, match=message):
        tiny("t5").generate(texts, **how)


def test_an_encoder_does_not_write():
    with pytest.raises(ValueError, match="'bert' cannot continue a text"):
        tiny("bert").generate(["red"])
