"""Reformer token by token: the logits of the model, or of a slow loop."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_model
from random_params import random_params

from etc_jax.generation import decoding, loop as generation
from etc_jax.generation.loop import Options, Rules
from etc_jax.models.reformer.body import ReformerLm
from etc_jax.models.reformer.decoding import ReformerDecoder
from etc_jax.ops.attention import lsh
from etc_jax.ops.attention.parts.lsh_hashing import hash_vectors

LSH = tiny_model.REFORMER
LOCAL = dataclasses.replace(LSH, pattern=("local",), num_layers=2)
N = 20


def tokens_of(n, seed=0):
    return np.random.default_rng(seed).integers(1, 11, size=(2, n)).astype(np.int32)


@functools.cache
def params_of(config):
    return random_params(ReformerLm(config).init, tokens_of(4), spread=0.5)


@functools.partial(jax.jit, static_argnums=0)
def model_logits(config, params, tokens, example_ids=None):
    return ReformerLm(config).apply({"params": params}, tokens, example_ids)


def decoded(config, tokens, start, length):
    """Logits `[b, n - start + 1, vocabulary]`: of a prompt, and of each token more."""
    params = params_of(config)
    logits, cache = decoding.prefill(
        ReformerDecoder(config), params, tokens[:, :start], length
    )
    found = [logits]
    for position in range(start, tokens.shape[1]):
        logits, cache = decoding.step(
            ReformerDecoder(config), params, cache, tokens[:, position]
        )
        found.append(logits)
    return np.stack(found, axis=1)


@pytest.mark.parametrize(
    "config",
    [
        LOCAL,
        dataclasses.replace(
            LOCAL, positions="sinusoidal", axial_shape=None, axial_dims=None
        ),
        dataclasses.replace(LSH, local_chunk_length=3, lsh_chunk_length=30),
    ],
    ids=["local", "sines", "one chunk"],
)
@pytest.mark.full(but=["one chunk"])
def test_steps_give_the_logits_of_one_forward_pass(config):
    tokens = tokens_of(N)
    want = model_logits(config, params_of(config), tokens)[:, 4:]
    got = decoded(config, tokens, 5, N)
    np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.full
def test_a_number_of_buckets_is_one_factor():
    configs = [dataclasses.replace(LSH, num_buckets=x) for x in ((4,), 4)]
    tokens, params = tokens_of(12), params_of(LSH)
    found = []
    for config in configs:
        decoder = ReformerDecoder(config)
        cache = decoding.init_cache(decoder, params, 2, N)
        for position in range(12):
            token = tokens[:, position]
            logits, cache = decoding.step(decoder, params, cache, token)
            found.append(logits)
    np.testing.assert_array_equal(found[:12], found[12:])


@pytest.mark.full
def test_after_one_lsh_layer_logits_are_those_of_the_text_so_far():
    # Chunks of 4 and 6 are worked on in multiples of 12, and a table has no axes.
    config = dataclasses.replace(
        LSH,
        num_layers=2,
        lsh_chunk_length=6,
        num_buckets=(2, 4),
        duplicates="once",
        axial_shape=None,
        axial_dims=None,
    )
    params, tokens = params_of(config), tokens_of(N)
    got = decoded(config, tokens, 1, N)
    for n in range(5, N + 1):
        padded = np.zeros((2, config.padded(n)), np.int32)
        padded[:, :n] = tokens[:, :n]
        known = np.arange(padded.shape[1])[None].repeat(2, 0) < n
        want = model_logits(config, params, padded, known.astype(np.int32))[:, n - 1]
        np.testing.assert_allclose(got[:, n - 1], want, atol=1e-5)


def test_a_prompt_leaves_the_logits_and_buckets_of_the_model():
    tokens, params = tokens_of(N), params_of(LSH)
    logits, cache = decoding.prefill(ReformerDecoder(LSH), params, tokens, 40)

    def run(model, tokens):
        outputs, _, buckets = model.encoder.with_hidden(tokens)
        return model.logits(outputs[:, -1:])[:, 0], buckets

    model = ReformerLm(LSH)
    want, buckets = jax.jit(
        lambda params: model.apply({"params": params}, tokens, method=run)
    )(params)
    np.testing.assert_allclose(logits, want, atol=1e-5)
    for layer, of_layer in enumerate(buckets):
        numbers = np.asarray(cache.layers[1].rows.numbers[layer, ..., :N])
        found = np.zeros_like(numbers)
        np.put_along_axis(found, numbers % 40, numbers // 40, axis=-1)
        np.testing.assert_array_equal(found, of_layer[..., :N])


# --- a slow loop ----------------------------------------------------------------------


class SlowLoop:
    """Layers one after the other, a token at a time, in plain numpy.

    What stands in a layer is what was put there when the token was the newest; only
    attention itself is `lsh.attend` and `lsh.local`, over all of that.
    """

    def __init__(self, config, rotations):
        self.config, self.rotations = config, rotations
        self.params = jax.tree.map(np.asarray, params_of(config))
        self.rows = [{} for _ in range(config.num_layers)]
        self.n = 0

    def step(self, tokens):
        c, p = self.config, self.params["encoder"]
        row, column = divmod(self.n, c.axial_shape[1])
        tables = p["embeddings"]["position_embedder"]
        place = np.concatenate([tables["rows"][row], tables["columns"][column]])
        x1 = x2 = p["embeddings"]["token_embedder"]["embedding"][tokens] + place
        self.n += 1
        for i in range(c.num_layers):
            repeat, k = divmod(i, len(c.pattern))
            layer = p["stack"]["layers"][f"{c.pattern[k]}_{k}"]
            layer = jax.tree.map(lambda x, r=repeat: x[r], layer)
            x1 = x1 + self.attention(i, repeat, layer["f"], x2)
            y = self.norm(layer["g"]["mlp_norm"], x1)
            mlp = layer["g"]["mlp"]
            hidden = np.maximum(y @ mlp["wi"]["kernel"] + mlp["wi"]["bias"], 0)
            x2 = x2 + hidden @ mlp["wo"]["kernel"] + mlp["wo"]["bias"]
        y = self.norm(p["final_norm"], np.concatenate([x1, x2], axis=-1))
        return y @ self.params["logits"]["kernel"] + self.params["logits"]["bias"]

    def norm(self, p, x):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + self.config.layer_norm_epsilon)
        return x * p["scale"] + p["bias"]

    def attention(self, i, repeat, f, x):
        y, rows = self.norm(f["attention_norm"], x), self.rows[i]
        for name, dense in f["attention"].items():
            if name != "out":
                row = np.einsum("be,ehd->bhd", y, dense["kernel"])
                rows.setdefault(name, []).append(row)
        out = self.newest({k: np.stack(x, axis=1) for k, x in rows.items()}, repeat)
        return np.einsum("bhd,hde->be", out, f["attention"]["out"]["kernel"])

    def newest(self, rows, repeat):
        size = self.config.padded(self.n)
        ids = np.arange(size)[None].repeat(2, 0) < self.n
        missing = [(0, 0), (0, size - self.n), (0, 0), (0, 0)]
        rows = {k: np.pad(x, missing).astype(np.float32) for k, x in rows.items()}
        rotations = None if "query" in rows else self.rotations[repeat]
        out = whole(self.config, rows, ids.astype(np.int32), rotations)
        return np.asarray(out[:, self.n - 1])


@functools.partial(jax.jit, static_argnums=0)
def whole(config, rows, ids, rotations):
    options = {"causal": True, "example_ids": ids, "implementation": "dense"}
    patterns = dict(zip(config.pattern, config.patterns, strict=True))
    if rotations is None:
        return lsh.local(**rows, look=patterns["local"].look, **options)
    options |= {"look": patterns["lsh"].look, "num_buckets": 4}
    options |= {"duplicates": config.duplicates}
    buckets = hash_vectors(rows["query_key"], rotations, config.num_buckets)
    return lsh.attend(**rows, buckets=buckets, **options)


@pytest.mark.full
def test_steps_through_several_lsh_layers_are_those_of_a_slow_loop():
    config = dataclasses.replace(
        LSH, local_chunk_length=2, lsh_chunk_length=4, duplicates="once"
    )
    params, tokens = params_of(config), tokens_of(N)
    cache = decoding.init_cache(ReformerDecoder(config), params, 2, N)
    slow = SlowLoop(config, np.asarray(cache.layers[1].rotations))
    found = []
    for position in range(12):
        logits, cache = decoding.step(
            ReformerDecoder(config), params, cache, tokens[:, position]
        )
        found.append(logits)
        np.testing.assert_allclose(logits, slow.step(tokens[:, position]), atol=1e-5)
    # It is another thing than one forward pass: later tokens move chunks there.
    far = np.abs(np.stack(found, 1) - model_logits(config, params, tokens[:, :12]))
    assert far.max() > 1e-2


# --- caches ---------------------------------------------------------------------------


def test_prompts_of_different_lengths_go_on_side_by_side():
    tokens, params = tokens_of(N), params_of(LOCAL)
    lengths = np.array([11, 3], np.int32)
    logits, cache = decoding.prefill(
        ReformerDecoder(LOCAL), params, tokens[:, :13], N, lengths
    )
    want = np.asarray(model_logits(LOCAL, params, tokens))
    both = np.arange(2)
    for more in range(4):
        np.testing.assert_allclose(logits, want[both, lengths + more - 1], atol=1e-5)
        token = tokens[both, lengths + more]
        logits, cache = decoding.step(ReformerDecoder(LOCAL), params, cache, token)


def test_steps_are_compiled_once_for_a_length_and_end_with_it():
    params, tokens = params_of(LOCAL), tokens_of(N)
    cache = decoding.init_cache(ReformerDecoder(LOCAL), params, 2, 6)
    before = decoding.step._cache_size()
    for position in range(6):
        logits, cache = decoding.step(
            ReformerDecoder(LOCAL), params, cache, tokens[:, position]
        )
        assert np.isfinite(logits).all()
    assert decoding.step._cache_size() <= before + 1
    logits, _ = decoding.step(ReformerDecoder(LOCAL), params, cache, tokens[:, 6])
    assert np.isnan(logits).all()


def test_a_step_writes_into_the_cache_and_gathers_one_window():
    length = 16384
    # In bfloat16, which XLA on CPU does not have.
    config = dataclasses.replace(
        LSH, max_length=length, axial_shape=(128, 128), dtype="bfloat16", head_dim=64
    )
    params, step, decoder = params_of(config), decoding.step, ReformerDecoder(config)
    cache = jax.eval_shape(lambda: decoding.init_cache(decoder, params, 2, length))
    token = jnp.zeros((2,), jnp.int32)
    traced = jax.make_jaxpr(step, static_argnums=0)(decoder, params, cache, token)
    rows, heads, rounds, chunks = 2, 2, 2, 2
    assert largest_product(traced) == rows * heads * rounds * chunks * 8 * 64
    compiled = step.lower(decoder, params, cache, token).compile().memory_analysis()
    rows = cache.layers[1].rows
    one = rows.key.size * rows.key.dtype.itemsize
    assert compiled.alias_size_in_bytes > 2 * one
    assert compiled.temp_size_in_bytes < one / 2


def largest_product(jaxpr):
    """Numbers in the largest operand of a matrix product, in all that is called."""
    largest = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            largest = max(largest, *(x.aval.size for x in equation.invars))
        for inner in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")
        ):
            if hasattr(inner, "eqns"):
                largest = max(largest, largest_product(inner))
    return largest


def test_without_a_number_of_buckets_the_length_of_the_cache_decides():
    config = dataclasses.replace(LSH, num_buckets=None)

    def half(length):
        cache = jax.eval_shape(
            lambda: decoding.init_cache(
                ReformerDecoder(config), params_of(config), 2, length
            )
        )
        return cache.layers[1].rotations.shape[-1]

    # Of a power of two near two for each chunk of 8, half have a direction.
    assert (half(10), half(16), half(40)) == (1, 2, 4)


# --- texts ----------------------------------------------------------------------------


def test_without_temperature_each_token_is_the_likeliest():
    params, prompt = params_of(LOCAL), tokens_of(7)
    got = generation.write(
        ReformerDecoder(LOCAL), params, prompt, Options(N - 6)
    ).tokens[:, 0]
    text = np.concatenate([prompt, got], axis=1)[:, :N]
    want = np.argmax(model_logits(LOCAL, params, text), axis=-1)[:, 6:]
    np.testing.assert_array_equal(got, want)


def test_draws_are_a_function_of_the_key():
    params, prompt = params_of(LOCAL), tokens_of(7)

    def draw(seed, prompt=prompt, numbers=None, **options):
        options = {"temperature": 5.0} | options
        rng, options = jax.random.key(seed), Options(N - 6, **options)
        tokens = generation.write(
            ReformerDecoder(LOCAL), params, prompt, options, rng, numbers=numbers
        ).tokens[:, 0]
        assert tokens.shape == (len(prompt), N - 6) and tokens.dtype == jnp.int32
        return np.asarray(tokens)

    first = draw(0)
    np.testing.assert_array_equal(first, draw(0))
    assert (first != draw(1)).any()
    # And of the row's number: not of the rows beside it.
    alone = draw(0, prompt[1:], np.array([1]))
    np.testing.assert_array_equal(alone, first[1:])
    likeliest = draw(0, temperature=0.0)
    for options in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-6}):
        np.testing.assert_array_equal(draw(0, **options), likeliest)


@pytest.mark.parametrize(
    "change, message",
    [
        (
            {"decoder": ReformerDecoder(dataclasses.replace(LSH, causal=False))},
            "cannot continue a text",
        ),
        (
            {"prompt": tokens_of(40)},
            "length 40 and 10 tokens that follow need 49 positions",
        ),
        (
            {"prompt": tokens_of(1), "max_tokens": 50},
            "length 1 and 50 tokens that follow need 50 positions",
        ),
        ({"max_tokens": 0}, "max_tokens is 0; expected 1 or more"),
        ({"temperature": -1.0}, "temperature is -1.0; expected 0 "),
        ({"temperature": float("nan")}, "temperature is nan; expected 0 "),
        ({"top_k": -1}, r"top_k is -1; expected 0 \(all\) or more"),
        ({"top_p": 0.0}, r"top_p is 0.0; expected a number in \(0, 1\]"),
        ({"rng": None}, "rng is None; give a key"),
        (
            {"rules": Rules(no_repeat_ngram=2), "prompt_lengths": np.array([5, 3])},
            "prompt_lengths are given with rules of tokens",
        ),
    ],
)
def test_texts_that_cannot_be_are_refused_before_compiling(
    change, message, monkeypatch
):
    monkeypatch.setattr(generation, "prefill", None)
    given = {"prompt": tokens_of(5), "max_tokens": 10, "temperature": 1.0}
    given |= {"decoder": ReformerDecoder(LSH), "rng": jax.random.key(0)} | change
    given |= {"prompt_lengths": change.get("prompt_lengths")}
    names = "decoder", "prompt", "rng", "prompt_lengths"
    decoder, prompt, rng, lengths = (given.pop(name) for name in names)
    with pytest.raises(ValueError, match=message):
        generation.write(
            decoder, None, prompt, Options(**given), rng, prompt_lengths=lengths
        )


@pytest.mark.parametrize(
    "change, message",
    [
        ({"length": 49}, r"length is 49, expected 1\.\.48: the model's max_length"),
        ({"length": 4}, r"the prompt has shape \(2, 5\), expected .* 1\.\.4"),
        ({"tokens": tokens_of(0)}, r"shape \(2, 0\), expected \[batch, n\]"),
        (
            {"prompt_lengths": jnp.ones((3,), int)},
            r"have shape \(3,\), expected \(2,\)",
        ),
        (
            {"decoder": ReformerDecoder(dataclasses.replace(LSH, causal=False))},
            "causal=False",
        ),
    ],
)
def test_prompts_that_do_not_fit_are_refused(change, message):
    given = {"decoder": ReformerDecoder(LSH), "params": params_of(LSH)}
    given |= {"tokens": tokens_of(5)}
    with pytest.raises(ValueError, match=message):
        decoding.prefill(**(given | {"length": 10} | change))
