"""What holds for all studies of learning: their rows, their runs, their errors."""

import importlib
import json

import numpy as np
import pytest
import tiny_text
from stand_ins import differing, flat

from benchmarks.__main__ import MODULES
from benchmarks.rows import structure_ablation
from etc_jax.tasks.synthetic import imdb as invented_reviews
from etc_jax.tasks.synthetic.maker import write_records

# ml_collections loads config files in a way that Python announces to give up.
pytestmark = pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")

ITEMS = ("--items=40", "--validation=8")
# What each study is given here, beside a folder.
ARGV = {
    "structure_ablation": (*ITEMS, "--steps=4"),
    "openkp_ablation": (*ITEMS, "--steps=4"),
    "window_ablation": ("--items=12", "--validation=6", "--window=128"),
    "cpc_ablation": (),
    "distractors": (
        *("--items=64", "--short_items=128", "--validation=64"),
        *("--short_steps=4", "--rows=alone"),
    ),
    "long_texts": (
        *("--task=imdb", "--bert=BERT", "--train=HERE/some.jsonl"),
        *("--validation=HERE/some.jsonl", "--long_length=512", "--short_length=64"),
    ),
}
CPC = ("objective.mlm_weight", "objective.cpc_weight")
# Fields in which a row differs from the first one.
DIFFERING = {
    "structure_ablation": {
        "flat": {"data.flat"},
        "no_hard_g2l": {"model.hard_g2l"},
        "flat_no_hard_g2l": {"data.flat", "model.hard_g2l"},
        "shared": {"model.share_qkv", "model.share_out"},
        "pretrained": {"checkpoint.init_from", "checkpoint.init_from_only"},
        "pretrained_no_cpc": {"checkpoint.init_from", "checkpoint.init_from_only"},
    },
    "openkp_ablation": {
        "first": {"objective.keyphrase_loss"},
        "no_visual": {"objective.visual_features"},
        "no_visual_first": {"objective.visual_features", "objective.keyphrase_loss"},
        "shared": {"model.share_qkv", "model.share_out"},
        "no_hard_g2l": {"model.hard_g2l"},
    },
    "cpc_ablation": {"no_cpc": set(CPC)},
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies")
    tiny_text.write_rows(folder / "text.jsonl")
    (folder / "bytes").write_bytes(np.random.default_rng(0).bytes(2000))
    reviews = invented_reviews.records(12, seed=1)
    write_records(folder / "some.jsonl", list(reviews), lines=True)
    return folder


@pytest.fixture
def argv(here, tiny_bert):
    """The command line of a study; what it makes up is made up once."""

    def make(name, *more):
        places = {"HERE": here, "BERT": tiny_bert}
        given = [*ARGV[name], *more]
        for word, path in places.items():
            given = [x.replace(word, str(path)) for x in given]
        return [f"--workdir={here / name}", *given]

    return make


def module_of(name):
    return importlib.import_module(MODULES[name])


@pytest.fixture
def prepared(argv):
    """The study of a name, and its arguments."""

    def prepare(name, *more):
        command = module_of(name).main.__self__
        args, changes = command.options().parse_known_args([*argv(name), *more])
        return command.prepare_fn(args, changes), args

    return prepare


@pytest.mark.parametrize("name", DIFFERING)
def test_rows_differ_in_what_they_say_alone(prepared, name):
    study, args = prepared(name)
    first, *others = (study.config_fn(row, 1) for row in args.rows)
    found = {r: differing(first, x) for r, x in zip(args.rows[1:], others, strict=True)}
    assert found == DIFFERING[name]
    assert {x.train.seed for x in (first, *others)} == {1}


@pytest.mark.parametrize("name", ["structure_ablation", "openkp_ablation"])
def test_rows_have_the_values_that_they_say(prepared, name):
    study, args = prepared(name, "--config.model.hard_g2l=True")
    for row, values in module_of(name).ROWS.items():
        found = flat(study.config_fn(row, 1))
        assert {path: found[path] for path in values} == values, row
        assert found["train.num_steps"] == 4


@pytest.mark.parametrize("name", ARGV)
def test_a_field_that_is_not_there_is_refused(argv, trained, converted, name, capsys):
    given = [*argv(name), "--config.model.embed_dims=8"]
    assert module_of(name).main(given) == 2
    error = capsys.readouterr().err
    assert f"benchmarks {name}: " in error and "did you mean 'embed_dim'?" in error
    assert not trained


@pytest.mark.parametrize("name", ARGV)
def test_an_unknown_row_is_refused(argv, name, capsys):
    with pytest.raises(SystemExit):
        module_of(name).main([*argv(name), "--rows=rows"])
    assert "['rows'] is not among " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "rows", "measure"),
    [
        ("structure_ablation", "structured,flat", "accuracy"),
        ("openkp_ablation", "visual,first", "F1@3"),
        ("window_ablation", "etc,bert_windows", "average-f1"),
    ],
)
def test_rows_are_trained_seed_by_seed_once(
    argv, here, trained, run, capsys, name, rows, measure, monkeypatch
):
    monkeypatch.setitem(structure_ablation.WANTED_POINTS, "wikihop", 0.0)
    main, given = module_of(name).main, [*argv(name), f"--rows={rows}", "--seeds=2,3"]
    code, got = run(main, *given)
    assert code == 0
    runs = [(r, seed) for seed in (2, 3) for r in rows.split(",")]
    assert [(r["row"], r["seed"]) for r in got["runs"]] == runs
    assert [c.train.seed for c in trained] == [seed for _, seed in runs]
    folders = [here / name / f"{r}_seed{seed}" for r, seed in runs]
    assert [x[0] for x in trained.evaluated] == [f"--model={f}" for f in folders]
    assert got["measure"] == measure and got["runs"][0]["scores"][measure] == 50.0
    assert got["runs"][0]["curve"][0] == [1, 20.0]
    assert f"{runs[-1][0]}, seed 3: {measure} 50.0" in capsys.readouterr().out
    assert run(main, *given)[1]["runs"] == got["runs"]
    assert len(trained) == 4  # finished runs are not trained again
    assert main([*given, "--config.optimizer.learning_rate=0.5"]) == 2
    assert "holds a run with another config" in capsys.readouterr().err


def test_cpc_is_judged_by_the_final_reports(argv, trained, run, capsys, monkeypatch):
    module, train = module_of("cpc_ablation"), trained.train

    def with_report(config, folder):
        done, seed = train(config, folder), config.train.seed
        found = dict.fromkeys((module.MEASURE, *module.BESIDE, *module.NOTES), 0.2)
        del found["mlm_loss"]
        without = config.objective.cpc_weight == 0
        found[module.MEASURE] = 0.1 if without else 0.3 + seed / 10
        (folder / "final_report.json").write_text(json.dumps(found))
        steps = (("eval", 1, 9.0), ("eval", 300, 4.5 + seed), ("train", 300, 7.0))
        lines = ({"kind": k, "step": n, "mlm_loss": x} for k, n, x in steps)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "metrics.jsonl").write_text(text)
        return done

    monkeypatch.setattr(module.finetuning_runs, "train_and_evaluate", with_report)
    given = argv("cpc_ablation", "--seeds=0,2", "--config.train.num_steps=300")
    code, got = run(module.main, *given)
    assert code == 0 and [c.train.seed for c in trained] == [0, 0, 2, 2]
    # Means and standard deviations of two seeds, by hand.
    _, _, with_cpc, without = capsys.readouterr().out.splitlines()[4:8]
    assert "0.400 ± 0.141" in with_cpc and "5.500 ± 1.414" in with_cpc
    assert "0.100 ± 0.000" in without and "9.000 / 5.500" in without
    assert got["runs"][0]["scores"]["mlm_loss"] == 4.5
