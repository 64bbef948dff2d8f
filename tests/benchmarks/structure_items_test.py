"""The invented questions of the ablation: what is asked, and what answers it."""

import json
import re

import numpy as np
import pytest

from benchmarks.data.structure_items import SETS
from etc_jax.data.windows.cache import WindowReader
from etc_jax.data.windows.token_types import GLOBAL_CANDIDATE_TYPE
from etc_jax.datasets.task import find_task

HOTPOTQA = find_task("hotpotqa")

WIKIHOP_SET, HOTPOTQA_SET = SETS["wikihop"], SETS["hotpotqa"]


@pytest.fixture(scope="module")
def caches(tmp_path_factory):
    """The training and validation caches of each set."""
    folder = tmp_path_factory.mktemp("items")
    return {name: s.make_caches(folder / name, 40, 8) for name, s in SETS.items()}


def one_batch(item_set, cache, *, flat=False):
    sizes = item_set.sizes
    reader = WindowReader(
        [cache],
        lengths={"long": sizes.long_length, "global": sizes.global_length},
        batch_size=8,
        seed=0,
        evaluation=True,
        flat=flat,
    )
    return reader.batch_at(0)


def test_an_answer_is_a_mention_in_the_document_of_the_subject():
    for item in WIKIHOP_SET.items(30, series=5):
        relation, _, subject = item["query"].partition(" ")
        assert relation == "teacher"
        [there] = [
            text
            for document in item["supports"]
            for text in document.split(". ")
            if text.lower().startswith(f"{subject} studied under")
        ]
        assert there.rstrip(".").split()[-1] == item["answer"]
        assert item["answer"] in item["candidates"]
        assert not any("_" in text for text in item["supports"])


def test_a_supporting_sentence_says_the_answer_without_a_name():
    for item in HOTPOTQA_SET.items(30, series=5):
        subject = item["question"].removeprefix("Who taught ").removesuffix("?")
        [texts] = [texts for title, texts in item["context"] if title == subject]
        [(title, index)] = item["supporting_facts"]
        assert title == subject
        assert re.fullmatch(rf" S?[Hh]e studied under {item['answer']}\.", texts[index])
        # The same is said of everybody else: what tells them apart is the document.
        said = [t for _, ts in item["context"] for t in ts if "studied under" in t]
        assert len(said) == len(item["context"]) == 4


def test_all_persons_but_the_subject_are_masks_of_their_own():
    for item in HOTPOTQA_SET.items(30, series=5):
        titles = {title for title, _ in item["context"]}
        [subject] = {title for title, _ in item["supporting_facts"]}
        others = titles - {subject}
        assert len(others) == 3
        assert all(re.fullmatch(r"Mask\d\d?", title) for title in others)
        text = " ".join(HOTPOTQA_SET.documents(item))
        assert re.findall(r"[A-Z]\w+ [A-Z]\w+", text.replace(subject, "")) == []
        assert subject in text


def test_records_of_both_sets_are_in_the_official_form(tmp_path):
    [item] = HOTPOTQA_SET.items(1, series=5)
    file = tmp_path / "records.json"
    file.write_text(json.dumps([item]))
    [record] = HOTPOTQA.read([file])
    assert (record.question, record.answer) == (item["question"], item["answer"])
    assert [p.title for p in record.paragraphs] == [t for t, _ in item["context"]]


@pytest.mark.parametrize("name", SETS)
def test_names_are_one_word_each_and_the_subject_is_unknown(name):
    items = list(SETS[name].items(400, series=1))
    tokenizer = SETS[name].word_tokenizer(items)
    names = [f"Mask{k}" for k in range(100)]
    found = [ids.tolist() for ids, _ in tokenizer.encode_batch(names)]
    assert len({ids[0] for ids in found if len(ids) == 1}) == 100
    if name == "wikihop":
        _, _, subject = items[0]["query"].partition(" ")
    else:
        subject = items[0]["supporting_facts"][0][0]
    [(ids, _)] = tokenizer.encode_batch([subject])
    assert set(ids.tolist()) == {tokenizer.encode_batch(["zzz"])[0][0][0]}


def test_links_lead_from_candidates_to_mentions_unless_flat(caches):
    train, _ = caches["wikihop"]
    batch = one_batch(WIKIHOP_SET, train)
    candidates = batch["global_types"] == GLOBAL_CANDIDATE_TYPE
    places = np.where(candidates, np.arange(candidates.shape[1]), -2)
    links = batch["structure"].links
    assert links.shape[-1] == 3
    linked = [
        len(set(row.ravel()) & set(own)) for row, own in zip(links, places, strict=True)
    ]
    assert linked == [4] * 8
    links = one_batch(WIKIHOP_SET, train, flat=True)["structure"].links
    # A candidate's global token is tied to its own piece of the input alone.
    tied = np.sum((links >= 0) & (links < 4), axis=(1, 2))
    assert links.shape[-1] == 1 and list(tied) == [4] * 8


def test_documents_are_segments_unless_flat(caches):
    train, validation = caches["hotpotqa"]
    assert (train.num_windows, validation.num_windows) == (40, 8)  # all have labels
    batch = one_batch(HOTPOTQA_SET, train)
    segments = [set(row.tolist()) for row in batch["structure"].long_segment_ids]
    # Padding, the first token, the question, four documents.
    assert segments == [set(range(7))] * 8
    flat = one_batch(HOTPOTQA_SET, train, flat=True)["structure"]
    assert flat.long_segment_ids is None
    for name in ("begin", "end"):
        assert np.all(batch["labels"][name] > 0), name
