"""Functions of tests that compile for absent TPUs: libtpu and its lock stay loaded."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import limits

from etc_jax.training.preflight import topology

CHIPS = ("v5e:1x1", "v5p:2x2x1", "v6e:1x1")


def in_a_process(module: str, check: Callable[[], None], **env: str) -> str:
    """Runs a function of a test module in a process of its own; what it has printed."""
    code = f"import {module} as test; test.{check.__name__}()"
    path = os.pathsep.join(filter(None, sys.path))
    got = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, **env},
        capture_output=True,
        text=True,
        timeout=limits.SECS,
    )
    assert got.returncode == 0, got.stderr[-2000:]
    return got.stdout


def compiled(chip: str, fn: jax.stages.Wrapped, *shapes: Any) -> jax.stages.Compiled:
    """A jitted function of trees of shapes, for one chip of a kind, such as v5e:1x1."""
    mesh = jax.sharding.Mesh(topology.devices(chip)[:1], ("data",))
    layout = jax.NamedSharding(mesh, jax.P())
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=layout), shapes
    )
    with jax.set_mesh(mesh):
        return fn.lower(*shapes).compile()


def check_kernels(
    program: jax.stages.Compiled, kernels: int, gigabytes: float, mebibytes: float
) -> None:
    """So many are in it, and it moves and takes less than that; printed."""
    text = program.as_text()
    assert text.count('custom_call_target="tpu_custom_call"') == kernels
    moved = program.cost_analysis()["bytes accessed"] / 1e9
    temporaries = program.memory_analysis().temp_size_in_bytes / 2**20
    print(f"{moved:.2f} GB, {temporaries:.0f} MiB")
    assert moved < gigabytes and temporaries < mebibytes
