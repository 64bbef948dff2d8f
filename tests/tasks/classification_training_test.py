"""From texts to metrics: a Longformer learns what stands long after the start."""

import jax
import jax.numpy as jnp
import numpy as np
from classification_samples import review
from multihop_samples import tokenizer

from etc_jax.data.schema import stacked
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.models.encoder import LongformerConfig
from etc_jax.models.encoder_heads import EncoderForLabels
from etc_jax.objectives.losses.labels import label_loss
from tasks import classification, imdb

IMDB_TASK = imdb.DATA_SET.in_format()

SIZES = SequenceSizes(input_length=20, global_length=1)
WORDS = "the old mill stands it is a town".split()
STEPS = 40


def records(count: int, seed: int) -> list[imdb.Record]:
    """Reviews of which the last word is the label, too far for the local attention."""
    rng = np.random.default_rng(seed)
    return [
        review(
            id=str(i),
            label=i % 2,
            rating=None,
            text=" ".join([*rng.choice(WORDS, 14), ("south", "north")[i % 2]]),
        )
        for i in range(count)
    ]


def filled(path, leaf, rng) -> jax.Array:
    if path[-1].key == "scale":
        return jnp.ones(leaf.shape, leaf.dtype)
    return jnp.asarray(0.2 * rng.normal(size=leaf.shape), leaf.dtype)


def test_the_global_token_learns_what_stands_far_after_it():
    config = LongformerConfig(
        vocab_size=tokenizer().vocab_size,
        embed_dim=16,
        num_layers=1,
        num_heads=2,
        mlp_dim=16,
        max_length=SIZES.input_length,
        attention="dense",
        attention_window=(4,),
        dropout_rate=0.0,
    )
    model = EncoderForLabels(config, num_labels=len(imdb.LABELS))
    gold = records(16, seed=0)
    windows = [w for r in gold for w in classification.features(r, tokenizer(), SIZES)]

    def logits_of(params, batch):
        ids = batch["example_ids"]
        index = batch["global_index"]
        return model.apply(params, batch["tokens"], ids, global_index=index)

    batch = stacked(windows)
    rng = np.random.default_rng(1)
    params = jax.tree_util.tree_map_with_path(
        lambda path, leaf: filled(path, leaf, rng),
        jax.eval_shape(
            lambda key: model.init(key, batch["tokens"][:1]), jax.random.key(0)
        ),
    )
    targets = np.stack([w.labels["label"] for w in windows])

    @jax.jit
    def step(params):
        def loss(params):
            total, hits, count = label_loss(
                logits_of(params, batch), targets, jnp.ones(len(targets))
            )
            return total / count, hits / count

        (value, hits), grads = jax.value_and_grad(loss, has_aux=True)(params)
        return jax.tree.map(lambda p, g: p - 0.3 * g, params, grads), value, hits

    losses = []
    for _ in range(STEPS):
        params, value, hits = step(params)
        losses.append(float(value))
    assert losses[0] > 0.6 and losses[-1] < 0.1 and float(hits) == 1.0, losses

    # Reviews that it has not seen.
    held_back = records(12, seed=5)
    windows = [
        w for r in held_back for w in classification.features(r, tokenizer(), SIZES)
    ]
    logits = np.asarray(logits_of(params, stacked(windows)))
    predictions = imdb.DATA_SET.in_format().answers(logits, windows)
    figures = IMDB_TASK.score(
        [classification.official_gold(r) for r in held_back], predictions
    )
    assert figures.metrics["accuracy"] == 1.0
