"""Models in bfloat16 never round logits over the vocabulary to it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.models.bert.config import BertConfig
from etc_jax.models.encoder.body import EncoderForMaskedLm
from etc_jax.models.encoder.lm import EncoderForCausalLm
from etc_jax.models.etc.body import EtcForPretraining
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.reformer.body import ReformerLm
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.structure import Structure

VOCABULARY = 997
SIZES = {
    "vocab_size": VOCABULARY,
    "embed_dim": 8,
    "num_layers": 2,
    "num_heads": 2,
    "mlp_dim": 16,
    "dtype": "bfloat16",
}
TOKENS = np.ones((2, 6), np.int32)


def of_etc():
    ids = np.ones((2, 2), np.int32)
    structure = Structure(TOKENS, ids, np.zeros((2, 6, 1), np.int16))
    inputs = TOKENS, ids, structure, np.zeros((2, 3), np.int32)
    model = EtcForPretraining(EtcConfig(**SIZES))
    return model, inputs, lambda out: out[1]


def of_bert():
    config = BertConfig(**SIZES)
    return EncoderForMaskedLm(config), (TOKENS,), lambda out: out


def of_longformer():
    options = {"causal": True, "attention_window": (4,), "max_length": 8}
    config = LongformerConfig(**SIZES, **options)
    return EncoderForCausalLm(config), (TOKENS,), lambda out: out


def of_reformer():
    options = {"pattern": ("local",), "axial_shape": None, "axial_dims": None}
    config = ReformerConfig(**SIZES, **options, max_length=8)
    return ReformerLm(config), (TOKENS,), lambda out: out


def equations(jaxpr):
    """All of a jaxpr, also those of the functions that it calls."""
    for equation in jaxpr.eqns:
        yield equation
        for value in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")
        ):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from equations(inner)


@pytest.mark.parametrize("make", [of_etc, of_bert, of_longformer, of_reformer])
def test_products_with_the_vocabulary_stay_in_float32(make):
    model, inputs, logits = make()
    params = jax.eval_shape(model.init, jax.random.key(0), *inputs)
    jaxpr = jax.make_jaxpr(lambda p: logits(model.apply(p, *inputs)))(params).jaxpr
    assert [v.aval.dtype for v in jaxpr.outvars] == [jnp.float32]
    products = [
        (e.invars[0].aval.dtype, e.outvars[0].aval.dtype)
        for e in equations(jaxpr)
        if e.primitive.name == "dot_general"
        and e.outvars[0].aval.shape[-1] == VOCABULARY
    ]
    assert products == [(jnp.bfloat16, jnp.float32)]
