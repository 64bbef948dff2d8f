import dataclasses
import types

import jax
import numpy as np
import pytest
import toy_job
import training_runs

from etc_jax.training.errors import UserError
from etc_jax.training.preflight import device_memory, hardware
from etc_jax.training.preflight.device_memory import Memory, MiB, TooLarge
from etc_jax.training.run import train_and_evaluate

# As libtpu 0.0.42 words it, and as other versions do.
REFUSALS = {
    "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO "
    "temporaries (512.00G) exceeds available HBM (15.75G).": (512 * 2**30, True),
    "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory "
    "space hbm. Used 18.50G of 15.75G hbm. Exceeded hbm capacity by 2.75G.": (
        18.5 * 2**30,
        False,
    ),
    "RESOURCE_EXHAUSTED: something about hbm": (None, False),
}


def plan_of(**changes):
    return training_runs.plan_of(toy_job.config(**changes))


def lowered(error):
    def compile_():
        raise error

    return types.SimpleNamespace(compile=compile_)


def test_what_is_reused_counts_once():
    memory = Memory(arguments=100, outputs=60, aliased=50, temporaries=7, program=3)
    assert memory.total == 120


@pytest.mark.parametrize("message, needed", REFUSALS.items())
def test_a_program_beyond_the_memory_is_an_answer(message, needed):
    got = device_memory.compile_step(lowered(jax.errors.JaxRuntimeError(message)))
    assert got == TooLarge(needed[0], message, without_arguments=needed[1])


def test_another_error_of_the_compiler_is_an_error():
    error = jax.errors.JaxRuntimeError("INTERNAL: hbm")
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"):
        device_memory.compile_step(lowered(error))


def test_the_table_adds_up():
    """Of a state split over fsdp=2: half of what divides, and two moments of it."""
    embed, mlp = 512, 4096
    plan = plan_of(
        mesh__fsdp=2, mesh__data=4, model__embed_dim=embed, model__mlp_dim=mlp
    )
    # A table of 32 rows and three kernels are split; bias and scale are whole.
    split = 32 * embed + embed * embed + 2 * embed * mlp
    params = 4 * (split / 2 + 2 * embed) / MiB
    assert params > 8
    memory = Memory(30 * MiB, 9 * MiB, 8 * MiB, 5 * MiB, 4 * MiB)
    text = device_memory.describe(plan, memory, 80 * MiB)
    rows = {line[2:17].strip(): line for line in text.splitlines()[1:]}
    assert "40.0 MiB = 50.0% of 80 MiB: fits" in text.splitlines()[0]
    shown = {name: float(line[17:].split()[0]) for name, line in rows.items()}
    assert shown["parameters"] == pytest.approx(params, abs=0.06)
    assert shown["optimizer state"] == pytest.approx(2 * params, abs=0.06)
    arguments = ("parameters", "optimizer state", "batch", "tiles")
    assert sum(shown[name] for name in arguments) == pytest.approx(30, abs=0.2)
    assert "of which 8.0 in place of arguments" in rows["outputs"]
    assert "1 rows of it at once" in rows["batch"]


@pytest.mark.parametrize(
    "total, verdict", [(35, "87.5% of 40 MiB: fits"), (37, "too much, above 90%")]
)
def test_nine_tenths_are_the_most(total, verdict):
    plan, memory = plan_of(), Memory(total * MiB, 0, 0, 0)
    assert verdict in device_memory.describe(plan, memory, 40 * MiB)
    wrong = device_memory.problems(plan, memory, 40 * MiB)
    assert bool(wrong) == ("too much" in verdict)


def test_nothing_is_wrong_where_nothing_is_known():
    plan = plan_of()
    assert device_memory.problems(plan, None, 1.0) == []
    assert device_memory.problems(plan, Memory(9, 9, 9, 9), None) == []


def test_what_helps_is_named_with_figures():
    plan = plan_of(
        mesh__data=4,
        mesh__fsdp=2,
        train__batch_size=96,
        train__accumulation_steps=4,
    )
    model = types.SimpleNamespace(dtype="float32", remat_policy="attention")
    plan = dataclasses.replace(
        plan, config=dataclasses.replace(plan.config, model=model)
    )
    (text,) = device_memory.problems(plan, Memory(8 * MiB, 0, 0, 0), 4 * MiB)
    assert "needs 8 MiB of a device that has 4 MiB (at most 90%" in text
    assert (
        "train.accumulation_steps=12: a device works on 1 rows at once, not 3" in text
    )
    assert "model.remat_policy='full' instead of 'attention'" in text
    assert "model.dtype='bfloat16'" in text
    assert "optimizer.shard_state=True" in text
    assert "mesh.fsdp=8 mesh.data=1" in text


def test_the_first_values_that_fit_are_named():
    """In MiB: 10 of weights, 20 of moments, 10 of gradients, 64 of activations."""
    embed = 1536
    plan = plan_of(
        mesh__data=8,
        train__batch_size=64,
        model__embed_dim=embed,
        model__mlp_dim=64,
    )
    weights = device_memory.device_bytes(plan.state.params)
    assert weights == pytest.approx(10 * MiB, rel=0.05)
    needed = 4 * weights + 64 * MiB
    for room, rows, splits in (
        (4 * weights + 60 * MiB, "accumulation_steps=2: a", "fsdp=2 mesh.data=4"),
        (5 * weights + 17 * MiB, "accumulation_steps=4: a", "fsdp=8 mesh.data=1"),
        (5 * weights + 15 * MiB, "accumulation_steps=8: a", "fsdp=8 mesh.data=1"),
    ):
        text = "\n".join(device_memory.remedies(plan, needed, room))
        assert rows in text and splits in text
    assert f"about {(5 * weights + 8 * MiB) / MiB:.0f} MiB in all\n" in text
    assert f"about {(0.5 * weights + 64 * MiB) / MiB:.0f} MiB in all, still" in text


def test_what_does_not_help_is_not_named():
    plan = plan_of(mesh__data=1, mesh__fsdp=8, train__batch_size=8)
    text = "\n".join(device_memory.remedies(plan))
    assert "accumulation" not in text and "shard_state" not in text
    assert "remat_policy" not in text  # the toy has none
    assert "more devices" in text


def test_a_refusal_keeps_the_compilers_words():
    refused = TooLarge(None, "RESOURCE_EXHAUSTED: hbm\nand a long table")
    (text,) = device_memory.problems(plan_of(), refused, None)
    assert "needs more than there is" in text
    assert "(the compiler: RESOURCE_EXHAUSTED: hbm)" in text and "table" not in text


def test_what_the_compiler_counts_without_state_and_batch():
    plan = plan_of()
    sizes = map(device_memory.device_bytes, (plan.state.params, plan.state.opt_state))
    arguments = sum(sizes) + device_memory.device_bytes(plan.batch)
    for without, more in ((False, 0), (True, arguments)):
        refused = TooLarge(7.0 * MiB, "", without_arguments=without)
        assert device_memory.bytes_needed(plan, refused) == 7 * MiB + more


def test_a_gpu_has_more_than_jax_takes_by_itself():
    plan = plan_of(mesh__data=1, mesh__fsdp=8)
    gpu = types.SimpleNamespace(platform="gpu")
    mesh = types.SimpleNamespace(devices=np.array([gpu]), shape={"data": 1, "fsdp": 8})
    found = device_memory.remedies(dataclasses.replace(plan, mesh=mesh))
    assert any("XLA_PYTHON_CLIENT_MEM_FRACTION=0.95" in text for text in found)
    assert "MEM_FRACTION" not in "\n".join(device_memory.remedies(plan))


def test_a_run_that_does_not_fit_ends_before_its_first_step(monkeypatch, tmp_path):
    monkeypatch.setattr(hardware, "memory_limit", lambda device: 2 * MiB / 1000)
    with pytest.raises(UserError, match="MiB of a device that has 0 MiB. What helps"):
        train_and_evaluate(toy_job.config(), tmp_path)
    assert not list(tmp_path.rglob("metrics.jsonl"))
