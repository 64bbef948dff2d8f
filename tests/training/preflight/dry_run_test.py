import dataclasses
import re

import jax
import pytest
import toy_job
import training_runs
from training_runs import MESH, change_batches

from etc_jax.training import run as run_lib
from etc_jax.training.errors import UserError
from etc_jax.training.preflight import (
    device_memory,
    dry_run as dry_run_lib,
    hardware,
    memory_traffic,
    smaller_steps,
)
from etc_jax.training.preflight.dry_run import dry_run
from etc_jax.training.run import train_and_evaluate

MODEL = toy_job.ToyConfig()


def test_the_report_of_a_compiled_step(tmp_path, monkeypatch):
    monkeypatch.setattr(
        run_lib, "init_state", lambda *a: pytest.fail("the state was made")
    )
    text = dry_run(toy_job.config(**MESH), tmp_path / "run")
    params = jax.eval_shape(lambda: toy_job.init_params(MODEL, jax.random.key(0)))
    count = sum(x.size for x in jax.tree.leaves(params))
    assert f"{count:,} parameters" in text
    assert "8 devices of kind" in text and "data=2 x fsdp=2 x tensor=2" in text
    assert "64 tokens a step, 768 in 12 steps" in text
    rows = {line.split()[0]: line for line in text.splitlines() if "float32[" in line}
    assert set(rows) == {
        "final_norm/scale",
        "long_query/kernel",
        "mlp/wi/kernel",
        "mlp/wo/bias",
        "mlp/wo/kernel",
        "token_embedder/embedding",
    }
    wi = " ".join(rows["mlp/wi/kernel"].split())
    assert wi == "mlp/wi/kernel float32[16, 32] fsdp x tensor"
    assert rows["token_embedder/embedding"].endswith("tensor+fsdp x -")
    assert rows["mlp/wo/bias"].endswith("whole on every device")
    assert "Memory of one device" in text
    assert "6.021e+05 FLOPs a step over all devices: " in text
    assert "7.526e+04 of them on each device" in text
    kinds = {line.split()[0] for line in text.splitlines() if line.endswith("MiB")}
    assert {"all-gather", "all-reduce"} <= kinds
    assert not list(tmp_path.iterdir())


def test_what_is_learnt_is_told_where_some_is_frozen():
    groups = (("embedding[4:]", 1.0), ("mlp/.*", 0.1), (".*", 0.0))
    text = dry_run(toy_job.config(optimizer__groups=groups), compiles=False)
    mlp = 2 * MODEL.embed_dim * MODEL.mlp_dim + MODEL.embed_dim
    count = (MODEL.vocab_size - 4) * MODEL.embed_dim + mlp
    assert f"parameters, {count:,} of which are learnt" in text


def test_flops_are_those_of_the_matrix_products(monkeypatch):
    c = MODEL
    positions = 8 * (c.length - 1)
    products = (
        c.embed_dim * c.embed_dim  # queries
        + 2 * c.embed_dim * c.mlp_dim
        + c.embed_dim * c.vocab_size  # logits
    )
    # Forward, and twice as much backward.
    expected = 3 * 2 * positions * products
    text = dry_run(toy_job.config(), compiles=False)
    assert f"{expected:.4g} FLOPs a step over all devices: matrix products" in text
    make = toy_job.make_job
    monkeypatch.setattr(
        dry_run_lib,
        "make_job",
        lambda *a: dataclasses.replace(
            make(*a), useful_flops=lambda batch: 1234.0, steps_per_epoch=8.0
        ),
    )
    text = dry_run(toy_job.config(), compiles=False)
    share = 1234 / expected
    assert f"1234 that the model asks for, {share:.1%} of them" in text
    assert "8 steps an epoch, 1.50 epochs in all" in text


def test_shapes_alone_are_not_compiled(monkeypatch):
    monkeypatch.setattr(
        jax.stages.Lowered, "compile", lambda *a: pytest.fail("compiled")
    )
    text = dry_run(toy_job.config(), compiles=False)
    assert "not compiled" in text and "Memory of" not in text


def test_microbatches_need_less_memory():
    def temporaries(steps):
        config = toy_job.config(
            train__batch_size=512,
            train__accumulation_steps=steps,
            model__mlp_dim=256,
        )
        text = dry_run(config)
        (line,) = [x for x in text.splitlines() if "temporaries" in x]
        return float(line.split()[1])

    assert temporaries(8) < temporaries(1) / 2


def test_a_workdir_of_another_run_and_a_wrong_mesh_come_together(tmp_path):
    train_and_evaluate(toy_job.config(train__num_steps=2), tmp_path)
    before = sorted(p.name for p in tmp_path.iterdir())
    with pytest.raises(UserError) as caught:
        dry_run(toy_job.config(mesh__data=4), tmp_path)
    text = str(caught.value)
    assert "train.num_steps: 2 there, 12 now" in text
    assert "needs 4 devices, but there are 8" in text
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_all_that_is_wrong_with_job_and_layout(monkeypatch):
    config = toy_job.config()
    object.__setattr__(config.mesh, "tensor", 8)
    object.__setattr__(config.model, "mlp_dim", 12)  # past the config's own check
    change_batches(monkeypatch, lambda step, b: {k: x + 40 for k, x in b.items()})
    with pytest.raises(UserError) as caught:
        dry_run(config)
    text = str(caught.value)
    assert "token id" in text and "mlp/wi/kernel" in text


def test_a_step_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(hardware, "memory_limit", lambda device: 1000.0)
    with pytest.raises(UserError, match=r"This run would fail:\nthe step needs .*"):
        dry_run(toy_job.config())


def test_a_refusal_ends_with_what_was_compiled_and_fits(monkeypatch):
    config = {"train__batch_size": 512, "model__mlp_dim": 256}
    # MiB of a device; the step takes more than 3.
    monkeypatch.setattr(hardware, "memory_limit", lambda device: 1.6 * 2**20)
    with pytest.raises(UserError) as caught:
        dry_run(toy_job.config(**config))
    *_, last = str(caught.value).splitlines()
    match = re.fullmatch(r"  train.accumulation_steps=(\d+): (.*): fits", last)
    steps = {"train__accumulation_steps": int(match[1])}
    text = dry_run(toy_job.config(**config, **steps))
    assert f"Memory of one device: {match[2]}: fits" in text


@pytest.mark.usefixtures("one_device")
def test_a_listed_device_has_a_roofline(monkeypatch):
    """The products and what is moved, by the rates of a data sheet."""
    make = toy_job.make_job
    monkeypatch.setattr(
        dry_run_lib,
        "make_job",
        lambda *a: dataclasses.replace(make(*a), useful_flops=lambda batch: 4e3),
    )
    monkeypatch.setattr(memory_traffic, "moved_bytes", lambda text: 6e6)
    sheet = hardware.Device(1e9, 1e9, memory_bandwidth=2e9)
    monkeypatch.setattr(hardware, "data_sheet", lambda kind: sheet)
    text = dry_run(toy_job.config())
    assert "0.006 GB that each device reads and writes of its memory" in text
    computed = float(re.search(r"(\S+) FLOPs a step over all", text)[1])
    assert f"at best 3 ms to move these, and {computed / 1e6:.4g} ms for the" in text
    assert "so at most 0.1% of the peak for what the model asks for" in text


@pytest.mark.usefixtures("one_device")
def test_one_device_has_no_collectives():
    assert "Collectives" not in dry_run(toy_job.config())


def test_a_topology_takes_the_place_of_the_devices(monkeypatch):
    """Here with devices that are there."""
    asked = []

    def devices(name):
        asked.append(name)
        return jax.devices()[:4]

    monkeypatch.setattr(dry_run_lib.topology_lib, "devices", devices)
    text = dry_run(toy_job.config(mesh__fsdp=2), topology="v5e:2x2")
    assert asked == ["v5e:2x2"]
    assert "Run: 4 devices" in text and "mesh data=2 x fsdp=2" in text
    with pytest.raises(UserError, match="Meshes over 4 devices: data=4 x fsdp=1, "):
        dry_run(toy_job.config(mesh__data=8), topology="v5e:2x2")


def test_a_step_that_the_compiler_refuses(monkeypatch):
    def refuse(lowered):
        return device_memory.TooLarge(7 * 2**20, "RESOURCE_EXHAUSTED: hbm")

    monkeypatch.setattr(device_memory, "compile_step", refuse)
    monkeypatch.setattr(hardware, "memory_limit", lambda device: 2.0**20)
    with pytest.raises(UserError) as caught:
        dry_run(toy_job.config(train__batch_size=32))
    text = str(caught.value)
    assert "too little, so the step was not compiled" in text
    assert "the step needs 7 MiB or more" in text and "RESOURCE_EXHAUSTED" in text
    assert text.endswith(
        "Compiled:\n  train.accumulation_steps=4: too much for the compiler"
    )
    assert "1,824 parameters" in text  # the rest of the report is there


def test_layers_are_computed_again_when_there_is_no_smaller_microbatch(monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class Model(toy_job.ToyConfig):
        remat_policy: str = "attention"

    plan = training_runs.plan_of(toy_job.config(train__batch_size=32))
    config = dataclasses.replace(plan.config, model=Model())
    plan = dataclasses.replace(plan, config=config)
    refused = device_memory.TooLarge(None, "RESOURCE_EXHAUSTED: hbm")
    monkeypatch.setattr(device_memory, "compile_step", lambda lowered: refused)
    monkeypatch.setattr(smaller_steps, "make_job", lambda config, folder: plan.job)
    lines = smaller_steps.compiled_until_one_fits(plan, refused, 2.0**20, None)
    assert [line.partition(":")[0] for line in lines] == [
        "train.accumulation_steps=2",
        "train.accumulation_steps=4",
        "train.accumulation_steps=4 model.remat_policy=full",
    ]


def test_the_job_may_use_the_folder_of_its_run_alone(tmp_path, monkeypatch):
    make, seen = dry_run_lib.make_job, []

    def noted(config, folder):
        (folder / "cache").write_text("x")
        seen.append(folder)
        return make(config, folder)

    monkeypatch.setattr(dry_run_lib, "make_job", noted)
    config = toy_job.config(train__num_steps=2)
    dry_run(config, tmp_path, compiles=False)
    assert not list(tmp_path.iterdir()) and not seen[0].exists()
    train_and_evaluate(config, tmp_path)
    dry_run(config, tmp_path, compiles=False)
    assert seen[1] == tmp_path


def test_a_base_size_is_laid_out_in_seconds():
    """Abstract shapes alone, of 100 million parameters."""
    config = toy_job.config(
        model__vocab_size=64_000,
        model__embed_dim=1024,
        model__mlp_dim=16_384,
        data__vocab_size=64_000,
        mesh__fsdp=8,
    )
    text = dry_run(config, compiles=False)
    embed, mlp, vocab = 1024, 16_384, 64_000
    count = vocab * embed + embed * embed + 2 * embed * mlp + 2 * embed
    assert f"{count:,} parameters" in text
