"""The picture of a run has the numbers of its metrics."""

import json
import sys

import pytest
from matplotlib.figure import Figure

from etc_jax.base import extras
from etc_jax.training.reporting import curves

LINES = [
    {"step": 1, "kind": "train", "loss": 3.0, "mlm_accuracy": 0.1, "learning_rate": 1},
    {"step": 2, "kind": "train", "loss": None, "mlm_accuracy": 0.2, "learning_rate": 2},
    {"step": 2, "kind": "eval", "loss": 2.5, "official_f1": 0.5, "mlm_accuracy": 0.3},
    {"step": 3, "kind": "train", "loss": 2.0, "mlm_accuracy": 0.4, "learning_rate": 1},
]


def test_a_picture_has_loss_scores_and_learning_rate(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: drawn.append(self))
    text = "".join(f"{json.dumps(line)}\n" for line in LINES)
    (tmp_path / "metrics.jsonl").write_text(text)
    curves.draw(tmp_path)
    panels = {
        ax.get_title(): {line.get_label(): line.get_xydata() for line in ax.lines}
        for ax in drawn[0].axes
    }
    assert list(panels) == ["loss", "mlm accuracy", "official f1", "learning rate"]
    assert panels["loss"].keys() == {"training", "validation"}
    assert panels["loss"]["training"][::2].tolist() == [[1, 3.0], [3, 2.0]]
    assert panels["official f1"].keys() == {"validation"}
    assert panels["learning rate"]["training"][:, 1].tolist() == [1, 2, 1]


def test_without_matplotlib_it_is_said_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    (tmp_path / "metrics.jsonl").write_text(json.dumps(LINES[0]))
    with pytest.raises(extras.MissingExtraError, match=r"etc_jax\[plot\]"):
        curves.draw(tmp_path)
