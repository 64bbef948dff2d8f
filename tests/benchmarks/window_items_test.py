"""The questions of the window ablation: what is where, and who says whose name."""

import collections
import itertools
import re

import pytest

from benchmarks.data import window_items
from benchmarks.data.structure_items import LEAST_COUNT
from benchmarks.data.window_items import BESIDE, LONG_WINDOWS, PRONOUNS
from etc_jax.datasets.task import find_task
from etc_jax.formats.structured import StructuredSizes
from etc_jax.tasks.natural_questions.records import parse, read

TASK = find_task("natural_questions")

WINDOW = 128
COUNT = 24
HEAD = re.compile(r"(?<!\S)(\w+) is an? \w+ town \.")


def complain(kind, message):
    pytest.fail(f"{kind}: {message}")


@pytest.fixture(scope="module")
def items():
    return {
        kind: [
            parse(item, complain)
            for item in itertools.islice(
                window_items.items(kind, 5, window=WINDOW, annotators=1), COUNT
            )
        ]
        for kind in PRONOUNS
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("items")
    return window_items.write_files("unnamed", folder, COUNT, 8, window=WINDOW)


def asked_of(record):
    return re.fullmatch(r"In which region does (\w+) lie\?", record.question)[1]


def sentences(record, name):
    """(words of the block, its sentences) of a town."""
    tops = zip(record.candidates, record.top_level, strict=True)
    for (start, stop), top in tops:
        words = [w for w in record.words[start:stop] if not w.startswith("<")]
        text = " ".join(words)
        if top and HEAD.match(text)[1] == name:
            return (start, stop), re.split(r"(?<=\.) ", text)
    raise AssertionError(name)


@pytest.mark.parametrize("kind", PRONOUNS)
def test_the_block_of_the_town_says_where_it_lies(items, kind):
    answered = 0
    for record in items[kind]:
        span, (head, *rest) = sentences(record, asked_of(record))
        subject = {"unnamed": "The town", "named": asked_of(record)}[kind]
        said = [s for s in rest if re.fullmatch(rf"{subject} lies in Mask\w\w \.", s)]
        [annotation] = record.annotations
        if annotation.long is None:
            assert said == [] and not annotation.has_short
            continue
        answered += 1
        [short] = annotation.short
        assert annotation.long == span
        assert [f"{subject} lies in {record.words[short[0]]} ."] == said
    assert 0 < answered < COUNT


@pytest.mark.parametrize("kind", PRONOUNS)
def test_only_facts_and_heads_have_names_and_all_blocks_are_alike(items, kind):
    for record in items[kind]:
        text = " ".join(w for w in record.words if not w.startswith("<"))
        names = HEAD.findall(text)
        assert len(names) == 3 and asked_of(record) in names
        others = [name for name in names if name != asked_of(record)]
        assert all(re.fullmatch(r"Mask\w\w", name) for name in others)
        trades = re.findall(r"(\w+) trades mostly with Mask\w\w \.", text)
        assert len(trades) == 3
        named = 1 + (len(trades) + len(re.findall("lies in", text))) // 3
        count = text.count(asked_of(record))
        assert count == 1 if kind == "unnamed" else 1 < count <= named


def test_both_kinds_are_the_same_but_for_the_names(items):
    named = {record.id: record for record in items["named"]}
    both = [(r, named[r.id]) for r in items["unnamed"] if r.id in named]
    assert len(both) > COUNT / 2  # an article that is too long may be so in one kind
    for unnamed, other in both:
        assert unnamed.question == other.question
        # "The town" is two words where a name is one.
        subject = r"(The town|Mask\w\w|Z\w+) (lies in|trades mostly)"
        texts = [re.sub(subject, r"It \2", " ".join(r.words)) for r in (unnamed, other)]
        assert texts[0] == texts[1]


def inputs(records, tokenizer, **options):
    task = TASK.with_options(options)
    for record in records:
        sizes = StructuredSizes(WINDOW, 1 if options else 40)
        yield record, task.features(record, tokenizer, sizes)


@pytest.mark.parametrize("options", [{}, {"flat": True}])
def test_no_short_window_holds_the_name_and_the_answer(items, files, options):
    *_, tokenizer = files
    seen = 0
    for record, windows in inputs(items["unnamed"], tokenizer, **options):
        name = record.words.index(asked_of(record))
        for short in record.annotations[0].short:
            held = [set(w.word.tolist()) for w in windows]
            assert any(name in words for words in held)
            assert any(short[0] in words for words in held)
            assert not any({name, short[0]} <= words for words in held)
            seen += 1
    assert seen > COUNT / 2


def test_some_short_window_holds_the_sentence_that_names_and_answers(items, files):
    *_, tokenizer = files
    for record, windows in inputs(items["named"], tokenizer):
        for short in record.annotations[0].short:
            name = short[0] - 3  # "lies in" is between
            assert record.words[name] == asked_of(record)
            held = [set(w.word.tolist()) for w in windows]
            assert any({name, short[0]} <= words for words in held)


@pytest.mark.parametrize("kind", PRONOUNS)
def test_one_long_window_holds_an_article(items, files, kind):
    *_, tokenizer = files
    for record in items[kind]:
        [window] = TASK.features(
            record, tokenizer, StructuredSizes(LONG_WINDOWS * WINDOW, 40)
        )
        spans = zip(record.candidates, record.top_level, strict=True)
        whole = {i for (a, b), top in spans if top for i in range(a, b)}
        assert set(window.word.tolist()) - {-1} == whole
        before = window.word.tolist().index(min(whole))
        assert before + 1 == BESIDE


def test_a_name_that_is_asked_about_is_too_rare_for_the_vocabulary(items):
    names = collections.Counter(
        asked_of(record) for kind in PRONOUNS for record in items[kind]
    )
    # Both kinds may ask about the same town, each once.
    assert max(names.values()) <= 2
    assert not any(name.startswith("Mask") for name in names)
    for record in items["named"]:
        said = window_items.words_of(record).count(asked_of(record))
        assert 2 * said < LEAST_COUNT


def test_validation_questions_have_the_annotators_of_development_files(files):
    train, validation, _ = files
    assert {len(r.annotations) for r in read([train])} == {1}
    others = list(read([validation]))
    assert len(others) == 8 and {len(r.annotations) for r in others} == {5}
    assert not {r.id for r in others} & {r.id for r in read([train])}
