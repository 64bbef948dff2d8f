"""Invented reviews: of the official form, and decided by the verdict alone."""

import random
import re

import pytest
from multihop_samples import tokenizer

from etc_jax.datasets.records import Problems
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.tasks import classification, imdb
from etc_jax.tasks.synthetic import names
from etc_jax.tasks.synthetic.__main__ import main
from etc_jax.tasks.synthetic.imdb import (
    OPINIONS,
    ImdbSizes,
    _lengthened,
    records,
    write_release,
)

COUNT = 400
VERDICT = re.compile(r"(In the end I|My own verdict|As for me|Now that I have)[^.]*\.")
LABEL_OF = {word: label for label, words in OPINIONS.items() for word in words}


@pytest.fixture(scope="module")
def items():
    return list(records(COUNT, seed=1))


def words_of(item) -> list[str]:
    return item["text"].replace("<br /><br />", " ").split()


def opinions(text: str) -> list[str]:
    """Labels of the opinions of a text, in order."""
    return [LABEL_OF[x] for x in re.findall(r"\w+", text) if x in LABEL_OF]


def verdict_place(item) -> int:
    """Words before the verdict."""
    [found] = VERDICT.finditer(item["text"].replace("<br /><br />", " "))
    return len(found.string[: found.start()].split())


def test_the_verdict_is_the_label(items):
    for item in items:
        [verdict] = VERDICT.finditer(item["text"])
        assert opinions(verdict[0]) == [imdb.records.LABELS[item["label"]]]
        assert len(opinions(item["text"])) == 7
    assert sum(item["label"] for item in items) == COUNT / 2


def test_half_of_the_verdicts_stand_after_all_others_and_512_words(items):
    late = [item for item in items if verdict_place(item) >= 600]
    assert abs(len(late) / COUNT - 0.5) < 0.1
    for item in items:
        place, words = verdict_place(item), words_of(item)
        if place >= 600:
            assert len(opinions(" ".join(words[:place]))) == 6
        else:
            assert place < 200
        assert 700 <= len(words) < 750


def test_what_others_say_has_nothing_to_do_with_the_label(items):
    same = everything = 0
    for item in items:
        label = imdb.records.LABELS[item["label"]]
        others = opinions(VERDICT.sub("", item["text"]))
        same += sum(x == label for x in others)
        everything += len(others)
    # Four standard deviations of a share of 2400.
    assert everything == 6 * COUNT and abs(same / everything - 0.5) < 0.042


def test_counting_opinions_is_not_enough(items):
    """Where those for and those against it differ, the verdict has its share in it."""
    right = 0
    for item in items:
        said = opinions(item["text"])
        more = max(("neg", "pos"), key=said.count)
        right += more == imdb.records.LABELS[item["label"]]
    # By counting: 1/2 + C(6, 3) / 2 ** 7 = 0.656; four standard deviations are 0.095.
    print(f"right by counting: {right} of {COUNT}")
    assert abs(right / COUNT - 0.656) < 0.095


def test_sentences_about_nothing_hold_no_opinion():
    rng = random.Random(0)
    assert not any(opinions(names.filler(rng)) for _ in range(2000))


def test_a_review_of_enough_words_is_not_lengthened():
    review = ["Two words.", "Three words here."]
    assert _lengthened(random.Random(0), review, 5) == review
    assert len(_lengthened(random.Random(0), review, 6)) == 3


def test_the_official_layout_is_read_as_it_was_made(tmp_path, items):
    folder = write_release(tmp_path, items[:30], split="train")
    assert folder == tmp_path / "train"
    assert [p.name for p in tmp_path.iterdir()] == ["train"]
    problems = Problems()
    got = list(imdb.records.read([folder], problems))
    assert not problems.counts and len(got) == 30

    def key(record):
        return record.id.split("/")[1:]

    made = [imdb.records.parse(item, lambda kind, message: None) for item in items[:30]]
    for one, other in zip(sorted(got, key=key), sorted(made, key=key), strict=True):
        assert (one.text, one.label, one.rating) == (
            other.text,
            other.label,
            other.rating,
        )


def test_a_late_verdict_is_not_in_a_short_input(items):
    seen = {True: 0, False: 0}
    for item in items[:60]:
        record = imdb.records.parse(item, lambda kind, message: None)
        [made] = classification.inputs.features(
            record, tokenizer(), SequenceSizes(512, 1)
        )
        is_late = verdict_place(item) >= 600
        seen[is_late] += 1
        if is_late:
            assert not VERDICT.search(record.text[: made.num_chars])
    assert min(seen.values()) > 15


@pytest.mark.parametrize("late, want", [(0.0, 0), (1.0, 30)])
def test_sizes_are_kept(late, want):
    sizes = ImdbSizes(late=late, others=2, words=0, apart=50)
    found = list(records(30, seed=0, sizes=sizes))
    assert all(len(opinions(item["text"])) == 3 for item in found)
    assert sum(verdict_place(item) >= 50 for item in found) == want


def test_the_command_writes_a_release(tmp_path, capsys):
    args = ["--task=imdb", "--count=4", "--seed=4", "--split=test"]
    args.append(f"--out={tmp_path}/aclImdb")
    assert main([*args, "--start=2", "--late=1"]) == 0
    folder = tmp_path / "aclImdb" / "test"
    assert str(folder) in capsys.readouterr().out
    ids = [re.sub(r"_\d+$", "", record.id) for record in imdb.records.read([folder])]
    assert ids == ["test/neg/2", "test/neg/4", "test/pos/3", "test/pos/5"]
    # What is there is left alone.
    assert main(args) == 2 and "exists" in capsys.readouterr().err
