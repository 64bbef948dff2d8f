import jax
import jax.numpy as jnp
import pytest

from etc_jax.sharding import MeshConfig, make_mesh
from etc_jax.training.preflight.collectives import Traffic, count

# A program as the compilers of TPUs write it: an all-gather that begins and ends in two
# fusions within a loop of 12 within a loop of 2, and a fused reduce-scatter.
TPU = """
HloModule jit_step, is_scheduled=true

%start (p: bf16[128,256]) -> (bf16[128,256], bf16[1024,256]) {
  %p = bf16[128,256]{1,0:T(8,128)(2,1)} parameter(0)
  %all-gather.1 = bf16[1024,256]{1,0:T(8,128)(2,1)} all-gather(%p), channel_id=9
  ROOT %custom-call.2 = (bf16[128,256]{1,0}, bf16[1024,256]{1,0}) custom-call(%all-gather.1)
}

%done (p: bf16[128,256]) -> bf16[1024,256] {
  %p = bf16[128,256]{1,0:T(8,128)(2,1)} parameter(0)
  %all-gather.3 = bf16[1024,256]{1,0:T(8,128)(2,1)S(1)} all-gather(%p), channel_id=9
  ROOT %custom-call.4 = bf16[1024,256]{1,0} custom-call(%p, %all-gather.3)
}

%all-reduce-scatter.7.clone (i: f32[32,256], j: f32[8]) -> (f32[16,256], f32[4]) {
  %i = f32[32,256]{1,0:T(8,128)} parameter(0)
  %j = f32[8]{0} parameter(1)
  %all-reduce.9 = (f32[32,256]{1,0:T(8,128)}, f32[8]{0}) all-reduce(%i, %j), channel_id=1, to_apply=%add
  ROOT %t = (f32[16,256]{1,0}, f32[4]{0}) custom-call(%all-reduce.9)
}

%inner_condition (arg: (s32[], bf16[128,256])) -> pred[] {
  %constant.5 = s32[]{:T(128)} constant(12)
  %arg = (s32[]{:T(128)}, bf16[128,256]{1,0}) parameter(0)
  %i = s32[]{:T(128)} get-tuple-element(%arg), index=0
  ROOT %lt.1 = pred[]{:T(512)} compare(%i, %constant.5), direction=LT, metadata={op_name="a"}
}

%inner_body (arg: (s32[], bf16[128,256])) -> (s32[], bf16[128,256]) {
  %arg = (s32[]{:T(128)}, bf16[128,256]{1,0}) parameter(0)
  %x = bf16[128,256]{1,0} get-tuple-element(%arg), index=1
  %fusion.1 = (bf16[128,256]{1,0}, bf16[1024,256]{1,0}) fusion(%x), kind=kCustom, calls=%start
  %fusion.2 = bf16[1024,256]{1,0} fusion(%x), kind=kCustom, calls=%done
  ROOT %out = (s32[]{:T(128)}, bf16[128,256]{1,0}) tuple(%x)
}

%outer_condition (arg: (s32[], bf16[128,256])) -> pred[] {
  %constant.6 = s32[]{:T(128)} constant(2)
  ROOT %lt.2 = pred[]{:T(512)} compare(%arg, %constant.6), direction=LT
}

%outer_body (arg: (s32[], bf16[128,256])) -> (s32[], bf16[128,256]) {
  %arg = (s32[]{:T(128)}, bf16[128,256]{1,0}) parameter(0)
  ROOT %while.1 = (s32[]{:T(128)}, bf16[128,256]{1,0}) while(%arg), condition=%inner_condition, body=%inner_body
}

%add (a: f32[], b: f32[]) -> f32[] {
  ROOT %sum = f32[] add(%a, %b)
}

ENTRY %main.1 (p: bf16[128,256], q: f32[32,256]) -> f32[] {
  %while.2 = (s32[]{:T(128)}, /*index=1*/bf16[128,256]{1,0}) while(%p), condition=%outer_condition, body=%outer_body
  %fusion.3 = (f32[16,256]{1,0}, f32[4]{0}) fusion(%q, %r), kind=kCustom, calls=%all-reduce-scatter.7.clone
  %permute = (f32[3,5]{1,0}, f32[3,5]{1,0}, u32[], u32[]) collective-permute-start(%q), channel_id=4
  %permute-done = f32[3,5]{1,0} collective-permute-done(%permute)
  ROOT %all-reduce.10 = f32[] all-reduce(%sum), channel_id=3, to_apply=%add
}
"""  # noqa: E501


def test_a_tpu_program_by_hand():
    assert count(TPU) == {
        "all-gather": Traffic(1, 24, 24 * 1024 * 256 * 2),
        "reduce-scatter": Traffic(1, 1, (16 * 256 + 4) * 4),
        "all-reduce": Traffic(1, 1, 4),
        "collective-permute": Traffic(1, 1, 3 * 5 * 4),
    }


def test_a_known_trip_count_goes_before_the_condition():
    known = 'body=%outer_body, backend_config={"known_trip_count":{"n":"5"}}'
    text = TPU.replace("body=%outer_body", known)
    assert count(text)["all-gather"].runs == 60


def test_a_loop_of_unknown_length_counts_as_one_pass():
    text = TPU.replace("direction=LT, metadata", "direction=NE, metadata")
    assert count(text)["all-gather"].runs == 2


@pytest.fixture(scope="module")
def compiled():
    mesh = make_mesh(MeshConfig())

    def own(x):
        def layer(x, _):
            x = x + jax.lax.psum(x, "data")
            return jax.lax.ppermute(x, "data", [(i, (i + 1) % 8) for i in range(8)]), ()

        x, _ = jax.lax.scan(layer, x, None, length=7)
        gathered = jax.lax.all_gather(x, "data", tiled=True)
        part = jax.lax.psum_scatter(gathered.astype(jnp.bfloat16), "data", tiled=True)
        return jax.lax.all_to_all(part, "data", 1, 0, tiled=True)

    spec = jax.P("data", None)
    fn = jax.jit(jax.shard_map(own, mesh=mesh, in_specs=spec, out_specs=spec))
    x = jax.ShapeDtypeStruct(
        (16, 8), jnp.float32, sharding=jax.NamedSharding(mesh, spec)
    )
    return fn.lower(x).compile().as_text()


def test_a_real_program(compiled):
    """Sixteen rows of eight over eight devices; seven passes of a scan."""
    own, whole = 2 * 8 * 4, 16 * 8 * 4
    got = count(compiled)
    assert got["all-reduce"] == Traffic(1, 7, 7 * own)
    assert got["collective-permute"] == Traffic(1, 7, 7 * own)
    assert got["all-gather"] == Traffic(1, 1, whole)
    assert got["reduce-scatter"].runs == 1
    assert got["all-to-all"].runs == 1


def test_a_program_of_one_device_has_none():
    text = jax.jit(lambda x: x @ x).lower(jnp.ones((4, 4))).compile().as_text()
    assert count(text) == {}
