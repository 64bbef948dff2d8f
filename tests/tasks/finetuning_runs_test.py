"""Fine-tuning from raw files to a run: the job, warm starts, exact resume."""

import dataclasses
import json

import jax
import multihop_samples
import numpy as np
import pytest
import toy_job
from multihop_samples import HOTPOT, WIKIHOP, tokenizer, write_json
from small_run import once, small_config
from structured_batch import batch
from written_windows import write_windows

from etc_jax import config as config_lib
from etc_jax.cli import evaluate
from etc_jax.conversion.formats import native
from etc_jax.data.windows.cache import WindowCache
from etc_jax.data.windows.writing import WindowSource
from etc_jax.datasets import task as task_lib
from etc_jax.formats.structured import StructuredSizes
from etc_jax.objectives.jobs.finetuning import make_job
from etc_jax.objectives.learners import finetuning
from etc_jax.training import errors, run as run_lib
from etc_jax.training.run import train_and_evaluate

pytest.importorskip("nupunkt")
SIZES = StructuredSizes(64, 24)
TOKENIZER = tokenizer()


def no_note(kind, message):
    raise AssertionError(f"{kind}: {message}")


def raw(task):
    """Six raw records that differ in their questions, those of WikiHop in answers."""
    if task == "hotpotqa":
        return [
            HOTPOT | {"_id": f"a{i}", "question": "who" + " no" * i} for i in range(6)
        ]
    return [
        WIKIHOP
        | {
            "id": f"w{i}",
            "query": "country old mill" + " no" * i,
            "answer": WIKIHOP["candidates"][i % 4],
        }
        for i in range(6)
    ]


def windows_of(task):
    chosen = task_lib.find_task(task)
    records = [chosen.parse(value, no_note) for value in raw(task)]
    return [w for r in records for w in chosen.features(r, TOKENIZER, SIZES)]


@pytest.fixture(scope="module")
def caches(tmp_path_factory):
    """Folder of each task's cache."""
    folders = {}
    for task in ("hotpotqa", "wikihop"):
        folders[task] = tmp_path_factory.mktemp("caches") / task
        source = WindowSource(task, "structured", dataclasses.asdict(SIZES))
        write_windows(windows_of(task), TOKENIZER, folders[task], source)
    return folders


def config_of(task, folder, **changes):
    small = {"train.batch_size": 4, **once(6), "train.eval_every_steps": 3}
    small |= {"checkpoint.every_steps": 3, "mesh.data": 4, "mesh.fsdp": 1}
    sizes = dataclasses.asdict(SIZES)
    return small_config(
        *("hotpotqa", folder, TOKENIZER.vocab_size, sizes),
        model={"vocab_size": 108, "radius": 5},
        **{"objective.name": task, "mesh.tensor": 2, **small, **changes},
    )


@pytest.mark.parametrize("task", ["hotpotqa", "wikihop"])
def test_batches_are_the_windows_of_the_files(caches, task, tmp_path):
    job = make_job(config_of(task, caches[task]), tmp_path)
    rows = np.arange(4)
    got = list(job.eval_batches(rows))
    assert len(got) == 2 and got[1]["weights"].tolist() == [1, 1, 0, 0]
    tokens, types, structure, labels = batch(windows_of(task)[:4])
    np.testing.assert_array_equal(got[0]["long_tokens"], tokens.long)
    np.testing.assert_array_equal(got[0]["global_types"], types.global_)
    assert set(labels) == set(got[0]["labels"])
    for name, label in labels.items():
        np.testing.assert_array_equal(got[0]["labels"][name], label)
    for field in dataclasses.fields(structure):
        want = getattr(structure, field.name)
        if want is not None:
            found = getattr(got[0]["structure"], field.name)
            np.testing.assert_array_equal(found, want)
    assert [job.check_batch(x) for x in got] == [[], []]
    assert (job.tokens_per_step, job.steps_per_epoch) == (4 * 64, 1.5)
    assert job.inputs == {
        "tokenizer": TOKENIZER.fingerprint(),
        f"window cache {caches[task]}": WindowCache.open(caches[task]).digest,
    }


def test_the_flat_ablation_has_one_segment_and_no_exemption(caches, tmp_path):
    config = config_of("wikihop", caches["wikihop"], **{"data.flat": True})
    made = make_job(config, tmp_path).train_batch(0, np.arange(4))["structure"]
    assert made.links.shape[-1] == 1
    assert made.long_segment_ids is None and made.exempt_g2l is None


def test_ids_beyond_a_table_are_named(caches, tmp_path):
    config = config_of("wikihop", caches["wikihop"])
    smaller = dataclasses.replace(config.model, num_types=5)
    job = make_job(dataclasses.replace(config, model=smaller), tmp_path)
    said = job.check_batch(job.train_batch(0, np.arange(4)))
    assert said and all("model.num_types is 5" in line for line in said)
    smaller = dataclasses.replace(config.model, vocab_size=12)
    with pytest.raises(ValueError, match="up to id 106, but .* 12 rows"):
        make_job(dataclasses.replace(config, model=smaller), tmp_path)


@pytest.mark.parametrize(
    "task, changes, message",
    [
        ("hotpotqa", {"objective.name": "wikihop"}, "inputs of 'hotpotqa', but"),
        ("wikihop", {"data.vocab_size": 30}, "vocabulary of .* ids, but data.vocab"),
        ("wikihop", {"data.long_length": 40}, "raise data.long_length, or"),
        ("wikihop", {"data.official_quirks": True}, "prepared without --official_q"),
        (
            "wikihop",
            {"data.input_options": ("x=1",)},
            "wikihop has no option x; there",
        ),
    ],
)
def test_a_cache_that_does_not_fit_is_refused(caches, tmp_path, task, changes, message):
    with pytest.raises(ValueError, match=message):
        make_job(config_of(task, caches[task], **changes), tmp_path)


@pytest.mark.parametrize("lengths", [(64, 24), (63, 23), (4096, 256)])
def test_lengths_that_only_cut_off_may_be_others(caches, tmp_path, lengths):
    names = ("data.long_length", "data.global_length")
    changes = dict(zip(names, lengths, strict=True))
    job = make_job(config_of("hotpotqa", caches["hotpotqa"], **changes), tmp_path)
    batch = job.train_batch(0, np.arange(4))
    assert batch["long_tokens"].shape == (4, lengths[0])
    assert batch["global_tokens"].shape == (4, lengths[1])


def test_text_cannot_stand_for_prepared_inputs(caches):
    with pytest.raises(config_lib.ConfigError, match="etc-jax prepare"):
        config_of("hotpotqa", caches["hotpotqa"], **{"data.source": "cache"})
    with pytest.raises(config_lib.ConfigError, match="learns from one of builtin"):
        config_of("mlm_cpc", caches["hotpotqa"])


def test_a_path_that_leads_nowhere_is_named_before_anything_else(tmp_path):
    config = config_of("hotpotqa", tmp_path / "nothing")
    with pytest.raises(errors.UserError, match="no window cache in .*etc-jax prepare"):
        train_and_evaluate(config, tmp_path / "run")


def saved_encoder(folder, config, tokenizer=TOKENIZER):
    """A converted model of an encoder alone; returns its parameters."""
    task = finetuning.find(config.model, config.objective)
    rng = np.random.default_rng(7)
    abstract = jax.eval_shape(task.init, jax.random.key(0))["encoder"]
    encoder = jax.tree.map(
        lambda a: 0.3 * rng.normal(size=a.shape).astype(a.dtype), abstract
    )
    native.save(folder, {"encoder": encoder}, config.model, {})
    tokenizer.save(folder / "tokenizer.json")
    return encoder


@pytest.fixture(scope="module")
def whole_run(caches, tmp_path_factory):
    """(config, folder, result) of a run that began from a converted encoder."""
    folder = tmp_path_factory.mktemp("whole")
    config = config_of(
        "wikihop",
        caches["wikihop"],
        **{
            "checkpoint.init_from": str(folder / "model"),
            "checkpoint.init_from_only": ("encoder",),
            "optimizer.learning_rate": 1e-6,
        },
    )
    encoder = saved_encoder(folder / "model", config)
    return config, encoder, train_and_evaluate(config, folder / "run"), folder


@pytest.mark.full
def test_a_run_begins_with_a_converted_encoder(whole_run):
    _, encoder, result, _ = whole_run
    assert result.exit_code == errors.DONE
    pairs = zip(
        jax.tree.leaves(encoder),
        jax.tree.leaves(result.state.params["encoder"]),
        strict=True,
    )
    # Six tiny updates away from it.
    assert max(float(np.abs(a - b).max()) for a, b in pairs) < 1e-4
    assert set(result.evaluation) >= {"loss", "accuracy"}


def test_the_tokenizer_lies_in_the_run(whole_run):
    *_, folder = whole_run
    again = type(TOKENIZER).load(folder / "run" / "tokenizer.json")
    assert again.fingerprint() == TOKENIZER.fingerprint()


def test_the_official_score_of_a_run_is_that_of_its_own_evaluation(whole_run, tmp_path):
    _, _, result, folder = whole_run
    file = write_json(tmp_path, raw("wikihop"))
    out = tmp_path / "dev"
    assert evaluate.main([f"--model={folder / 'run'}", f"--out={out}", str(file)]) == 0
    metrics = json.loads((out / evaluate.SCORES).read_text())["metrics"]
    assert 0 < metrics["accuracy"] < 1
    assert metrics["accuracy"] == pytest.approx(result.evaluation["accuracy"])


# Runs of other jobs are stopped and resumed in `main_path_test`, `seq2seq_job_test` and
# `resume_test`, which are quick.
@pytest.mark.full
def test_a_stopped_run_goes_on_bit_by_bit(whole_run, tmp_path, monkeypatch):
    config, _, result, _ = whole_run
    one_step = run_lib.Run._one_step

    def stop_at_3(run):
        if run._step == 3:
            raise KeyboardInterrupt
        one_step(run)

    with monkeypatch.context() as patch:
        patch.setattr(run_lib.Run, "_one_step", stop_at_3)
        with pytest.raises(KeyboardInterrupt):
            train_and_evaluate(config, tmp_path)
    again = train_and_evaluate(config, tmp_path)
    assert toy_job.digest(again.state) == toy_job.digest(result.state)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(x)["step"] for x in lines if '"eval"' in x] == [3, 6]


def test_a_model_of_another_vocabulary_is_refused(caches, tmp_path):
    config = config_of(
        "wikihop",
        caches["wikihop"],
        **{"checkpoint.init_from": str(tmp_path), "checkpoint.init_from_only": ()},
    )
    other = type(TOKENIZER)(list(dict.fromkeys([*multihop_samples.PIECES, "other"])))
    saved_encoder(tmp_path, config, other)
    with pytest.raises(ValueError, match="prepare it with --tokenizer="):
        make_job(config, tmp_path / "run")
