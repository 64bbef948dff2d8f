"""Pre-training on the items' documents: its text, its batches, its parameters."""

import json

import jax
import numpy as np
import pytest

from benchmarks import structure_pretraining
from benchmarks.structure_ablation import Ablation
from benchmarks.structure_items import SETS
from etc_jax.data.pretraining import pool
from etc_jax.objectives.jobs.pretraining import POOL_SENTENCES
from etc_jax.objectives.jobs.pretraining_data import Examples, prepare
from etc_jax.objectives.learners import finetuning
from etc_jax.objectives.pretraining import Pretraining

ROWS = ("pretrained", "pretrained_no_cpc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pretraining")


@pytest.fixture(scope="module", params=SETS)
def ablation(request, folder):
    item_set = SETS[request.param]
    caches = item_set.make_caches(folder / request.param / "items", 40, 8)
    made = Ablation(item_set, caches, folder / request.param, 4, 2)
    structure_pretraining.write_texts(item_set, made.items)
    return made


def text_of(ablation, row):
    """(tokenizer, reader of the training examples)."""
    config = ablation.pretraining_config(row, 0)
    corpora = prepare(config.data, ablation.folder)
    examples = Examples(config.data, with_cpc=bool(config.objective.cpc_weight))
    return corpora.tokenizer, examples.training_reader(corpora, batch_size=8, seed=0)


def test_a_text_is_all_documents_and_nothing_else(ablation):
    item_set = ablation.item_set
    lines = (ablation.items / "held_back.jsonl").read_text().splitlines()
    records = json.loads((ablation.items / "held_back.json").read_text())
    assert len(lines) == len(records) == 8
    for line, record in zip(lines, records, strict=True):
        paragraphs = json.loads(line)["text"].split("\n\n")
        assert paragraphs == item_set.documents(record)
        assert record[item_set.question] not in line


def test_texts_are_whole_examples_in_the_vocabulary_of_the_items(ablation):
    tokenizer, reader = text_of(ablation, "pretrained")
    [counts] = reader.source_counts
    # An item is one document, in one piece.
    assert counts.documents == counts.pieces == 40
    assert counts.sentences_split == counts.tokens_dropped == 0
    records = json.loads((ablation.items / "train.json").read_text())
    texts = [t for record in records for t in ablation.item_set.documents(record)]
    of_items = ablation.caches[0].load_tokenizer()
    assert counts.tokens == sum(len(ids) for ids, _ in of_items.encode_batch(texts))
    assert tokenizer.fingerprint() == of_items.fingerprint()


def test_sentences_are_masked_with_cpc_alone(ablation):
    with_cpc, without = (text_of(ablation, row)[1].batch_at(0) for row in ROWS)
    assert with_cpc["cpc_weights"].sum() > 0
    assert not any(name.startswith("cpc_") for name in without)
    assert with_cpc["mlm_weights"].sum() > 0 and without["mlm_weights"].sum() > 0


@pytest.mark.parametrize("name", SETS)
def test_some_held_back_sentences_that_measure_cpc_are_of_one_text(name, tmp_path):
    caches = SETS[name].make_caches(tmp_path / "items", 400, 300)
    ablation = Ablation(SETS[name], caches, tmp_path, 4, 2)
    structure_pretraining.write_texts(SETS[name], ablation.items)
    config = ablation.pretraining_config("pretrained", 0)
    corpora = prepare(config.data, tmp_path)
    examples = Examples(config.data, with_cpc=bool(config.objective.cpc_weight))
    batches = pool.cpc_pool(
        *examples.pack(corpora.held_back),
        corpora.tokenizer.token_ids,
        examples.pool_sizes,
        batch_size=32,
        count=POOL_SENTENCES,
        shares=examples.pool_shares,
    )
    documents = np.concatenate([batch["cpc_documents"].ravel() for batch in batches])
    _, counts = np.unique(documents[documents >= 0], return_counts=True)
    assert counts.sum() == POOL_SENTENCES
    assert counts.max() >= 2


def test_the_encoder_is_the_one_that_is_fine_tuned(ablation):
    before = ablation.pretraining_config("pretrained", 0)
    run = ablation.config("pretrained", 0)
    rng = jax.random.key(0)

    def shapes(init):
        return jax.tree.map(lambda x: x.shape, jax.eval_shape(init, rng)["encoder"])

    given = shapes(Pretraining(before.model, before.objective).init)
    assert given == shapes(finetuning.find(run.model, run.objective).init)
