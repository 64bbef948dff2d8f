"""The report of a quickstart run: what it was to show, and what came out."""

import dataclasses
import importlib.metadata
import os
import platform
import shlex
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.kit import machine
from etc_jax.training.errors import PREEMPTED
from launch.quickstart_pictures import CURVES, QUESTIONS_CURVES, STRUCTURE
from launch.quickstart_questions import COUNTS, RUNS, SHOWN, Questions
from launch.quickstart_runs import Workdir, digest

# Validation MLM loss must be this much below the unigram entropy of the same text.
MLM_BAR_NATS = 0.7
# CPC must find its sentence in the pool so often, and so rarely among shuffled ones.
CPC_BAR = 0.04
SHUFFLED_BAR = 0.01
POOL_DOCUMENTS = 20
# Of questions, the model with structure must answer so many, and so many more.
ACCURACY_BAR, LEAD_BAR = 0.9, 0.4
_PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


@dataclasses.dataclass(frozen=True)
class Check:
    """One thing that the quickstart is to show: what it is, the bar, what came out."""

    name: str
    bar: str
    measured: str
    passed: bool


def checks(workdir: Workdir, questions: Questions | None) -> list[Check]:
    """The bars of a finished run, and whether it was resumed as it should be."""
    scores, evaluation = workdir.final_report(), workdir.metrics("eval")[-1]
    loss, entropy = evaluation["mlm_loss"], scores["unigram_entropy"]
    found, chance = scores["cpc_pool_top1"], scores["cpc_pool_chance"]
    shuffled = scores["cpc_pool_shuffled_top1"]
    documents = scores["cpc_pool_documents"]
    problems = resume_problems(workdir)
    stops = [x.saved_step for x in workdir.launches() if x.exit_code == PREEMPTED]
    made = [
        Check(
            "masked words: MLM loss on validation documents",
            f"at least {MLM_BAR_NATS} nats below the unigram entropy, {entropy:.3f}",
            f"{loss:.3f}, which is {entropy - loss:.3f} below",
            entropy - loss >= MLM_BAR_NATS,
        ),
        Check(
            "masked sentences: CPC finds the right one among "
            f"{scores['cpc_pool_sentences']} of validation documents",
            f"at least {CPC_BAR:.0%} (chance: {chance:.2%}), from {POOL_DOCUMENTS} "
            "documents or more",
            f"{found:.2%}, {found / chance:.1f} times chance; {documents} documents",
            found >= CPC_BAR and documents >= POOL_DOCUMENTS,
        ),
        Check(
            "the same with the targets in another order, a check of the metric",
            f"at most {SHUFFLED_BAR:.0%}",
            f"{shuffled:.2%}",
            shuffled <= SHUFFLED_BAR,
        ),
        Check(
            "stopped by SIGTERM and resumed",
            "training goes on where it was stopped, no step is missing or done twice",
            "; ".join(problems)
            or f"stopped at step {', '.join(map(str, stops))}, went on from there",
            not problems,
        ),
    ]
    return made if questions is None else [*made, _question_check(questions)]


def _question_check(questions: Questions) -> Check:
    structured, flat = (questions.accuracy(name) for name in RUNS)
    return Check(
        "questions over documents: right answers",
        f"at least {ACCURACY_BAR:.0%} with structure, and {100 * LEAD_BAR:.0f} points "
        "more than flat",
        f"{structured:.1%} with structure, {flat:.1%} flat",
        structured >= ACCURACY_BAR and structured - flat >= LEAD_BAR,
    )


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
    """The model, the text and the machine of a finished run, for the report."""
    import jax  # not before: on an accelerator it would take memory from the run

    from etc_jax import config as config_lib
    from etc_jax.objectives.jobs.pretraining_data import prepare
    from etc_jax.objectives.pretraining import Pretraining

    config = config_lib.from_config_dict(workdir.config())
    shapes = jax.eval_shape(
        Pretraining(config.model, config.objective).init, jax.random.key(0)
    )
    text = prepare(config.data, workdir.folder)
    train, validation = text.train[0], text.validation
    return {
        "parameters": sum(x.size for x in jax.tree.leaves(shapes)),
        "documents": train.num_documents,
        "tokens": train.num_tokens,
        "validation_documents": validation.num_documents,
        "validation_tokens": validation.num_tokens,
        "device": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
        "cpu": machine.cpu_name(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "versions": {"python": platform.python_version()}
        | {package: importlib.metadata.version(package) for package in _PACKAGES},
    }


# --- text -----------------------------------------------------------------------------


def summary(done: Sequence[Check]) -> str:
    """What was measured, a line each, for the end of the command."""
    lines = [f"quickstart of etc_jax: {_verdict(done)}"]
    for check in done:
        mark = "ok" if check.passed else f"FAILED, the bar: {check.bar}"
        lines.append(f"- {check.name}: {check.measured} [{mark}]")
    return "\n".join(lines)


def _verdict(done: Sequence[Check]) -> str:
    return "passed" if all(check.passed for check in done) else "FAILED"


def report(workdir: Workdir, questions: Questions | None, done: Sequence[Check]) -> str:
    """The report of a finished run, in Markdown, for someone new to the project.

    Args:
      workdir: of pre-training.
      questions: what came after it; None: nothing.
      done: all that was checked.
    """
    rows = [(c.name, c.bar, c.measured, "yes" if c.passed else "**no**") for c in done]
    parts = [
        f"# Quickstart of etc_jax: {_verdict(done)}",
        table(("", "bar", "measured", "holds"), rows),
        *(_questions(questions) if questions is not None else ()),
        "## Pre-training",
        _about(workdir),
        f"![losses and CPC accuracy over the steps]({CURVES})",
        "## Run",
        _run(workdir, questions),
    ]
    if questions is not None:
        parts += ["The commands of the questions:", _commands(questions)]
    return "\n\n".join(parts) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _questions(questions: Questions) -> list[str]:
    config = questions.workdir("structured").config()
    model, train = config["model"], config["train"]
    rows = [(SHOWN[name], f"{questions.accuracy(name):.1%}") for name in RUNS]
    folder = questions.folder.name
    return [
        "## What structure is worth",
        "Four documents, one question: who taught somebody? Two models choose one of "
        f"four persons. Both have {model['num_layers']} layers of width "
        f"{model['embed_dim']}, start from the same random parameters, and see the "
        f"same {COUNTS['train']:,} invented questions once, {train['batch_size']} a "
        "step. One is given the structure of its input: which words belong to which "
        "sentence and document, and which words mention which person. The flat one "
        "reads the same tokens as one text with sentences.",
        table(("", "right answers"), [*rows, ("by chance", "25.0%")]),
        f"This is the official accuracy of WikiHop on {COUNTS['dev']} other questions.",
        f"![accuracy and loss over the steps]({QUESTIONS_CURVES})",
        "Who sees whom in the first question: a row is a token that attends, a column "
        "one that it attends to. White: it may not, and long inputs never compute such "
        "pairs (for inputs as short as these the dense form is quicker). Each token "
        "sees its neighbours and all global tokens. A global token sees the words of "
        "its own sentence; with structure, those of the persons and the question see "
        "all words, under a label of their own where a word mentions the person (red).",
        f"![who sees whom, with structure and flat]({STRUCTURE})",
        f"The first questions. [Their documents]({folder}/{questions.page.name}), with "
        "the answers of the model with structure marked:",
        table(
            ("question", "right answer", *SHOWN.values()),
            [_example(questions, record) for record in questions.records()],
        ),
    ]


def _example(questions: Questions, record: dict[str, Any]) -> tuple[str, ...]:
    answers = [questions.predictions(name)[record["id"]] for name in RUNS]
    return (record["query"], record["answer"], *answers)


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
        f"{known['validation_documents']:,} more documents "
        f"({known['validation_tokens']:,} tokens) were kept for validation.\n\n"
        "Two things are learned at once: to fill in masked words (MLM), and, where a "
        "whole sentence is masked, to predict its summary so well that it can be "
        "picked out of many (CPC). Losses are in nats. The unigram entropy is the loss "
        "of the best guess that knows how often each token occurs and nothing of its "
        "surroundings."
    )


def _run(workdir: Workdir, questions: Questions | None) -> str:
    known = workdir.record()["facts"]
    versions = ", ".join(f"{k} {v}" for k, v in known["versions"].items())
    runs = {"pre-training": workdir}
    if questions is not None:
        runs |= {f"questions, {SHOWN[x]}": questions.workdir(x) for x in RUNS}
    head = ("run", "exit codes", "minutes with compiling", "tokens/s, median")
    return (
        f"{table(head, [_run_row(*run) for run in runs.items()])}\n\n"
        f"Hardware: {known['device']}; {known['cpu']}, {known['cores']} cores; "
        f"{known['system']}. Versions: {versions}."
    )


def _run_row(name: str, workdir: Workdir) -> tuple[str, ...]:
    launches = workdir.launches()
    codes = ", ".join(f"{x.exit_code} at step {x.saved_step}" for x in launches)
    minutes = sum(x.secs for x in launches) / 60
    speed = statistics.median(x["tokens_per_s"] for x in workdir.metrics("train"))
    return (name, codes, f"{minutes:.1f}", f"{speed:,.0f}")


def _commands(questions: Questions) -> str:
    lines = [" ".join(["python", *map(_quoted, x[1:])]) for x in questions.commands()]
    return "\n".join(["```", *lines, "```"])


def _quoted(argument: str) -> str:
    return f'"{argument}"' if "'" in argument else shlex.quote(argument)
