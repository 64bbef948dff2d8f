"""What gold labels score: from articles to inputs, outputs, predictions and figures."""

import random

import pytest
from natural_questions_samples import (
    annotation,
    candidates_of,
    long_article,
    original,
    tokenizer,
    write_lines,
)

from etc_jax.datasets.task import find_task
from etc_jax.formats.structured import StructuredSizes
from etc_jax.scoring import natural_questions as scoring
from etc_jax.tasks import natural_questions as nq
from etc_jax.tasks.natural_questions.decoding import MAX_SHORT_WORDS
from etc_jax.tasks.natural_questions.inputs import (
    SIZES,
    NaturalQuestionsOptions,
)


def predicted(record, model, sizes, options=NaturalQuestionsOptions(), **pooling):  # noqa: B008
    windows = nq.inputs.features(record, model, sizes, options=options)
    return nq.decoding.pool(
        nq.decoding.summarise(nq.decoding.gold_outputs(windows), windows), **pooling
    )


def scores(records, model, sizes, options=NaturalQuestionsOptions()):  # noqa: B008
    found = {r.id: predicted(r, model, sizes, options) for r in records}
    return scoring.score(
        [nq.decoding.official_gold(r) for r in records], nq.decoding.official(found)
    ).metrics


def made_up(name: int, words: int):
    """A question about a random candidate of an article, five annotators."""
    rng = random.Random(f"question {name}")
    text = long_article(words, seed=name)
    spans = [span for span, _ in candidates_of(text)]
    kinds = ("short", "long", "yes", "null", "one of five", "short", "two of five")
    kind = kinds[name % len(kinds)]
    long = rng.choice([s for s in spans if s[1] - s[0] > 3])
    start = rng.randrange(long[0] + 1, long[1] - 2)
    stop = rng.randint(start + 1, min(long[1] - 1, start + 8))
    said = annotation(long, [(start, stop)])
    if kind == "long":
        said = annotation(long)
    elif kind == "yes":
        said = annotation(long, yes_no=rng.choice(["YES", "NO"]))
    answered = {"null": 0, "one of five": 1, "two of five": 2}.get(kind, 5)
    everyone = [said] * answered + [annotation()] * (5 - answered)
    rng.shuffle(everyone)
    value = original(text, name=name, said=everyone)
    return nq.records.parse(value, lambda kind, message: pytest.fail(message))


@pytest.mark.parametrize(
    "sizes, options",
    [
        (StructuredSizes(64, 40), {"stride": 16}),
        (StructuredSizes(96, 40), {"stride": 60}),
        (StructuredSizes(64, 40), {"stride": 16, "flat": True}),
        (StructuredSizes(64, 40), {"stride": 16, "tokens_per_block": 5}),
        # Paragraphs have no room among the global tokens.
        (StructuredSizes(64, 11), {"stride": 16}),
    ],
)
def test_the_upper_bound_of_small_windows_is_100(sizes, options):
    records = [made_up(name, 600) for name in range(40)]
    got = scores(
        records,
        tokenizer(),
        sizes,
        NaturalQuestionsOptions(question_tokens=8, **options),
    )
    assert got[scoring.AVERAGE_F1] == 1.0


def test_a_short_answer_of_too_many_words_is_out_of_reach():
    text = long_article(300, seed=2)
    long = max((s for s, _ in candidates_of(text)), key=lambda s: s[1] - s[0])
    first = long[0] + 1
    assert long[1] - first > MAX_SHORT_WORDS + 2
    for spans, want in (
        ([(first, first + 2)], 1.0),
        ([(first, first + MAX_SHORT_WORDS)], 1.0),
        ([(first, first + MAX_SHORT_WORDS + 1)], 0.0),
    ):
        value = original(text, said=[annotation(long, spans)] * 2)
        record = nq.records.parse(value, lambda kind, message: pytest.fail(message))
        got = scores([record], tokenizer(), SIZES)
        assert got["long-best-threshold-f1"] == 1.0
        assert got["short-best-threshold-f1"] == want


def test_every_loss_has_its_reason(tmp_path):
    whole, part = (3, 12), (3, 11)
    said = {
        "right": annotation(whole, [(9, 10)]),
        "none": annotation(),
        "two": annotation((14, 24), [(16, 17), (20, 21)]),
        "part": annotation(part, [(9, 10)]),
        "outside": annotation(whole, [(12, 14)]),
        "dropped": annotation(whole, [(10, 11)]),
        "unfounded": annotation(yes_no="YES"),
    }
    values = [original(name=name, said=[a]) for name, a in said.items()]
    # A character that no piece stands for.
    values[5]["document_tokens"][10]["token"] = "\x07"
    path = write_lines(tmp_path / "x.jsonl", values)
    got = find_task("natural_questions").upper_bound([path], tokenizer(), SIZES)
    assert {loss.id: loss.reason for loss in got.losses} == {
        "two": "short answer [[16, 17], [20, 21]]: of several spans, where one can be "
        "said",
        "part": "long answer, words [3, 11]: it is no candidate",
        "outside": "short answer [[12, 14]]: it is in no top-level candidate, and the "
        "rest is no input",
        "dropped": "short answer [[10, 11]]: no token stands for it",
        "unfounded": "short answer yes: the long answer, which would show why, is not "
        "found",
    }
    assert got.scores.count == 7 and got.scores.metrics["long-answer-recall"] == 4 / 5
    assert "7 records read, 1 problems" in got.report()


def test_a_lone_annotator_counts_and_a_record_without_one_is_named(tmp_path):
    value = original()
    path = write_lines(tmp_path / "x.jsonl", [value])
    got = find_task("natural_questions").upper_bound([path], tokenizer(), SIZES)
    assert got.scores.metrics[scoring.AVERAGE_F1] == 1.0 and got.losses == ()
    del value["annotations"]
    write_lines(path, [value])
    with pytest.raises(ValueError, match="'7' has no annotation"):
        find_task("natural_questions").upper_bound([path], tokenizer(), SIZES)
