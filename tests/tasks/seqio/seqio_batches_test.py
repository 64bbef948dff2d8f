"""Batches that are packed and masked from the stream of a Task."""

import numpy as np
import pytest
from seqio_samples import (
    forget_tasks,
    read,
)

from etc_jax.data.pretraining import masking
from etc_jax.data.pretraining.examples import PretrainingRows, PretrainingSizes
from etc_jax.data.text.denoised import DenoisedRows, Denoising
from etc_jax.data.text.packed import CausalRows, MaskedRows
from etc_jax.data.text.reader import TextReader, planned
from etc_jax.data.tokenizers.tokenizer import grown
from etc_jax.objectives.jobs.denoising import marks_of

SIZES = PretrainingSizes.default(128, 24, max_sentence_tokens=32)


@pytest.mark.parametrize(
    "name", ["wikipedia", "pg19", "c4", "wiki40b", "notes", "etc_pretraining"]
)
@pytest.mark.full(but=["notes"])
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
    options = {
        "vocab_size": tokenizer.vocab_size,
        "long_length": SIZES.long_length,
        "global_length": SIZES.global_length,
    }
    made = PretrainingRows(tokenizer.token_ids, SIZES, masking.MaskingShares())
    rows = [
        next(
            sio.batches.BatchStream(
                Whole(), made, batch_size=4, seed=3, shard=shard, **options
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
@pytest.mark.full(but=["notes"])
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


@pytest.mark.full
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


SENTINELS = [f"<extra_id_{i}>" for i in range(40)]


def _rows_of(kind, tokenizer):
    """(row builder, lengths of its windows)."""
    ids, shares = tokenizer.token_ids, masking.MaskingShares()
    if kind == "mlm_cpc":
        rows = PretrainingRows(ids, SIZES, shares)
        return rows, {"long_length": 128, "global_length": 24}
    if kind == "masked_lm":
        rows = MaskedRows(ids, length=96, capacity=32, shares=shares)
        return rows, {"long_length": 96, "global_length": None}
    if kind == "causal_lm":
        return CausalRows(ids, length=96), {"long_length": 96, "global_length": None}
    marks = marks_of(tokenizer, tokenizer.vocab_size, begin_token=True)
    task = Denoising(kind, gap_choice="random")
    rows = DenoisedRows(marks, task, input_length=96, target_length=48)
    return rows, {"long_length": rows.text_length, "global_length": None}


def _flat(batch):
    """Arrays by name, those of structures too."""
    groups = {k: vars(x) for k, x in batch.items() if hasattr(x, "links")}
    plain = {k: x for k, x in batch.items() if k not in groups}
    inner = {f"{k}.{n}": x for k, g in groups.items() for n, x in g.items()}
    return plain | {name: x for name, x in inner.items() if x is not None}


OF_ONE_SEQUENCE = ["masked_lm", "causal_lm", "spans", "infilling", "gap_sentences"]


@pytest.mark.parametrize(
    "kind, packing",
    [
        *((kind, "best_fit") for kind in ["mlm_cpc", *OF_ONE_SEQUENCE]),
        *((kind, "concatenated") for kind in OF_ONE_SEQUENCE),
    ],
)
@pytest.mark.full(but=["mlm_cpc-best_fit", "spans-concatenated"])
def test_a_stream_that_one_block_holds_is_an_epoch_of_the_cache(
    sio, tokenizer, notes, tmp_path, kind, packing
):
    tokenizer = grown(tokenizer, SENTINELS)
    files = {"train": f"{notes}/*.jsonl*"}
    sio.pretraining.register_files("grown", files, tokenizer, text_field="body")
    rows, lengths = _rows_of(kind, tokenizer)
    lengths["max_sentence_tokens"] = 32
    cache = sio.export.export("grown", "train", tmp_path)["grown"]
    text = cache, planned(cache, packing, **lengths)
    reader = TextReader([text], rows, batch_size=1, seed=5)
    with sio.batches.stream_rows(
        "grown",
        "train",
        rows,
        batch_size=1,
        seed=5,
        shuffle=False,
        num_epochs=1,
        block_windows=1000,
        packing=packing,
        **lengths,
    ) as stream:
        batches = list(stream)
    forget_tasks(sio)
    assert len(batches) == reader.num_examples > 20
    for step, batch in enumerate(batches, start=reader.num_examples):
        expected = _flat(reader.batch_at(step))
        # Numbers of documents need only differ.
        expected.pop("cpc_documents", None)
        for name, array in expected.items():
            np.testing.assert_array_equal(_flat(batch)[name], array, err_msg=name)


@pytest.mark.full
def test_ids_of_another_vocabulary_are_refused(sio, tokenizer, registered):
    more = grown(tokenizer, SENTINELS)
    with pytest.raises(ValueError, match="of 240, but 'c4' has one of 200; use the"):
        _batches(sio, more, "c4")
