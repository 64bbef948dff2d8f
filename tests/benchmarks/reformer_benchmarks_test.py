"""Reformer at tiny sizes: what is compiled, measured and written."""

import dataclasses

import jax
import numpy as np
import pytest
import tiny_model

from benchmarks.kit import memory
from benchmarks.memory import reformer_memory
from benchmarks.speed import reformer_parts
from benchmarks.speed.reformer_parts import AttentionSizes
from etc_jax.models.reformer.body import ReformerLm

TINY = [
    "--num_heads=2",
    "--head_dim=4",
    "--chunk_length=16",
    "--depth_length=64",
    "--depth_embed_dim=16",
    "--depth_chunk_length=32",
    "--rounds=2",
    "--allow_busy",
]


@pytest.mark.full
def test_depth_costs_a_plain_stack_alone(run, capsys):
    argv = ["--parts=depth", "--depths=4,16", "--num_hashes=1"]
    code, got = run(reformer_memory.main, *TINY, *argv)
    rows = got["depth"]["rows"]
    assert [(r["reversible"], r["layers"]) for r in rows] == [
        (True, 4), (True, 16), (False, 4), (False, 16)
    ]  # fmt: skip
    shallow, deep = (r["temporaries"] for r in rows[:2])
    # Buckets: 6 LSH layers more, of 2 heads, 4 bytes for each token.
    assert shallow < deep < shallow + 1.2 * 6 * 2 * 4 * 64
    # At least the input of each half of each layer more.
    shallow, deep = (r["temporaries"] for r in rows[2:])
    assert deep > shallow + 12 * 2 * 4 * 64 * 16
    for r in rows:
        assert r["arguments"] > 0 and r["outputs"] > 0
    assert [f["name"].split(":")[0] for f in got["floors"]] == ["depth"] * 3
    assert code == (0 if all(f["holds"] for f in got["floors"]) else 1)
    assert "reversible" in capsys.readouterr().out


@pytest.mark.parametrize(
    "reversible, plain, holds",
    [
        ((100, 102, 104), (200, 212, 236), [True, True, True]),
        ((100, 106, 100), (200, 212, 236), [False, True, True]),
        ((106, 100, 100), (200, 211, 233), [False, False, True]),
        ((100, 100, 100), (200, 218, 242), [True, True, False]),
    ],
)
def test_floors_of_depth(reversible, plain, holds):
    rows = [
        {"reversible": kind, "layers": depth, "temporaries": size}
        for kind, sizes in ((True, reversible), (False, plain))
        for depth, size in zip((6, 12, 24), sizes, strict=True)
    ]
    found = reformer_memory.depth_floors(rows, stream_bytes=1)
    assert [f.holds for f in found] == holds


def test_depths_of_one_repeat_and_lengths_that_do_not_grow_are_refused(capsys):
    for wrong in ("2,8", "5,10"):
        with pytest.raises(SystemExit):
            reformer_memory.main([f"--depths={wrong}"])
        assert "expected even numbers from 4 on" in capsys.readouterr().err
    for wrong in ("64", "64,32", "32,32"):
        with pytest.raises(SystemExit):
            reformer_memory.main([f"--lsh_lengths={wrong}"])
        assert "expected two or more, growing" in capsys.readouterr().err


@pytest.mark.full
def test_length_has_times_peaks_and_exponents_of_both_kinds(run, monkeypatch):
    steps = []

    def attention_step(*sizes, **how):
        steps.append(reformer_parts.attention_step(*sizes, **how))
        return steps[-1]

    def measure(build, sizes):
        assert build is attention_step
        power = 2 if sizes.kind == "full" else 1
        peak = sizes.length**power
        return {"peak_bytes": peak, "xla_temp_bytes": peak * sizes.length}

    monkeypatch.setattr(memory, "measure", measure)
    monkeypatch.setattr(reformer_memory, "attention_step", attention_step)
    argv = ["--parts=length", "--lsh_lengths=32,64", "--full_lengths=32,64"]
    code, got = run(reformer_memory.main, *TINY, *argv)
    lsh, full = got["length"]["results"]
    assert (lsh["kind"], full["kind"]) == ("lsh", "full")
    assert [row["name"] for row in lsh["rows"]] == ["32", "64"]
    first, second = (row["error"] for row in lsh["rows"])
    assert first <= 1e-5 and second is None
    for result, power in ((lsh, 1), (full, 2)):
        assert result["exponents"]["peak_bytes"] == pytest.approx(power)
        assert result["exponents"]["xla_temp_bytes"] == pytest.approx(power + 1)
        medians = [row["median"] for row in result["rows"]]
        want = np.log2(medians[1] / medians[0])
        assert result["exponents"]["seconds"] == pytest.approx(want)
    named = {f["name"].split(" of ")[1]: f for f in got["floors"]}
    assert named["seconds"]["got"] == lsh["exponents"]["seconds"]
    assert named["peak_bytes"]["holds"] and not named["xla_temp_bytes"]["holds"]
    assert code == 1
    # LSH at both lengths, its oracle, full attention at both: with the same weights.
    shapes = [jax.tree.map(np.shape, step.args) for step in steps]
    assert len(shapes) == 5 and shapes[0] == shapes[2] == shapes[3]
    arrays = steps[0].arrays(steps[0].run())
    assert {"output", "grad input", "grad query_key", "grad out"} <= arrays.keys()
    assert min(np.max(np.abs(x)) for x in arrays.values()) > 1e-2


def test_a_process_of_its_own_runs_the_same_layer():
    sizes = AttentionSizes("full", 8, 2, 4)
    got = memory.measure(reformer_parts.attention_step, sizes)
    here = reformer_parts.attention_step(sizes)
    assert here.run()[0].shape == (1, 8, 8)
    assert got["xla_temp_bytes"] == here.temp_bytes > 0


# --- what is compiled -----------------------------------------------------------------

CONFIG = dataclasses.replace(
    tiny_model.REFORMER,
    num_layers=2,
    max_length=16,
    axial_shape=None,
    axial_dims=None,
    lsh_chunk_length=4,
    num_buckets=None,
)


@pytest.fixture(scope="module")
def model_step():
    return reformer_parts.model_step(CONFIG, batch=2, length=16)


def test_full_attention_is_a_softmax_over_all_earlier_tokens():
    length = 16
    sizes = AttentionSizes("full", length, num_heads=2, head_dim=4, seed=3)
    step = reformer_parts.attention_step(sizes)
    got = step.arrays(step.run())["output"][0]
    params, x = jax.tree.map(lambda a: np.asarray(a, np.float64), step.args)
    w = {name: part["kernel"] for name, part in params.items()}
    query = np.einsum("ne,ehd->nhd", x[0], w["query_key"])
    value = np.einsum("ne,ehd->nhd", x[0], w["value"])
    key = query / np.linalg.norm(query, axis=-1, keepdims=True)
    for i in range(length):
        logits = np.einsum("hd,nhd->hn", query[i], key[: i + 1])
        p = np.exp(logits)
        p /= p.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hn,nhd->hd", p, value[: i + 1])
        want = np.einsum("hd,hde->e", mixed, w["out"])
        np.testing.assert_allclose(got[i], want, atol=1e-4)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kind 'sparse' is not one of"):
        AttentionSizes(kind="sparse")


@pytest.mark.full
def test_the_loss_is_of_every_token_but_the_first(model_step):
    params, tokens = model_step.args
    logits = jax.jit(ReformerLm(CONFIG).apply)({"params": params}, tokens)
    log_p = np.asarray(jax.nn.log_softmax(logits, axis=-1))
    picked = [log_p[b, i, tokens[b, i + 1]] for b in range(2) for i in range(15)]
    loss, _ = model_step.run()
    assert float(loss) == pytest.approx(-np.mean(picked), rel=1e-5)


def test_the_memory_of_a_step_counts_parameters_and_gradients(model_step):
    found = model_step.memory
    params = sum(x.nbytes for x in jax.tree.leaves(model_step.args[0]))
    # Tokens, the loss and what lies between arrays.
    assert params <= found.arguments <= params + 1024
    assert params <= found.outputs <= params + 1024
    assert found.temporaries == model_step.temp_bytes > 0
