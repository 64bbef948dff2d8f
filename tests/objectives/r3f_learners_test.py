"""Every learner has the term of R3F in its training loss, weighted as the loss is."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from data_sets import SAMPLES, sentences_at_stops, tokenizer_of  # noqa: F401
from learning import batch_of, random_params
from mean_loss import loss_of
from multihop_samples import small_etc

from etc_jax.base import registry
from etc_jax.config.kinds import section_of
from etc_jax.config.sections import R3fConfig
from etc_jax.data.schema import stacked
from etc_jax.datasets.task import find_task
from etc_jax.models.bart.config import BartConfig
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.objectives import r3f
from etc_jax.objectives.learners import finetuning

WEIGHT, NOISE = 0.3, 1e-2
ON = R3fConfig(WEIGHT, NOISE)
KEY = jax.random.key(7)

DATA_SETS = {"labels": "imdb", "label_sets": "classification", "text": "text_to_text"}
DATA_SETS |= {"token_labels": "token_classification", "choices": "multiple_choice"}
DATA_SETS |= {"spans": "triviaqa"}
OPTIONS = {
    "natural_questions": {"question_tokens": 4, "stride": 60},
    "coreference": {"span_tokens": 3, "candidates": 64, "singletons": True},
    "classification": {"labels": ("a", "b c", "d"), "multi_label": True},
    "token_classification": {
        "labels": ("B-p", "B-t", "I-p", "I-t", "O"),
        "scheme": "iob2",
    },
    "multiple_choice": {"most_options": 4},
    "retrieval": {"negatives_column": "negatives"},
}
HEADS = {
    "coreference": {"ffnn_dim": 4, "max_antecedents": 4, "head_dropout_rate": 0.0},
    # Cosines divided by less magnify what rounds differently on each processor.
    "retrieval": {"temperature": 1.0},
    "labels": {"class_weights": (0.5, 2.0)},
    "label_sets": {"class_weights": (0.5, 2.0, 1.5)},
    "token_labels": {"class_weights": (0.5, 2.0, 1.5, 1.0, 0.1)},
}
NO_DROPOUT = {"dropout_rate": 0.0, "attention_dropout_rate": 0.0}
SMALL = {"embed_dim": 8, "num_layers": 1, "num_heads": 2, "mlp_dim": 16}
SMALL |= {"attention": "dense", **NO_DROPOUT}


# Those of this project: tests register others.
NAMES = [
    name
    for name in registry.names("learner")
    if registry.lookup("learner", name).__module__.startswith("etc_jax.")
]


def model_for(format, kind, vocab_size):
    if format == "structured":
        return dataclasses.replace(small_etc(vocab_size), **NO_DROPOUT)
    if kind:
        sizes = {**SMALL, "num_decoder_layers": 1, "max_length": 80}
        return BartConfig(vocab_size=vocab_size, **sizes, logits_chunk_length=16)
    return LongformerConfig(
        vocab_size=vocab_size,
        max_length=96,
        attention_window=(4,),
        causal=format == "text_to_text",
        **SMALL,
    )


@functools.cache
def case(name):
    """(learner by the options of R3F, batch of two rows, the second of weight 0)."""
    base, format, *kind = name.split("/")
    data_set = DATA_SETS.get(base, base)
    task = find_task(data_set, format).with_options(OPTIONS.get(data_set, {}))
    tokenizer = tokenizer_of(task)
    sizes = type(task.sizes)(*((24, 12) if base == "text" else (80, 40)))
    record = task.parse(SAMPLES[data_set].value, lambda *note: None)
    window, *_ = task.features(record, tokenizer, sizes)
    model = model_for(format, kind, tokenizer.vocab_size)
    section = section_of(data_set, format, type(model))

    def learner(options):
        chosen = section(data_set, options, **HEADS.get(base, {}))
        options = OPTIONS.get(data_set, {})
        return finetuning.find(model, chosen, format, options=options)

    if window.labels:
        return learner, batch_of([window] * 2, (1, 0))
    return learner, {**stacked([window] * 2), "weights": np.float32([1, 0])}


def traced(learner, batch, deterministic):
    abstract = jax.eval_shape(learner.init, KEY)
    loss = functools.partial(loss_of(learner), deterministic=deterministic)
    return str(jax.make_jaxpr(loss)(abstract, batch, KEY))


# The others share the code of these: see the test after it.
QUICK = ("hotpotqa/sequence", "coreference/sequence")
WALK = [
    pytest.param(x, marks=() if x in QUICK or "text" in x else pytest.mark.full)
    for x in NAMES
]


@pytest.mark.usefixtures("one_device")
@pytest.mark.parametrize("name", WALK)
@pytest.mark.full(but=["hotpotqa/sequence", "text/text_to_text"])
def test_a_learner_gains_the_term_in_training_alone(name):
    make, batch = case(name)
    learner = make(ON)
    params = random_params(learner, scale=0.3)
    loss, sums = jax.jit(lambda *args: loss_of(learner)(*args, KEY, False))(
        params, batch
    )
    total, count = sums["r3f"]
    mean, (of_loss, _) = total / count, sums["loss"]
    assert 0 < mean < np.inf and count == sums["loss"][1]
    np.testing.assert_allclose(loss, of_loss / count + WEIGHT * mean, rtol=1e-6)
    # Without its weight, and in evaluation, the computation is the one without it.
    plain, without = make(R3fConfig()), make(R3fConfig(0.0, NOISE, "normal"))
    assert traced(without, batch, False) == traced(plain, batch, False)
    assert traced(learner, batch, True) == traced(plain, batch, True)


def outputs_of(learner, batch):
    """Random ones, or those of random parameters where they hold indices."""
    shapes = jax.eval_shape(learner.init, KEY)
    shapes = jax.eval_shape(learner.outputs, shapes, batch)
    if any(jnp.issubdtype(x.dtype, jnp.integer) for x in jax.tree.leaves(shapes)):
        return jax.jit(learner.outputs)(random_params(learner, scale=0.3), batch)
    rng = np.random.default_rng(2)
    return jax.tree.map(lambda x: rng.normal(size=x.shape).astype(x.dtype), shapes)


def of_one_right(labels):
    """Labels of which one choice is right: the loss is a cross entropy then."""
    one = {name: np.array(x) for name, x in labels.items()}
    for name in one.keys() & {"starts", "ends"}:
        one[name][:, 1:] = -1
    if "clusters" in one:
        one["clusters"][:] = 0
    return one


@pytest.mark.usefixtures("one_device")
# Outputs of retrieval are vectors, whose products are the logits.
@pytest.mark.parametrize(
    "name", [x for x in NAMES if "text" not in x and x != "retrieval/sequence"]
)
def test_a_divergence_counts_as_the_cross_entropy_does(name):
    """Both have the same second derivative: sum(p * d * d) - sum(p * d) ** 2."""
    make, batch = case(name)
    learner, rng = make(ON), np.random.default_rng(1)
    batch = {**batch, "labels": of_one_right(batch["labels"])}
    outputs = outputs_of(learner, batch)

    def step(leaf):
        is_logit = jnp.issubdtype(leaf.dtype, jnp.floating)
        size = 0.1 * rng.normal(size=leaf.shape) if is_logit else np.zeros(leaf.shape)
        return size.astype(leaf.dtype)

    steps = jax.tree.map(step, outputs)

    @jax.jit
    def both(batch, *moved):
        low, mid, high = (learner.losses(x, batch)[0] for x in moved[:3])
        pair = (learner.distributions(x, batch) for x in moved[3:])
        apart = jnp.sum(r3f.divergences(*pair) * batch["weights"])
        return low - 2 * mid + high, apart

    def moved(by):
        return jax.tree.map(lambda x, d: x + by * d if d.any() else x, outputs, steps)

    curved, apart = both(batch, *map(moved, (-1, 0, 1, -0.5, 0.5)))
    assert apart > 1e-4
    np.testing.assert_allclose(apart, curved, rtol=0.03)
