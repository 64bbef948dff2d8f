"""The short scripts of the README do what they say, with a tiny model."""

import jax
import jax.numpy as jnp
import numpy as np
import programs
import pytest
from flax import linen, nnx
from readme_scripts import TEXTS, block, script, write_bert, write_files

from etc_jax.ops.attention import sliding_window


@pytest.mark.parametrize("name", ["labels", "squad", "summaries"])
def test_a_script_is_the_same_in_the_documentation(name):
    assert block(name) == block(name, "docs/finetuning.md")


@pytest.fixture
def run(tmp_path):
    """Runs a script in a folder with a model; gives what each command prints."""
    write_bert(tmp_path / "bert")
    write_files(tmp_path)

    def run(name):
        printed = []
        for arguments in script(name):
            done = programs.run("etc_jax", *arguments, cwd=tmp_path)
            assert done.returncode == 0, (arguments, done.stdout, done.stderr)
            printed.append(done.stdout)
        return printed

    return run


def test_a_model_is_made_long_and_encodes(run, tmp_path, monkeypatch):
    extended, _ = run("extend")
    assert extended.splitlines()[-1] == (
        'next: echo "A first text." | etc-jax embed --model=long --out=long.npy -'
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long").rename("longformer")
    found = {"texts": TEXTS}
    exec(block("encode"), found)
    vectors = np.load("vectors.npy")
    assert vectors.shape == (2, 16) and found["model"].max_length == 4096
    np.testing.assert_allclose(found["vectors"], vectors, atol=1e-5)
    # A short text as the BERT reads it.
    short = found["etc_jax"].load("bert").encode(TEXTS[:1])
    np.testing.assert_allclose(vectors[:1], short, atol=1e-5)


def attention_of(name):
    """The class of a block."""
    given = {"nn": linen, "nnx": nnx, "jnp": jnp, "sliding_window": sliding_window}
    exec(block(name), given)
    return given["LocalAttention"]


def test_attention_stands_in_modules_of_linen_and_of_nnx():
    x = jax.random.normal(jax.random.key(1), (2, 600, 16))
    module = attention_of("linen")()
    made = jax.jit(module.init)(jax.random.key(0), x)
    params = made["params"]
    want = jax.jit(module.apply)(made, x)

    other = attention_of("nnx")(16, nnx.Rngs(0))
    layers = {"DenseGeneral_0": other.heads, "DenseGeneral_1": other.out}
    for name, layer in layers.items():
        of = params[name]
        layer.kernel[...], layer.bias[...] = of["kernel"], of["bias"]
    np.testing.assert_allclose(nnx.jit(other)(x), want, atol=1e-5)

    # Each of all pairs, by hand.
    heads = jnp.einsum("bne,eshd->sbnhd", x, params["DenseGeneral_0"]["kernel"])
    query, key, value = heads + params["DenseGeneral_0"]["bias"][:, None, None]
    logits = jnp.einsum("bqhd,bkhd->bhqk", query, key) / 2
    place = np.arange(600)
    near = jnp.asarray(abs(place[:, None] - place) <= 256)
    weights = jax.nn.softmax(jnp.where(near[None, None], logits, -jnp.inf))
    seen = jnp.einsum("bhqk,bkhd->bqhd", weights, value)
    of = params["DenseGeneral_1"]
    got = jnp.einsum("bnhd,hde->bne", seen, of["kernel"]) + of["bias"][None, None]
    np.testing.assert_allclose(got, want, atol=1e-5)
