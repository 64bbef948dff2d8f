"""Rows of trained models: their configs, the table of them, and the command line."""

import pathlib

import pytest

from benchmarks.kit import rows
from benchmarks.kit.finetuning_runs import Spent
from benchmarks.kit.rows import Run, Study
from etc_jax.training.errors import CorruptCheckpointError

SPENT = Spent(200.0, 60.0)


def of_score(row, seed, score, spent=SPENT, steps=(5, 10), **others):
    curve = tuple(zip(steps, (score / 2, score), strict=True))
    return Run(row, seed, {"f1": score, **others}, curve, spent)


def study(**fields):
    def refuse(*_):
        raise AssertionError("nothing is to be run")

    given = {"config_fn": refuse, "score_fn": refuse, "measure": "f1"}
    return Study(pathlib.Path("runs"), metric="accuracy", **{**given, **fields})


def cells_of(text):
    """The cells of a table's lines, empty ones left out."""
    found = [line.split("  ") for line in text.splitlines()]
    return [[cell.strip() for cell in line if cell.strip()] for line in found]


def test_the_table_is_of_the_runs():
    runs = [
        of_score("good", 0, 90.0, p1=40.0),
        of_score("good", 1, 94.0, Spent(200.0, 180.0), p1=44.0),
        of_score("bad", 0, 70.0, steps=(2, 4), p1=10.0),
    ]
    shown = study(
        beside=("p1",),
        pairs=(("good", "bad"),),
        paper={"bad": {"f1": 71.5, "p1": 9.0}},
        notes={"first": lambda run: f"seed {run.seed}"},
    )
    head, _, *lines = cells_of(shown.table(runs))
    assert head == [
        *("row", "f1", "seed 0", "seed 1", "p1", "first"),
        *("accuracy at 5 / 10", "CPU min a run"),
    ]
    # Mean and standard deviation of two values, by hand.
    mean = ["92.0 ± 2.8", "90.0", "94.0", "42.0 ± 2.8", "seed 0", "46.0 / 92.0", "2.0"]
    bad = ["70.0 ± 0.0 (71.5)", "70.0", "-", "10.0 ± 0.0 (9.0)", "seed 0"]
    assert lines == [
        ["good", *mean],
        ["bad", *bad, "35.0 / 70.0 at 2 / 4", "1.0"],
        ["good - bad", "20.0 ± 0.0", "+20.0", "-"],
    ]


def test_a_lead_is_of_seeds_that_both_rows_have():
    runs = [of_score("good", seed, 90.0 + seed) for seed in (0, 2)]
    runs += [of_score("bad", seed, 70.0) for seed in (1, 2)]
    assert rows.lead(runs, "f1", ("good", "bad")) == {2: 22.0}
    assert rows.lead(runs, "f1", ("good", "worse")) == {}


@pytest.mark.parametrize(
    ("wanted", "is_enough"), [(None, True), (21.0, True), (21.5, False)]
)
def test_every_seed_must_be_far_enough_ahead(wanted, is_enough):
    runs = [of_score("good", seed, 91.0 + seed) for seed in (0, 2)]
    runs += [of_score("bad", seed, 70.0) for seed in (0, 2)]
    pairs = (("good", "bad"), ("good", "not run"))
    assert study(pairs=pairs, wanted_points=wanted).is_as_wanted(runs) is is_enough


def command(prepare_fn):
    amounts = {"items": (10, "to learn from"), "validation": (5, "to be scored on")}
    return rows.Command("benchmarks.some", "Text.", prepare_fn, ("one", "two"), amounts)


class Quick(Study):
    """Runs of known scores."""

    def run(self, row, seed):
        return of_score(row, seed, 50.0 + seed)


def test_the_command_runs_rows_seed_by_seed_and_writes_them(run, capsys):
    checked = []

    def prepare(args, changes):
        assert (args.items, args.validation) == (10, 7)
        assert changes == ["--config.a.b=1"]
        made = study(config_fn=lambda *given: checked.append(given))
        return Quick(**{**vars(made), "about": {"task": "some"}})

    argv = ["--validation=7", "--seeds=4,6", "--config.a.b=1"]
    code, written = run(command(prepare).main, *argv)
    assert code == 0 and checked == [("one", 4), ("two", 4)]
    assert "two, seed 6: f1 56.0" in capsys.readouterr().out
    runs = written.pop("runs")
    assert written.pop("machine")["cores"] > 0
    assert {written.pop("benchmark"), written.pop("date")[:2]} == {"some", "20"}
    assert written.pop("command")  # that of this process
    assert written == {
        "task": "some",
        "measure": "f1",
        "options": ["--config.a.b=1"],
    }
    asked = [(run["row"], run["seed"]) for run in runs]
    assert asked == [("one", 4), ("two", 4), ("one", 6), ("two", 6)]
    assert runs[0] == {
        "row": "one",
        "seed": 4,
        "scores": {"f1": 54.0},
        "curve": [[5, 27.0], [10, 54.0]],
        "spent": {"wall_secs": 200.0, "cpu_secs": 60.0},
        "pretraining": None,
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [(ValueError("no such field"), 2), (CorruptCheckpointError("no such field"), 4)],
)
def test_an_error_ends_the_command_with_its_code(run, capsys, error, code):
    def prepare(args, changes):
        raise error

    assert run(command(prepare).main) == (code, None)
    assert capsys.readouterr().err == "benchmarks some: no such field\n"
