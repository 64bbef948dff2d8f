"""The kernels, as plain operations or on a GPU, beside the float64 oracle."""

import dataclasses
import functools
import math
import os
import pathlib
import re
import tempfile

import attention_cases as cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sliding_window_test as windows
import tpu_process
from attention_test import NUM_LABELS, RULE_CASES, blind_rows, num_labels
from jax.experimental.pallas import tpu as pltpu

from etc_jax import sharding
from etc_jax.base.types import MeshAxes, Pieces, Rows
from etc_jax.ops import blocking
from etc_jax.ops.attention import full, global_local, sliding_window
from etc_jax.ops.attention.kernels import choice, global_local as by_kernels
from etc_jax.ops.attention.parts.checks import KERNELS
from etc_jax.structure import Link, Rules, builders
from etc_jax.training.preflight.collectives import count

# Of arrays in a compiled program's text.
SHAPE = re.compile(r"\b(?:f32|bf16)\[([\d,]+)\]")


def as_float32(tree):
    return jax.tree.map(lambda x: np.asarray(x, np.float32), tree)


def beside_the_oracle(inputs, structure, rules, implementation, tolerance):
    with jax.enable_x64(True):
        want = cases.outputs_and_gradients(
            inputs, structure, rules, implementation="dense"
        )
    # Numbers of 32 bits on a GPU would be rounded to fewer in its own products.
    with jax.default_matmul_precision("highest"):
        narrow = cases.Inputs(**as_float32(vars(inputs)))
        got = cases.outputs_and_gradients(
            narrow, structure, rules, implementation=implementation
        )
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert a.dtype == np.float32
        scale = max(1, np.max(np.abs(b), initial=0))
        np.testing.assert_allclose(a, b, atol=tolerance * scale, rtol=0)
    return got


EVERYTHING = RULE_CASES["prime, everything"][2]
CASES = {
    **RULE_CASES,
    # Several tiles of 64 rows and keys, or of 128.
    "tiles": (150, 70, dataclasses.replace(EVERYTHING, radius=20), None),
    "tiles, no labels": (129, 65, Rules(radius=64, hard_l2g=True), None),
    "wide windows": (300, 140, dataclasses.replace(EVERYTHING, radius=150), None),
}


@pytest.mark.parametrize("implementation", KERNELS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.full(
    but=["prime, everything-*", "no long tokens-pallas", "tiles, no labels-mosaic"]
)
def test_rules_equal_the_oracle(name, implementation):
    n, g, rules, _ = CASES[name]
    inputs = cases.random_inputs(n, g, num_labels(rules))
    structure = cases.random_structure(n, g, seed=3)
    got = beside_the_oracle(inputs, structure, rules, implementation, 1e-5)
    blind = blind_rows(structure, rules, n, g)
    for out, d_query, rows in zip(got[0], got[1][0], blind, strict=True):
        assert not np.asarray(out)[rows].any()
        assert not np.asarray(d_query)[rows].any()


@pytest.mark.full
def test_memories_of_a_tpu_are_simulated_too(capfd):
    """Catches a block that is read before it came, or is never written."""
    inputs = cases.random_inputs(300, 140, num_labels(EVERYTHING))
    structure = cases.random_structure(300, 140, seed=3)
    params = pltpu.InterpretParams(detect_races=True, num_cores_or_threads=2)
    with pltpu.force_tpu_interpret_mode(params):
        beside_the_oracle(inputs, structure, EVERYTHING, "mosaic", 1e-5)
    assert "RACE DETECTED" not in capfd.readouterr().out


@pytest.mark.parametrize(
    "n, radius, dilation, causal",
    [(17, 3, (5, 1, 2), True), (150, 40, 1, False), (150, 20, 1, True)],
)
@pytest.mark.parametrize("implementation", KERNELS)
@pytest.mark.full(but=["*-150-20-1-True"])
def test_windows_with_global_tokens_equal_the_oracle(
    n, radius, dilation, causal, implementation
):
    options = {"radius": radius, "dilation": dilation, "causal": causal}
    rows, globals_, weight = windows.inputs(n, index=windows.INDEX)
    options["example_ids"] = windows.packed(n)

    def results(arrays, implementation):
        return windows.results(
            sliding_window.attend, *arrays, implementation=implementation, **options
        )

    with jax.enable_x64(True):
        want = results((rows, globals_, weight), "dense")
    index = globals_.index
    rows, globals_, weight = as_float32((rows, globals_, weight))
    arrays = rows, globals_._replace(index=index), weight
    with jax.default_matmul_precision("highest"):
        got = results(arrays, implementation)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, atol=1e-5 * np.abs(b).max(), rtol=0)


@pytest.mark.full
def test_dropout_is_of_probabilities_and_the_same_in_both_passes():
    n, g, size, rate = 13, 3, 16, 0.3
    rng = np.random.default_rng(0)
    inputs = cases.random_inputs(n, g, NUM_LABELS, batch=3, size=size)
    inputs = cases.Inputs(**as_float32(vars(inputs)))
    structure = cases.random_structure(n, g, seed=3, batch=3)
    rules = Rules(radius=20, max_distance=2)

    def attend(query, key, value, tables, **more):
        return global_local.attend(
            query, key, value, tables, structure, rules, implementation="pallas", **more
        )

    key = jax.random.key(3)
    dropped = {"dropout_rate": rate, "dropout_rng": key}
    # Values that tell which key they are of: the outputs are the probabilities.
    eye = np.eye(n + g, size, dtype=np.float32)
    assert n + g == size
    ids = Pieces(eye[:n], eye[n:], eye[n:], eye[:n])
    ids = Pieces(
        *(np.broadcast_to(x[None, :, None], (3, len(x), 2, size)) for x in ids)
    )
    rows = inputs.query, inputs.key
    p = attend(*rows, ids, inputs.tables)
    q = attend(*rows, ids, inputs.tables, **dropped)
    factors = jax.tree.map(
        lambda p, q: np.where(p > 0, q / np.maximum(p, 1e-30), 0), p, q
    )
    for factor, probability in zip(factors, p, strict=True):
        seen = np.asarray(probability) > 1e-6
        kept = factor[seen] > 0.5
        np.testing.assert_allclose(
            factor[seen], kept / (1 - rate), rtol=1e-3, atol=1e-3
        )
        # Within four standard deviations of a share of 1 - rate.
        assert (
            abs(kept.mean() - (1 - rate)) < 4 * (rate * (1 - rate) / kept.size) ** 0.5
        )

    weight = jax.tree.map(lambda x: rng.normal(size=x.shape).astype(np.float32), q)

    def by_the_factors(query, key, value, tables):
        plain = functools.partial(attend, query, key, tables=tables)
        return jax.tree.map(
            lambda p, f, v: jnp.einsum("bnhk,bkhd->bnhd", p * f, v),
            plain(value=ids),
            factors,
            Rows(
                *(jnp.concatenate(pair, axis=1) for pair in (value[:2], value[3:1:-1]))
            ),
        )

    def gradients(fn):
        def loss(*args):
            return sum((x * w).sum() for x, w in zip(fn(*args), weight, strict=True))

        return jax.jit(jax.grad(loss, (0, 1, 2, 3)))(*inputs.differentiable())

    got = gradients(functools.partial(attend, **dropped))
    for a, b in zip(
        jax.tree.leaves(got), jax.tree.leaves(gradients(by_the_factors)), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=2e-4 * np.abs(b).max(), rtol=0)


def test_kernels_of_both_kinds_draw_the_same():
    """So the test above is of both."""
    inputs = cases.random_inputs(150, 5, None, heads=3)
    inputs = cases.Inputs(**as_float32(vars(inputs)))
    structure = cases.random_structure(150, 5, seed=3)
    rules = Rules(radius=40, hard_g2l=True)
    dropped = {"dropout_rate": 0.3, "dropout_rng": jax.random.key(3)}
    pallas, mosaic = (
        cases.outputs_and_gradients(
            inputs, structure, rules, implementation=implementation, **dropped
        )
        for implementation in KERNELS
    )
    for a, b in zip(jax.tree.leaves(mosaic), jax.tree.leaves(pallas), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5 * np.abs(b).max(), rtol=0)


def test_bfloat16_is_as_near_the_oracle_as_without_kernels():
    n, g, rules, _ = RULE_CASES["r >= n, no labels"]
    inputs = cases.random_inputs(n, g, None)
    structure = cases.random_structure(n, g, seed=3)

    def errors(implementation):
        rounded = jax.tree.map(lambda x: np.asarray(x, jnp.bfloat16), vars(inputs))
        with jax.enable_x64(True):
            exact = cases.Inputs(**jax.tree.map(np.float64, rounded))
            want = cases.outputs_and_gradients(
                exact, structure, rules, implementation="dense"
            )
        got = cases.outputs_and_gradients(
            cases.Inputs(**rounded), structure, rules, implementation=implementation
        )
        leaves = zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True)
        # Root mean squares: a maximum is that of the last bit of the largest number.
        return np.array(
            [np.mean((np.float64(a) - np.asarray(b)) ** 2) ** 0.5 for a, b in leaves]
        )

    xla, mosaic = errors("xla"), errors("mosaic")
    # Gradients of scores are rounded before products; for a CPU, XLA leaves that out.
    assert (mosaic[:2] < 1.05 * xla[:2]).all(), (xla, mosaic)
    assert (mosaic < 2.5 * xla).all(), (xla, mosaic)


def test_a_choice_is_of_what_can_and_says_why_of_the_others(monkeypatch, caplog):
    query = jax.ShapeDtypeStruct((2, 7, 3, 5), jnp.bfloat16)
    split = {"sequence_axis": None, "mesh_axes": MeshAxes(), "shards": 1}

    def choose(query=query, **problems):
        choice._log_once.cache_clear()
        caplog.clear()
        problems = dict.fromkeys(KERNELS) | problems
        with caplog.at_level("INFO"):
            return choice.choose_kernels("auto", query, problems, **split)

    assert choose() is None
    assert "by xla; not pallas: the device compiled for is another;" in caplog.text
    monkeypatch.setattr(blocking, "_platform", lambda: "tpu")
    assert choose() == "mosaic"
    assert "by mosaic; not pallas: the device" in caplog.text
    assert choose(mosaic="that is too long") is None
    assert "by xla; " in caplog.text and "not mosaic: that is too long" in caplog.text
    assert choose(jax.ShapeDtypeStruct(query.shape, jnp.float32)) is None
    assert "not mosaic: inputs are float32" in caplog.text
    choice.choose_kernels("auto", query, dict.fromkeys(KERNELS), **split)
    text = caplog.text
    choice.choose_kernels("auto", query, dict.fromkeys(KERNELS), **split)
    assert caplog.text == text  # once


def test_what_kernels_cannot_do_is_an_error_that_says_so():
    inputs = cases.Inputs(**as_float32(vars(cases.random_inputs(5, 2, NUM_LABELS))))
    structure = cases.random_structure(5, 2)
    attend = functools.partial(
        global_local.attend, *inputs.differentiable(), implementation="pallas"
    )
    rules = Rules(radius=2, max_distance=2, links=(Link("own", label=4),) * 3)
    with pytest.raises(ValueError, match='"pallas": pairs of l2g have a label up to 4'):
        attend(structure, rules)
    mosaic = functools.partial(attend, implementation="mosaic")
    for scale, problem in ((-1.0, "the scale is -1.0"), (0.0, "the scale is 0.0")):
        with pytest.raises(ValueError, match=f'"mosaic": {problem}, not above 0'):
            mosaic(structure, Rules(radius=2, max_distance=2), scale=scale)
    rows = jnp.ones((1, 1, 3, 1000))
    with pytest.raises(ValueError, match="3000 features of all heads, more than 2048"):
        sliding_window.attend(rows, rows, rows, radius=1, implementation="mosaic")
    with pytest.raises(ValueError, match="the structure is given as tensors"):
        attend(cases.random_explicit(5, 2, 2, NUM_LABELS), Rules(radius=2))
    with pytest.raises(ValueError, match="of 8 devices the mesh axes are not given"):
        attend(structure, Rules(radius=2, max_distance=2), shards=8)
    rows, _, _ = windows.inputs(5, dtype=np.float32)
    with pytest.raises(ValueError, match='"pallas": all keys are seen'):
        full.attend(*rows, implementation="pallas")
    with pytest.raises(ValueError, match="offsets have a bias"):
        sliding_window.attend(
            *rows, radius=2, bias=lambda x: x[None] * 1.0, implementation="pallas"
        )


@pytest.mark.parametrize("mesh", [{"data": 4, "tensor": 2}, {"data": 2, "fsdp": 4}])
@pytest.mark.parametrize("implementation", KERNELS)
@pytest.mark.full
def test_eight_devices_equal_one_and_exchange_gradients_of_labels_alone(
    implementation, mesh
):
    if jax.device_count() < 8:
        pytest.skip(f"needs eight devices, there are {jax.device_count()}")
    n, g, rules, _ = RULE_CASES["prime, everything"]
    inputs = cases.random_inputs(n, g, NUM_LABELS, batch=8)
    inputs = cases.Inputs(**as_float32(vars(inputs)))
    structure = cases.random_structure(n, g, seed=3, batch=8)
    dropped = {"dropout_rate": 0.2, "dropout_rng": jax.random.key(1)}
    options = {"implementation": implementation, **dropped}
    want = cases.outputs_and_gradients(inputs, structure, rules, **options)

    mesh = sharding.make_mesh(sharding.MeshConfig(**{"data": 1} | mesh))
    with jax.set_mesh(mesh), sharding.logical_rules(sharding.DEFAULT_RULES):
        options["mesh_axes"] = sharding.mesh_axes()
        batch, heads = options["mesh_axes"]

        def place(x):
            axes = (heads, None) if x.shape[0] == NUM_LABELS else (None, heads)
            axes = (batch, *axes) if x.shape[0] != NUM_LABELS else (None, *axes)
            spec = jax.P(*axes[: x.ndim])
            return jax.device_put(x, jax.NamedSharding(mesh, spec))

        split = cases.Inputs(**jax.tree.map(place, vars(inputs)))

        def loss(differentiable, structure):
            out = global_local.attend(*differentiable, structure, rules, **options)
            weights = zip(out, split.weight, strict=True)
            return sum((a * w).sum() for a, w in weights), out

        structure = jax.tree.map(
            lambda x: jax.device_put(x, jax.NamedSharding(mesh, jax.P(batch))),
            structure,
        )
        fn = jax.jit(jax.grad(loss, has_aux=True))
        compiled = fn.lower(split.differentiable(), structure).compile()
        gradients, out = compiled(split.differentiable(), structure)
        found = count(compiled.as_text())
    assert found["all-reduce"] and set(found) == {"all-reduce"}, found
    for a, b in zip(
        jax.tree.leaves((out, gradients)), jax.tree.leaves(want), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-5 * np.abs(b).max(), rtol=0)


def full_size(n=4096, g=230):
    """(inputs of ETC-base in bfloat16 as shapes, structure, rules)."""
    rules = Rules(radius=84, max_distance=12, hard_g2l=True)
    sentences = [n // g + (i < n % g) for i in range(g)]
    structure = jax.tree.map(lambda x: x[None], builders.plain_text(sentences))
    inputs = jax.eval_shape(
        lambda: jax.tree.map(
            lambda x: jnp.zeros(x.shape, jnp.bfloat16),
            vars(cases.random_inputs(n, g, 32, batch=1, heads=12, size=64)),
        )
    )
    return cases.Inputs(**inputs), structure, rules


def training_pass(structure, rules, **how):
    """A function of (differentiable, key): gradients of a sum of the outputs."""

    def loss(differentiable, rng):
        options = {"dropout_rate": 0.1, "dropout_rng": rng, **how}
        out = global_local.attend(*differentiable, structure, rules, **options)
        return sum((x.astype(jnp.float32) ** 2).sum() for x in out)

    return jax.jit(jax.grad(loss))


@pytest.mark.skipif(
    jax.__version_info__ >= (0, 11), reason="jax 0.11 asks for a GPU to lower kernels"
)
def test_full_size_kernels_are_lowered_for_a_gpu(monkeypatch):
    monkeypatch.setattr(by_kernels, "interpreted", lambda name: False)
    inputs, structure, rules = full_size()
    rng = jax.eval_shape(lambda: jax.random.key(0))
    step = training_pass(structure, rules, implementation="pallas")
    traced = step.trace(inputs.differentiable(), rng)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    # Long and global rows: forward, gradients of rows, and of each piece's keys.
    assert text.count("__gpu$xla.gpu.triton") == 2 * 4


@pytest.mark.parametrize("sequence", [1, 4])
def test_full_size_kernels_are_taken_and_lowered_for_a_tpu(sequence):
    inputs, structure, rules = full_size()
    rng = jax.eval_shape(lambda: jax.random.key(0))
    chip = jax.sharding.AbstractDevice("TPU v5 lite", num_cores=1, platform="tpu")
    axes = (1, sequence), ("data", "sequence")
    mesh = jax.sharding.AbstractMesh(*axes, abstract_device=chip)
    with jax.sharding.use_abstract_mesh(mesh):
        split = {"sequence_axis": "sequence"} if sequence > 1 else {}
        step = training_pass(structure, rules, **split)
        traced = step.trace(inputs.differentiable(), rng)
        text = traced.lower(lowering_platforms=("tpu",)).as_text()
    # Long and global rows, forward and backward.
    assert text.count("tpu_custom_call") == 2 * 2


# Of each kernel's code, of which a part is run for one group of heads alone.
_NAMES = [
    f"{kernel}_{way}"
    for kernel in ("windows", "all_keys")
    for way in ("forward", "backward")
]
BUNDLES = {
    "v5e:1x1": dict(zip(_NAMES, (2306, 3461, 3337, 4957), strict=True)),
    "v5p:2x2x1": dict(zip(_NAMES, (2674, 3841, 3490, 5080), strict=True)),
    "v6e:1x1": dict(zip(_NAMES, (2019, 3022, 2951, 4389), strict=True)),
}
DUMPS = "ETC_JAX_TEST_DUMPS"


def bundles(folder: pathlib.Path, kernel: str) -> int:
    """Instruction bundles that the compiler has written of a kernel; then forgotten."""
    name = f"*{kernel}*final_hlo-static-per-bundle-utilization.txt"
    (file,) = folder.glob(name)
    lines = file.read_text().splitlines()
    file.unlink()
    return sum(line[:1].isdigit() for line in lines)


def compile_for_tpus():
    """What "auto" takes, for a chip of each kind."""
    inputs, structure, rules = full_size()
    rng = jax.eval_shape(lambda: jax.random.key(0))
    step, dumps = training_pass(structure, rules), pathlib.Path(os.environ[DUMPS])
    for chip in tpu_process.CHIPS:
        program = tpu_process.compiled(chip, step, inputs.differentiable(), rng)
        # None as large as windows of 2 * 84 + 1 keys, or rows of 230 global keys.
        texts = SHAPE.findall(program.as_text())
        shapes = {tuple(map(int, x.split(","))) for x in texts}
        logits = {x for x in shapes if math.prod(x) >= 12 * 4096 * 169}
        assert not logits, logits
        # XLA's form on v5e: 6.7 GB, and 481 MiB.
        tpu_process.check_kernels(program, 4, 0.8, 64)
        for kernel, most in BUNDLES[chip].items():
            measured = bundles(dumps, kernel)
            print(chip, kernel, measured)
            assert measured <= 1.05 * most


@pytest.mark.tpu_aot
def test_full_size_kernels_compile_for_tpus_and_leave_no_logits_in_memory():
    # Of what the compiler writes, a gigabyte, nothing is kept.
    with tempfile.TemporaryDirectory() as folder:
        flags = f"--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true"
        env = {DUMPS: folder, "LIBTPU_INIT_ARGS": flags}
        print(tpu_process.in_a_process(__name__, compile_for_tpus, **env))


@pytest.mark.parametrize(
    "axes, name",
    [
        ({"sequence": 8}, "prime, everything"),
        ({"data": 2, "tensor": 2, "sequence": 2}, "tiles"),
    ],
    ids=str,
)
@pytest.mark.full
def test_a_split_sequence_equals_the_oracle(axes, name):
    n, g, rules, _ = CASES[name]
    inputs = cases.random_inputs(n, g, num_labels(rules))
    structure = cases.random_structure(n, g, seed=3)
    mesh = sharding.make_mesh(sharding.MeshConfig(**{"data": 1, **axes}))
    dropped = {"dropout_rate": 0.3, "dropout_rng": jax.random.key(3)}
    with jax.enable_x64(True):
        want = cases.outputs_and_gradients(
            inputs, structure, rules, implementation="dense"
        )
    run = functools.partial(
        cases.outputs_and_gradients,
        cases.Inputs(**as_float32(vars(inputs))),
        structure,
        rules,
        implementation="mosaic",
    )
    whole = run(**dropped)
    with jax.set_mesh(mesh), sharding.logical_rules(sharding.DEFAULT_RULES):
        split = {"sequence_axis": "sequence", "mesh_axes": sharding.mesh_axes()}
        got, dropped = run(**split), run(**split, **dropped)
    # Dropout draws what it does in one piece.
    for result, expected in ((got, want), (dropped, whole)):
        pairs = zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True)
        for a, b in pairs:
            atol = 1e-5 * max(1, np.max(np.abs(b), initial=0))
            np.testing.assert_allclose(a, b, atol=atol, rtol=0)
