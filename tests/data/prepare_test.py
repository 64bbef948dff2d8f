import os

import numpy as np
import pytest

from etc_jax.data import corpus, packing, prepare
from etc_jax.data.examples import PretrainingSizes
from etc_jax.data.pretraining import PretrainingReader

pytest.importorskip("nupunkt")

TEXT = [
    "The cat sat on the mat. It purred, e.g. loudly.",
    "A dog came in. The cat left, and the mat was free. The dog sat on it.",
    "Nobody else came in that day. The dog slept until the cat came in again.",
]


@pytest.fixture
def reads(monkeypatch):
    """The calls that read the corpus, which is a small one here."""
    calls = []
    rng = np.random.default_rng(0)
    documents = tuple(
        corpus.Document(f"small/{i}", tuple(rng.permutation(TEXT)) * 2)
        for i in range(40)
    )

    def read(packages):
        calls.append(packages)
        return corpus.Corpus(documents)

    monkeypatch.setattr(corpus, "built_in_corpus", read)
    return calls


def _prepare(folder, **kwargs):
    kwargs = {"vocab_size": 160, "held_back": 0.2, "packages": ("numpy",)} | kwargs
    return prepare.prepare_built_in(folder, **kwargs)


def test_text_becomes_batches_that_decode(reads, tmp_path):
    reports = []
    prepared = _prepare(tmp_path, report_fn=reports.append)
    assert "total: 40 documents" in reports[0] and len(reports) == 1
    sides = (prepared.train.num_documents, prepared.held_back.num_documents)
    assert sum(sides) == 40 and 0 < sides[1] < sides[0]
    plan = packing.pack(
        prepared.held_back, long_length=200, global_length=40, max_sentence_tokens=50
    )
    reader = PretrainingReader(
        prepared.held_back,
        plan,
        prepared.tokenizer.token_ids,
        PretrainingSizes.default(200, 40),
        batch_size=2,
        seed=0,
    )
    batch = reader.batch_at(0)
    real = batch["cpc_long_tokens"][0] > 0
    own = batch["cpc_structure"].links[0, :, 0] == 0
    masked = prepared.tokenizer.decode(batch["cpc_long_tokens"][0][real & own])
    assert masked.replace(" ", "") in "".join(TEXT).lower().replace(" ", "")


def test_second_time_nothing_is_read(reads, tmp_path):
    first, second = _prepare(tmp_path), _prepare(tmp_path)
    assert len(reads) == 1
    assert first.tokenizer.fingerprint() == second.tokenizer.fingerprint()
    np.testing.assert_array_equal(first.train.tokens, second.train.tokens)


def test_other_choices_live_in_other_folders(reads, tmp_path):
    paths = {
        _prepare(tmp_path, **kwargs).train.path
        for kwargs in ({}, {"vocab_size": 161}, {"held_back": 0.3}, {})
    }
    assert len(paths) == 3 == len(os.listdir(tmp_path))
