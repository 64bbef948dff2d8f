import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.base.types import Rows
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.heads import CandidateHead, HotpotqaHead, NaturalQuestionsHead

B, N, G, E = 2, 5, 3, 4
CONFIG = EtcConfig(embed_dim=E, num_heads=2, mlp_dim=6, dropout_rate=0.5)


def rows() -> Rows:
    rng = np.random.default_rng(0)
    return Rows(
        jnp.asarray(rng.normal(size=(B, N, E)), jnp.float32),
        jnp.asarray(rng.normal(size=(B, G, E)), jnp.float32),
    )


def made(head, x):
    """(parameters with random biases, outputs)."""
    params = jax.jit(head.init)(jax.random.key(0), x)["params"]
    params = jax.tree.map(
        lambda p: p + 0.1 * np.arange(p.size).reshape(p.shape), params
    )
    return params, head.apply({"params": params}, x)


def linear(params, y) -> np.ndarray:
    return np.asarray(y) @ params["kernel"] + np.asarray(params["bias"])[None, :]


def test_hotpotqa_reads_the_type_off_the_first_global_token():
    x = rows()
    params, got = made(HotpotqaHead(CONFIG), x)
    kinds = linear(params["answer_type"], x.global_[:, 0])
    np.testing.assert_allclose(got.answer_type, kinds, rtol=1e-5)
    for b in range(B):
        spans = linear(params["answer_span"], x.long[b])
        np.testing.assert_allclose(got.span[b], spans, rtol=1e-5)
        support = linear(params["support"], x.global_[b])[:, 0]
        np.testing.assert_allclose(got.support[b], support, rtol=1e-5)
    shapes = (got.answer_type.shape, got.span.shape, got.support.shape)
    assert shapes == ((B, 3), (B, N, 2), (B, G))


def test_natural_questions_reads_the_type_off_the_first_long_token():
    x = rows()
    params, got = made(NaturalQuestionsHead(CONFIG), x)
    kinds = linear(params["answer_type"], x.long[:, 0])
    np.testing.assert_allclose(got.answer_type, kinds, rtol=1e-5)
    assert got.answer_type.shape == (B, 5) and got.span.shape == (B, N, 4)
    assert got.support is None


@pytest.mark.parametrize("final_layer", [True, False])
def test_each_global_token_has_one_candidate_logit(final_layer):
    x = rows()
    params, got = made(CandidateHead(CONFIG, final_layer=final_layer), x)
    assert got.shape == (B, G) and got.dtype == jnp.float32
    assert set(params) == {"candidate"} | (
        {"mlp", "mlp_norm"} if final_layer else set()
    )
    if not final_layer:
        want = linear(params["candidate"], x.global_[1])[:, 0]
        np.testing.assert_allclose(got[1], want, rtol=1e-5)


def test_the_final_layer_drops_out_in_training_alone():
    x = rows()
    params, got = made(CandidateHead(CONFIG), x)
    again = CandidateHead(CONFIG).apply({"params": params}, x)
    np.testing.assert_array_equal(got, again)
    training = CandidateHead(CONFIG, deterministic=False)
    dropped = training.apply({"params": params}, x, rngs={"dropout": jax.random.key(1)})
    assert not np.allclose(dropped, got)


def test_logits_are_float32_whatever_the_computation():
    config = EtcConfig(embed_dim=E, num_heads=2, mlp_dim=6, dtype="bfloat16")
    x = jax.tree.map(lambda a: a.astype(jnp.bfloat16), rows())
    for head in (HotpotqaHead(config), NaturalQuestionsHead(config)):
        _, got = made(head, x)
        assert {a.dtype for a in jax.tree.leaves(got)} == {jnp.dtype(jnp.float32)}
    assert made(CandidateHead(config), x)[1].dtype == jnp.float32
