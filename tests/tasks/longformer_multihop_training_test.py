"""From records to figures: a small Longformer learns questions over documents."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from multihop_samples import HOTPOT, WIKIHOP, tokenizer_for

from etc_jax.config_kinds import section_of
from etc_jax.data.schema import stacked
from etc_jax.datasets import task as task_lib
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.models.encoder import LongformerConfig
from etc_jax.objectives.learners import finetuning


def filled(path, leaf, rng) -> jax.Array:
    if path[-1].key == "scale":
        return jnp.ones(leaf.shape, leaf.dtype)
    return jnp.asarray(0.2 * rng.normal(size=leaf.shape), leaf.dtype)


def trained(name, values, sizes, *, steps, rate):
    """(task of the model, task of the data, windows, parameters, losses)."""
    data = task_lib.find_task(name, "sequence")
    tokenizer = tokenizer_for(data)
    records = [data.parse(value, lambda *note: None) for value in values]
    windows = [w for r in records for w in data.features(r, tokenizer, sizes)]
    model = LongformerConfig(
        vocab_size=tokenizer.vocab_size,
        num_types=2,
        embed_dim=16,
        num_layers=1,
        num_heads=2,
        mlp_dim=16,
        max_length=sizes.input_length,
        attention="dense",
        attention_window=(4,),
        dropout_rate=0.0,
    )
    chosen = finetuning.find(model, section_of(name)(name))
    batch = {
        **stacked(windows),
        "labels": {
            k: np.stack([w.labels[k] for w in windows]) for k in windows[0].labels
        },
        "weights": np.ones(len(windows), np.float32),
    }
    assert chosen.problems(batch) == []
    rng = np.random.default_rng(1)
    params = jax.tree_util.tree_map_with_path(
        lambda path, leaf: filled(path, leaf, rng),
        jax.eval_shape(chosen.init, jax.random.key(0)),
    )

    optimizer = optax.adam(rate)

    @jax.jit
    def step(params, state):
        loss_fn = lambda p: chosen.loss(p, batch, None, True)[0]  # noqa: E731
        value, grads = jax.value_and_grad(loss_fn)(params)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, value

    losses, state = [], optimizer.init(params)
    for _ in range(steps):
        params, state, value = step(params, state)
        losses.append(float(value))
    return chosen, data, windows, params, losses


def figures_of(chosen, data, windows, params):
    """The official figures of a model, whose windows of a record are pooled."""
    outputs = jax.jit(chosen.outputs)(params, stacked(windows))
    outputs = jax.tree.map(np.asarray, outputs)
    decoded = data.decode(outputs, windows, (data.setting,))
    of_record = {}
    for window, said in zip(windows, decoded, strict=True):
        of_record.setdefault(window.record.id, []).append(said)
    predictions = {name: data.predictions(x)[0] for name, x in of_record.items()}
    gold = [data.gold(r) for r in {w.record.id: w.record for w in windows}.values()]
    return data.score(gold, data.official(predictions)).metrics


def test_a_candidate_is_found_in_documents_far_after_it():
    towns = WIKIHOP["candidates"]
    values = [
        WIKIHOP
        | {
            "id": f"w{i}",
            "query": "country",
            "answer": towns[i % 4],
            "supports": ["the mill is in a town", f"it stands in {towns[i % 4]}"],
        }
        for i in range(8)
    ]
    # Two inputs a record: the second one tells the answer, in the first one the best
    # is ln 4, so that the mean loss can fall to half of it.
    chosen, data, windows, params, losses = trained(
        "wikihop", values, SequenceSizes(28, 20), steps=160, rate=0.02
    )
    assert len(windows) == 16
    assert losses[0] > 1.0 and losses[-1] < 0.75, losses
    assert figures_of(chosen, data, windows, params) == {"accuracy": 1.0}


def test_answers_and_evidence_are_found():
    names = ("Ann Lee", "Norland", "Sudland", "York")
    values = [
        HOTPOT
        | {
            "_id": f"h{i}",
            "question": "who owned it",
            "answer": "yes" if i == 7 else names[i % 4],
            "supporting_facts": [["mill", i % 2], ["film", 0]],
            "context": [
                ["ton", ["it is a town.", "in a country."]],
                ["mill", ["it burned.", "it stands."][:: 1 - 2 * (i % 2)]],
                ["film", [f"{names[i % 4]} owned it.", "it is old."]],
            ],
        }
        for i in range(8)
    ]
    values[7]["question"] = "is it old"
    chosen, data, windows, params, losses = trained(
        "hotpotqa", values, SequenceSizes(60, 24), steps=100, rate=0.02
    )
    assert len(windows) == 8 and not any(w.unusable for w in windows)
    assert losses[0] > 5.0 and losses[-1] < 0.05, losses
    figures = figures_of(chosen, data, windows, params)
    assert figures["joint_em"] == 1.0
