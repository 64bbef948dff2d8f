"""The ablation of windows: what its rows see, and how often."""

import dataclasses

import numpy as np
import pytest

from benchmarks.data import window_items
from benchmarks.rows import window_ablation
from benchmarks.rows.window_ablation import NAMES, NULL_SHARE
from etc_jax import config as config_lib
from etc_jax.configs.etc import bert_base_nq
from etc_jax.datasets.strides import default_stride
from etc_jax.datasets.task import find_task
from etc_jax.tasks.natural_questions.decoding import gold_outputs
from etc_jax.tasks.natural_questions.records import read

TASK = find_task("natural_questions")

WINDOW, COUNT, VALIDATION = 128, 24, 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("windows")


@pytest.fixture(scope="module")
def files(folder):
    return window_items.write_files(
        "unnamed", folder / "items", COUNT, VALIDATION, window=WINDOW
    )


@pytest.fixture(scope="module")
def caches(files, folder):
    train, validation, tokenizer = files
    return {
        name: window_ablation.make_caches(
            window_ablation.row_of(name, WINDOW),
            folder / "items" / name,
            tokenizer,
            train,
            validation,
        )
        for name in NAMES
    }


@pytest.fixture(scope="module")
def configs(caches):
    return {
        name: window_ablation.config(
            window_ablation.row_of(name, WINDOW), caches[name], 1
        )
        for name in NAMES
    }


def test_rows_are_the_same_model_but_that_of_bert(configs):
    etc, short, bert = (configs[name] for name in NAMES)
    assert etc.model == short.model
    values = config_lib.to_dict(etc)["model"], config_lib.to_dict(bert)["model"]
    differing = {name for name, value in values[0].items() if values[1][name] != value}
    full = bert_base_nq.get_config("from_scratch").model
    length = bert_base_nq.LENGTH
    assert differing == {
        *("share_qkv", "share_out", "radius", "max_distance", "num_labels"),
        *("max_positions", "hard_l2g", "attention"),
    }
    for name in differing - {"attention"}:
        wanted = full[name]
        assert values[1][name] == (WINDOW if wanted == length else wanted), name


def test_inputs_of_rows_are_windows_of_their_lengths(configs, caches):
    etc, short, bert = (configs[name] for name in NAMES)
    assert etc.data.long_length == 4 * WINDOW
    assert short.data.long_length == bert.data.long_length == WINDOW
    assert caches["bert_windows"][0].longest["global"] == 1
    assert bert.data.input_options == ("flat=true",)
    assert etc.data.input_options == short.data.input_options == ()
    for name, config in configs.items():
        made = caches[name][0].sizes
        # As prepared: with other lengths, evaluation would make other windows.
        lengths = (config.data.long_length, config.data.global_length)
        assert lengths == tuple(made.values())
        assert config.train.batch_size * config.data.long_length == 8192


def test_all_windows_are_evaluated_and_those_with_an_answer_are_trained_on(
    files, caches
):
    train, validation, tokenizer = files
    assert [c.num_windows for c in caches["etc"]] == [COUNT, VALIDATION]
    for name in NAMES[1:]:
        row = window_ablation.row_of(name, WINDOW)
        task = TASK.with_options(row.options)
        counts = []
        for file in (train, validation):
            labels = [
                int(window.labels["answer_type"])
                for record in read([file])
                for window in task.features(record, tokenizer, row.sizes)
            ]
            counts.append((sum(x > 0 for x in labels), sum(x == 0 for x in labels)))
        (answers, nulls), validation_windows = counts
        assert caches[name][1].num_windows == sum(validation_windows)
        kept = caches[name][0].num_windows - answers
        # Five standard deviations of a draw.
        spread = (nulls * NULL_SHARE * (1 - NULL_SHARE)) ** 0.5
        assert abs(kept - NULL_SHARE * nulls) < 5 * spread
        assert default_stride(WINDOW) == WINDOW // 4


@pytest.mark.parametrize(("inputs", "steps"), [(1, 1), (32, 2), (47, 2), (48, 3)])
def test_a_run_is_as_many_steps_as_fill_whole_batches(caches, inputs, steps):
    train, validation = caches["etc"]
    offsets = {"name_offsets": np.arange(inputs + 1)}
    train = dataclasses.replace(train, arrays={**train.arrays, **offsets})
    row = window_ablation.row_of("etc", WINDOW)
    assert row.batch_size == 16
    config = window_ablation.config(row, (train, validation), 1)
    assert config.train.num_steps == steps


def test_gold_labels_give_all_answers_back(files, caches):
    """Were it not so for some row, its score would be of its windows alone."""
    _, validation, tokenizer = files
    for name in NAMES:
        row = window_ablation.row_of(name, WINDOW)
        task, predictions, gold = TASK.with_options(row.options), {}, []
        for record in read([validation]):
            windows = task.features(record, tokenizer, row.sizes)
            outputs = gold_outputs(windows)
            [each] = zip(*task.decode(outputs, windows, task.settings), strict=True)
            predictions[record.id] = task.pool(each)
            gold.append(task.gold(record))
        scores = task.score(gold, task.official(predictions))
        assert scores.metrics["short-best-threshold-f1"] == 1.0, name
        assert scores.metrics["long-best-threshold-f1"] == 1.0, name
