"""Encoder-decoders through the training loop: files to checkpoint, resumed, refused."""

import jax
import numpy as np
import pytest
import toy_seq2seq
from causal_pairs import PIECES, WORDS, copies, write
from config_changes import changed
from training_runs import check_stops, lines

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.data.tokenizers.tokenizer import (
    WordPieceTokenizer,
    train as train_tokenizer,
)
from etc_jax.tasks.synthetic import text_to_text as synthetic
from etc_jax.training import errors
from etc_jax.training.run import train_and_evaluate

ROWS, INPUT, TARGET = 8, 16, 8


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    WordPieceTokenizer(PIECES).save(folder / "tokenizer.json")
    write(folder / "train.jsonl", copies(64, "train"))
    write(folder / "dev.jsonl", copies(12, "dev"))
    return folder


def config_of(home, family=toy_seq2seq.NAME, **changes):
    values = config_lib.default_config(family)
    values.model.update(vocab_size=len(PIECES), embed_dim=16)
    values.objective.name = "seq2seq"
    values.data.update(
        source="pairs",
        paths=(str(home / "train.jsonl"),),
        validation_paths=(str(home / "dev.jsonl"),),
        tokenizer=str(home / "tokenizer.json"),
        cache_dir=str(home / "cache"),
        vocab_size=len(PIECES),
        input_length=INPUT,
        target_length=TARGET,
    )
    values.optimizer.learning_rate = 2e-2
    values.schedule.warmup_steps = 2
    values.train.update(batch_size=ROWS, num_steps=6, log_every_steps=1)
    values.train.eval_every_steps = 3
    values.checkpoint.every_steps = 2
    return changed(values, changes)


def job_of(home, folder, **changes):
    config = config_of(home, **changes)
    return registry.lookup("objective", "seq2seq")(config, folder)


# --- runs -----------------------------------------------------------------------------


@pytest.mark.full
def test_a_run_is_resumed_bit_by_bit(home, tmp_path):
    config = config_of(home, objective__label_smoothing=0.1, objective__z_loss=1e-4)
    check_stops(config, tmp_path, [3])
    first, last = lines(tmp_path / "whole", "eval")
    assert last["loss"] < first["loss"]
    assert last["bits"] == pytest.approx(last["loss"] / np.log(2), rel=1e-5)
    assert last["cut_share"] == 0 and 0 <= last["accuracy"] <= 1


@pytest.mark.full
def test_r3f_is_of_training_alone(home, tmp_path):
    """On devices that split rows and tables, in two microbatches of a step."""
    config = config_of(
        home,
        objective__r3f={"weight": 0.5, "noise": 1e-2},
        mesh__fsdp=2,
        train__batch_size=2 * ROWS,
        train__accumulation_steps=2,
        train__num_steps=2,
        train__eval_every_steps=2,
    )
    assert train_and_evaluate(config, tmp_path).exit_code == errors.DONE
    first, second = lines(tmp_path, "train")
    [evaluated] = lines(tmp_path, "eval")
    assert 0 < first["r3f"] != second["r3f"] > 0
    assert evaluated["loss"] > 0 and "r3f" not in evaluated


def test_packed_and_unpacked_rows_are_evaluated_alike(home, tmp_path):
    found = {}
    for packed in (True, False):
        job = job_of(home, tmp_path, objective__packed=packed)
        params = job.init_params(jax.random.key(0))
        loss = jax.jit(lambda p, b, job=job: job.loss_fn(p, b, None, True))
        sums = [loss(params, batch) for batch in job.eval_batches(np.arange(ROWS))]
        found[packed] = {k: np.sum([x[k] for x in sums], axis=0) for k in sums[0]}
        rows = job.steps_per_epoch * ROWS
        assert rows < 40 if packed else rows == 64
    assert len(sums) == 2  # 12 pairs in 8 rows each
    for name, got in found[True].items():
        np.testing.assert_allclose(got, found[False][name], rtol=1e-5)


def test_inputs_are_named_and_an_edit_changes_them(home, tmp_path):
    train, dev = (str(home / f"{side}.jsonl") for side in ("train", "dev"))
    before = job_of(home, tmp_path).inputs
    names = {"tokenizer", "training pairs", "held-back pairs"}
    assert before.keys() == names | {f"pairs {train}", f"pairs {dev}"}
    assert all(len(digest) == 64 for digest in before.values())
    other = write(tmp_path / "dev.jsonl", copies(12, "other"))
    after = job_of(home, tmp_path, data__validation_paths=(str(other),)).inputs
    same = {name for name in before if before[name] == after.get(name)}
    assert same == {"tokenizer", "training pairs", f"pairs {train}"}


def test_a_batch_is_checked_and_counted(home, tmp_path):
    job = job_of(home, tmp_path)
    batch = job.train_batch(0, np.arange(ROWS))
    assert job.check_batch(batch) == []
    assert job.tokens_per_step == ROWS * (INPUT + TARGET)
    assert job.useful_flops(batch) is None  # the toy does not say what it asks for
    [problem] = job.check_batch({**batch, "target_tokens": batch["target_tokens"] + 40})
    assert problem.startswith("target_tokens holds ids from 40 to ")


def test_global_places_are_checked_where_there_are_some(home, tmp_path):
    job = job_of(home, tmp_path, objective__global_tokens=1, data__global_length=8)
    batch = job.train_batch(0, np.arange(ROWS))
    assert job.check_batch(batch) == []
    assert batch["global_index"].shape == (ROWS, 8)
    starts = np.diff(batch["input_example_ids"], axis=1, prepend=0) > 0
    assert (batch["global_index"] >= 0).sum() == starts.sum()
    [problem] = job.check_batch(
        {**batch, "global_index": batch["global_index"] + INPUT}
    )
    assert problem.startswith("global_index holds positions from ")
    with pytest.raises(
        ValueError, match="raise it to ., or set objective.packed=False"
    ):
        job_of(home, tmp_path, objective__global_tokens=1, data__global_length=1)


def test_useful_flops_are_asked_for_the_two_sides(home, tmp_path, monkeypatch):
    class Flops:
        @staticmethod
        def body(config, inputs):
            return 10.0 * sum((x.example_ids > 0).sum() for x in inputs)

        @staticmethod
        def causal_logits(config):
            return 7.0

    monkeypatch.setitem(
        registry._TABLES.setdefault("useful_flops", {}), toy_seq2seq.NAME, Flops
    )
    job = job_of(home, tmp_path)
    batch = job.train_batch(0, np.arange(ROWS))
    n, m = ((batch[f"{k}_example_ids"] > 0).sum() for k in ("input", "target"))
    assert job.useful_flops(batch) == 3 * (10 * (n + m) + 7 * m)
    # With R3F the model reads each batch twice.
    twice = job_of(home, tmp_path, objective__r3f={"weight": 0.01})
    assert twice.useful_flops(batch) == 2 * job.useful_flops(batch)


def test_synthetic_pairs_are_learnt_from(tmp_path):
    items = list(synthetic.records(24, seed=0))
    texts = [x["input"] for x in items] + [x["target"] for x in items]
    vocabulary = train_tokenizer(texts, vocab_size=300)
    vocabulary.save(tmp_path / "tokenizer.json")
    write(tmp_path / "train.jsonl", items[:20])
    write(tmp_path / "dev.jsonl", items[20:])
    size = vocabulary.vocab_size
    changes = {"data__vocab_size": size, "model__vocab_size": size}
    changes["model__eos_id"] = vocabulary.special_id("sep")
    changes |= {"data__input_length": 64, "data__target_length": 24}
    job = job_of(tmp_path, tmp_path, **changes)
    batch = job.train_batch(0, np.arange(ROWS))
    assert job.check_batch(batch) == []
    ids, tokens = batch["target_example_ids"][0], batch["target_tokens"][0]
    said = vocabulary.decode(tokens[ids == 1][:-1])
    assert said in {
        vocabulary.decode(vocabulary.encode_batch([x["target"]])[0][0])
        for x in items[:20]
    }
    # Inputs of documents are longer than 64 tokens.
    assert batch["cut_tokens"].sum() > 0


# --- what is refused ------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"objective__label_smoothing": 1.5},
            r"label_smoothing: is 1.5; expected a number",
        ),
        (
            {"objective__z_loss": -1.0},
            r"objective.z_loss: is -1.0; expected 0 or more",
        ),
        ({"data__tokenizer": None}, r"data.tokenizer: is None; name the vocabulary"),
        (
            {"data__validation_paths": ()},
            r"validation_paths: is empty; name what to eval",
        ),
        ({"data__paths": ()}, r"data.paths: is empty; name the files or folders"),
        ({"data__max_cut_targets": 2.0}, r"max_cut_targets: is 2.0; expected a number"),
        (
            {"data__source": "duplication"},
            r"'seq2seq' learns from one of pairs; set .*JS",
        ),
        ({"data__long_length": 64}, r"data.long_length: is 64, but inputs of this run"),
    ],
)
def test_a_config_that_cannot_be_is_refused(home, changes, message):
    with pytest.raises(config_lib.ConfigError, match=message):
        config_of(home, **changes)


@pytest.mark.parametrize(
    "family, changes, message",
    [
        (
            "reformer_seq2seq",
            {"data__target_length": 2000},
            "target_length: is 2000, more than the 1024 tokens that the decoder writes",
        ),
        (
            "t5",
            {"objective__global_tokens": 1},
            "global_tokens: is 1, but this encoder has no global tokens",
        ),
        (
            "led",
            {"data__input_length": 20_000},
            "length: is 20000, more than the 16384",
        ),
        (
            "bart",
            {"model__decoder_start_id": 16},
            "decoder_start_id: is 16; .* 0 to 15",
        ),
        (
            "bart",
            {"model__eos_id": -1},
            "eos_id: is -1; expected a row of the token ta",
        ),
    ],
)
def test_a_family_s_config_that_cannot_be_is_refused(home, family, changes, message):
    ids = {"model__pad_id": 0, "model__decoder_start_id": 2, "model__eos_id": 3}
    heads = {"model__num_heads": 2}
    if family == "reformer_seq2seq":
        heads["model__axial_shape"] = (128, 128)
    with pytest.raises(config_lib.ConfigError, match=message):
        config_of(home, family, **{**ids, **heads, **changes})


def refused(home, tmp_path, message, **changes):
    with pytest.raises(errors.UserError, match=message) as found:
        train_and_evaluate(config_of(home, **changes), tmp_path / "run")
    assert len(str(found.value)) < 700


@pytest.mark.parametrize(
    "line, message",
    [
        ('{"input": "red"}', r"a.jsonl, record 2: no 'target'; fields are: input"),
        ('{"input": " ", "target": "red"}', r"record 2: the input is blank"),
        ('{"input": 7, "target": "red"}', r"record 2: 'input' is int '7', expected"),
        ('{"input": "red"', r"record 2: .* expected one JSON object a line"),
    ],
)
@pytest.mark.usefixtures("no_compile")
def test_a_bad_pair_is_one_error_before_compiling(home, tmp_path, line, message):
    file = tmp_path / "a.jsonl"
    file.write_text(f'{{"input": "red", "target": "blue"}}\n{line}\n')
    refused(home, tmp_path, message, data__paths=(str(file),))


LONG = {"input": "red", "target": " ".join(WORDS * 2)}


@pytest.mark.usefixtures("no_compile")
def test_many_targets_that_would_be_cut_are_refused(home, tmp_path):
    records = [*copies(4, "train"), LONG]
    paths = (str(write(tmp_path / "long.jsonl", records)),)
    message = (
        r"20.0% of the training targets have more than data.target_length = 8 .*"
        r"the longest has 17 tokens \(long.jsonl:5\): raise data.target_length"
    )
    refused(home, tmp_path, message, data__paths=paths)
    job = job_of(home, tmp_path, data__paths=paths, data__max_cut_targets=0.2)
    cut = sum(job.train_batch(i, np.arange(ROWS))["cut_tokens"].sum() for i in range(1))
    assert cut in (9, 18, 27, 36)  # 9 each time that the long one comes up


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"data__paths": ("nothing.jsonl",)}, r"data.paths: no file matches 'nothing"),
        ({"data__tokenizer": "nowhere"}, r"data.tokenizer: no tokenizer at nowhere"),
        ({"data__vocab_size": 12}, r"data.vocab_size is 12, but the tokenizer has 16"),
        (
            {"model__eos_id": 2},
            r"ends a text with '\[SEP\]', id 3, but model.eos_id is",
        ),
        (
            {"family": "longformer", "model__num_heads": 2},
            "seq2seq does not train model.family: no seq2seq model named 'longformer'",
        ),
    ],
)
@pytest.mark.usefixtures("no_compile")
def test_what_does_not_fit_is_one_error_before_compiling(
    home, tmp_path, changes, message
):
    refused(home, tmp_path, message, **changes)


@pytest.mark.usefixtures("no_compile")
def test_a_file_on_both_sides_is_refused(home, tmp_path):
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes((home / "train.jsonl").read_bytes())
    message = r"1 of data.validation_paths are training files too, such as .*copy.jsonl"
    refused(home, tmp_path, message, data__validation_paths=(str(copy),))


@pytest.mark.parametrize(
    "lacking, changes, message",
    [
        (
            "[SEP]",
            {},
            r"vocabulary of 15 pieces lacks sep \(\[SEP\]\); use a vocabulary",
        ),
        (
            "[CLS]",
            {"data__begin_token": True, "model__eos_id": 2},
            r"lacks cls \(\[CLS",
        ),
    ],
)
@pytest.mark.usefixtures("no_compile")
def test_a_vocabulary_without_its_special_tokens_is_refused(
    home, tmp_path, lacking, changes, message
):
    WordPieceTokenizer([x for x in PIECES if x != lacking]).save(tmp_path / "t.json")
    given = {"data__tokenizer": str(tmp_path / "t.json"), "data__vocab_size": 15}
    refused(home, tmp_path, message, **given, **changes)
