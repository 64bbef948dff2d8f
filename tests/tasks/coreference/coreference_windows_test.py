"""Documents with mentions as windows: their layout, their spans, and what fits."""

import numpy as np
import pytest
from coreference_samples import MILL, TON, VALUE, conll_2012, record_of
from multihop_samples import tokenizer

from etc_jax.datasets.decoding import with_records
from etc_jax.datasets.offsets import encode
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.tasks import coreference
from etc_jax.tasks.coreference.decoding import decode_each
from etc_jax.tasks.coreference.explained import pool_explained
from etc_jax.tasks.coreference.windows import (
    CoreferenceOptions,
    features,
)

WIDE = SequenceSizes(40, 1)


@pytest.fixture
def record():
    return coreference.parse(VALUE, lambda *note: None)


def windows_of(record, sizes=WIDE, **options):
    options = {"span_tokens": 4, "candidates": 64, **options}
    return features(record, tokenizer(), sizes, options=CoreferenceOptions(**options))


def one_sentence(record):
    """The shortest part that has room for every sentence."""
    texts = [" ".join(sentence) for sentence in record.sentences]
    return 2 + max(map(len, encode(tokenizer(), texts)))


def words_of(window):
    """{words of a candidate: its cluster} as the tokens of the window spell them."""
    words = [word for sentence in window.record.sentences for word in sentence]
    spelled = {}
    for (first, last), cluster, a, b in zip(
        window.extra["spans"].tolist(),
        window.labels["clusters"].tolist(),
        window.candidates.first_words,
        window.candidates.last_words,
        strict=False,
    ):
        pieces = tokenizer().pieces(window.tokens[first : last + 1])
        said = "".join(p.removeprefix("##") for p in pieces)
        assert said == "".join(words[a : b + 1]).lower()
        spelled[" ".join(words[a : b + 1])] = cluster
    return spelled


def test_a_document_that_fits_is_one_window(record):
    [window] = windows_of(record)
    spelled = words_of(window)
    clusters = {"Ann Lee": 1, "She": 1, "Her": 1, "the mill": 2, "it": 2, "Lee": 0}
    assert {k: spelled[k] for k in clusters} == clusters
    number = len(window.candidates.mask)
    assert (window.extra["spans"][number:] == -1).all()
    assert not window.labels["clusters"][number:].any()
    assert window.extra["num_words"] == 12 and window.unusable is None
    assert window.global_index.tolist() == [-1]
    ids = window.example_ids
    assert ids.tolist() == [1] * np.count_nonzero(ids) + [0] * (40 - ids.sum())


def test_parts_are_read_apart_and_windows_have_as_many_as_fit(record):
    length = one_sentence(record)
    windows = windows_of(record, SequenceSizes(2 * length, 1), part_length=length)
    assert [w.extra["num_words"] for w in windows] == [9, 3]
    both, last = windows
    cls, sep = (tokenizer().special_id(role) for role in ("cls", "sep"))
    assert both.tokens[[0, length]].tolist() == [cls, cls]
    assert (both.tokens == sep).sum() == 2
    assert words_of(both)["the mill"] == 2 and words_of(last)["Her"] == 1
    whole = words_of(windows_of(record)[0])
    assert {**words_of(both), **words_of(last)} == whole
    # No part is left for a second half: it is padding.
    assert not last.example_ids[length:].any()


def test_windows_end_where_the_room_for_spans_does(record):
    [window] = windows_of(record)
    length = one_sentence(record)
    several = windows_of(
        record, SequenceSizes(3 * length, 1), part_length=length, candidates=20
    )
    assert len(several) > 1
    found = [len(w.candidates.mask) for w in several]
    assert sum(found) == len(window.candidates.mask) and max(found) <= 20


def test_gold_outputs_give_the_clusters_back_over_windows(record):
    length = one_sentence(record)
    windows = windows_of(record, SequenceSizes(2 * length, 1), part_length=length)
    gold = coreference.decoding.gold_outputs(windows)
    told = decode_each(gold, windows)
    # "Her" is alone in its window.
    assert coreference.decoding.pool(told) == [((0, 1), (5, 5)), ((3, 4), (7, 7))]


def test_what_windows_lose_has_a_reason(record):
    task = coreference.DATA_SET.in_format()
    length = one_sentence(record)

    def lost(blocks, **options):
        chosen = task.with_options({"part_length": length, **options})
        sizes = SequenceSizes(blocks * length, 1)
        windows = chosen.features(record, tokenizer(), sizes)
        [said] = chosen.answers(task.gold_outputs(windows), windows).values()
        return list(chosen.why_lost(windows, said))

    assert lost(3) == []
    [her] = lost(2)
    assert her.startswith("mention (9, 9): in its window no other of its entity")
    tokens = [reason for reason in lost(3, span_tokens=1) if "(0, 1)" in reason]
    assert tokens == [
        "mention (0, 1): it has no token, more than --span_tokens, or goes over the "
        "end of a part"
    ]


def test_singletons_come_back_where_there_are_some(tmp_path):
    record = record_of(tmp_path, conll_2012(TON))
    windows = windows_of(record, singletons=True)
    gold = coreference.decoding.gold_outputs(windows)
    [told] = decode_each(gold, windows)
    assert told == record.clusters and ((7, 7),) in told
    [told] = decode_each(gold, windows_of(record))
    assert told == record.clusters[:1]


def test_a_reader_sees_mentions_with_their_entity(tmp_path):
    record = record_of(tmp_path, conll_2012(MILL))
    windows = windows_of(record, singletons=True)
    told = pool_explained(
        with_records(decode_each)(coreference.decoding.gold_outputs(windows), windows)
    )
    assert told.answer == "3 entities with 6 mentions"
    assert told.prediction == list(record.clusters)
    passages = told.documents[0].passages
    seen = [
        (p.text[start:stop], ranks)
        for p in passages
        for (start, stop), ranks in zip(p.marks, p.ranks, strict=True)
    ]
    assert seen == [
        ("Ann Lee", (1,)),
        ("the mill", (2,)),
        ("She", (1,)),
        ("it", (2,)),
        ("Her", (1, 3)),
        ("owner", (3,)),
    ]


def test_what_does_not_fit_is_named(record):
    with pytest.raises(BadRecordError, match="too many spans: .* room for 5; raise"):
        windows_of(record, candidates=5)
    with pytest.raises(ValueError, match="input_length 40 is not a number of whole"):
        windows_of(record, part_length=30)
    with pytest.raises(ValueError, match="candidates is 0; expected 1 or more"):
        CoreferenceOptions(candidates=0)
