"""Metrics of written texts by name, against the packages and plain re-statements."""

import random
import re
import string

import numpy as np
import pytest

from etc_jax.scoring import rouge, texts

WORDS = ["the", "A", "mill", "Mills!", "running", "don't", "10 %", "U.S.", "\n", "an"]
WORDS += ["Москва", "東京", "café", "—", "O’Neill", "١٢", "mill", "ran"]
# Of the words of long texts. Small and capital letters of some are not of one length;
# others are put together of two, or have none.
LETTERS = ["etaoinshrdlu"] * 3 + ["cafe\u0301ßİ", "ΣΑσςαβ", "жизнь", "مرحبا١٢", "हिन्दी"]
LETTERS += ["東京漢字かな", "ไทย", "Ａ１ｂ", "🎓🏽"]
ENDS = '. |! |? | . |.\n|\n|\r\n\n|。|।\u00a0|…\u3000|."\t'.split("|")


def random_text(draw: random.Random) -> str:
    """A few words or none; one in two hundred is long."""
    if draw.random() < 0.005:
        return long_text(draw, draw.randrange(100, 801))
    return " ".join(draw.choices(WORDS, k=draw.choice([0, 1, 1, 2, 4, 8])))


def long_text(draw: random.Random, count: int) -> str:
    """So many words of several scripts, some of them often, in sentences and lines."""
    words = WORDS + [
        "".join(draw.choices(draw.choice(LETTERS), k=4)) for _ in range(300)
    ]
    words = [words[int(len(words) * draw.random() ** 3)] for _ in range(count)]
    ends = (draw.choice(ENDS) if draw.random() < 0.1 else " " for _ in words)
    return "".join(word + end for word, end in zip(words, ends, strict=True))


def edited(draw: random.Random, text: str, share: float) -> str:
    """A share of its lines, the first of them at the end, some in capitals."""
    lines = [x for x in text.splitlines(keepends=True) if draw.random() < share]
    lines = [draw.choice([x, x, x.upper()]) for x in lines]
    return "".join(lines[1:] + lines[:1])


def plain_words(text: str) -> list[str]:
    """SQuAD's normalised answer, as words."""
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def plain_f1(text: str, reference: str) -> float:
    """SQuAD's F1: words that both have, each used once."""
    left, common = plain_words(reference), 0
    for word in plain_words(text):
        if word in left:
            left.remove(word)
            common += 1
    total = len(plain_words(text)) + len(plain_words(reference))
    return 2 * common / total if common else 0.0


@pytest.fixture(scope="module")
def pairs():
    draw = random.Random(0)
    gold = [
        {"id": str(i), "references": [random_text(draw) for _ in range(i % 3 + 1)]}
        for i in range(2000)
    ]
    written = {record["id"]: random_text(draw) for record in gold}
    # Of random long texts hardly two meet. ROUGE-L takes the product of the lengths:
    # the longer a text, the smaller the share of it in its reference.
    for i in range(399, 2000, 400):
        text = written[str(i)] = long_text(draw, i)
        gold[i]["references"][0] = edited(draw, text, 100 / i)
        # Equal but for what does not count as an answer.
        text = written[str(i - 50)] = long_text(draw, 200)
        gold[i - 50]["references"][-1] = f"The {text.upper()}!"
    return gold, written


def means(pairs, likeness):
    """The mean of the best likeness of each text to a reference."""
    gold, written = pairs
    best = [max(likeness(written[x["id"]], y) for y in x["references"]) for x in gold]
    return sum(best) / len(best)


def test_f1_and_exact_match_are_those_of_squad(pairs):
    found = texts.scorer("exact_match", "f1")(*pairs).metrics
    assert found["f1"] == pytest.approx(means(pairs, plain_f1), abs=1e-12)
    want = means(pairs, lambda x, y: plain_words(x) == plain_words(y))
    assert found["exact_match"] == pytest.approx(want, abs=1e-12)
    assert 0.05 < found["exact_match"] < found["f1"] < 0.6


@pytest.mark.parametrize("stemmer", [False, True])
def test_rouge_is_that_of_the_package(pairs, stemmer):
    scorers = pytest.importorskip("rouge_score.rouge_scorer")
    package = scorers.RougeScorer(list(rouge.TYPES), use_stemmer=stemmer)
    gold, written = pairs
    by_record = [package.score_multi(x["references"], written[x["id"]]) for x in gold]
    found = dict(rouge.score(*pairs, stemmer=stemmer).metrics)
    of_three = found.pop("geometric_mean")
    for name, value in found.items():
        want = sum(x[name].fmeasure for x in by_record) / len(gold)
        assert value == pytest.approx(want, abs=1e-12)
    want = found["rouge1"] * found["rouge2"] * found["rougeL"]
    assert of_three**3 == pytest.approx(want) and want > 0
    if not stemmer:
        assert texts.scorer("rouge")(*pairs).metrics == found | {
            "geometric_mean": of_three
        }


def test_figures_as_files2rouge_has_them_are_stemmed_and_of_sentences(pairs):
    scorers = pytest.importorskip("rouge_score.rouge_scorer")
    names = ["rouge1", "rouge2", "rougeLsum"]
    package = scorers.RougeScorer(names, use_stemmer=True)

    def lines(text):
        return "\n".join(re.split(r"(?<=[.])\s+", text))

    gold, written = pairs
    # Of short texts two, so that there is a sentence that ends.
    ends = {
        name: text if len(text) > 100 else f"{text} . {text}"
        for name, text in written.items()
    }
    by_record = [
        package.score_multi([lines(y) for y in x["references"]], lines(ends[x["id"]]))
        for x in gold
    ]
    plain = rouge.score(gold, ends, stemmer=True)
    found = plain.conventions["files2rouge"]()
    assert list(found.metrics) == names
    for name, value in found.metrics.items():
        want = sum(x[name].fmeasure for x in by_record) / len(gold)
        assert value == pytest.approx(want, abs=1e-12)
    assert "|stemmer:yes|sentences:full_stops|" in found.signatures["rouge"]
    # Without sentences rougeLsum is another.
    assert found.metrics["rouge1"] == plain.metrics["rouge1"]
    assert found.metrics["rougeLsum"] != pytest.approx(
        plain.metrics["rougeLsum"], abs=0.005
    )
    assert "|stemmer:yes|sentences:lines|" in plain.signatures["rouge"]


def test_bleu_is_that_of_the_package(pairs):
    metrics = pytest.importorskip("sacrebleu.metrics")
    gold, written = pairs
    streams = [
        [x["references"][i] if i < len(x["references"]) else None for x in gold]
        for i in range(3)
    ]
    found = texts.scorer("bleu")(*pairs)
    for name, lowercase in (("bleu", False), ("bleu_uncased", True)):
        package = metrics.BLEU(lowercase=lowercase)
        want = package.corpus_score([written[x["id"]] for x in gold], streams)
        assert found.metrics[name] == pytest.approx(want.score / 100, abs=1e-12) != 0
        assert found.signatures[name] == str(package.get_signature())


def test_records_that_were_not_read_lower_the_intervals(pairs):
    pytest.importorskip("rouge_score")
    few = pairs[0][:50], {x["id"]: pairs[1][x["id"]] for x in pairs[0][:50]}
    scores = rouge.score(*few)
    whole = {name: (x.low, x.high) for name, x in rouge.intervals(*few).items()}
    assert scores.intervals_fn(0) == whole
    unread = [texts.unread_gold(f"unread {i}") for i in range(10)]
    lower = rouge.intervals([*few[0], *unread], few[1])
    assert scores.intervals_fn(10) == {k: (x.low, x.high) for k, x in lower.items()}
    assert scores.intervals_fn(10)["rouge1"] < whole["rouge1"]


def test_intervals_hold_the_mean_and_leave_numpys_draws_alone(pairs):
    pytest.importorskip("rouge_score")
    few = pairs[0][:100], {x["id"]: pairs[1][x["id"]] for x in pairs[0][:100]}
    before = np.random.get_state()[1].copy()
    wide, narrow = (rouge.intervals(*few, confidence=c) for c in (0.95, 0.5))
    assert (np.random.get_state()[1] == before).all()
    assert wide == rouge.intervals(*few) != rouge.intervals(*few, seed=1)
    for name, value in rouge.score(*few).metrics.items():
        if name != "geometric_mean":
            bounds = [wide[name].low, narrow[name].low, value]
            bounds += [narrow[name].high, wide[name].high]
            assert bounds == sorted(set(bounds))
            assert wide[name].mid == pytest.approx(value, abs=0.01)
    with pytest.raises(ValueError, match="confidence is 2; expected a number from 0"):
        rouge.intervals(*few, confidence=2)


def test_classes_are_compared_as_answers_and_unread_records_are_wrong():
    pytest.importorskip("sklearn")
    gold = [
        {"id": str(i), "references": [x]} for i, x in enumerate(["Yes", "No", "No"])
    ]
    gold.append(texts.unread_gold("3"))
    written = {"0": "yes.", "1": "no", "2": "neither of them", "3": ""}
    found = texts.scorer("classification")(gold, written)
    assert found.metrics["accuracy"] == 2 / 4
    # F1 of yes is 1, of no 2/3; other texts are no class of their own.
    assert found.metrics["macro_f1"] == pytest.approx((1 + 2 / 3) / 2)
    with pytest.raises(ValueError, match="record 'a': one class expected .* 'x', 'y'"):
        texts.scorer("classification")([{"id": "a", "references": ["x", "y"]}], {})


def test_all_metrics_stand_in_one_result_with_ids_and_signatures():
    pytest.importorskip("sacrebleu")
    pytest.importorskip("rouge_score")
    gold = [{"id": x, "references": [f"the old mill of {x} stands"]} for x in "ab"]
    written = {"a": "The old mill of A stands", "c": "?"}
    found = texts.scorer("rouge", "f1", "exact_match", "bleu", "classification")(
        gold, written
    )
    assert {metric.headline for metric in texts.METRICS.values()} <= set(found.metrics)
    assert found.metrics["f1"] == found.metrics["accuracy"] == 0.5
    assert (found.missing, found.surplus) == ({"text": ("b",)}, ("c",))
    assert set(found.signatures) == {"rouge", "bleu", "bleu_uncased"}
    assert set(found.conventions) == {"files2rouge"} and found.intervals_fn(0)


@pytest.mark.parametrize("names", [(), ("rogue",)])
def test_metrics_that_are_not_there_are_refused(names):
    with pytest.raises(ValueError, match="metrics is .*expected .*rouge, f1, exact_m"):
        texts.scorer(*names)
