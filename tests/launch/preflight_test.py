"""What a job would take; that its step is compiled is dry_run's own test."""

import jax
import numpy as np
import pytest
from etils import epath

from etc_jax.cli import train
from etc_jax.data.source_configs import JsonLinesConfig, PairsConfig
from etc_jax.datasets import pairs
from etc_jax.launch import __main__ as launch, preflight
from etc_jax.papers import cost
from etc_jax.training.errors import UserError
from etc_jax.training.preflight import plan

TRAIN = ["--", "train", "--config=quickstart", "--workdir=runs/absent"]
QUEUED = ["queued", "preflight", "--name=a", "--zone=z"]


@pytest.fixture
def compiled(monkeypatch):
    """The topologies that steps are compiled for; one of them is too small."""
    topologies = []

    def dry_run(config, topology, memory_of):
        assert not list(config.data.missing())
        topologies.append((topology, memory_of))
        if topology == "v5e:1x1":
            raise UserError("the step needs more; what helps: fewer rows")
        return "it fits"

    monkeypatch.setattr(preflight, "dry_run", dry_run)
    return topologies


def test_hours_and_money_are_those_of_the_flops(compiled, capsys):
    flags = ["--hardware=v5e:4x4", "--slices=2", "--efficiency=0.2", "--price=3"]
    assert launch.main([*QUEUED, *flags, *TRAIN]) == 0
    flops = cost.cost_of(train.config_of(TRAIN[2:])).flops
    hours = flops / (32 * 197e12 * 0.2) / 3600
    text = capsys.readouterr().out
    assert "Job a: 32 chips TPU v5e on 8 hosts; 350 steps" in text
    assert (
        f"  {hours:,.3g} hours ({hours / 24:,.3g} days), {hours * 32:,.3g} of" in text
    )
    assert f"  {hours * 32 * 3:,.3g} at 3 an hour of a chip" in text
    assert text.endswith("\n\nit fits\n") and compiled == [("v5e:4x4*2", None)]
    assert jax.config.jax_platforms == "cpu"


@pytest.mark.parametrize("config", ["etc_base_pretrain", "reformer_enwik8"])
def test_text_and_bytes_need_not_be_here(config, monkeypatch, capsys):
    """Their batches are those of invented ones, as long as the config's."""

    def dry_run(config, topology, memory_of):
        job = plan.make_job(config, epath.Path(config.data.paths[0]).parent)
        batch = next(job.eval_batches(np.arange(1)))
        return (
            f"{job.tokens_per_step} {max(x.shape[-1] for x in jax.tree.leaves(batch))}"
        )

    monkeypatch.setattr(preflight, "dry_run", dry_run)
    flags = ["--hardware=v5e:4x4", "--", "train", f"--config={config}"]
    flags += ["--workdir=runs/absent", "--config.data.paths=('absent',)"]
    assert launch.main([*QUEUED, *flags, "--config.train.batch_size=8"]) == 0
    length = {"etc_base_pretrain": 4096, "reformer_enwik8": 65536}[config]
    assert capsys.readouterr().out.endswith(f"\n\n{8 * length} {length}\n")


@pytest.fixture
def vocabulary(tmp_path):
    """A file of words."""
    file = tmp_path / "vocab.txt"
    file.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    return str(file)


def test_texts_are_read_by_the_vocabulary_of_the_run_if_it_is_here(
    tmp_path, vocabulary
):
    """Its special tokens are those that a model writes."""
    for tokenizer, read in ((vocabulary, vocabulary), ("gs://b/vocab.txt", None)):
        config = JsonLinesConfig(paths=("absent",), tokenizer=tokenizer)
        data = config.invented(tmp_path)
        assert not list(data.missing()) and data.tokenizer == read


def test_pairs_need_not_be_here_but_their_vocabulary(tmp_path, vocabulary):
    absent = {"paths": ("absent",), "validation_paths": ("absent",)}
    config = PairsConfig(**absent, tokenizer=vocabulary)
    data = config.invented(tmp_path)
    assert not list(data.missing()) and data.tokenizer == config.tokenizer
    train_pairs, validation = (list(pairs.read_complete(data.files(x))) for x in absent)
    assert len(train_pairs) == 30 and len(validation) == 10
    # Targets that are cut are refused where they are many.
    assert all(len(x.target) < len(x.input) / 100 for x in train_pairs)


def test_a_step_that_does_not_fit_is_refused_with_what_helps(compiled, capsys):
    assert launch.main([*QUEUED, "--hardware=v5e:1x1", *TRAIN]) == 2
    assert "what helps: fewer rows" in capsys.readouterr().err


@pytest.mark.parametrize(
    "backend, hardware, topology, kind",
    [
        ("slurm", ["h100:8", "--slices=2"], "v5p:2x2x4", "NVIDIA H100 80GB HBM3"),
        ("slurm", ["h200:1"], "v5p:1x1x1", "NVIDIA H200"),
        ("tpu_vm", ["v3:4x4"], "v5p:2x2x8", "TPU v3"),
        ("tpu_vm", ["v4:2x2x2"], "v5p:2x2x2", "TPU v4"),
    ],
)
def test_what_cannot_be_compiled_for_is_stood_for(
    backend, hardware, topology, kind, compiled, capsys
):
    """By as many devices as jax would count; the memory is that of the real ones."""
    argv = [backend, "preflight", "--name=a", "--hardware=" + hardware[0]]
    argv += [*hardware[1:], *(["--zone=z"] if backend == "tpu_vm" else []), *TRAIN]
    assert launch.main(argv) == 0
    assert compiled == [(topology, kind)]
    assert f"{kind} cannot be compiled for here" in capsys.readouterr().out


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--efficiency=0", *TRAIN], "--efficiency is 0.0; expected above 0"),
        (["--price=-1", *TRAIN], "--price is -1.0; expected a number above 0"),
        (["--", "evaluate", "x"], "preflight is of a training command; evaluate was"),
        ([*TRAIN, "--config.train.num_steps=-1"], "train.num_steps"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_compiled(
    argv, message, compiled, capsys
):
    assert launch.main([*QUEUED, "--hardware=v5e:4x4", *argv]) == 2
    assert message in capsys.readouterr().err
    assert not compiled
