"""One's own files with three labels go through all commands, labels by their names."""

import csv
import io
import json
import logging
import shlex

import finetuned_run
import jax
import numpy as np
import pytest
from natural_questions_samples import write_lines
from random_params import random_params
from small_run import once, prepared_here, scores_of

import etc_jax
from etc_jax import __main__ as etc_jax_main, config as config_lib
from etc_jax.cli import convert, evaluate, flag as config_flag, predict
from etc_jax.conversion.formats import native
from etc_jax.data.windows.cache import WindowCache, WindowReader
from etc_jax.models.encoder.heads import EncoderWithoutHead
from etc_jax.models.roberta.config import RobertaConfig
from etc_jax.prediction.model_files import open_model
from etc_jax.training import errors
from etc_jax.training.run import train_and_evaluate

pytest.importorskip("sklearn")
pytestmark = pytest.mark.usefixtures("one_device")
# The word that decides, by label: with spaces, a comma and other letters.
WORDS = {"red, fish": "which", "blue": "born", "日本": "town"}
LENGTHS = {"sequence": (24, 1), "structured": (24, 4)}


def text_of(rng, *labels):
    words = [WORDS[label] for label in labels] + list(rng.choice(["the", "of", "a"], 5))
    return " ".join(rng.permutation(words))


def rows(number, seed):
    rng = np.random.default_rng(seed)
    labels = [list(WORDS)[i % 3] for i in range(number)]
    return [(text_of(rng, label), label) for label in labels]


def write_csv(path, values, delimiter=","):
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerows([("body", "topic"), *values])
    path.write_text(file.getvalue(), encoding="utf-8")
    return path


def sets(number, seed):
    """Texts with none to all of the labels."""
    rng = np.random.default_rng(seed)
    for i in range(number):
        labels = [label for k, label in enumerate(WORDS) if i >> k & 1]
        yield {"body": text_of(rng, *labels), "topic": labels}


def prepared(run, file, *flags, format="sequence", **kwargs):
    columns = ("--text_column=body", "--label_column=topic", *flags)
    made = ("classification", file, *columns)
    return prepared_here(run, *made, format=format, lengths=LENGTHS[format], **kwargs)


def config_of(arg, **changes):
    values = config_flag.module_of("classification").get_config(arg)
    values.update_from_flattened_dict(changes)
    return config_lib.from_config_dict(values)


def following(said, name):
    """The arguments of the command that is to be given next."""
    program, command, *arguments = shlex.split(said.splitlines()[-1].split(": ", 1)[1])
    assert (program, command) == ("etc-jax", name)
    return [command, *arguments]


def trained(arg, num_steps=80):
    """Evaluated at the end alone."""
    config = config_of(arg, **once(num_steps))
    assert train_and_evaluate(config, "run").exit_code == errors.DONE
    return config


@pytest.mark.parametrize("format", ["sequence", "structured"])
@pytest.mark.full
def test_three_labels_are_learnt_from_a_csv(format, run, tmp_path, caplog):
    train = write_csv(tmp_path / "train.csv", rows(48, 0))
    dev = write_csv(tmp_path / "dev.tsv", rows(9, 1), delimiter="\t")
    said = prepared(run, train, format=format)
    assert "48 windows of 48 records" in said and "nothing left out" in said
    # From here on what each command says is done next.
    config = f"{following(said, 'train')[-1]},tiny,dev={dev.name}"
    caplog.set_level(logging.INFO, "etc_jax")
    steps = [f"--config.{name}={x}" for name, x in once(80).items()]
    run(etc_jax_main, "train", "--workdir=run", config, *steps)
    assert (tmp_path / "run/curves.png").read_bytes().startswith(b"\x89PNG")
    config = open_model("run").config
    assert "labels=[" in config.data.input_options[1]

    said = run(etc_jax_main, *following(caplog.messages[-1], "evaluate"))
    said = run(etc_jax_main, *following(said, "predict"))
    assert said.startswith("9 records answered\n") and "accuracy" in said
    scored = tmp_path / "run/evaluated"
    assert (scored / "answers.html").read_text().count("<article") == 9
    scores = scores_of(scored)
    answers = json.loads((scored / "predictions.json").read_text())
    wanted = {f"dev.tsv:{i}": label for i, (_, label) in enumerate(rows(9, 1), 1)}
    assert scores["metrics"] == dict.fromkeys(("accuracy", "macro_f1", "micro_f1"), 1.0)
    assert answers == wanted
    assert scores["options"]["labels"] == sorted(WORDS)

    if format == "sequence":
        run(convert, "--to_hf=run", "--out=hf")
        values = json.loads((tmp_path / "hf/config.json").read_text())
        assert values["id2label"] == dict(zip("012", sorted(WORDS), strict=True))
        assert values["label2id"] == {x: i for i, x in enumerate(sorted(WORDS))}
        assert values["problem_type"] == "single_label_classification"
        etc_jax.load("run").save("native")
        etc_jax.load("native").save_pretrained("hf_again")
        for name in ("config.json", "model.safetensors"):
            again, first = (tmp_path / f"{x}/{name}" for x in ("hf_again", "hf"))
            assert again.read_bytes() == first.read_bytes()
    # An exported model knows the names too; new texts have no label, and may be JSON.
    run(convert, "--export=run", "--out=model")
    lines = [{"body": text} for text, _ in rows(3, 2)]
    new = write_lines(tmp_path / "new.jsonl", lines)
    unlabelled = tmp_path / "new.csv"
    unlabelled.write_text(f"other,body\r\n1,{rows(1, 3)[0][0]}\r\n")
    told = run(predict, "--model=model", "--json", new, unlabelled).splitlines()
    told = [json.loads(line) for line in told]
    assert [x["answer"] for x in told] == [*WORDS, "red, fish"]
    assert [x["id"] for x in told[2:]] == ["new.jsonl:3", "new.csv:1"]
    assert {x["text"] for x in told[0]["candidates"]} == set(WORDS)


@pytest.mark.full
def test_texts_learn_any_number_of_labels(run, tmp_path):
    train = write_lines(tmp_path / "train.jsonl", sets(64, 0))
    dev = write_lines(tmp_path / "dev.jsonl", sets(8, 1))
    prepared(run, train, "--multi_label")
    with dev.open("a") as file:
        file.write('{"body": "the')  # a damaged record
    # Half of the texts have each label: they count alike anyway.
    said = f"prepared=prepared,dev={dev.name},tiny,class_weights=balanced"
    config = trained(said, num_steps=120)
    assert config.objective.class_weights == (1.0, 1.0, 1.0)
    assert config.checkpoint.best_metric == "official_micro_f1"
    run(evaluate, "--model=run", "--out=scored", dev)
    scores = scores_of("scored")
    # The damaged record is wrong, and of no label.
    want = {"accuracy": 8 / 9, "macro_f1": 1.0, "micro_f1": 1.0}
    assert scores["metrics"] == pytest.approx(want)
    assert (scores["records"], scores["unreadable"]) == (9, 1)
    run(convert, "--to_hf=run", "--out=hf")
    values = json.loads((tmp_path / "hf/config.json").read_text())
    assert values["problem_type"] == "multi_label_classification"
    said = json.loads((tmp_path / "scored/predictions.json").read_text())
    wanted = [sorted(value["topic"]) for value in sets(8, 1)]
    assert list(said.values()) == wanted
    told = run(predict, "--model=run", "--json", dev).splitlines()
    assert [json.loads(x)["prediction"] for x in told] == wanted
    # All labels are shown, each with a probability of its own.
    shown = [x["probability"] for x in json.loads(told[7])["candidates"]]
    assert len(shown) == 3 and min(shown) > 0.5


def test_rare_labels_can_count_more(run, tmp_path):
    values = [*rows(3, 0), *(x for x in rows(15, 1) if x[1] == "blue")]
    prepared(run, write_csv(tmp_path / "train.csv", values))
    weights = config_of("prepared=prepared,tiny,class_weights=balanced")
    # blue: 6 of 8 texts; the others, which sort after it: 1 each.
    want = [8 / (3 * 6), 8 / 3, 8 / 3]
    np.testing.assert_allclose(weights.objective.class_weights, want, atol=1e-6)
    changes = {"objective.class_weights": (1.0, 2.0)}
    with pytest.raises(
        errors.UserError, match="has 2 values; expected one .* 3 labels: blue"
    ):
        train_and_evaluate(config_of("prepared=prepared,tiny", **changes), "run")


def test_a_label_that_was_never_seen_is_refused_before_any_work(run, tmp_path):
    prepared(run, write_csv(tmp_path / "train.csv", rows(6, 0)))
    values = [*rows(2, 1), ("the town", "green")]
    dev = write_csv(tmp_path / "dev.csv", values)
    known = json.dumps(sorted(WORDS))
    said = prepared(run, dev, f"--labels={known}", "--out=dev", code=2)
    assert "dev.csv, record 3: 'dev.csv:3' has the label 'green', which is none" in said
    assert "'blue', 'red, fish', '日本'" in said and not (tmp_path / "dev").exists()
    config = config_of(f"prepared=prepared,tiny,dev={dev.name}")
    with pytest.raises(errors.UserError, match="dev.csv, record 3: .* label 'green'"):
        train_and_evaluate(config, "run")


def test_other_labels_than_those_of_the_run_are_refused(run, tmp_path, capsys):
    prepared(run, write_csv(tmp_path / "train.csv", rows(6, 0)))
    prepared(run, write_csv(tmp_path / "dev.csv", rows(2, 1)), "--out=dev")
    config = config_of("prepared=prepared,tiny,validation=dev")
    with pytest.raises(
        errors.UserError, match="dev was prepared with .*blue.*red, fish"
    ):
        train_and_evaluate(config, "run")
    with pytest.raises(SystemExit):
        prepared(run, "dev.csv", '--labels=["blue"', "--out=x")
    assert '--labels: is ["blue"; expected names' in capsys.readouterr().err
    without = {"data.input_options": ()}
    with pytest.raises(
        errors.UserError, match="labels are not known; set data.input_options"
    ):
        train_and_evaluate(config_of("prepared=prepared,tiny", **without), "run")


def test_a_second_column_is_part_of_the_inputs(run, tmp_path):
    lines = [
        {"body": text, "topic": label, "claim": "which town"}
        for text, label in rows(6, 0)
    ]
    prepared(run, write_lines(tmp_path / "a.jsonl", lines), "--second_column=claim")
    cache = WindowCache.open("prepared")
    assert 'second_column="claim"' in cache.input_options
    reader = WindowReader([cache], lengths=cache.sizes, batch_size=6, seed=0)
    batch, tokenizer = reader.batch_at(0), cache.load_tokenizer()
    for ids, types in zip(batch["tokens"], batch["types"], strict=True):
        assert tokenizer.pieces(ids[types == 1]) == ["which", "town", "[SEP]"]


def test_a_converted_model_gives_family_and_sizes(run, tmp_path):
    prepared(run, write_csv(tmp_path / "train.csv", rows(6, 0)))
    sizes = {"embed_dim": 8, "num_layers": 1, "num_heads": 2, "mlp_dim": 8}
    tokenizer = finetuned_run.tokenizer()
    model = RobertaConfig(vocab_size=tokenizer.vocab_size, max_length=30, **sizes)
    tokens = np.ones((1, 4), np.int32)
    encoder = random_params(EncoderWithoutHead(model).init, tokens)
    native.save("model", encoder, model, {})
    tokenizer.save("model/tokenizer.json")
    config = config_of("prepared=prepared,from=model,epochs=7")
    assert (config.family, config.model) == ("roberta", model)
    assert config.train.num_steps == 1  # of 6 * 7 / 32
    assert train_and_evaluate(config, "run").exit_code == errors.DONE
    # One step of warm-up leaves the encoder as it was.
    learnt = open_model("run").params["encoder"]["stack"]
    for got, want in zip(
        *map(jax.tree.leaves, (learnt, encoder["encoder"]["stack"])), strict=True
    ):
        np.testing.assert_allclose(got, want, atol=1e-4)


def test_a_cache_is_found_again_and_a_missing_column_is_told_the_others(run, tmp_path):
    train = write_csv(tmp_path / "train.csv", rows(6, 0))
    prepared(run, train)
    assert "nothing to do" in prepared(run, train)
    flags = ("--text_column=txt",)
    said = prepared(run, train, *flags, "--out=x", code=2)
    assert "no 'txt'; fields are: body, topic" in said


@pytest.mark.parametrize(
    "arg, said",
    [
        ("epochs=0", "epochs=0; expected one whole number"),
        (
            "prepared=",
            "'prepared=' in 'prepared='; expected one value each of prepared=",
        ),
        ("folder=x", "expected one value each of prepared="),
        ("prepared=none", "no window cache in none"),
        ("from=none", "from=: .none. is neither a folder here"),
        ("from=none,bert", "says which model it is; leave bert out"),
        ("bert,etc", "exclude each other"),
        ("dev=a.csv,tiny", "dev= needs prepared=FOLDER beside it"),
    ],
)
def test_what_a_config_is_told_wrongly_is_named(run, arg, said):
    with pytest.raises((ValueError, OSError), match=said):
        config_of(arg)
