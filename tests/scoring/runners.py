"""Golden case -> largest difference between its figures and ours."""

import math

import pytest
from golden_tokenizers import BERT_MASK, FOLDERS, open_golden

from etc_jax.scoring import (
    bleu,
    choices,
    classification,
    coreference,
    hotpotqa,
    natural_questions,
    qasper,
    rouge,
    scrolls,
    squad,
    triviaqa,
    wikihop,
)
from etc_jax.scoring.bits import bits_per_symbol
from scoring import openkp_goldens


def largest_difference(got: dict[str, float], want: dict[str, float]) -> float:
    """Over all figures wanted, each of which must be there."""
    assert want and set(want) <= set(got), f"figures {set(want) - set(got)} are lacking"
    return max(abs(got[name] - value) for name, value in want.items())


def run_hotpotqa(case: dict) -> float:
    metrics = hotpotqa.score(case["gold"], case["pred"]).metrics
    return largest_difference(dict(metrics), case["official"])


def run_natural_questions(case: dict) -> float:
    predictions = {"predictions": case["predictions"]}
    found = natural_questions.official_metrics(case["gold"], predictions)
    want = dict(case["official"])
    return largest_difference(found, want | want.pop("unthresholded", {}))


def _percent(found, case: dict) -> float:
    """The figures that ours have, which the official scripts give in per cent."""
    want = {name: case["official"][name] / 100 for name in found.metrics}
    return largest_difference(dict(found.metrics), want)


def run_squad(case: dict) -> float:
    return _percent(squad.score(case["data"], case["predictions"]), case)


def run_triviaqa(case: dict) -> float:
    truths = {
        key: triviaqa.answer_names(answer, key)
        for key, answer in case["ground_truth"].items()
    }
    return _percent(triviaqa.score(truths, case["predictions"]), case)


def run_coreference(case: dict) -> float:
    """Sums and figures of all three metrics, and their mean."""
    gold, given = (
        {x["doc"]: x["clusters"] for x in case[side]} for side in ("gold", "pred")
    )
    official = case["official"]
    worst = largest_difference(
        dict(coreference.score(gold, given).metrics),
        {"conll_f1": official["conll_f1"] / 100},
    )
    names = {"muc": "muc", "b_cubed": "bcub", "ceaf_e": "ceafe"}
    for name, found in coreference.agreements(gold, given).items():
        got = {"f1": found.f1}
        for side in ("recall", "precision"):
            ratio = getattr(found, side)
            got |= {
                side: ratio.value,
                f"{side}_num": ratio.numerator,
                f"{side}_den": ratio.denominator,
            }
        want = {key: official[names[name]][key] for key in got}
        worst = max(worst, largest_difference(got, want))
    return worst


def run_classification(case: dict) -> float:
    gold, given = (dict(enumerate(case[side])) for side in ("gold", "pred"))
    want = {"accuracy": case["accuracy"], "f1": case["f1_positive"]}
    return largest_difference(dict(classification.score(gold, given).metrics), want)


def run_bits(case: dict) -> float:
    nats = case["nll_nats"]
    got = {
        "bpc_all": bits_per_symbol(nats),
        "bpc_scored": bits_per_symbol(nats, case["scored"]),
    }
    for name in case:
        if name.startswith("uniform_"):
            got[name] = bits_per_symbol([math.log(int(name.split("_")[1]))])
    return largest_difference(got, {name: case[name] for name in got})


def _wikihop_metrics(items: list[dict]) -> dict[str, float]:
    gold = [{"id": item["id"], "answer": item["answer"]} for item in items]
    given = {
        item["id"]: item["prediction"]
        for item in items
        if item.get("prediction") is not None
    }
    return dict(wikihop.score(gold, given).metrics)


def run_wikihop(case: dict) -> float:
    want = {"accuracy": float(case["correct"])}
    return largest_difference(_wikihop_metrics([case]), want)


def run_wikihop_accuracy(description: dict) -> float:
    want = {k: v for k, v in description.items() if k not in ("cases", "source")}
    return largest_difference(_wikihop_metrics(description["cases"]), want)


def run_quality(description: dict) -> float:
    items = list(enumerate(description["items"]))
    gold = [
        {"id": str(i), "label": x["gold_label"], "hard": bool(x["difficult"])}
        for i, x in items
    ]
    scores = choices.score(gold, {str(i): x["pred"] for i, x in items})
    want = {name: description[name] for name in ("accuracy", "hard_accuracy")}
    return largest_difference(dict(scores.metrics), want)


_BLEU = {
    "default_13a": {},
    "lowercase": {"lowercase": True},
    "tok_none_force": {"tokenize": "none"},
    "intl": {"tokenize": "intl"},
}


def run_bleu(case: dict) -> float:
    """Figures of four settings; their signatures, whatever the version, are equal."""
    pytest.importorskip("sacrebleu")
    references, worst = list(zip(*case["refs"], strict=True)), 0.0
    for name, options in _BLEU.items():
        found, want = bleu.corpus_bleu(case["hyp"], references, **options), case[name]
        got = {"score": found.score, "bp": found.brevity_penalty}
        got |= {"sys_len": found.length, "ref_len": found.reference_length}
        figures = {key: want[key] for key in got} | {"score": want["score"] / 100}
        worst = max(worst, largest_difference(got, figures))
        for ours, percent in zip(found.precisions, want["precisions"], strict=True):
            worst = max(worst, abs(ours - percent / 100))
        signatures = (x.split("|version:")[0] for x in (found[-1], want["signature"]))
        assert len(set(signatures)) == 1, found.signature
    return worst


def run_rouge(case: dict) -> float:
    """Precision, recall and F1 of all types, with stemmer and without."""
    pytest.importorskip("rouge_score")
    worst = 0.0
    for name, stemmer in (("stemmer", True), ("no_stemmer", False)):
        found = rouge.overlaps(case["pred"], case["ref"], stemmer=stemmer)
        assert found.keys() == case[name].keys()
        for kind, want in case[name].items():
            got = {"p": found[kind].precision, "r": found[kind].recall}
            got["f"] = found[kind].f1
            worst = max(worst, largest_difference(got, want))
    return worst


def run_qasper(case: dict) -> float:
    scores = qasper.score(
        case["gold"],
        case["predictions"],
        text_evidence_only=case["text_evidence_only"],
    )
    official = case["official"]
    want = {"answer_f1": official["Answer F1"], "evidence_f1": official["Evidence F1"]}
    for name, value in official["Answer F1 by type"].items():
        want[f"answer_f1_{name}"] = value
    assert len(scores.missing["answer"]) == official["Missing predictions"]
    return largest_difference(dict(scores.metrics), want)


def run_scrolls(case: dict) -> float:
    pytest.importorskip("rouge_score")
    return largest_difference(
        scrolls.official_metrics(case["task"], case["predictions"], case["references"]),
        case["expected"],
    )


def run_scrolls_average(description: dict) -> float:
    case = description["benchmark_average"]
    return abs(scrolls.average(case["per_task"]) - case["expected"])


def run_tokenizers(case: dict) -> float:
    """Ids are equal: there is no difference to speak of."""
    for kind in FOLDERS:
        want = case[kind]["ids"]
        if kind == "bert" and BERT_MASK in want:
            assert "[MASK]" in case["text"]
            continue
        ((ids, _),) = open_golden(kind).encode_batch([case["text"]])
        assert ids.tolist() == want, kind
    return 0.0


RUNNERS = {
    "bleu": run_bleu,
    "bpc": run_bits,
    "classification": run_classification,
    "coref": run_coreference,
    "hotpotqa": run_hotpotqa,
    "natural_questions": run_natural_questions,
    "openkp": openkp_goldens.run,
    "qasper": run_qasper,
    "quality": run_quality,
    "rouge": run_rouge,
    "scrolls": run_scrolls,
    "scrolls average": run_scrolls_average,
    "squad": run_squad,
    "tokenizers": run_tokenizers,
    "triviaqa": run_triviaqa,
    "wikihop": run_wikihop,
    "wikihop accuracy": run_wikihop_accuracy,
}
