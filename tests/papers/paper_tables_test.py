"""The tables of the papers: their figures, and that every row of them can be run."""

import importlib
import json
import shlex
from unittest import mock

import pytest
from golden_data import require_shared

from benchmarks.__main__ import MODULES
from benchmarks.kit import machine, report
from etc_jax.__main__ import COMMANDS
from etc_jax.cli import command_line
from etc_jax.papers import plan
from etc_jax.papers.chain import Chain
from etc_jax.papers.paper_scale import config_of
from etc_jax.papers.study import PAPER, TINY, Runs, studies
from etc_jax.papers.table import find, tables


def check_flags(command):
    """That the command takes them; it is not carried out."""
    main = importlib.import_module(COMMANDS[command.name]).main
    with mock.patch.object(command_line, "run", lambda *_, **__: 0):
        assert main(list(command.argv)) == 0


HARDWARE = plan.Hardware("TPU v5e", 8)
# A table of each paper; the others are planned in the full run.
SOME = ("etc.table7", "sled.figure4", "bart_ls.table5", "reformer.table4")
SOME += ("longformer.table11",)


def name_of(identity):
    """The name here of a table in the list that ours were taken from."""
    paper, _, name = identity.partition(".")
    if paper != "slides":
        return identity
    renamed = {
        "transformer_table1": "reformer.transformer_table1",
        "survey": "longformer.survey",
    }
    return renamed.get(name) or name.replace("_", ".", 1)


def test_figures_are_those_of_the_papers():
    listed = json.loads(require_shared("papers/tables.json").read_text())["tables"]
    named = [x for x in tables() if not x.startswith("own.")]
    assert [name_of(x["id"]) for x in listed] == named
    for want in listed:
        table = find(name_of(want["id"]))
        assert (table.number, table.section) == (want["number"] or "", want["section"])
        assert dict(table.settings) == want.get("settings", {})
        assert [x.name for x in table.rows] == [x["name"] for x in want.get("rows", ())]
        for row, there in zip(table.rows, want.get("rows", ()), strict=True):
            paper = {k: x for k, x in table.paper(row).items() if x is not None}
            values = there["values"].items()
            assert paper == {k: x for k, x in values if x is not None}


def test_percent_of_a_paper_are_percent_here():
    """Metrics here are shares, or bits, which are neither."""
    for table in tables().values():
        for column, metric in table.measured.items():
            figures = [table.paper(row)[column] for row in table.rows]
            most = max((x for x in figures if isinstance(x, int | float)), default=None)
            if most is not None and metric.name != "bits":
                assert metric.scale == (100 if most > 1.5 else 1), (table.name, column)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in SOME else pytest.mark.full)
        for name in tables()
    ],
)
def test_each_row_has_commands_that_fit_and_a_figure_for_each_column(name):
    table = find(name)
    runs = Runs(table, PAPER, "reproduced")
    text = plan.text(runs, table.rows, [0, 1], HARDWARE)
    for row in table.rows:
        chain, measured = runs.chain(row, 0) or (Chain("."), {})
        # What it does not give, the row has no run for.
        missing = set(table.measured) - set(measured)
        assert not {table.measured[c].data for c in missing} & set(row.runs)
        assert row.lengths.keys() <= measured.keys() <= set(table.columns)
        for measure in measured.values():
            assert measure.out in chain.commands
        for command in chain.commands.values():
            assert str(command) in text
            check_flags(command)
    trains = any(row.runs for row in table.rows)
    assert ("FLOPs" in text and "hours of 8 TPU v5e" in text) == trains


MEASURED = [
    (name, command)
    for name, table in tables().items()
    for command in dict.fromkeys(x for row in table.rows for x in row.commands)
    if command.startswith("python -m benchmarks ")
]


@pytest.mark.parametrize("name, command", MEASURED)
def test_a_benchmark_of_a_row_takes_its_flags(name, command):
    benchmark, *argv = shlex.split(command)[3:]
    main = importlib.import_module(MODULES[benchmark]).main
    with (
        mock.patch.object(report, "run", lambda *_, **__: 0),
        mock.patch.object(report, "run_quiet", lambda *_, **__: 0),
        mock.patch.object(machine, "use", lambda *_: None),
    ):
        assert main(argv) == 0


def test_figures_of_the_same_run_before_are_planned_once():
    table = find("etc.table2")
    rows = table.chosen("ETC 4096: -;ETC 4096: 2x pre-training")
    text = plan.text(Runs(table, PAPER, "w"), rows, [0, 1], HARDWARE)
    assert text.count("etc-jax train --workdir=w/paper/runs/etc_base_pretrain ") == 1
    # Two seeds of two rows.
    assert text.count("--config=etc_base_nq ") == 4


def test_each_seed_of_what_is_only_evaluated_is_trained():
    table = find("reformer.table2")
    rows = table.chosen("LSH-4")
    text = plan.text(Runs(table, PAPER, "w"), rows, [0, 1], HARDWARE)
    for seed in (0, 1):
        run = f"w/paper/models/reformer_duplication-lsh4_seed{seed}"
        assert text.count(f"etc-jax train --workdir={run} ") == 1
        evaluated = f"--config.checkpoint.init_from={run} --config.train.seed={seed}"
        assert text.count(evaluated) == len(table.columns)


def test_every_study_is_of_a_table_and_runs_some_of_its_rows():
    assert studies().keys() <= tables().keys()
    for name, study in studies().items():
        table = find(name)
        rows = Runs(table, TINY, "w").here()
        assert rows and study.about
        for row in rows:
            chain, measured = Runs(table, TINY, "w").chain(row, 0)
            assert measured and measured.keys() <= set(table.columns)
            for measure in measured.values():
                assert measure.out in chain.commands
            for command in chain.commands.values():
                check_flags(command)
                # Of prepared inputs the folder has the lengths.
                if command.name == "train" and "prepared=" not in command.config:
                    config_of(command)


def test_an_unknown_name_is_told_with_the_nearest_one():
    with pytest.raises(ValueError, match="no table 'etc.tabel2'.*etc.table2"):
        find("etc.tabel2")
    with pytest.raises(ValueError, match="no row 'ETC 8193'.*ETC 8192"):
        find("etc.table2").chosen("ETC 8193")
