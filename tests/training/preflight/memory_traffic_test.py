"""Bytes that a program moves, of one by hand and beside XLA's own count."""

import jax
import jax.numpy as jnp
import pytest

from etc_jax.training.preflight.memory_traffic import moved_bytes

# A program as the compilers of TPUs write it: a loop of 3 that reads and writes a slice
# of a stack, a kernel, and an array that is fetched into a core's own memory, S(1).
TPU = """
HloModule jit_step, is_scheduled=true

%part (p: bf16[3,100], q: s32[]) -> bf16[1,100] {
  %p = bf16[3,100]{1,0:T(8,128)(2,1)} parameter(0)
  %q = s32[] parameter(1)
  ROOT %slice.1 = bf16[1,100]{1,0:T(8,128)(2,1)} dynamic-slice(%p, %q, %q)
}

%write (p: bf16[3,100], q: bf16[1,100], r: s32[]) -> bf16[3,100] {
  %p.1 = bf16[3,100]{1,0} parameter(0)
  %q.1 = bf16[1,100]{1,0} parameter(1)
  %r.1 = s32[] parameter(2)
  ROOT %update.1 = bf16[3,100]{1,0} dynamic-update-slice(%p.1, %q.1, %r.1, %r.1)
}

%condition (arg: (s32[], bf16[3,100])) -> pred[] {
  %constant.5 = s32[]{:T(128)} constant(3)
  %i = s32[]{:T(128)} get-tuple-element(%arg), index=0
  ROOT %lt.1 = pred[]{:T(512)} compare(%i, %constant.5), direction=LT
}

%body (arg: (s32[], bf16[3,100])) -> (s32[], bf16[3,100]) {
  %i.2 = s32[] get-tuple-element(%arg), index=0
  %x = bf16[3,100]{1,0} get-tuple-element(%arg), index=1
  %fusion.1 = bf16[1,100]{1,0:T(8,128)(2,1)S(1)} fusion(%x, %i.2), kind=kLoop, calls=%part
  %kernel = bf16[1,100]{1,0} custom-call(%fusion.1), custom_call_target="tpu_custom_call", backend_config={"cost_estimate":{"flops":"7","bytes_accessed":"5000"}}
  %fusion.2 = bf16[3,100]{1,0} fusion(%x, %kernel, %i.2), kind=kLoop, calls=%write
  ROOT %out = (s32[], bf16[3,100]{1,0}) tuple(%i.2, %fusion.2)
}

ENTRY %main.1 (p: f32[50,2], q: bf16[3,100]) -> f32[50,2] {
  %p.3 = f32[50,2]{1,0} parameter(0)
  %copy-start = (f32[50,2]{1,0:T(8,128)S(1)}, f32[50,2]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(%p.3)
  %copy-done = f32[50,2]{1,0:T(8,128)S(1)} copy-done(%copy-start)
  %while.1 = (s32[], bf16[3,100]{1,0}) while(%q), condition=%condition, body=%body
  ROOT %add.1 = f32[50,2]{1,0} add(%copy-done, %p.3)
}
"""  # noqa: E501


def test_a_tpu_program_by_hand():
    counter = 4
    # The slice is read, into the core's memory; the kernel; a slice is written.
    turn = (200 + counter) + 5000 + (200 + 200 + counter)
    # And the condition of each turn: two integers and what they give.
    turn += 4 + 4 + 1
    fetched = 400
    assert moved_bytes(TPU) == 3 * turn + fetched + (400 + 400)


@pytest.mark.usefixtures("one_device")
def test_a_program_without_loops_has_xlas_own_count():
    def fn(x, w, table, ids):
        y = jnp.tanh(x @ w)
        y = y + jax.lax.dynamic_slice_in_dim(table, ids[0], 64)
        return y.at[3:7].set(2.0), jnp.sum(y * x, axis=0)

    shapes = [(64, 32), (32, 32), (4096, 32)]
    args = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    ids = jax.ShapeDtypeStruct((2,), jnp.int32)
    compiled = jax.jit(fn).lower(*args, ids).compile()
    want = compiled.cost_analysis()["bytes accessed"]
    assert moved_bytes(compiled.as_text()) == pytest.approx(want, rel=0.1)


@pytest.mark.usefixtures("one_device")
def test_a_scan_moves_as_much_in_each_turn():
    def moves(length):
        def fn(x):
            return jax.lax.scan(lambda c, _: (jnp.sin(c @ c), ()), x, None, length)[0]

        x = jax.ShapeDtypeStruct((64, 64), jnp.float32)
        return moved_bytes(jax.jit(fn).lower(x).compile().as_text())

    assert moves(31) - moves(21) == moves(21) - moves(11) > 10 * 2 * 64 * 64 * 4
