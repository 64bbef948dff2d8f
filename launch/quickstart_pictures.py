"""The pictures of the quickstart's report: learning curves, and who sees whom."""

import pathlib

import numpy as np

from etc_jax.tasks.synthetic.teachers import TeachersSizes
from etc_jax.training.reporting.curves import draw_panels, figure
from launch.quickstart_questions import RUNS, SHOWN, Questions
from launch.quickstart_runs import Workdir

CURVES, QUESTIONS_CURVES, STRUCTURE = "curves.png", "questions.png", "structure.png"
# Metric -> title of its panel.
_PRETRAINING_PANELS = {
    "mlm_loss": "masked words: loss, nats",
    "cpc_loss": "masked sentences: loss, nats",
    "cpc_accuracy": "masked sentences found in the batch",
}
_QUESTION_PANELS = {"accuracy": "right answers", "loss": "loss, nats"}
_DOCUMENTS = TeachersSizes().contexts
# Kinds of pairs in the picture of the structure.
_KINDS = {
    "not seen": "white",
    "seen": "#e3e3e3",
    "neighbours, by distance": "#6baed6",
    "linked: unit and its words": "#35978f",
    "linked: person and mentions": "#d7191c",
}


def draw(workdir: Workdir, questions: Questions | None) -> None:
    """Writes all pictures of the report."""
    runs = {"training": workdir.metrics("train"), "validation": workdir.metrics("eval")}
    entropy = workdir.final_report()["unigram_entropy"]
    path = workdir.folder / CURVES
    draw_panels(_PRETRAINING_PANELS, runs, path, unigram_entropy=entropy)
    if questions is not None:
        runs = {SHOWN[x]: questions.workdir(x).metrics("eval") for x in RUNS}
        draw_panels(_QUESTION_PANELS, runs, workdir.folder / QUESTIONS_CURVES)
        _draw_structure(questions, workdir.folder / STRUCTURE)


def _draw_structure(questions: Questions, path: pathlib.Path) -> None:
    """Draws who sees whom in the first question, for both models."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    picture, every = figure(len(RUNS), 12, 7.8)
    colors = ListedColormap(list(_KINDS.values()))
    edges, names = _groups(questions.example("structured")["structure"])
    for ax, name in zip(every, RUNS, strict=True):
        batch, rules = questions.example(name), questions.rules(name)
        kinds = _kinds(batch["structure"], rules)
        ax.imshow(kinds, colors, vmin=0, vmax=len(_KINDS) - 1, interpolation="nearest")
        ax.set_title(f"{SHOWN[name]}: {np.mean(kinds > 0):.1%} of pairs are seen")
        middles = (edges[1:] + edges[:-1]) / 2
        ax.set_xticks(middles, names, rotation=90)
        ax.set_yticks(middles, names if ax is every[0] else [])
        ax.tick_params(length=0)
        for edge in edges[1:-1]:
            ax.axhline(edge, color="black", linewidth=0.4)
            ax.axvline(edge, color="black", linewidth=0.4)
    patches = [Patch(fc=c, ec="grey", label=kind) for kind, c in _KINDS.items()]
    picture.legend(handles=patches, loc="outside lower center", ncols=len(patches))
    picture.savefig(path, bbox_inches="tight")


def _real(structure) -> np.ndarray:
    """Which tokens are no padding, global ones first."""
    ids = (structure.global_example_ids[0], structure.long_example_ids[0])
    return np.concatenate(ids) > 0


def _kinds(structure, rules) -> np.ndarray:
    """Number of each pair's kind in `_KINDS`, for the tokens that are no padding."""
    from etc_jax.cli import drawing

    n, g = structure.long_length, structure.global_length
    labels = drawing.label_matrix(structure, rules, n, g)
    kinds = np.where(labels == drawing.UNSEEN, 0, 1)
    kinds[(labels >= 0) & (labels <= 2 * rules.max_distance)] = 2
    kinds[labels == rules.linked_label] = 3
    mentions = structure.links[0, :, 2:]  # none if flat
    for token, column in zip(*np.nonzero(mentions >= 0), strict=True):
        person = mentions[token, column]
        kinds[person, g + token] = kinds[g + token, person] = 4
    real = _real(structure)
    return kinds[real][:, real]


def _groups(structure) -> tuple[np.ndarray, list[str]]:
    """Where the parts of an input begin and end in the picture, and their names."""
    groups = np.concatenate([structure.order_ids[0], structure.long_segment_ids[0]])
    groups = groups[_real(structure)]
    num_globals = int(np.sum(structure.global_example_ids[0] > 0))
    # One group for each person, then the question, then one for each document.
    persons = int(groups.max()) - 1 - _DOCUMENTS
    parts = np.clip(groups - persons, 0, None)
    parts[:num_globals] = np.minimum(parts[:num_globals], 2)
    starts = np.flatnonzero(np.diff(parts)) + 1
    edges = np.array([0, *starts, len(parts)]) - 0.5
    names = ["persons", "question", "documents"]
    names += ["persons", "question", *(f"document {i + 1}" for i in range(_DOCUMENTS))]
    names = [f"global: {x}" if i < 3 else x for i, x in enumerate(names)]
    return edges, names
