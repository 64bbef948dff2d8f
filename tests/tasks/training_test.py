"""From records to metrics: a small Longformer learns what stands far away."""

import numpy as np
import pytest
from learning import trained
from multihop_samples import HOTPOT, WIKIHOP, tokenizer_for

from etc_jax.datasets.task import find_task
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.models.encoder.config import LongformerConfig


def longformer(task, length):
    return LongformerConfig(
        vocab_size=tokenizer_for(task).vocab_size,
        num_types=2,
        embed_dim=16,
        num_layers=1,
        num_heads=2,
        mlp_dim=16,
        max_length=length,
        attention="dense",
        attention_window=(4,),
        dropout_rate=0.0,
    )


def learned(name, values, lengths, **kwargs):
    task = find_task(name, "sequence")
    model = longformer(task, lengths[0])
    return trained(task, values, SequenceSizes(*lengths), model, **kwargs)


def test_the_global_token_learns_what_stands_far_after_it():
    """The last word of a review is its label, too far for the local attention."""
    rng = np.random.default_rng(0)
    words = "the old mill stands it is a town".split()
    values = [
        {
            "id": str(i),
            "label": i % 2,
            "text": " ".join([*rng.choice(words, 14), ("south", "north")[i % 2]]),
        }
        for i in range(16)
    ]
    found = learned("imdb", values, (20, 1), steps=40, rate=0.02)
    assert found.losses[0] > 0.6 and found.losses[-1] < 0.1, found.losses
    assert found.metrics()["accuracy"] == 1.0


@pytest.mark.full
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
    found = learned("wikihop", values, (28, 20), steps=160, rate=0.02)
    assert len(found.windows) == 16
    assert found.losses[0] > 1.0 and found.losses[-1] < 0.75, found.losses
    assert found.metrics() == {"accuracy": 1.0}


@pytest.mark.full
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
    found = learned("hotpotqa", values, (60, 24), steps=100, rate=0.02)
    assert len(found.windows) == 8 and not any(w.unusable for w in found.windows)
    assert found.losses[0] > 5.0 and found.losses[-1] < 0.05, found.losses
    assert found.metrics()["joint_em"] == 1.0
