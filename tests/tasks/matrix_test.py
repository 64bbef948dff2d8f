"""Every data set for every family that takes it: raw files to the official score."""

import dataclasses
import json

import classification_samples
import coreference_samples
import multihop_samples
import natural_questions_samples
import openkp_samples
import pytest
import triviaqa_samples
import written_samples
from multihop_samples import HOTPOT, WIKIHOP
from natural_questions_samples import ANN, original
from score_packages import require_for

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.cli import evaluate, prepare
from etc_jax.datasets import task as task_lib
from etc_jax.training import errors
from etc_jax.training.run import train_and_evaluate

pytest.importorskip("nupunkt")
TEXTS = ("The old mill stands in Ton. It burned.", "Ann Lee was the owner.")
SENSES = {"bert": {}, "roberta": {}, "longformer": {"attention_window": (8,)}}
SENSES["big_bird"] = {"block_size": 8, "num_globals": 8}
SENSES["etc"] = {"radius": 11, "max_distance": 8, "num_labels": 24}


# --- official files of two records ----------------------------------------------------


def hotpotqa(folder):
    return multihop_samples.write_json(folder, [HOTPOT, {**HOTPOT, "_id": "b"}])


def wikihop(folder):
    return multihop_samples.write_json(folder, [WIKIHOP, {**WIKIHOP, "id": "b"}])


def natural_questions(folder):
    values = [original(said=(ANN, ANN), name=i) for i in (7, 8)]
    return natural_questions_samples.write_lines(folder / "dev.jsonl", values)


def openkp(folder):
    pages = [openkp_samples.page(url=f"u{i}") for i in range(2)]
    return openkp_samples.write_lines(folder, pages)


def triviaqa(folder):
    value = triviaqa_samples.VALUE
    return triviaqa_samples.release_of(folder, [value, {**value, "QuestionId": "b"}])


def imdb(folder):
    texts = dict(zip(("neg/0_1.txt", "pos/1_9.txt"), TEXTS, strict=True))
    return classification_samples.aclimdb(folder, texts)


def hyperpartisan(folder):
    made, names = classification_samples, ("0000001", "0000002")
    inside = (f"<p>{text}</p>" for text in TEXTS)
    articles = [made.article_xml(*x) for x in zip(names, inside, strict=True)]
    labels = ("false", "true")
    truth = [made.truth_xml(*x) for x in zip(names, labels, strict=True)]
    return made.release(folder, articles, truth)


def classification(folder):
    values = [{"text": text, "label": x} for text, x in zip(TEXTS, "ab", strict=True)]
    return natural_questions_samples.write_lines(folder / "dev.jsonl", values)


def coreference(folder):
    return coreference_samples.write_text(folder, coreference_samples.conll_2012())


def text_to_text(folder):
    values = [{"id": i, "input": x, "target": "Ann"} for i, x in enumerate(TEXTS)]
    values = [{**value, "id": str(value["id"])} for value in values]
    return natural_questions_samples.write_lines(folder / "dev.jsonl", values)


def wmt14_en_de(folder):
    return written_samples.write_pair(folder)


def squad(folder):
    value = written_samples.QUESTION
    return written_samples.write_release(folder, [value, {**value, "id": "b"}])


def token_classification(folder):
    path = folder / "dev.conll"
    sentences = ("The O\nmill B-x\n", "Ann B-y\nLee I-y\nowned O\nit O\n")
    path.write_text("\n".join(sentences))
    return path


def multiple_choice(folder):
    value = {"article": TEXTS[0], "questions": []}
    for number in (1, 2):
        question = {"question": "What burned?", "question_unique_id": f"q{number}"}
        chosen = {"options": ["Ton", "the mill"], "gold_label": number}
        value["questions"].append({**question, **chosen, "difficult": number - 1})
    return natural_questions_samples.write_lines(folder / "dev.jsonl", [value])


def retrieval(folder):
    values = [{"query": text[:20], "passage": text} for text in TEXTS]
    return natural_questions_samples.write_lines(folder / "dev.jsonl", values)


RAW = {
    make.__name__: make
    for make in (hotpotqa, wikihop, natural_questions, openkp, triviaqa)
    + (imdb, hyperpartisan, classification, coreference)
    + (text_to_text, wmt14_en_de, squad, retrieval)
    + (token_classification, multiple_choice)
}
WRITTEN = ("text_to_text", "wmt14_en_de")
SPANS = ("question_tokens=16",)
OPTIONS = {
    "natural_questions": ("question_tokens=4", "stride=24"),
    "classification": ("labels=a,b",),
    "coreference": ("candidates=256",),
    "token_classification": ("labels=B-x,I-x,B-y,I-y,O", "scheme=iob2"),
}
# What only one format has.
OWN_OPTIONS = {("multiple_choice", "sequence"): ("most_options=2",)}
LENGTHS = {"coreference": (96, 1)}


def options_of(name, format):
    """What a data set is told in a format."""
    if name == "squad" and format != "text_to_text":
        return SPANS
    return (*OPTIONS.get(name, ()), *OWN_OPTIONS.get((name, format), ()))


def families():
    """Those of this project: tests register others."""
    for name in registry.names("model_config"):
        cls = registry.lookup("model_config", name)
        if cls.__module__.startswith("etc_jax."):
            yield name, cls


def cells():
    """(data set, family, format) of what is filled."""
    for name in RAW:
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
    values = config_lib.default_config(family)
    model = {"num_types": 16, "max_length": 96, "mlp_dim": 16, **SENSES[family]}
    for field, value in {**model, "embed_dim": 8, "num_heads": 2}.items():
        if field in values.model:
            values.model[field] = value
    values.model.update(vocab_size=vocab_size, num_layers=1, attention="dense")
    values.objective.name = name
    values.data.update(source="windows", paths=(cache,), validation_paths=(cache,))
    values.data.update(vocab_size=vocab_size, input_options=options_of(name, format))
    values.data.update(lengths)
    values.train.update(batch_size=8, num_steps=2, eval_every_steps=2)
    values.checkpoint.every_steps = 2
    if format == "text_to_text":
        values.data.format = "text_to_text"
        values.model.causal = True
    if name == "coreference":
        values.objective.update(ffnn_dim=8, max_antecedents=4)
    return config_lib.from_config_dict(values)


@pytest.mark.usefixtures("one_device")
@pytest.mark.parametrize("name, family, format", [cell(*x) for x in CELLS])
def test_from_the_raw_file_to_the_official_score(
    name, family, format, tmp_path, capsys
):
    require_for(name)
    task = task_lib.find_task(name, format)
    path = RAW[name](tmp_path)
    tokenizer = multihop_samples.tokenizer_for(task)
    if (name, format) == ("natural_questions", "structured"):
        tokenizer = natural_questions_samples.tokenizer()
    tokenizer.save(tmp_path / "tokenizer.json")
    usual = (80, 8) if format == "text_to_text" else (80, 40)
    sizes = type(task.sizes)(*LENGTHS.get(name, usual))
    lengths = dataclasses.asdict(sizes)
    cache, run, out = (str(tmp_path / x) for x in ("cache", "run", "dev"))
    flags = [f"--{option}" for option in options_of(name, format)]
    status = prepare.main(
        [
            *(f"--task={name}", f"--format={format}", f"--out={cache}", *flags),
            *(f"--{field}={length}" for field, length in lengths.items()),
            *(f"--tokenizer={tmp_path / 'tokenizer.json'}", "--workers=0", str(path)),
        ]
    )
    assert status == 0, capsys.readouterr()
    config = config_of(name, family, format, lengths, tokenizer.vocab_size, cache)
    assert train_and_evaluate(config, run).exit_code == errors.DONE
    assert evaluate.main([f"--model={run}", f"--out={out}", str(path)]) == 0
    found = json.loads((tmp_path / "dev" / evaluate.SCORES).read_text())
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


ABSENT = {("coreference", "structured"), ("retrieval", "structured")}
ABSENT |= {(name, format) for name in WRITTEN for format in ("structured", "sequence")}


def test_every_cell_is_filled_or_says_why_it_is_not():
    assert {name for name in task_lib.names() if "." not in name} == RAW.keys()
    for name in RAW:
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
