"""Batches that are packed and masked from the stream of a Task."""

import numpy as np
import pytest
from seqio_samples import (
    data_dir_fixture,  # noqa: F401
    notes_fixture,  # noqa: F401
    read,
    registered_fixture,  # noqa: F401
    sio_fixture,  # noqa: F401
    tokenizer_fixture,  # noqa: F401
)

from etc_jax.data.pretraining import masking
from etc_jax.data.pretraining.examples import PretrainingSizes

SIZES = PretrainingSizes.default(128, 24, max_sentence_tokens=32)


@pytest.mark.parametrize(
    "name", ["wikipedia", "pg19", "c4", "wiki40b", "notes", "etc_pretraining"]
)
def test_every_task_and_mixture_yields_batches(sio, tokenizer, registered, name):
    with _batches(sio, tokenizer, name) as stream:
        batches = [next(stream) for _ in range(3)]
    for batch in batches:
        assert batch["long_tokens"].shape == (4, 128)
        assert (batch["long_tokens"] < tokenizer.vocab_size).all()
        assert batch["mlm_weights"].any(axis=1).all()
        assert batch["cpc_weights"].any(axis=1).all()
        used = batch["structure"].long_example_ids > 0
        assert used.mean() > 0.7


def _batches(sio, tokenizer, name, **kwargs):
    kwargs = {"batch_size": 4, "seed": 0, "block_windows": 6} | kwargs
    return sio.batches.stream_batches(
        name,
        "train",
        ids=tokenizer.token_ids,
        sizes=SIZES,
        max_sentence_tokens=32,
        **kwargs,
    )


def _originals(batch):
    """Tokens of each used row before masking."""
    rows = []
    for row in range(len(batch["long_tokens"])):
        tokens = batch["long_tokens"][row].copy()
        real = batch["mlm_weights"][row] > 0
        tokens[batch["mlm_positions"][row][real]] = batch["mlm_targets"][row][real]
        links = batch["structure"].links[row, :, 0]
        own = batch["cpc_structure"].links[row, :, 0]
        for j in np.flatnonzero(batch["cpc_weights"][row]):
            sentence = batch["cpc_long_tokens"][row][own == j]
            tokens[links == batch["cpc_positions"][row, j]] = sentence
        rows.append(tokens[batch["structure"].long_example_ids[row] > 0])
    return rows


def test_batches_of_an_epoch_hold_each_long_enough_document_once(
    sio, tokenizer, registered
):
    with _batches(sio, tokenizer, "c4", num_epochs=1) as stream:
        batches = list(stream)
        position = stream.position
    kept = [d for d in read(sio, "c4") if len(d.sentence_lengths) >= 7]
    found = np.concatenate([row for b in batches for row in _originals(b)])
    expected = np.concatenate([d.tokens for d in kept])
    np.testing.assert_array_equal(np.sort(found), np.sort(expected))
    assert position.documents == 40
    assert position.documents_dropped == 40 - len(kept) > 0
    assert position.tokens - position.tokens_dropped == len(expected)
    assert not batches[-1]["long_tokens"][-1].any()  # filled up with padding


def test_batches_are_a_function_of_the_seed_and_the_shard(sio, tokenizer, registered):
    def first(**kwargs):
        with _batches(sio, tokenizer, "wiki40b", shuffle=False, **kwargs) as stream:
            return next(stream)["long_tokens"]

    np.testing.assert_array_equal(first(seed=3), first(seed=3))
    assert (first(seed=3) != first(seed=4)).any()

    class Whole:  # the same text in each shard
        def __next__(self):
            return document

    document = max(read(sio, "pg19"), key=lambda d: len(d.tokens))
    rows = [
        next(
            sio.batches.BatchStream(
                Whole(), tokenizer.token_ids, SIZES, batch_size=4, seed=3, shard=shard
            )
        )["long_tokens"]
        for shard in ((0, 2), (0, 2), (1, 2))
    ]
    np.testing.assert_array_equal(rows[0], rows[1])
    assert (rows[0] != rows[2]).any()


def _holding(documents, sentences):
    """The one document that has all of some sentences, or parts of long ones."""
    for number, document in enumerate(documents):
        text = document.tokens.tobytes()
        if all(sentence in text for sentence in sentences):
            return number
    raise AssertionError("sentences of several documents have one number")


def test_documents_of_one_batch_have_numbers_of_their_own(sio, tokenizer, registered):
    with _batches(sio, tokenizer, "c4", num_epochs=1, batch_size=1) as stream:
        rows = list(stream)
    number_of = {}
    for batch in rows:
        own = batch["cpc_structure"].links[0, :, 0]
        for j in np.flatnonzero(batch["cpc_weights"][0]):
            number = int(batch["cpc_documents"][0, j])
            sentence = batch["cpc_long_tokens"][0][own == j].tobytes()
            number_of.setdefault(number, []).append(sentence)
    documents = read(sio, "c4")
    document_of = {n: _holding(documents, s) for n, s in number_of.items()}
    assert len(set(document_of.values())) == len(document_of) > 20


@pytest.mark.parametrize("name", ["c4", "notes", "etc_pretraining"])
def test_batches_go_on_from_a_saved_position(
    sio, tokenizer, registered, name, tmp_path
):
    with _batches(sio, tokenizer, name) as stream:
        for _ in range(4):
            next(stream)
        stream.save(tmp_path / "saved")
        expected = [next(stream) for _ in range(4)]
    with _batches(sio, tokenizer, name) as stream:
        next(stream)
        stream.restore(tmp_path / "saved")
        for batch in expected:
            found = next(stream)
            for key in ("long_tokens", "mlm_targets", "cpc_documents"):
                np.testing.assert_array_equal(found[key], batch[key])
    with pytest.raises(FileExistsError):
        stream.save(tmp_path / "saved")
    with pytest.raises(FileNotFoundError):
        stream.restore(tmp_path / "elsewhere")


def test_masking_shares_reach_the_batches(sio, tokenizer, registered):
    shares = masking.MaskingShares(cpc=0.0)
    sizes = PretrainingSizes.default(128, 24, shares)
    with sio.batches.stream_batches(
        "c4",
        "train",
        ids=tokenizer.token_ids,
        sizes=sizes,
        batch_size=2,
        seed=0,
        shares=shares,
    ) as stream:
        assert not [key for key in next(stream) if key.startswith("cpc")]
