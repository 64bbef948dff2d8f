"""Windows of Natural Questions go into a model, its outputs into loss and decoding."""

import jax
import jax.numpy as jnp
import numpy as np
from natural_questions_samples import record, tokenizer
from structured_batch import batch

from etc_jax.formats.structured import StructuredSizes
from etc_jax.models.etc import EtcConfig
from etc_jax.models.heads import EtcWithHead, NaturalQuestionsHead
from etc_jax.objectives.losses import qa_span
from tasks.natural_questions.decoding import Outputs, pool, summarise
from tasks.natural_questions.inputs import NaturalQuestionsOptions, features
from tasks.natural_questions.labels import PLACES

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


def test_windows_go_through_a_model():
    options = NaturalQuestionsOptions(question_tokens=4, stride=8)
    windows = features(record(), tokenizer(), StructuredSizes(24, 16), options=options)
    tokens, types, structure, labels = jax.tree.map(jnp.asarray, batch(windows))
    model = EtcWithHead(
        CONFIG, lambda config, _: NaturalQuestionsHead(config, name="h")
    )
    shapes = jax.eval_shape(model.init, jax.random.key(0), tokens, structure, types)
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda a: jnp.asarray(0.3 * rng.normal(size=a.shape), a.dtype), shapes
    )

    @jax.jit
    def run(params):
        def loss(params):
            got = model.apply(params, tokens, structure, types)
            weights = jnp.ones(len(windows))
            value, _, _ = qa_span.natural_questions(
                got.answer_type,
                got.span,
                answer_type=labels["answer_type"],
                places=jnp.stack([labels[name] for name in PLACES], axis=-1),
                weights=weights,
            )
            return value, got

        return jax.value_and_grad(loss, has_aux=True)(params)

    (value, got), gradients = run(params)
    assert np.isfinite(value) and value > 0
    assert all(np.isfinite(g).all() for g in jax.tree.leaves(gradients))
    table = gradients["params"]["encoder"]["embeddings"]["token_embedder"]["embedding"]
    # The loss reaches global tokens through every layer.
    for role in ("nq_question", "sentence", "nq_html_start"):
        assert np.abs(table[tokenizer().special_id(role)]).any()
    outputs = Outputs(np.asarray(got.answer_type), np.asarray(got.span))
    prediction = pool(summarise(outputs, windows))
    assert tuple(prediction["long"]) in record().candidates
    assert 0 < prediction["short"][1] - prediction["short"][0] <= 38
