"""The configs of texts that are written: numbers of the papers, data sets, sweeps."""

import dataclasses
import functools
import json
import math

import pytest
from causal_pairs import PIECES, prepared
from every_config_test import WRITERS, load, module
from golden_data import require_shared
from small_run import evaluated, once, trained
from tiny_texts import CONFIGS, tiny

from etc_jax import config as config_lib
from etc_jax.cli import flag as config_flag
from etc_jax.data.windows.cache import WindowCache
from etc_jax.generation.options import GenerationConfig
from etc_jax.recipes import init_from

CASES = [
    pytest.param(name, data_set, id=f"{name}-{data_set}")
    for name in WRITERS
    for data_set in module(name).SETTINGS
]


@functools.cache
def paper(table):
    """A table of the papers, as data."""
    path = require_shared("papers/tables.json")
    return {x["id"]: x for x in json.loads(path.read_text("utf-8"))["tables"]}[table]


def rows_of(table):
    return {row["name"]: row["values"] for row in paper(table)["rows"]}


def numbers(values):
    return tuple(map(float, values if isinstance(values, list) else [values]))


def swept(settings):
    """{field: its values} of those in which settings differ."""
    fields = [dataclasses.asdict(setting) for setting in settings]
    values = {k: {str(x[k]): x[k] for x in fields}.values() for k in fields[0]}
    return {k: sorted(x) for k, x in values.items() if len(x) > 1}


# --- numbers of the papers ------------------------------------------------------------


def test_grids_of_bart_ls_are_those_of_table_8():
    grids, want = module("bart_ls").GRIDS, rows_of("bart_ls.table8")
    assert grids.keys() == want.keys()
    for name, grid in grids.items():
        row = {k: numbers(x) for k, x in want[name].items()}
        row["dropout_rate"], row["epochs"] = row.pop("dropout"), want[name]["max_epoch"]
        del row["max_epoch"]
        assert grid._asdict() == row, name


def test_texts_of_bart_ls_are_written_as_in_table_9():
    names = {
        "beam": "num_beams",
        "max_len": "num_tokens",
        "min_len": "min_tokens",
        "length_penalty": "length_penalty",
        "no_repeat_ngram": "no_repeat_ngram",
    }
    made, want = module("bart_ls").WRITING, rows_of("bart_ls.table9")
    assert {name: row._asdict() for name, row in made.items()} == {
        name: {names[k]: x for k, x in row.items()} for name, row in want.items()
    }


def test_settings_of_sled_are_those_of_the_paper():
    said, sled = paper("sled.settings")["settings"], module("sled")
    config = load("sled", "scrolls_qasper")
    assert said["max_tokens"] == "16K" and config.data.input_length == 16 * 1024
    assert config.model.sled.input_length == 16 * 1024
    assert config.model.sled.window == said["c"]
    assert config.model.sled.padding_share == said["alpha"]
    assert load("sled", "squad_distractors").model.sled.window == said["c_squad"]
    assert load("sled", "hotpotqa_text").model.sled.window == said["c_hotpotqa"]
    assert config.schedule.name == said["schedule"]
    assert config.schedule.warmup_steps == said["warmup"]
    # "AdamW, default settings": those of torch.
    adam = config.optimizer
    assert (adam.name, adam.b1, adam.b2, adam.eps) == ("adamw", 0.9, 0.999, 1e-8)
    assert adam.weight_decay == said["weight_decay"]
    runs = sled.get_sweep("scrolls_qasper")
    assert len(runs) == said["runs_per_pair"]
    assert swept(runs) == {
        "learning_rate": sorted(numbers(said["learning_rate"])),
        "batch_size": said["effective_batch"],
    }
    assert config.objective.label_smoothing == 0


def test_optimizer_and_seed_of_bart_ls_are_those_of_the_paper():
    config = load("bart_ls", "gov_report")
    assert "Adam 0.9, 0.999, 1e-6; polynomial" in paper("bart_ls.table8")["title"]
    adam = config.optimizer
    assert (adam.name, adam.b1, adam.b2, adam.eps) == ("adamw", 0.9, 0.999, 1e-6)
    assert config.schedule.name == "polynomial"
    said = paper("bart_ls.settings")["settings"]
    assert config.train.seed == said["seed"]
    assert config.data.input_length == said["max_tokens_finetuning"]
    assert config.objective.r3f.weight > 0 and said["r3f"].startswith("used")
    assert (said["label_smoothing"], config.objective.label_smoothing) == (None, 0)
    # Questions at each block, whole.
    asked = load("bart_ls", "scrolls_qasper")
    assert asked.data.input_options == ("begin_token=true", "prefix_every=1024")
    assert asked.model.block_size == 1024
    assert config.data.input_options == ("begin_token=true",)


# --- each data set --------------------------------------------------------------------


@pytest.mark.parametrize("name, data_set", CASES)
def test_a_row_is_learnt_and_written_as_its_table_says(name, data_set):
    config, setting = load(name, data_set), module(name).SETTINGS[data_set]
    assert config.objective.name == data_set
    assert config.data.source == "windows" and config.data.format == "text_to_text"
    writing = GenerationConfig.of(dict(setting.generation))
    assert config.objective.generation == writing
    # What is written has room, in the decoder and beside the targets.
    assert writing.num_tokens <= config.data.target_length
    assert config.data.target_length == setting.target_length
    assert config.checkpoint.keep_best == 1
    steps = setting.num_examples / setting.batch_size * setting.epochs
    assert config.train.num_steps == int(steps)


@pytest.mark.parametrize("name", ["sled", "led", "bart_ls"])
def test_runs_of_a_sweep_are_all_there_and_can_be_made(name):
    of_papers = getattr(module(name), "OF_SLED", module(name).SETTINGS)
    for data_set in of_papers:
        runs = module(name).get_sweep(data_set)
        assert len(set(runs)) == len(runs) == math.prod(map(len, swept(runs).values()))
        keys = {tuple(run.fields()) for run in runs}
        assert len(keys) == 1
        assert module(name).SETTINGS[data_set] in runs
        for run in (runs[0], runs[-1]):
            config = load(name, data_set, **run.fields())
            assert config.model.dropout_rate == run.dropout_rate


def test_a_data_set_without_a_sweep_is_told():
    with pytest.raises(ValueError, match="no paper has a sweep of a LED on 'arxiv'"):
        module("led").get_sweep("arxiv")


def test_the_baselines_of_sled_read_1024_tokens_whole():
    for arg, begins in (("", ("begin_token=true",)), (",t5", ())):
        config = load("sled", f"scrolls_quality,truncated{arg}")
        assert config.data.input_length == 1024 and not config.model.sled.window
        assert config.data.input_options == begins
        long = load("sled", f"scrolls_quality{arg}")
        assert config.optimizer == long.optimizer and config.schedule == long.schedule
        assert config.train == long.train
        assert long.data.input_options == (*begins, "prefix_length=160")
        assert long.model.sled.prefix_length == 160


def test_the_question_of_a_led_is_global():
    def seen(arg):
        config = load("led", arg)
        return config.objective.global_tokens, config.model.attention_window

    assert seen("scrolls_qasper") == (64, (256,))
    assert seen("scrolls_quality") == (160, (256,))
    assert seen("hotpotqa_text") == (64, (128,))
    assert seen("scrolls_gov_report") == (1, (256,))
    assert seen("arxiv") == (1, (1024,))
    assert seen("squad_distractors,local") == (0, (256,))
    assert seen("squad_distractors,one_global") == (1, (256,))
    assert load("led", "squad_distractors").data.input_options == (
        "begin_token=true",
    ) + ("prefix_length=64",)


def test_a_led_of_other_windows_is_begun_with(tmp_path):
    """The window is the config's, whatever else is that of the folder."""
    tiny("led").save(tmp_path / "led")
    get_config = module("led").get_config
    arg = f"squad_distractors,from={tmp_path / 'led'}"
    values = get_config(arg)
    values.data.update(paths=("a",), validation_paths=("b",))
    values.data.update(input_length=96, target_length=32)
    explicit = config_flag.set_by_variants(get_config, arg)
    for given in (explicit, ()):
        made = init_from.completed(values.to_dict(), explicit=given)
        model = config_lib.from_config_dict(made).model
        assert (model.attention_window, model.embed_dim) == ((256,), 8)
        assert CONFIGS["led"].attention_window == (4,)


def test_long_t5_reads_papers_as_its_own_paper_does():
    lengths = {
        arg: load("long_t5", arg).data.input_length
        for arg in ("arxiv", "arxiv,large", "pubmed,xl", "scrolls_qasper")
    }
    assert list(lengths.values()) == [4096, 16_384, 16_384, 16_384]
    assert load("long_t5", "xl").model.embed_dim == 2048


# --- prepared folders -----------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Caches `train` and `dev` of one's own texts, with a place for a prefix."""
    place = tmp_path_factory.mktemp("prepared")
    flags = ("--input_length=24", "--target_length=6", "--measure=rouge")
    prepared(place, *flags, "--begin_token", "--prefix_length=8", train=48, dev=8)
    return place


def test_a_prepared_folder_decides_steps_lengths_and_vocabulary(folder):
    cache, dev = folder / "train", folder / "dev.jsonl"
    config = config_lib.from_config_dict(
        module("sled").get_config(f"prepared={cache},dev={dev},epochs=3")
    )
    assert config.train.num_steps == 48 * 3 // 16
    assert (config.data.input_length, config.data.target_length) == (24, 6)
    assert config.data.paths == (str(cache),) == config.data.validation_paths
    assert config.data.validation_files == (str(dev),)
    assert config.data.input_options == WindowCache.open(cache).input_options
    assert config.checkpoint.best_metric == "official_geometric_mean"
    assert config.checkpoint.best_is == "highest"
    assert config.model.sled.prefix_length == 8
    model = config.model
    assert (model.vocab_size, config.data.vocab_size) == (len(PIECES),) * 2
    first, end = PIECES.index("[CLS]"), PIECES.index("[SEP]")
    assert (model.eos_id, model.forced_bos_id) == (end, first)
    runs = module("sled").get_sweep(f"prepared={cache}")
    assert {run.num_examples for run in runs} == {48}
    tiny = module("led").get_config(f"tiny,prepared={cache},from=models/led")
    assert tiny.train.num_steps == 20 and tiny.objective.global_tokens == 8
    assert tiny.checkpoint.init_from == "models/led"


@pytest.mark.full
@pytest.mark.usefixtures("one_device")
def test_what_a_config_learns_is_written_and_scored(folder, tmp_path):
    pytest.importorskip("rouge_score")
    cache, dev, run = folder / "train", folder / "dev.jsonl", tmp_path / "run"
    values = module("led").get_config(f"tiny,prepared={cache},dev={dev}")
    values.update_from_flattened_dict(once(2))
    trained(config_lib.from_config_dict(values), run)
    scores = evaluated(run, dev, tmp_path / "dev")["metrics"]
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    [last] = [line for line in lines if line["kind"] == "eval"]
    assert {"geometric_mean", "rouge1"} < scores.keys()
    for name, value in scores.items():
        assert last[f"official_{name}"] == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize(
    "name, arg, message",
    [
        ("sled", "scrolls_qasper", "inputs of 'text_to_text'.*--task=scrolls_qasper"),
        ("long_t5", "", "prepared with --begin_token --prefix_length=8, but .*neither"),
        ("sled", "t5", "prepared with --begin_token .*inputs of --prefix_length=64"),
        ("led", "pairs", "the variant pairs reads JSON lines"),
        ("led", "epochs=0", "epochs=0; expected one whole number above 0"),
    ],
)
def test_inputs_that_were_prepared_otherwise_are_refused(folder, name, arg, message):
    given = ",".join(filter(None, [arg, f"prepared={folder / 'train'}"]))
    with pytest.raises(ValueError, match=message):
        module(name).get_config(given)


def test_values_that_need_a_folder_are_told():
    with pytest.raises(ValueError, match="dev= needs prepared=FOLDER beside it"):
        module("bart_ls").get_config("qasper,dev=dev.json")


def test_own_pairs_are_learnt_without_preparing():
    for name in WRITERS:
        config = load(name, "pairs")
        assert (config.objective.name, config.data.source) == ("seq2seq", "pairs")
        assert not config.objective.packed
    assert load("sled", "pairs").data.prefix_length == 64
    assert load("led", "pairs").objective.global_tokens == 1
