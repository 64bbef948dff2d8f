"""The second half of the quickstart's report: questions over documents."""

import json
from collections.abc import Sequence
from typing import Any

from etc_jax.scoring import hotpotqa
from launch.quickstart_baseline import majority, without_names
from launch.quickstart_hotpotqa import RUNS, Finetuning
from launch.quickstart_report import Check, run_lines, table

# Joint F1 of the pre-trained model must be this much above the best constant guess.
JOINT_BAR = 0.05
CURVES = "finetuning.png"
_EXAMPLES = 3
_SHOWN = {"pretrained": "pre-trained", "from_scratch": "from scratch"}
_CONSTANT = "best constant guess"
_WITHOUT_NAMES = "reading without names"
_FIGURES = {
    "f1": "answer F1",
    "em": "answer EM",
    "sp_f1": "support F1",
    "sp_em": "support EM",
    "joint_f1": "joint F1",
}


def _records(half: Finetuning, split: str) -> list[dict[str, Any]]:
    return json.loads(half.raw(split).read_text("utf-8"))


def figures(half: Finetuning) -> dict[str, dict[str, float]]:
    """Official figures on the development records: of each run, and of guessing."""
    dev = _records(half, "dev")
    train = _records(half, "train")
    predicted = {
        _CONSTANT: majority(train, dev),
        _WITHOUT_NAMES: without_names(train, dev),
    }
    predicted |= {shown: half.predictions(name) for name, shown in _SHOWN.items()}
    return {
        name: dict(hotpotqa.score(dev, said).metrics)
        for name, said in predicted.items()
    }


def checks(half: Finetuning, found: dict[str, dict[str, float]]) -> list[Check]:
    """The bar of the second half.

    Args:
      half: ended.
      found: of `figures`.
    """
    guess = found[_CONSTANT]["joint_f1"]
    reached = found[_SHOWN["pretrained"]]["joint_f1"]
    records = half.scores("pretrained")["records"]
    return [
        Check(
            "questions over documents: joint F1 of answer and supporting sentences",
            f"at least {JOINT_BAR:.0%} above the best constant guess, {guess:.1%}",
            f"{reached:.1%} on {records} questions",
            reached - guess >= JOINT_BAR,
        )
    ]


def draw_curves(half: Finetuning) -> None:
    """Writes the picture of both runs' figures over the steps."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.5), layout="constrained")
    panels = (
        ("loss", "loss, nats"),
        ("support_f1", "what supports the answer: F1"),
        ("span_accuracy", "answers found to the token"),
    )
    for ax, (name, title) in zip(axes, panels, strict=True):
        for run, shown in _SHOWN.items():
            lines = half.workdir(run).metrics("eval")
            ax.plot([x["step"] for x in lines], [x[name] for x in lines], label=shown)
        ax.set(title=title, xlabel="step")
    axes[0].legend()
    figure.savefig(half.pretrained.folder / CURVES, dpi=100)
    pyplot.close(figure)


def section(half: Finetuning, found: dict[str, dict[str, float]]) -> str:
    """The part of the report about the second half, in Markdown.

    Args:
      half: ended.
      found: of `figures`.
    """
    rows = [
        (name, *(f"{values[figure]:.1%}" for figure in _FIGURES))
        for name, values in found.items()
    ]
    parts = (
        "## Questions over documents",
        _about(half),
        table(("", *_FIGURES.values()), rows),
        f"![both runs over the steps]({CURVES})",
        "### The first questions of the development file",
        *(_example(half, record) for record in _records(half, "dev")[:_EXAMPLES]),
        "### Runs",
        "\n".join(line for name in RUNS for line in _run(half, name)),
    )
    return "\n\n".join(parts)


def _about(half: Finetuning) -> str:
    config = half.workdir("pretrained").config()
    train, data = config["train"], config["data"]
    return (
        "The encoder is fine-tuned on questions over three documents. One of them says "
        "which other one has the answer, and the third leads astray. They are "
        "invented, in the raw format of HotpotQA, so that no name is known beforehand: "
        f"{half.records:,} for training, {half.dev_records:,} others for evaluation. "
        f"The same model without pre-training gets the same {train['num_steps']} steps "
        f"of {train['batch_size']} questions, of {data['long_length']} long and "
        f"{data['global_length']} global tokens. Evaluation is the official one of "
        "HotpotQA, with the threshold for supporting sentences that is best for each "
        "run. The best constant guess gives the most frequent answer, and sentences at "
        "the places that are most often right. Reading without names takes all "
        "sentences that say what is asked, of whatever document: only what is above it "
        "comes from following names."
    )


def _example(half: Finetuning, record: dict[str, Any]) -> str:
    gold = (record["answer"], record["supporting_facts"])
    lines = [f"*{record['question']}*", "", _said("right", gold, record)]
    for name, shown in _SHOWN.items():
        answers = half.predictions(name)
        key = record["_id"]
        lines.append(_said(shown, (answers["answer"][key], answers["sp"][key]), record))
    return "\n".join(lines)


def _said(who: str, said: tuple[str, Sequence], record: dict[str, Any]) -> str:
    answer, facts = said
    documents = dict(record["context"])
    reasons = [f"({title}) {documents[title][i].strip()}" for title, i in facts]
    return f"- {who}: **{answer or 'no answer'}**: {' '.join(reasons) or 'no reason'}"


def _run(half: Finetuning, name: str) -> list[str]:
    scores = half.scores(name)
    steps = f"step {scores['model']['step']}, threshold {scores['threshold']}"
    return [f"- {_SHOWN[name]}, {steps}", *run_lines(half.workdir(name))]
