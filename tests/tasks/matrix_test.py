"""Every data set for every family that takes it: raw files to the official score."""

import json

import pytest
from data_sets import SAMPLES, as_texts, options_of, release_of, tokenizer_of
from score_packages import require_for
from small_run import evaluated, once, prepared, sizes_of, small_config, trained
from text_sets import TEXT_SETS

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.cli import predict
from etc_jax.datasets import task as task_lib

pytest.importorskip("nupunkt")
SENSES = {"bert": {}, "roberta": {}, "longformer": {"attention_window": (8,)}}
SENSES["big_bird"] = {"block_size": 8, "num_globals": 8}
SENSES["etc"] = {"radius": 11, "max_distance": 8, "num_labels": 24}


WRITTEN = ("text_to_text", "wmt14_en_de")


def families():
    """Those of this project: tests register others."""
    for name in registry.names("model_config"):
        cls = registry.lookup("model_config", name)
        if cls.__module__.startswith("etc_jax."):
            yield name, cls


def cells():
    """(data set, family, format) of what is filled."""
    for name in SAMPLES:
        forms = task_lib.find(name).converters
        for family, cls in families():
            for format in forms.keys() & set(cls.formats) if family in SENSES else ():
                yield name, family, format


CELLS = sorted(cells())
# One of each structure; the commands' own tests learn files of others.
QUICK = ("hotpotqa-etc", "imdb-bert", "text_to_text-longformer-written")


def cell(name, family, format):
    row = f"{name}-{family}" + "-written" * (format == "text_to_text")
    marks = [pytest.mark.full] * (row not in QUICK)
    return pytest.param(name, family, format, marks=marks, id=row)


def config_of(name, family, format, lengths, vocab_size, cache):
    more = {"data__input_options": as_texts(options_of(name, format))}
    model = {"num_types": 16, "max_length": 96, **SENSES[family]}
    if format == "text_to_text":
        more["data__format"], model["causal"] = "text_to_text", True
    if name == "coreference":
        more |= {"objective__ffnn_dim": 8, "objective__max_antecedents": 4}
    fields = config_lib.default_config(family).model
    return small_config(
        *(name, cache, vocab_size, lengths),
        family=family,
        model={k: x for k, x in model.items() if k in fields},
        train__batch_size=8,
        **once(2),
        **more,
    )


@pytest.mark.usefixtures("one_device")
@pytest.mark.parametrize("name, family, format", [cell(*x) for x in CELLS])
def test_from_the_raw_file_to_the_official_score(
    name, family, format, tmp_path, capsys
):
    require_for(name)
    task = task_lib.find_task(name, format)
    path, tokenizer = release_of(name, tmp_path), tokenizer_of(task)
    lengths = (80, 8) if format == "text_to_text" else SAMPLES[name].lengths
    options = as_texts(options_of(name, format))
    cache = prepared(name, format, path, tokenizer, lengths, tmp_path, options)
    lengths, run = sizes_of(name, format, lengths), tmp_path / "run"
    trained(config_of(name, family, format, lengths, tokenizer.vocab_size, cache), run)
    found = evaluated(run, path, tmp_path / "dev")
    assert found["task"] == name

    # The official score of the official file, worked out from both again.
    records = list(task.read([str(path)], None))
    content = (tmp_path / "dev" / task.prediction_file).read_text()
    official = [json.loads(x) for x in content.splitlines()] if task.lines else None
    official = json.loads(content) if official is None else official
    official = {task.prediction_file: official} if task.several else official
    scores = task.score([task.gold(record) for record in records], official)
    assert 0 <= found["metrics"][task.metric] <= 1 and scores.problems() == []
    assert found["metrics"] == pytest.approx(dict(scores.metrics))

    if SAMPLES[name].release is not None:
        return
    # Readers are shown the same answers.
    capsys.readouterr()
    assert predict.main([f"--model={run}", "--json", str(path)]) == 0
    told = map(json.loads, capsys.readouterr().out.splitlines())
    answers = {x["id"]: x["answer"] for x in told}
    assert [*answers] == [record.id for record in records]
    if name == "openkp":
        official = {x["url"]: x["KeyPhrases"] for x in official}
        official = {k: ", ".join(map(" ".join, x)) for k, x in official.items()}
    if name in ("openkp", "triviaqa"):
        assert answers == official


ABSENT = {("coreference", "structured"), ("retrieval", "structured")}
ABSENT |= {(name, format) for name in WRITTEN for format in ("structured", "sequence")}


def test_every_cell_is_filled_or_says_why_it_is_not():
    names = {name for name in task_lib.names() if "." not in name}
    assert names == SAMPLES.keys() | TEXT_SETS.keys()
    for name in SAMPLES:
        data_set = task_lib.find(name)
        for format in ("structured", "sequence"):
            if format not in data_set.converters:
                assert len(data_set.absent[format]) > 20, (name, format)
                assert (name, format) in ABSENT
    # Reformer has no bidirectional model with heads.
    answers = {"structured", "sequence"}
    some = {name for name, cls in families() if answers & set(cls.formats)}
    assert SENSES.keys() == some - {"reformer"}
    assert {family for _, family, _ in CELLS} == SENSES.keys()
    # Multiple choice and SQuAD are written too.
    assert len(CELLS) == 11 + 13 * 4 + len(WRITTEN) + 2
