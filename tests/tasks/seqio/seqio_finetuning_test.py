"""Fine-tuning sets as seqio Tasks: their examples, mixtures and official metrics."""

import contextlib
import dataclasses
import json
import os

import jax
import natural_questions_samples as articles
import numpy as np
import openkp_samples
import pytest
from multihop_samples import HOTPOT, WIKIHOP, tokenizer, write_json
from seqio_samples import forget_tasks
from structured_batch import batch

from etc_jax.data.schema import stacked
from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer
from etc_jax.datasets import task as task_lib
from etc_jax.formats.structured import StructuredSizes
from etc_jax.scoring import (
    hotpotqa as hotpotqa_scoring,
    natural_questions as nq_scoring,
    wikihop as wikihop_scoring,
)
from etc_jax.structure import Structure
from etc_jax.tasks import hotpotqa, natural_questions as nq, openkp

pytest.importorskip("nupunkt")
SIZES = {"hotpotqa": StructuredSizes(80, 40), "wikihop": StructuredSizes(100, 50)}
LONG = "the old mill was built by its first owner " * 20
# A record that cannot be trained on, and one that fits into no input.
UNUSABLE = {
    "hotpotqa": {**HOTPOT, "_id": "lost", "answer": "a cellar"},
    "wikihop": {k: v for k, v in WIKIHOP.items() if k != "answer"} | {"id": "lost"},
}
UNFIT = {
    "hotpotqa": {**HOTPOT, "_id": "large", "question": LONG},
    "wikihop": {**WIKIHOP, "id": "large", "query": LONG},
}
NAMES = ("hotpotqa", "wikihop")  # of one window a record
EVERY_TASK = pytest.mark.parametrize("task", NAMES)


def good(task, count, start="q"):
    """Records that differ in the order of their contexts or candidates."""
    if task == "hotpotqa":
        record, key, part = HOTPOT, "_id", "context"
    else:
        record, key, part = WIKIHOP, "id", "candidates"
    turns = [i % len(record[part]) for i in range(count)]
    return [
        {**record, key: f"{start}{i}", part: record[part][turn:] + record[part][:turn]}
        for i, turn in enumerate(turns)
    ]


@pytest.fixture
def register(sio, tmp_path):
    """(name, task, {split: records}) -> a Task of files that hold them."""

    def add(name, task, splits, **options):
        files = {
            split: write_json(tmp_path, records, f"{name}_{split}.json")
            for split, records in splits.items()
        }
        options = {"task": task, "sizes": SIZES.get(task)} | options
        return sio.finetuning.register_files(name, files, tokenizer(), **options)

    yield add
    forget_tasks(sio)


def examples_of(sio, provider, split="train", **options):
    """Examples as numpy arrays."""
    options = {"shuffle": False, "num_epochs": 1} | options
    dataset = provider.get_dataset(split=split, **options)
    with contextlib.closing(sio.tensorflow.ExampleIterator(dataset)) as examples:
        return [{k: x.numpy() for k, x in example.items()} for example in examples]


def names_of(examples):
    return [example["id"][0].decode() for example in examples]


def windows_of(task, records):
    """The inputs that the task itself makes of some records."""
    data = task_lib.find_task(task)

    def note(kind, message):
        raise AssertionError(message)

    parsed = [data.parse(record, note) for record in records]
    return [w for r in parsed for w in data.features(r, tokenizer(), SIZES[task])]


# --- examples -------------------------------------------------------------------------


@EVERY_TASK
def test_examples_are_the_features_of_the_task_bit_for_bit(sio, register, task):
    records = good(task, 5)
    got = examples_of(sio, register("set", task, {"train": records}))
    assert names_of(got) == [f"q{i}" for i in range(5)]
    for example, window in zip(got, windows_of(task, records), strict=True):
        want = {
            "long_tokens": window.tokens.long,
            "global_tokens": window.tokens.global_,
            "long_types": window.types.long,
            "global_types": window.types.global_,
            **{f"labels.{k}": np.atleast_1d(x) for k, x in window.labels.items()},
            "weights": np.ones(1, np.float32),
        }
        for field in dataclasses.fields(Structure):
            if (vector := getattr(window.structure, field.name)) is not None:
                want[f"structure.{field.name}"] = vector
        assert example.keys() == {*want, "id", "split"}
        for name, array in want.items():
            assert example[name].dtype == array.dtype, name
            np.testing.assert_array_equal(example[name], array, err_msg=name)


@EVERY_TASK
def test_a_batch_of_examples_is_the_batch_of_their_windows(sio, register, task):
    records = good(task, 3)
    dataset = register("set", task, {"train": records}).get_dataset(
        split="train", shuffle=False
    )
    [examples] = dataset.batch(3).as_numpy_iterator()
    windows = windows_of(task, records)
    want = stacked(windows) | {
        "labels": batch(windows)[3],
        "weights": np.ones(3, np.float32),
    }
    got = sio.windows.model_batch(examples)
    jax.tree.map(np.testing.assert_array_equal, got, want)


def test_output_features_are_all_that_a_model_reads(sio, register):
    task = register("set", "hotpotqa", {"train": good("hotpotqa", 1)})
    [example] = examples_of(sio, task)
    assert task.output_features.keys() == example.keys() - {"split"}
    assert task.output_features["structure.links"].rank == 2
    assert task.output_features["structure.links"].dtype == sio.tf.int16
    assert task.output_features["long_tokens"].vocabulary.tokenizer is not None
    assert task.source.signature["long_tokens"].shape == (80,)


@EVERY_TASK
def test_the_papers_sizes_are_the_default(register, task):
    made = register("set", task, {"train": good(task, 1)}, sizes=None)
    assert made.source.sizes == task_lib.find_task(task).sizes


def test_shards_share_the_records_of_one_file(sio, register):
    task = register("set", "hotpotqa", {"train": good("hotpotqa", 7)})
    shards = [
        names_of(examples_of(sio, task, shard_info=sio.seqio.ShardInfo(i, 3)))
        for i in range(3)
    ]
    assert shards == [["q0", "q3", "q6"], ["q1", "q4"], ["q2", "q5"]]
    with pytest.raises(ValueError, match=r"can be used, shard \(7, 8\): 7 records"):
        examples_of(sio, task, shard_info=sio.seqio.ShardInfo(7, 8))


@pytest.mark.full
def test_shuffling_depends_on_the_seed_alone(sio, register):
    task = register("set", "hotpotqa", {"train": good("hotpotqa", 9)})

    def order(seed):
        return names_of(examples_of(sio, task, shuffle=True, seed=seed))

    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == [f"q{i}" for i in range(9)]


def test_epochs_repeat_and_problems_are_those_of_one(sio, register):
    records = [*good("hotpotqa", 2), UNUSABLE["hotpotqa"]]
    task = register("set", "hotpotqa", {"train": records})
    assert names_of(examples_of(sio, task, num_epochs=3)) == ["q0", "q1"] * 3
    problems = sio.finetuning.source_of("set").problems["train"]
    assert (problems.read, problems.counts.total()) == (3, 1)


# --- mixtures -------------------------------------------------------------------------


@pytest.mark.full
def test_a_mixture_holds_its_tasks_in_exact_shares(sio, register):
    for name in ("one", "two"):
        register(name, "hotpotqa", {"train": good("hotpotqa", 4, start=name)})
    mixture = sio.seqio.MixtureRegistry.add(
        "both", [("one", 3.0), ("two", 1.0)], sample_fn=sio.pretraining.apportion
    )
    dataset = mixture.get_dataset(split="train", seed=5).take(1000)
    got = [x["id"][0].decode() for x in dataset.as_numpy_iterator()]
    assert sum(name.startswith("one") for name in got) == 750
    assert set(got) == {f"{name}{i}" for name in ("one", "two") for i in range(4)}


def test_data_sets_with_other_labels_cannot_be_mixed(sio, register):
    for task in NAMES:
        register(task, task, {"train": good(task, 1)})
    with pytest.raises(ValueError, match="different output features"):
        sio.seqio.MixtureRegistry.add("both", list(NAMES), default_rate=1.0)


# --- figures --------------------------------------------------------------------------


def evaluated(sio, name, outputs_fn, **options):
    """(figures of the split "validation", sizes of the batches)."""
    evaluator = sio.seqio.Evaluator(name, sio.finetuning.UnchangedFeatures(), **options)
    seen = []

    def outputs(arrays):
        seen.append(len(arrays["weights"]))
        return outputs_fn(arrays)

    metrics, _ = evaluator.evaluate(
        compute_metrics=True,
        model_fns=sio.finetuning.model_fns(outputs, batch_size=2),
    )
    found = metrics.result()[name]
    evaluator.close()
    return found, seen


def sure(task):
    """A model that knows the labels."""

    def outputs(arrays):
        labels = arrays["labels"]
        b, g = arrays["global_tokens"].shape
        if task == "wikihop":
            return 9.0 * (np.arange(g) == labels["candidate"][:, None])
        places = np.stack([labels["begin"], labels["end"]], -1)[:, None]
        n = arrays["long_tokens"].shape[1]
        return hotpotqa.decoding.Outputs(
            support=18.0 * labels["support"] - 9.0,
            answer_type=9.0 * (np.arange(3) == labels["answer_type"][:, None]),
            span=9.0 * (np.arange(n)[None, :, None] == places),
        )

    return outputs


@EVERY_TASK
def test_a_model_that_is_sure_of_the_labels_has_full_figures(sio, register, task):
    register("set", task, {"train": good(task, 1), "validation": good(task, 5)})
    figures, batches = evaluated(sio, "set", sure(task))
    assert batches == [2, 2, 1]
    assert set(figures.values()) == {1.0}
    want = hotpotqa_scoring if task == "hotpotqa" else wikihop_scoring
    gold = [
        task_lib.find_task(task).gold(w.record) for w in windows_of(task, good(task, 1))
    ]
    assert figures.keys() == want.score(gold, _answers(task)).metrics.keys()


def _answers(task):
    [window] = windows_of(task, good(task, 1))
    found = task_lib.find_task(task)
    return found.official(found.answers(found.gold_outputs([window]), [window]))


def test_figures_are_those_of_the_scorer_for_any_outputs(sio, register):
    records = good("hotpotqa", 6)
    register("set", "hotpotqa", {"validation": records})
    rng = np.random.default_rng(0)
    drawn = hotpotqa.decoding.Outputs(
        support=rng.normal(size=(6, 40)),
        answer_type=np.tile([1.0, 0.0, 0.5], (6, 1)),
        span=rng.normal(size=(6, 80, 2)),
    )
    at = iter((slice(0, 2), slice(2, 4), slice(4, 6)))

    def outputs(arrays):
        place = next(at)
        return hotpotqa.decoding.Outputs(*(x[place] for x in drawn))

    figures, _ = evaluated(sio, "set", outputs)
    windows = windows_of("hotpotqa", records)
    gold = [hotpotqa.decoding.official_gold(w.record) for w in windows]
    found = task_lib.find_task("hotpotqa")
    want = found.score(gold, found.official(found.answers(drawn, windows)))
    assert figures == pytest.approx(dict(want.metrics), abs=1e-12)
    assert 0 < figures["sp_f1"] < 1


def article(seed):
    """A record whose first paragraph is the answer, according to two annotators."""
    text = articles.long_article(100, seed)
    said = articles.annotation(articles.candidates_of(text)[0][0], [(1, 2)])
    return articles.original(text, name=seed, said=(said, said))


def test_figures_of_records_of_many_windows_are_of_all_windows(sio, tmp_path):
    file = articles.write_lines(tmp_path / "dev.jsonl", [article(i) for i in range(3)])
    model, sizes = articles.tokenizer(), StructuredSizes(60, 40)
    options = {"task": "natural_questions", "sizes": sizes}
    sio.finetuning.register_files("set", {"validation": file}, model, **options)
    made = [nq.inputs.features(r, model, sizes) for r in nq.records.read([file])]
    count = sum(map(len, made))
    assert min(map(len, made)) > 2
    rng = np.random.default_rng(0)
    drawn = nq.decoding.Outputs(
        rng.normal(size=(count, 5)), rng.normal(size=(count, 60, 4))
    )
    places = [slice(at, at + 2) for at in range(0, count, 2)]

    def figures(**more):
        at = iter(places)

        def outputs(arrays):
            place = next(at)
            rows = len(arrays["weights"])
            return nq.decoding.Outputs(*(x[place][:rows] for x in drawn))

        return evaluated(sio, "set", outputs, **more)[0]

    def wanted(number):
        """Of the first so many records."""
        ends = np.cumsum([0, *map(len, made)])
        predictions, gold = {}, []
        for windows, start, stop in zip(made[:number], ends, ends[1:], strict=False):
            own = nq.decoding.Outputs(*(x[start:stop] for x in drawn))
            predictions[windows[0].record.id] = nq.decoding.pool(
                nq.decoding.summarise(own, windows)
            )
            gold.append(nq.decoding.official_gold(windows[0].record))
        return dict(nq_scoring.score(gold, nq.decoding.official(predictions)).metrics)

    assert figures() == pytest.approx(wanted(3), abs=1e-12)
    # Without the last window of the third there are two whole records.
    assert figures(num_examples=count - 1) == pytest.approx(wanted(2), abs=1e-12)
    forget_tasks(sio)


def test_further_inputs_of_a_task_are_in_its_examples(sio, tmp_path):
    texts = ["old mill", "Ton", "mill burned"]
    pages = [openkp_samples.page(phrases=texts, url=f"u{i}") for i in range(3)]
    file = openkp_samples.write_lines(tmp_path, pages)
    sizes = StructuredSizes(40, 6)
    made = sio.finetuning.register_files(
        "set", {"validation": file}, tokenizer(), task="openkp", sizes=sizes
    )
    [examples] = (
        made.get_dataset(split="validation", shuffle=False).batch(3).as_numpy_iterator()
    )
    windows = [
        w
        for r in openkp.records.read([file])
        for w in openkp.inputs.features(r, tokenizer(), sizes)
    ]
    want = stacked(windows) | {
        "labels": batch(windows)[3],
        "weights": np.ones(3, np.float32),
    }
    jax.tree.map(np.testing.assert_array_equal, sio.windows.model_batch(examples), want)
    at = iter((windows[:2], windows[2:]))
    figures, _ = evaluated(
        sio, "set", lambda arrays: openkp.decoding.gold_outputs(next(at))
    )
    assert figures["F1@3"] == 1.0
    forget_tasks(sio)


def test_the_setting_of_decoding_is_used(sio, register):
    records = good("hotpotqa", 2)
    for name, setting in (("low", 1e-6), ("high", 1 - 1e-6)):
        register(name, "hotpotqa", {"validation": records}, setting=setting)
    low, _ = evaluated(sio, "low", sure("hotpotqa"))
    high, _ = evaluated(sio, "high", sure("hotpotqa"))
    # Logits of +-9 are probabilities of 1 -+ 1.2e-4: all sentences, or none.
    assert low["sp_recall"] == 1 > low["sp_prec"] and high["sp_recall"] == 0


@EVERY_TASK
def test_a_record_that_fits_into_no_input_counts_as_wrong(sio, register, task):
    records = [*good(task, 3), UNFIT[task]]
    register("set", task, {"validation": records})
    figures, _ = evaluated(sio, "set", sure(task))
    assert set(figures.values()) == {0.75}
    some, _ = evaluated(sio, "set", sure(task), num_examples=2)
    assert set(some.values()) == {1.0}


def test_a_record_that_cannot_be_trained_on_counts_in_the_figures(sio, register):
    records = [*good("hotpotqa", 3), UNUSABLE["hotpotqa"]]
    register("set", "hotpotqa", {"validation": records})
    figures, _ = evaluated(sio, "set", sure("hotpotqa"))
    assert figures["em"] == 0.75 and figures["sp_em"] == 1


def test_figures_of_records_without_an_answer_are_refused(sio, register):
    test = [{k: HOTPOT[k] for k in ("_id", "question", "context")}]
    register("set", "hotpotqa", {"validation": test})
    with pytest.raises(ValueError, match="'a1' has no gold answer; official metrics"):
        evaluated(sio, "set", sure("hotpotqa"))


# --- what is wrong --------------------------------------------------------------------


@EVERY_TASK
def test_bad_records_are_counted_named_and_left_out(sio, register, task, caplog):
    key = "_id" if task == "hotpotqa" else "id"
    bad = [{key: "no"}, good(task, 1)[0], UNUSABLE[task], UNFIT[task]]
    records = [*good(task, 2), *bad]
    made = register("set", task, {"train": records, "validation": records})
    assert names_of(examples_of(sio, made)) == ["q0", "q1"]
    problems = sio.finetuning.source_of("set").problems["train"]
    kind = {"hotpotqa": "question too long", "wikihop": "too large"}[task]
    assert problems.counts.total() == 4 and problems.read == 4
    assert {"missing field", "id twice", kind} < set(problems.counts)
    [warning] = [
        r.getMessage() for r in caplog.records if r.name.startswith("etc_jax.tasks.")
    ]
    assert problems.report() in warning and "'lost'" in warning
    kept = examples_of(sio, made, "validation")
    assert names_of(kept) == ["q0", "q1", "lost"]
    assert [x["weights"].tolist() for x in kept] == [[1], [1], [0]]


def test_a_file_that_is_cut_short_is_counted(sio, register):
    task = register("set", "hotpotqa", {"train": good("hotpotqa", 2)})
    [path] = task.source.list_shards("train")
    with open(path, "r+") as file:
        file.truncate(len(json.dumps(good("hotpotqa", 2))) - 20)
    assert names_of(examples_of(sio, task)) == ["q0"]
    assert task.source.problems["train"].counts == {"file cut short": 1}


def test_a_file_that_is_gone_is_named(sio, register):
    task = register("set", "hotpotqa", {"train": good("hotpotqa", 2)})
    [path] = task.source.list_shards("train")
    os.remove(path)
    with pytest.raises(ValueError, match=r"No such file .*set_train\.json"):
        examples_of(sio, task)


def test_a_split_without_a_usable_record_is_refused(sio, register):
    splits = {"train": [UNUSABLE["hotpotqa"]], "validation": good("hotpotqa", 1)}
    task = register("set", "hotpotqa", splits)
    with pytest.raises(
        ValueError, match="no record of split 'train' of hotpotqa .*\n.* 1 x answer not"
    ):
        examples_of(sio, task, num_epochs=None)


def test_what_does_not_fit_is_refused_when_it_is_registered(sio, register, tmp_path):
    records = good("hotpotqa", 1)
    with pytest.raises(
        ValueError, match="no record of hotpotqa can be used: 0 records"
    ):
        register("set", "hotpotqa", {"train": [{}]})
    with pytest.raises(ValueError, match="no data set named 'no_such_set'; there are"):
        register("set", "no_such_set", {})
    with pytest.raises(ValueError, match="needs files of at least one split"):
        register("set", "hotpotqa", {})
    add = sio.finetuning.register_files
    with pytest.raises(FileNotFoundError, match="no file .*gone.json of hotpotqa"):
        files = {"train": tmp_path / "gone.json"}
        add("set", files, tokenizer(), task="hotpotqa")
    path = write_json(tmp_path, records)
    with pytest.raises(ValueError, match=r"lacks cls \(\[CLS\]\)"):
        plain = WordPieceTokenizer(["[PAD]", "[UNK]", "a"])
        add("set", {"train": path}, plain, task="hotpotqa")
    assert not sio.seqio.TaskRegistry.names()


@pytest.mark.full
def test_names_are_not_taken_from_others_and_unknown_ones_are_named(sio, register):
    def nothing(split, shuffle_files):
        return sio.tf.data.Dataset.range(0)

    records = {"train": good("hotpotqa", 1)}
    first = register("set", "hotpotqa", records)
    again = register("set", "hotpotqa", {"train": good("hotpotqa", 2)})
    assert sio.seqio.TaskRegistry.get("set") is again is not first
    sio.seqio.MixtureRegistry.add("mixed", ["set"], default_rate=1.0)
    with pytest.raises(ValueError, match="has a Mixture 'mixed' already"):
        register("mixed", "hotpotqa", records)
    sio.seqio.TaskRegistry.add("foreign", sio.seqio.FunctionDataSource(nothing, []), {})
    with pytest.raises(ValueError, match="'foreign' is not one of fine-tuning"):
        register("foreign", "hotpotqa", records)
    with pytest.raises(ValueError, match=r"has no split 'dev', only \['train'"):
        first.get_dataset(split="dev")
    with pytest.raises(ValueError, match=r"no seqio Task 'st', there are \['foreign'"):
        sio.finetuning.source_of("st")
