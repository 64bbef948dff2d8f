"""A picture of who sees whom, under which label (figures 2 and 3 of the ETC paper)."""

import io
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.ops.attention.parts import global_local_dense
from etc_jax.structure import ExplicitStructure, Rules, Structure

UNSEEN = -1
# Tokens whose names still fit on the axes, and tokens whose pairs still fit in memory.
MAX_NAMED = 60
MAX_DRAWN = 4096
# Distances with more steps than this are shortened in the legend.
_MAX_LISTED_DISTANCE = 4

_SAME = "#1a1a2e"
_RIGHT = ("#b2182b", "#fddbc7")  # near, far
_LEFT = ("#2166ac", "#d1e5f0")
_UNLINKED, _LINKED, _OTHER_ORDER = "#e3e3e3", "#35978f", "#dfc27d"
_MORE = ("#762a83", "#af8dc3", "#1b7837", "#7fbf7b", "#8c510a")


def label_matrix(
    structure: Structure | ExplicitStructure, rules: Rules, n: int, g: int
) -> np.ndarray:
    """The label of every pair, `[g + n, g + n]`, global tokens first.

    Args:
      structure: of one input, without batch dimension (or a batch of one).
      rules: the rules that it is read with.
      n: number of long tokens.
      g: number of global tokens.

    Returns:
      int labels; 0 for every visible pair without labels; `UNSEEN` where row may not
      see column.

    Raises:
      ValueError: if the structure holds several inputs.
    """
    pairs = global_local_dense.pair_matrices(structure, rules, n, g)

    def block(piece: str, rows: int, columns: int) -> np.ndarray:
        mask, label = pairs[piece]
        out = np.where(mask, 0 if label is None else label, UNSEEN)
        if out.size != rows * columns:
            raise ValueError(
                f"{piece} pairs have shape {out.shape}, expected those of one input, "
                f"{(rows, columns)}; take one example of a batch"
            )
        return out.reshape(rows, columns)

    top = [block("g2g", g, g), block("g2l", g, n)]
    bottom = [block("l2g", n, g), block("l2l", n, n)]
    return np.block([top, bottom])


def label_names(rules: Rules) -> dict[int, str]:
    """What each label means, in the order of a legend; `{0: "may see"}` without labels.

    Several meanings of one label are joined.
    """
    k = rules.max_distance
    if not k:
        return {0: "may see"}
    names = {0: "distance 0"}
    for first, sign in ((1, "+"), (k + 1, "\u2212")):
        for d in range(1, k + 1):
            beyond = " and beyond" if d == k else ""
            names[first + d - 1] = f"distance {sign}{d}{beyond}"
    names[rules.unlinked_label] = "not linked"
    for label, columns in _linked(rules).items():
        plain = label == rules.linked_label
        _add(names, label, "linked" if plain else "linked: " + ", ".join(columns))
    _add(names, rules.other_order_label, "other order")
    for label, name in zip(
        rules.parent_labels or (), ("to its parent", "to its child"), strict=False
    ):
        _add(names, label, name)
    return names


def _linked(rules: Rules) -> dict[int, list[str]]:
    names: dict[int, list[str]] = {}
    for column, link in enumerate(rules.links):
        names.setdefault(rules.link_label(column), []).append(link.name)
    return names


def _add(names: dict[int, str], label: int, name: str) -> None:
    names[label] = f"{names[label]}; {name}" if label in names else name


def label_colors(rules: Rules) -> dict[int, Any]:
    """A colour for each label of `label_names`: red right, blue left, pale is far."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    k = rules.max_distance
    names = label_names(rules)
    if not k:
        return {0: to_rgb(_LINKED)}
    colors = {0: to_rgb(_SAME)}
    for first, ends in ((1, _RIGHT), (k + 1, _LEFT)):
        shades = LinearSegmentedColormap.from_list("shades", ends)
        for d in range(k):
            colors[first + d] = shades(d / max(k - 1, 1))[:3]
    colors[rules.unlinked_label] = to_rgb(_UNLINKED)
    colors[rules.linked_label] = to_rgb(_LINKED)
    colors[rules.other_order_label] = to_rgb(_OTHER_ORDER)
    extra = [label for label in names if label not in colors]
    for i, label in enumerate(extra):
        colors[label] = to_rgb(_MORE[i % len(_MORE)])
    return colors


def image(matrix: np.ndarray, colors: Mapping[int, Any]) -> np.ndarray:
    """Labels `[rows, columns]` -> colours `[rows, columns, 3]`; unseen is white.

    Raises:
      ValueError: if a label has no colour.
    """
    out = np.ones((*matrix.shape, 3))
    for label in np.unique(matrix):
        if label == UNSEEN:
            continue
        if label not in colors:
            raise ValueError(
                f"label {label} is none of the rules' labels {sorted(colors)}; give "
                "rules with the max_distance that the labels were made for"
            )
        out[matrix == label] = colors[label]
    return out


def draw(
    structure: Structure | ExplicitStructure,
    rules: Rules,
    tokens: Sequence[str],
    globals: Sequence[str],
    path: str,
) -> np.ndarray:
    """Draws who sees whom and writes it to a file.

    A row is the token that looks, a column the token that is seen; global tokens come
    first. White: may not see. Colour: the label.

    Args:
      structure: of one input, without batch dimension.
      rules: the rules that it is read with.
      tokens: names of the long tokens, n of them.
      globals: names of the global tokens, g of them.
      path: file to write; its ending says the format.

    Returns:
      The labels drawn; see `label_matrix`.

    Raises:
      ImportError: if matplotlib is not installed.
      ValueError: if there are too many tokens to draw, or names do not fit.
    """
    figure_class = _figure_class()
    n, g = len(tokens), len(globals)
    if not 0 < n + g <= MAX_DRAWN:
        raise ValueError(
            f"a picture of {n} long and {g} global tokens cannot be drawn: expected 1 "
            f"to {MAX_DRAWN} tokens; shorten the text"
        )
    matrix = label_matrix(structure, rules, n, g)
    side = min(max(3.0, 0.2 * (n + g)), 12.0)
    figure = figure_class(figsize=(side + 3.5, side + 1.5), dpi=150)
    axes = figure.add_subplot()
    colors = label_colors(rules)
    axes.imshow(image(matrix, colors), aspect="equal", interpolation="nearest")
    _name_axes(axes, [*globals, *tokens], g)
    _add_grid(axes, matrix, g)
    _add_legend(axes, matrix, rules, colors)
    share = np.mean(matrix != UNSEEN)
    axes.set_title(
        f"{np.sum(matrix != UNSEEN):,} of {matrix.size:,} pairs seen ({share:.1%})",
        fontsize=10,
        pad=12,
    )
    # Written at once: a pipe, too, may be where it goes.
    picture, format_ = io.BytesIO(), pathlib.PurePath(path).suffix[1:] or "png"
    figure.savefig(picture, format=format_, bbox_inches="tight", facecolor="white")
    pathlib.Path(path).write_bytes(picture.getbuffer())
    return matrix


def _figure_class():
    try:
        from matplotlib.figure import Figure
    except ImportError as e:
        raise ImportError(
            'drawing needs matplotlib: pip install "etc_jax[plot]"'
        ) from e
    return Figure


def _name_axes(axes, names: Sequence[str], g: int) -> None:
    axes.set_xlabel("is seen (key)")
    axes.set_ylabel("looks (query)")
    if len(names) > MAX_NAMED:
        return
    ticks = range(len(names))
    # matplotlib reads a dollar sign as the start of a formula.
    names = [name.replace("$", r"\$") for name in names]
    axes.set_xticks(ticks, names, rotation=90, fontsize=7)
    axes.set_yticks(ticks, names, fontsize=7)
    axes.tick_params(length=0)
    for tick in (*axes.get_xticklabels()[:g], *axes.get_yticklabels()[:g]):
        tick.set_fontweight("bold")


def _add_grid(axes, matrix: np.ndarray, g: int) -> None:
    size = len(matrix)
    if size <= MAX_NAMED:
        edges = np.arange(size + 1) - 0.5
        axes.hlines(edges, -0.5, size - 0.5, color="#00000018", linewidth=0.4)
        axes.vlines(edges, -0.5, size - 0.5, color="#00000018", linewidth=0.4)
    if 0 < g < size:
        axes.axhline(g - 0.5, color="black", linewidth=1.2)
        axes.axvline(g - 0.5, color="black", linewidth=1.2)


def _listed(rules: Rules, present: set[int]) -> list[int]:
    """Labels for the legend: of many distances only the nearest and the farthest."""
    k = rules.max_distance
    shown = [label for label in label_names(rules) if label in present]
    if k <= _MAX_LISTED_DISTANCE:
        return shown
    for first in (1, k + 1):
        side = [label for label in shown if first <= label < first + k]
        shown = [label for label in shown if label not in side[1:-1]]
    return shown


def _add_legend(axes, matrix: np.ndarray, rules: Rules, colors) -> None:
    from matplotlib.patches import Patch

    present = set(np.unique(matrix).tolist())
    names = label_names(rules)
    handles = [
        Patch(facecolor=colors[label], edgecolor="#00000040", label=names[label])
        for label in _listed(rules, present)
    ]
    if UNSEEN in present:
        handles.append(Patch(facecolor="white", edgecolor="grey", label="may not see"))
    axes.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(1.02, 1.0),
        borderaxespad=0,
        frameon=False,
        fontsize=8,
    )
