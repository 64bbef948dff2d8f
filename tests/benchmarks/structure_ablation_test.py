"""The ablation of structure: what its rows start from, and how they are scored."""

import json

import jax
import numpy as np
import pytest
from stand_ins import differing

from benchmarks.data.structure_items import SETS
from benchmarks.rows import structure_ablation
from benchmarks.rows.structure_ablation import Ablation
from etc_jax.data.pretraining import pool
from etc_jax.objectives.jobs.pretraining import POOL_SENTENCES
from etc_jax.objectives.jobs.pretraining_data import Examples, prepare
from etc_jax.objectives.learners import finetuning
from etc_jax.objectives.pretraining import Pretraining
from etc_jax.training import workdir as workdir_lib

TINY = ["--items=40", "--validation=8", "--steps=4", "--pretraining_steps=2"]
ROWS = ("pretrained", "pretrained_no_cpc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ablation")


def make(folder, name, *, count=40, validation=8, changes=()):
    item_set = SETS[name]
    caches = item_set.make_caches(folder / name / "items", count, validation)
    made = Ablation(item_set, caches, folder / name, 16, 8, changes)
    structure_ablation.write_texts(item_set, made.items)
    return made


@pytest.fixture(scope="module", params=SETS)
def ablation(request, folder):
    return make(folder, request.param)


def test_what_is_pre_trained_has_the_sizes_and_the_seed_of_the_run(ablation):
    with_cpc, without = (ablation.pretraining_config(row, 3) for row in ROWS)
    weights = {"objective.mlm_weight", "objective.cpc_weight"}
    assert differing(with_cpc, without) == weights
    assert with_cpc.objective.cpc_weight > without.objective.cpc_weight == 0
    run = ablation.config("pretrained", 3)
    assert run.model == with_cpc.model
    assert run.train.seed == with_cpc.train.seed == 3
    assert (run.train.num_steps, with_cpc.train.num_steps) == (16, 8)


def test_options_go_to_every_row_and_do_not_undo_it(folder):
    changes = ["--config.data.flat=False", "--config.model.radius=8"]
    ablation = make(folder, "wikihop", changes=changes)
    config = ablation.config("flat", 0)
    assert config.data.flat and config.model.radius == 8
    assert ablation.pretraining_config("pretrained", 0).model.radius == 8


def test_a_pretrained_row_starts_from_the_run_of_its_seed(folder, trained, run):
    argv = [f"--workdir={folder / 'wikihop'}", "--rows=pretrained_no_cpc", *TINY]
    for _ in range(2):  # the second time, all is there
        assert run(structure_ablation.main, *argv, "--seeds=5,6")[0] == 0
    assert [(c.objective.name, c.train.seed, c.train.num_steps) for c in trained] == [
        *(("mlm_cpc", 5, 2), ("wikihop", 5, 4)),
        *(("mlm_cpc", 6, 2), ("wikihop", 6, 4)),
    ]
    for before, after in (trained[:2], trained[2:]):
        name = f"pretrained_no_cpc_seed{before.train.seed}_before"
        assert after.checkpoint.init_from == str(folder / "wikihop" / name)
        # What lies there is that run.
        workdir_lib.check(before, folder / "wikihop" / name)


def test_a_threshold_is_not_chosen_on_what_is_scored(folder, trained):
    make(folder, "hotpotqa").study.run("flat", 0)
    [[_, _, file, threshold]] = trained.evaluated
    assert file == str(folder / "hotpotqa/items/validation.json")
    assert threshold == "--threshold=0.4"  # the paper's, appendix C.2


def test_an_evaluation_that_fails_ends_the_command(folder, trained, run, capsys):
    trained.exit_code = 4
    argv = [f"--workdir={folder / 'wikihop'}", "--rows=shared", "--seeds=7", *TINY]
    assert run(structure_ablation.main, *argv) == (2, None)
    assert "shared_seed7 ended with 4" in capsys.readouterr().err


def test_a_small_lead_is_1(folder, trained, run, monkeypatch):
    trained.score_fn = lambda c: 0.25 if c.data.flat else 0.5 + c.train.seed / 10
    monkeypatch.setitem(structure_ablation.WANTED_POINTS, "wikihop", 36.0)
    argv = [f"--workdir={folder / 'leads'}", "--rows=structured,flat", *TINY]
    assert run(structure_ablation.main, *argv, "--seeds=4")[0] == 0  # 90 - 25
    assert run(structure_ablation.main, *argv, "--seeds=1,4")[0] == 1  # 60 - 25


# --- pre-training on the documents of the items ---------------------------------------


def text_of(ablation, row):
    """(tokenizer, reader of the training examples)."""
    config = ablation.pretraining_config(row, 0)
    corpora = prepare(config.data, ablation.folder)
    examples = Examples(config.data, with_cpc=bool(config.objective.cpc_weight))
    return corpora.tokenizer, examples.training_reader(corpora, batch_size=8, seed=0)


def test_a_text_is_all_documents_and_nothing_else(ablation):
    item_set = ablation.item_set
    lines = (ablation.items / "validation.jsonl").read_text().splitlines()
    records = json.loads((ablation.items / "validation.json").read_text())
    assert len(lines) == len(records) == 8
    for line, record in zip(lines, records, strict=True):
        paragraphs = json.loads(line)["text"].split("\n\n")
        assert paragraphs == item_set.documents(record)
        assert record[item_set.question] not in line


def test_texts_are_whole_examples_in_the_vocabulary_of_the_items(ablation):
    tokenizer, reader = text_of(ablation, "pretrained")
    [counts] = reader.source_counts
    # An item is one document, in one piece.
    [plan] = [source.plan for source in reader._sources]
    assert counts.documents == len(plan.pieces) == 40
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


@pytest.mark.full  # makes hundreds of items
@pytest.mark.parametrize("name", SETS)
def test_some_validation_sentences_that_measure_cpc_are_of_one_text(name, tmp_path):
    ablation = make(tmp_path, name, count=400, validation=300)
    config = ablation.pretraining_config("pretrained", 0)
    corpora = prepare(config.data, tmp_path)
    examples = Examples(config.data, with_cpc=bool(config.objective.cpc_weight))
    batches = pool.cpc_pool(
        *examples.pack(corpora.validation),
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
