"""Windows go into the encoder, its outputs into heads, losses and decoding."""

import jax
import jax.numpy as jnp
import numpy as np
from multihop_samples import HOTPOT, WIKIHOP, split_at_stops, tokenizer
from structured_batch import batch

from etc_jax.data.windows.token_types import GLOBAL_CANDIDATE_TYPE
from etc_jax.formats.structured import StructuredSizes
from etc_jax.models.etc import Etc, EtcConfig
from etc_jax.models.heads import CandidateHead, HotpotqaHead
from etc_jax.objectives.losses import candidates, qa_span
from tasks import hotpotqa, wikihop
from tasks.hotpotqa import records as hotpotqa_records
from tasks.wikihop import records as wikihop_records

SIZES = StructuredSizes(64, 24)
CONFIG = EtcConfig(
    vocab_size=tokenizer().vocab_size,
    embed_dim=8,
    num_heads=2,
    mlp_dim=16,
    num_layers=1,
    radius=5,
    max_distance=3,
    num_labels=10,
    hard_g2l=True,
    attention="dense",
)


def no_note(kind, message):
    raise AssertionError(f"{kind}: {message}")


def some(abstract):
    """Small random parameters; compiling initialisers would take long."""
    rng = np.random.default_rng(0)
    return jax.tree.map(
        lambda a: jnp.asarray(0.3 * rng.normal(size=a.shape), a.dtype), abstract
    )


def gradients_and_outputs(windows, head, loss_fn):
    """(loss, gradients of encoder and head, outputs of the head)."""
    tokens, types, structure, labels = jax.tree.map(jnp.asarray, batch(windows))
    encoder = Etc(CONFIG)
    call = (tokens.long, tokens.global_, structure)
    key = jax.random.key(0)

    def init():
        x, params = encoder.init_with_output(key, *call, types=types)
        return params, head.init(key, x)

    params = some(jax.eval_shape(init))

    @jax.jit
    def run(params):
        def loss(params):
            x = encoder.apply(params[0], *call, types=types)
            outputs = head.apply(params[1], x)
            return loss_fn(outputs, types, labels), outputs

        return jax.value_and_grad(loss, has_aux=True)(params)

    (value, outputs), gradients = run(params)
    return value, gradients, jax.tree.map(np.asarray, outputs)


def check(value, gradients) -> None:
    assert np.isfinite(value) and value > 0
    leaves = jax.tree.leaves(gradients)
    assert all(np.isfinite(g).all() for g in leaves)
    # The loss reaches the token table through every layer.
    assert np.abs(gradients[0]["params"]["embeddings"]["token_embedder"]["embedding"])[
        tokenizer().special_id("question")
    ].any()


def test_hotpotqa_windows_go_through_a_model():
    record = hotpotqa_records.parse(HOTPOT, no_note)
    windows = hotpotqa.features(record, tokenizer(), SIZES)

    def loss_fn(outputs, types, labels):
        weights = jnp.ones(len(windows))
        return qa_span.hotpotqa(
            outputs.support,
            outputs.answer_type,
            outputs.span,
            weights=weights,
            **labels,
        )[0]

    value, gradients, got = gradients_and_outputs(
        windows, HotpotqaHead(CONFIG), loss_fn
    )
    check(value, gradients)
    outputs = hotpotqa.Outputs(got.support, got.answer_type, got.span)
    predictions = hotpotqa.DATA_SET.in_format().answers(outputs, windows, 0.0)
    assert set(predictions) == {"a1"} and len(predictions["a1"]["support"]) == 5


def test_wikihop_windows_go_through_a_model():
    record = wikihop_records.parse(WIKIHOP, no_note)
    windows = wikihop.features(record, tokenizer(), SIZES, split_fn=split_at_stops)

    def loss_fn(logits, types, labels):
        is_candidate = types.global_ == GLOBAL_CANDIDATE_TYPE
        weights = jnp.ones(len(windows))
        return candidates.choice(logits, is_candidate, labels["candidate"], weights)[0]

    value, gradients, logits = gradients_and_outputs(
        windows, CandidateHead(CONFIG), loss_fn
    )
    check(value, gradients)
    [answer] = wikihop.DATA_SET.in_format().answers(logits, windows).values()
    assert answer in WIKIHOP["candidates"]
