"""BLEU and ROUGE: several references, sums over a corpus, and bad input.

Their figures are compared with golden cases in `goldens_test.py`.
"""

import math
import sys

import pytest

from etc_jax.base import extras
from etc_jax.scoring import bleu, rouge

SCORES = {"bleu": bleu.score, "rouge": rouge.score}
GOLD = [
    {"id": "a", "references": ["the cat sat on the mat", "a cat was sitting there"]},
    {"id": "b", "references": ["Dogs run."]},
]


@pytest.fixture
def packages():
    pytest.importorskip("sacrebleu")
    pytest.importorskip("rouge_score")


def test_bleu_sums_over_the_corpus_before_it_divides(packages):
    # By hand: of words 2 + 4 of 4 + 4, of pairs 1 + 3 of 3 + 3, of runs of three 0 + 2
    # of 2 + 2, of four 0 + 1 of 1 + 1.
    texts, references = ["a b x y", "c d e f"], [["a b c d"], ["c d e f"]]
    found = bleu.corpus_bleu(texts, references)
    assert found.precisions == pytest.approx((6 / 8, 4 / 6, 2 / 4, 1 / 2))
    want = math.prod((6 / 8, 4 / 6, 2 / 4, 1 / 2)) ** (1 / 4)
    assert (found.brevity_penalty, found.score) == (1.0, pytest.approx(want))
    pairs = zip(texts, references, strict=True)
    each = [bleu.corpus_bleu([x], [y]).score for x, y in pairs]
    assert sum(each) / 2 != pytest.approx(want, abs=0.05)


def test_texts_may_have_different_numbers_of_references(packages):
    texts = ["the cat sat on a mat", "Dogs run."]
    found = bleu.corpus_bleu(texts, [x["references"] for x in GOLD])
    # Every word is there: "a" in the second reference.
    assert found.precisions[0] == 1.0
    assert found.signature.startswith("nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp")


def test_scores_are_shares_with_signatures_that_are_reported(packages):
    gold = [{"id": "a", "references": ["The old mill stands in Ton."]}]
    found = bleu.score(gold, {"a": "the old mill stands in ton.", "z": "more"})
    assert found.metrics["bleu_uncased"] == 1.0 > found.metrics["bleu"] > 0
    assert found.surplus == ("z",) and found.count == 1
    assert "|case:lc|" in found.signatures["bleu_uncased"]
    said = found.report()
    assert "signature of bleu: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|" in said
    assert "bleu_uncased  100.00" in said


def test_compounds_are_cut_in_the_bleu_of_the_tokens_of_moses(packages):
    pytest.importorskip("sacremoses")
    text = "The rich-text format, isn't it? 3.5 %."
    want = "The rich ##AT##-##AT## text format , isn 't it ? 3.5 % ."
    assert bleu.moses_tokens(text, "de") == want.replace("isn 't", "isn ' t")
    assert bleu.moses_tokens(text, "en") == want.replace("isn 't", "isn 't")
    gold = [{"id": "a", "references": ["a b-c, d e f"]}]
    found = bleu.score(gold, {"a": "a b-x, d e f"}, language="de")
    # Of 8 tokens (a b AT x , d e f) 7 are there, of 7 pairs 5, of 6 runs of three 3,
    # of 5 of four 1.
    want = (7 / 8 * 5 / 7 * 3 / 6 * 1 / 5) ** (1 / 4)
    assert found.metrics["bleu_tokenised"] == pytest.approx(want)
    assert "|tok:none|" in found.signatures["bleu_tokenised"]
    assert found.metrics["bleu_tokenised"] != found.metrics["bleu"]


def test_a_text_that_was_not_written_shortens_the_corpus(packages):
    gold = [{"id": x, "references": ["one two three four five"]} for x in "ab"]
    found = bleu.score(gold, {"a": "one two three four five"})
    assert found.metrics["bleu"] == pytest.approx(math.exp(1 - 10 / 5))
    assert found.missing == {"text": ("b",)}


def test_rouge_takes_the_best_reference_of_each_type_by_itself(packages):
    # The worked example of SCROLLS, and one in which types differ in the reference.
    gold = [
        {"id": "a", "references": ["exact match example"]},
        {"id": "b", "references": ["hello", "hi there"]},
        {"id": "c", "references": ["commander kenobi"]},
    ]
    given = {"a": "exact match example", "b": "hello there", "c": "general kenobi"}
    found = rouge.score(gold, given).metrics
    want = {"rouge1": 72.2222, "rouge2": 33.3333, "rougeL": 72.2222}
    assert {k: round(100 * found[k], 4) for k in want} == want
    several = ["board approved", "the plan the board liked", "nothing"]
    got = rouge.best_f1("the board approved the plan", several)
    want = {"rouge1": 0.8, "rouge2": 0.5, "rougeL": 4 / 7}
    assert {k: got[k] for k in want} == pytest.approx(want)


def test_lines_are_sentences_for_rouge_lsum_alone(packages):
    text, reference = "b c\na", "a\nb c"
    lines, one_line = (
        rouge.best_f1(x, [y])
        for x, y in ((text, reference), (text.replace("\n", " "), "a b c"))
    )
    assert lines["rougeLsum"] == 1.0 and one_line["rougeLsum"] == pytest.approx(2 / 3)
    assert lines["rougeL"] == one_line["rougeL"] == pytest.approx(2 / 3)


def test_words_are_stemmed_where_it_is_asked_for(packages):
    gold = [{"id": "a", "references": ["the cat runs quick"]}]
    text = {"a": "cats are running quickly"}
    assert rouge.score(gold, text).metrics["rouge1"] == 0
    assert rouge.score(gold, text, stemmer=True).metrics["rouge1"] == 0.5


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize(
    "gold, given, message",
    [
        ([], {}, "gold: at least one record expected, got none"),
        ({"a": "b"}, {}, "gold: an array expected, got an object"),
        ([{"id": "a"}], {}, r"record 0 \(a\): no field 'references'"),
        (
            [{"id": "a", "references": []}],
            {},
            r"0 \(a\): at least one reference e",
        ),
        (
            [{"id": "a", "references": "x"}],
            {},
            "'references': an array expected, got",
        ),
        ([{"id": "a", "references": [3]}], {}, "text expected, got a whole number"),
        (GOLD, {"a": None}, "predictions, text of 'a': text expected, got null"),
        (GOLD, ["x", "y"], "predictions: an object expected, got an array"),
    ],
)
def test_bad_records_are_named(kind, gold, given, message):
    with pytest.raises(ValueError, match=message):
        SCORES[kind](gold, given)


@pytest.mark.parametrize(
    "texts, references, options, message",
    [
        ([], [], {}, "0 texts with references for 0; expected as many"),
        (["a"], [["a"], ["b"]], {}, "1 texts with references for 2"),
        (["a"], [[]], {}, r"references of text 0 are \[\]; expected a list"),
        (["a", "b"], ["a", "b"], {}, "references of text 0 are 'a'; expected a list"),
        (
            ["a"],
            [["a"]],
            {"tokenize": "14a"},
            "tokenize is '14a'; expected one of 13a, intl",
        ),
    ],
)
def test_bleu_without_what_it_needs_is_refused(texts, references, options, message):
    with pytest.raises(ValueError, match=message):
        bleu.corpus_bleu(texts, references, **options)


def test_rouge_without_references_is_refused():
    with pytest.raises(ValueError, match="references are 'a'; expected a list"):
        rouge.best_f1("a", "a")


@pytest.mark.parametrize(
    "kind, module, message",
    [
        ("bleu", "sacrebleu", "sacrebleu is needed to work out BLEU, and no module"),
        ("rouge", "rouge_score", "rouge_score is needed to work out ROUGE, and no"),
        ("rouge", "nltk", "rouge_score is needed .* no module 'nltk' is installed"),
    ],
)
def test_a_package_that_is_not_installed_is_named_with_its_extra(
    kind, module, message, monkeypatch
):
    if module == "nltk":
        pytest.importorskip("rouge_score")
    for name in list(sys.modules):
        if name.partition(".")[0] in ("sacrebleu", "rouge_score", module):
            monkeypatch.delitem(sys.modules, name)
    # None is what Python has for a module that is not to be found.
    monkeypatch.setitem(sys.modules, module, None)
    rouge._scorer.cache_clear()
    with pytest.raises(extras.MissingExtraError, match=message) as error:
        SCORES[kind](GOLD, {})
    assert str(error.value).endswith('pip install "etc_jax[metrics]"')
