"""Golden case -> largest difference between its figures and ours."""

from data.golden_tokenizers import BERT_MASK, FOLDERS, open_golden

from etc_jax.scoring import hotpotqa, natural_questions, wikihop
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
    found = natural_questions.figures(case["gold"], predictions)
    want = dict(case["official"])
    return largest_difference(found, want | want.pop("unthresholded", {}))


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
    "hotpotqa": run_hotpotqa,
    "natural_questions": run_natural_questions,
    "openkp": openkp_goldens.run,
    "tokenizers": run_tokenizers,
    "wikihop": run_wikihop,
    "wikihop accuracy": run_wikihop_accuracy,
}

# Kinds whose data sets do not exist here yet. A kind leaves this list when it gets a
# runner.
NOT_BUILT = frozenset(
    {
        "bleu",
        "bpc",
        "classification",
        "coref",
        "qasper",
        "quality",
        "rouge",
        "scrolls",
        "scrolls average",
        "squad",
        "triviaqa",
    }
)
