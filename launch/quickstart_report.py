"""The report of a quickstart run: what it was to show, and what came out."""

import dataclasses
import importlib.metadata
import os
import pathlib
import platform
import statistics
from collections.abc import Sequence
from typing import Any

from etc_jax.training.errors import PREEMPTED
from launch.quickstart_record import Workdir, digest

# Held-back MLM loss must be this much below the unigram entropy of the same text.
MLM_BAR_NATS = 0.7
# CPC must find its sentence in the pool so often, and so rarely among shuffled ones.
CPC_BAR = 0.04
SHUFFLED_BAR = 0.01
POOL_DOCUMENTS = 20
CURVES, ATTENTION = "curves.png", "attention.png"
_PICTURE_TOKENS = 48
_PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


@dataclasses.dataclass(frozen=True)
class Check:
    """One thing that the quickstart is to show: what it is, the bar, what came out."""

    name: str
    bar: str
    measured: str
    passed: bool


def checks(workdir: Workdir) -> list[Check]:
    """The bars of a finished run, and whether it was resumed as it should be."""
    figures, evaluation = workdir.final_report(), workdir.metrics("eval")[-1]
    loss, entropy = evaluation["mlm_loss"], figures["unigram_entropy"]
    found, chance = figures["cpc_pool_top1"], figures["cpc_pool_chance"]
    shuffled = figures["cpc_pool_shuffled_top1"]
    documents = figures["cpc_pool_documents"]
    problems = resume_problems(workdir)
    stops = [x.saved_step for x in workdir.launches() if x.exit_code == PREEMPTED]
    return [
        Check(
            "masked words: MLM loss on held-back documents",
            f"at least {MLM_BAR_NATS} nats below the unigram entropy, {entropy:.3f}",
            f"{loss:.3f}, which is {entropy - loss:.3f} below",
            entropy - loss >= MLM_BAR_NATS,
        ),
        Check(
            "masked sentences: CPC finds the right one among "
            f"{figures['cpc_pool_sentences']} of held-back documents",
            f"at least {CPC_BAR:.0%} (chance: {chance:.2%}), from {POOL_DOCUMENTS} "
            "documents or more",
            f"{found:.2%}, {found / chance:.1f} times chance; {documents} documents",
            found >= CPC_BAR and documents >= POOL_DOCUMENTS,
        ),
        Check(
            "the same against targets in other orders, a check of the measure",
            f"at most {SHUFFLED_BAR:.0%}",
            f"{shuffled:.2%}",
            shuffled <= SHUFFLED_BAR,
        ),
        Check(
            "stopped by SIGTERM and resumed",
            "the record of steps goes on where it was stopped, none missing, none "
            "twice",
            "; ".join(problems)
            or f"stopped at step {', '.join(map(str, stops))}, went on from there",
            not problems,
        ),
    ]


def resume_problems(workdir: Workdir) -> list[str]:
    """What shows that the run was not stopped and resumed as it should be."""
    launches, lines = workdir.launches(), workdir.metrics_text()
    if not any(launch.stopped_half_way for launch in launches):
        return ["no stop half-way is on record; choose another --workdir to train anew"]
    problems = []
    for launch in launches:
        kept = lines[: launch.metrics_lines]
        if launch.exit_code == PREEMPTED and digest(kept) != launch.metrics_sha256:
            problems.append(
                f"metrics of before the stop at step {launch.saved_step} have changed: "
                "the run went back"
            )
    config = workdir.config()["train"]
    every, total = config["log_every_steps"], config["num_steps"]
    steps = [line["step"] for line in workdir.metrics("train")]
    expected = sorted({*range(every, total + 1, every), total})
    if steps != expected:
        missing, extra = sorted(set(expected) - set(steps)), list(steps)
        for step in set(expected).intersection(steps):
            extra.remove(step)
        problems.append(f"steps on record: missing {missing}, too many {extra}")
    return problems


def facts(workdir: Workdir) -> dict[str, Any]:
    """What a report says of the model, the text and the machine of a run that ended.

    Writes the picture of the attention into the folder.
    """
    import jax  # not before: on an accelerator it would take memory from the run

    from etc_jax import config as config_lib
    from etc_jax.objectives.pretraining import Pretraining
    from etc_jax.objectives.pretraining_data import prepare

    config = config_lib.from_config_dict(workdir.config())
    shapes = jax.eval_shape(
        Pretraining(config.model, config.objective).init, jax.random.key(0)
    )
    text = prepare(config.data, workdir.folder)
    train, held_back = text.train[0], text.held_back
    return {
        "parameters": sum(x.size for x in jax.tree.leaves(shapes)),
        "documents": train.num_documents,
        "tokens": train.num_tokens,
        "held_back_documents": held_back.num_documents,
        "held_back_tokens": held_back.num_tokens,
        "picture": _draw_attention(text, config, workdir.folder / ATTENTION),
        "device": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "versions": {"python": platform.python_version()}
        | {package: importlib.metadata.version(package) for package in _PACKAGES},
    }


def _draw_attention(text, config, path: pathlib.Path) -> list[str]:
    """Draws the first sentences of a held-back document; returns them as text."""
    from etc_jax import drawing, inspect

    start = inspect.first_sentences(text.held_back, text.tokenizer, _PICTURE_TOKENS)
    names = (start.tokens, start.globals)
    drawing.draw(start.structure, config.model.rules, *names, path)
    return [" ".join(sentence) for sentence in start.sentences]


def draw_curves(workdir: Workdir) -> None:
    """Writes the picture of the losses and of CPC's accuracy over the steps."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    train, held_back = workdir.metrics("train"), workdir.metrics("eval")
    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.5), layout="constrained")
    panels = (
        ("mlm_loss", "masked words: loss, nats"),
        ("cpc_loss", "masked sentences: loss, nats"),
        ("cpc_accuracy", "masked sentences found in the batch"),
    )
    for ax, (name, title) in zip(axes, panels, strict=True):
        for lines, label in ((train, "training"), (held_back, "held back")):
            ax.plot([x["step"] for x in lines], [x[name] for x in lines], label=label)
        ax.set(title=title, xlabel="step")
    axes[0].axhline(
        workdir.final_report()["unigram_entropy"],
        color="grey",
        linestyle="--",
        label="unigram entropy",
    )
    axes[0].legend()
    figure.savefig(workdir.folder / CURVES, dpi=100)
    pyplot.close(figure)


def _cpu_name() -> str:
    info = pathlib.Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def report(workdir: Workdir, done: Sequence[Check], more: str = "") -> str:
    """The report of a finished run, in Markdown, for someone new to the project.

    Args:
      workdir: of pre-training.
      done: all that was checked.
      more: sections on what came after it.
    """
    passed = all(check.passed for check in done)
    rows = [(c.name, c.bar, c.measured, "yes" if c.passed else "**no**") for c in done]
    parts = (
        f"# Quickstart of etc_jax: {'passed' if passed else 'FAILED'}",
        _about(workdir),
        table(("", "bar", "measured", "holds"), rows),
        "The unigram entropy is the loss of the best guess that knows how often each "
        "token occurs and nothing of its surroundings. Losses are in nats.",
        f"![losses and CPC accuracy over the steps]({CURVES})",
        "## Held-back documents while training",
        _curve(workdir),
        "## What the model sees",
        f"![who sees whom, under which label]({ATTENTION})",
        _about_picture(workdir),
        "## Run",
        _run(workdir),
        more,
    )
    return "\n\n".join(filter(None, parts)) + "\n"


def _about(workdir: Workdir) -> str:
    config, known = workdir.config(), workdir.record()["facts"]
    model, data, run = config["model"], config["data"], config["train"]
    return (
        f"An ETC encoder (Ainslie et al. 2020) of {known['parameters']:,} parameters "
        f"({model['num_layers']} layers of width {model['embed_dim']}, "
        f"{model['radius']} tokens visible on each side) was trained from nothing for "
        f"{run['num_steps']} steps of {run['batch_size']} x {data['long_length']} "
        "tokens, with one global token a sentence. The text is the documentation that "
        f"Python and its packages bring: {known['documents']:,} documents, "
        f"{known['tokens']:,} tokens; "
        f"{known['held_back_documents']:,} more documents "
        f"({known['held_back_tokens']:,} tokens) were held back for evaluation.\n\n"
        "Two things are learnt at once: to fill in masked words (MLM), and, where a "
        "whole sentence is masked, to foresee its summary so well that it is told from "
        "those of other sentences (CPC)."
    )


def _about_picture(workdir: Workdir) -> str:
    sentences = workdir.record()["facts"]["picture"]
    rows = [(f"g{i}", sentence) for i, sentence in enumerate(sentences)]
    return (
        "The first sentences of a held-back document. A row is a token that looks, a "
        "column one that it sees; white: it may not. Global tokens g0, g1, ... stand "
        "for the sentences: they see each other and the words of their own sentence, "
        "while every word sees its neighbours and all global tokens. A colour is a "
        "relative-position label.\n\n" + table(("global token", "sentence"), rows)
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _curve(workdir: Workdir) -> str:
    rows = [
        (
            str(line["step"]),
            f"{line['mlm_loss']:.3f}",
            f"{line['mlm_accuracy']:.1%}",
            f"{line['cpc_accuracy']:.1%}",
        )
        for line in workdir.metrics("eval")
    ]
    batches = workdir.config()["train"]["eval_steps"]
    which = "All batches" if batches is None else f"The first {batches} batches"
    head = ("step", "MLM loss", "MLM accuracy", "CPC accuracy")
    return (
        f"{table(head, rows)}\n\n{which} of the held-back documents. This CPC "
        "accuracy is among the masked sentences of one batch, fewer than in the pool "
        "above."
    )


def run_lines(workdir: Workdir) -> list[str]:
    """The launches of a run, its time and its speed, a line each."""
    launches = workdir.launches()
    speeds = [line["tokens_per_s"] for line in workdir.metrics("train")]
    lines = []
    for number, launch in enumerate(launches, 1):
        why = f", stopped: {launch.stopped_by}" if launch.stopped_by else ""
        lines.append(
            f"- launch {number}: exit code {launch.exit_code}{why}, saved step "
            f"{launch.saved_step}, {launch.secs:.0f} s"
        )
    return [
        *lines,
        f"- wall time: {sum(x.secs for x in launches) / 60:.1f} minutes, reading the "
        "data and compiling included",
        f"- speed: {statistics.median(speeds):,.0f} tokens/s (median of the logged "
        "intervals, padding counted)",
    ]


def _run(workdir: Workdir) -> str:
    known = workdir.record()["facts"]
    versions = ", ".join(f"{k} {v}" for k, v in known["versions"].items())
    lines = [
        *run_lines(workdir),
        f"- hardware: {known['device']}; {known['cpu']}, {known['cores']} cores; "
        f"{known['system']}",
        f"- versions: {versions}",
    ]
    return "\n".join(lines)
