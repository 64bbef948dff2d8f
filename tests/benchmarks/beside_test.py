"""Steps beside peers: what is timed, floors, and that all sides are one function."""

import dataclasses
import importlib
import itertools

import numpy as np
import pytest

from benchmarks.kit import beside, machine, memory
from benchmarks.kit.beside import Peers
from benchmarks.kit.harness import Side, WrongSideError, check
from benchmarks.speed import reformer_speed
from benchmarks.speed.reformer_speed import LmSizes

# --- the runner, on sides of numpy ----------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ToySizes:
    length: int
    width: int = 2


class Toy:
    more = {"xla_temp_bytes": 5}

    def __init__(self, sizes):
        self.run = lambda: np.ones((sizes.length, sizes.width))


class Other(Toy):
    """As fast, but for what tests say."""


def toy_parts(sizes):
    ones = {"rows": np.ones((sizes.length, sizes.width))}
    sides = [
        Side(name, PEERS.sides[name](sizes).run, lambda x: {"rows": x}, lambda: ones)
        for name in PEERS.sides
    ]
    return {"in all": sides, "half": sides}, {"gradient_error": 0.25}


PEERS = Peers(
    __name__,
    "Toy.",
    ToySizes,
    {"etc_jax": Toy, "torch": Other},
    toy_parts,
    what=lambda sizes: f"{sizes.length} rows",
    faster=lambda sizes, part, peer: 2.0 if part == "in all" else None,
    axes={"lengths": (beside.report.integers, (3, 4))},
)


@pytest.mark.parametrize("slow, holds", [(2.0, True), (1.9, False)])
def test_the_floor_of_time_is_the_ratio_of_the_medians(slow, holds):
    # Of a side's beginning and end in turn.
    pairs = itertools.cycle((5.0, 1.0, 5.0, slow))
    # The rounds that are not timed have beginnings alone.
    ticks = itertools.accumulate(
        itertools.chain((0.0, 0.0), itertools.islice(pairs, 12), (0.0, 0.0), pairs)
    )
    metrics, [floor] = PEERS.times(
        ToySizes(7), rounds=3, clock=lambda: next(ticks), pause_secs=0.0
    )
    assert list(metrics["rows"]) == ["in all", "half"]
    assert [r["name"] for r in metrics["rows"]["half"]] == ["etc_jax", "torch"]
    assert metrics["gradient_error"] == 0.25
    assert floor.got == pytest.approx(slow) and floor.holds == holds
    assert floor.name == "7 rows, in all: times faster than torch"


def measured(share, own_secs=2.0):
    """In place of `memory.measure`: this library needs that share of the other's."""

    def measure(build, sizes):
        side = build(sizes)
        assert side.run().shape == (7, 2)
        own = build is Toy
        secs, peak = (own_secs, 1000 * share) if own else (3.0, 1000)
        return {"peak_bytes": peak, "call_seconds": secs} | side.more

    return measure


@pytest.mark.parametrize("share, holds", [(0.7, True), (0.71, False)])
def test_the_floor_of_memory_is_a_share_of_the_other_s(share, holds, monkeypatch):
    monkeypatch.setattr(memory, "measure", measured(share))
    peaks, [floor] = PEERS.peaks(ToySizes(7), timed=False)
    assert list(peaks) == list(PEERS.sides)
    assert peaks["torch"]["xla_temp_bytes"] == 5
    assert floor.got == share and floor.holds == holds


def test_the_command_measures_all_sizes_or_times_the_call_alone(monkeypatch, run):
    monkeypatch.setattr(memory, "measure", measured(0.5))
    monkeypatch.setattr(memory, "calibration_error", lambda: 0.01)
    argv = ["--lengths=7,7", "--width=2", "--allow_busy"]
    code, got = run(PEERS.main, *argv, "--rounds=0")
    assert [r["sizes"] for r in got["results"]] == [{"length": 7, "width": 2}] * 2
    assert [(f["got"], f["holds"]) for f in got["floors"]] == [
        *((0.5, True), (1.5, False)),
        *((0.5, True), (1.5, False)),
    ]
    assert code == 1 and got["shapes"] == {"width": 2, "lengths": [7, 7]}
    code, got = run(PEERS.main, *argv, "--rounds=2")
    [first, _] = got["results"]
    assert [len(row["times"]) for row in first["rows"]["in all"]] == [2, 2]
    assert first["memory"]["etc_jax"]["peak_bytes"] == 500
    assert [f["name"].partition(":")[0] for f in got["floors"][:2]] == [
        *("7 rows, in all", "7 rows"),
    ]


def test_another_platform_has_no_floors_and_memory_may_be_left_out(monkeypatch, run):
    used = []
    monkeypatch.setattr(machine, "use", lambda *given: used.append(given))
    argv = ["--lengths=7", "--allow_busy", "--platform=cuda", "--no-memory"]
    code, got = run(PEERS.main, *argv)
    assert code == 0 and "floors" not in got and used == [("cuda", "highest")]
    assert "memory" not in got["results"][0] and "memory_calibration_error" not in got
    with pytest.raises(SystemExit):  # sizes of the toy have no dtype
        PEERS.main([*argv, "--dtype=bfloat16"])


# --- the benchmarks -------------------------------------------------------------------

LM = LmSizes(
    length=64, embed_dim=16, num_heads=2, mlp_dim=24, num_layers=4, chunk_length=8
)


def test_sizes_that_transformers_cannot_train_are_refused():
    for length in (60, 8):
        with pytest.raises(ValueError, match=f"length {length} is not two or more"):
            dataclasses.replace(LM, length=length)


@pytest.mark.parametrize("length", [64, 128, 192])
def test_positions_are_as_many_as_tokens(length):
    config = dataclasses.replace(LM, length=length).config
    assert np.prod(config.axial_shape) == config.max_length == length
    assert not list(config.problems())


@pytest.mark.full
def test_this_librarys_side_gives_loss_and_gradients_of_every_weight():
    side = reformer_speed.jax_step(LM)
    result = side.run()
    gradients = side.gradients(result)
    assert float(result[0]) == pytest.approx(np.log(256), rel=0.1)
    assert beside.distance(gradients, gradients) == 0
    [norm] = [x for x in gradients if x.endswith("encoder.layer_norm.weight")]
    twice = gradients | {norm: 2 * gradients[norm]}
    assert beside.distance(twice, gradients) > 1e-3
    assert side.more["xla_temp_bytes"] > 0


def other_seed(make):
    return lambda sizes: make(dataclasses.replace(sizes, seed=1))


# Sizes of each, and what makes a side wrong: a function of the module, or a side.
TINY = {
    "reformer_speed": [dataclasses.asdict(LM)],
    "seq2seq_step": [
        {"model": model, "length": 40, "target_length": 9, "num_layers": 1} | more
        for model, more in (
            ("led_base", {}),
            ("long_t5_tglobal_base", {}),
            ("led_base", {"dtype": "bfloat16", "batch_size": 2, "remat": 0}),
        )
    ],
    "generation": [
        {"model": model, "length": 40, "batch_size": 2, "num_beams": 3, "dtype": dtype}
        | {"max_tokens": 6, "num_layers": 1}
        for model, dtype in (
            ("bart_base", "float32"),
            ("led_base", "float32"),
            ("long_t5_tglobal_base", "float32"),
            ("bart_base", "bfloat16"),
        )
    ],
    "pooled_block": [{"length": 64, "block": 16, "num_heads": 2, "head_dim": 4}],
}
WRONG = {
    "reformer_speed": ("torch_rotations", lambda make: lambda c: 1 - make(c)),
    "seq2seq_step": ("transformers_step", other_seed),
    "generation": ("etc_jax", other_seed),
    "pooled_block": ("torch einsum", other_seed),
}


@pytest.mark.torch
# It has another name from transformers 5.24 on.
@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing_enable:FutureWarning")
@pytest.mark.parametrize(
    ("name", "sizes"), [(name, s) for name, every in TINY.items() for s in every]
)
def test_all_sides_compute_one_function_or_are_refused(name, sizes, monkeypatch):
    pytest.importorskip("transformers")
    module = importlib.import_module(f"benchmarks.speed.{name}")
    peers, made = module.PEERS, module.PEERS.sizes(**sizes)
    dtype = sizes.get("dtype", "float32")
    # A tenth of what sides are held to; their gradients, a fifth.
    least = {"float32": 1e-5, "bfloat16": 1e-3}[dtype]
    if "model" in sizes:
        narrow = {"embed_dim": 24, "num_heads": 2, "mlp_dim": 16}
        model = dataclasses.replace(module.model_sizes()[made.model], **narrow)
        monkeypatch.setattr(module, "model_sizes", lambda: {made.model: model})

    def errors():
        parts, metrics = peers.parts_fn(made)
        sides = [side for sides in parts.values() for side in sides]
        found = [check(side, tolerance=beside.TOLERANCES[dtype]) for side in sides]
        return [x for x in found if x is not None], metrics

    found, metrics = errors()
    assert found and max(found) < least
    assert metrics.get("gradient_error", 0.0) < 10 * least
    place, wrong = WRONG[name]
    if place in peers.sides:
        monkeypatch.setitem(peers.sides, place, wrong(peers.sides[place]))
    else:
        monkeypatch.setattr(module, place, wrong(getattr(module, place)))
    with pytest.raises(WrongSideError, match="gradients differ|differs from the"):
        errors()
