"""Golden cases of the official fused attention layer."""

import jax
import numpy as np

from etc_jax.base.types import Rows
from etc_jax.conversion.engine import export_params, import_params
from etc_jax.layers.patterns.global_local import GlobalLocal, GlobalLocalAttention
from etc_jax.models.etc.official import attention_names
from etc_jax.structure import Rules, Structure
from parity.cases import Case, gradient_difference, group, largest_difference
from parity.peers import outputs_and_gradients

PIECES = ("l2l", "l2g", "g2g", "g2l")
IMPLEMENTATIONS = ("xla", "dense")

# Constructor arguments that choose a way to compute, not a value.
_NO_MATTER = {
    "name",
    "initializer",
    "att_implementation",
    "use_one_hot_lookup",
    "use_one_hot_relative_embeddings",
}


def explicit(inputs: dict[str, np.ndarray]):
    """The side inputs as an explicit structure; takes them out of `inputs`."""
    names = {f"{p}_mask": f"{p}_att_mask" for p in PIECES}
    names |= {f"{p}_labels": f"{p}_relative_att_ids" for p in PIECES}
    return Structure.explicit(
        **{ours: inputs.pop(official, None) for ours, official in names.items()}
    )


def make_layer(config: dict, implementation: str) -> GlobalLocalAttention:
    """Our layer for the constructor arguments of the official one.

    Raises:
      ValueError: if an argument is unknown, or says what our layer cannot do.
    """
    config = {k: v for k, v in config.items() if k not in _NO_MATTER}
    heads = config.pop("num_heads")
    widths, totals = [], []
    for side in ("long", "global"):
        widths.append(config.pop(f"{side}_hidden_size"))
        totals.append(config.pop(f"{side}_total_att_size", None) or widths[-1])
    for what, (long, glob) in (("hidden", widths), ("attention", totals)):
        if long != glob:
            raise ValueError(
                f"{what} sizes of long and global rows differ, {long} and {glob}: "
                "our layer has one size for both"
            )
    pattern = GlobalLocal(
        rules=Rules(radius=config.pop("local_radius")),
        num_labels=config.pop("relative_vocab_size", None),
        share_kv=config.pop("share_kv_projections", False),
        share_qkv=config.pop("share_qkv_projections", False),
        share_out=config.pop("share_att_output_projection", False),
    )
    layer = GlobalLocalAttention(
        pattern=pattern,
        num_heads=heads,
        head_dim=totals[0] // heads,
        dropout_rate=config.pop("att_dropout_prob", 0.0),
        implementation=implementation,
    )
    if config:
        raise ValueError(f"unknown constructor arguments {config}")
    return layer


def _prefix(names) -> str:
    """What stands before the layer's own variables."""
    own = "long_query_projection/"
    found = {name[: name.index(own)] for name in names if own in name}
    assert len(found) == 1, f"variables of one layer expected, got {sorted(names)}"
    return found.pop()


def weighted_sum(arrays: dict[str, np.ndarray]):
    """The loss of a case: outputs times the weights that it names."""
    weight = Rows(arrays["aux/c_long"], arrays["aux/c_global"])
    return lambda out: sum((y * c).sum() for y, c in zip(out, weight, strict=True))


def compare_gradients(gradients: dict, want: dict[str, np.ndarray]) -> float:
    """The largest difference over the official gradients; none may be left out."""
    assert set(want) <= set(gradients), f"no gradient of {set(want) - set(gradients)}"
    return max(gradient_difference(gradients[name], want[name]) for name in want)


def masked_rows(case: dict, own: str, other: str) -> list[tuple[int, int]]:
    """(batch, row) of the rows that see nothing in either piece of their softmax."""
    rows = case.get("fully_masked_rows", {})
    return sorted(
        {tuple(r) for r in rows.get(own, [])} & {tuple(r) for r in rows.get(other, [])}
    )


def _compare_rows(got, want, rows, bias) -> float:
    """Masked rows must be exactly `bias`; the largest difference of all others."""
    keep = np.ones(got.shape[:2], bool)
    for b, i in rows:
        np.testing.assert_array_equal(got[b, i], bias)
        keep[b, i] = False
    return largest_difference(got[keep], want[keep])


def run(case: Case) -> float:
    """Compares outputs and gradients of both implementations."""
    sidecar, arrays = case.description, case.arrays()
    return max(_run(sidecar, arrays, name) for name in IMPLEMENTATIONS)


def _run(sidecar: dict, arrays, implementation: str) -> float:
    layer = make_layer(sidecar["layer_config"], implementation)
    inputs, weights = group(arrays, "in"), group(arrays, "w")
    x = Rows(inputs.pop("long_input"), inputs.pop("global_input"))
    structure = explicit(inputs)
    assert not inputs, f"unknown inputs {sorted(inputs)}"
    for width, side in zip(
        ("long_hidden_size", "global_hidden_size"), Rows._fields, strict=True
    ):
        assert sidecar["layer_config"][width] == getattr(x, side).shape[-1]

    abstract = jax.eval_shape(layer.init, jax.random.key(0), x, structure)["params"]
    table = attention_names(layer.num_heads, source=_prefix(weights))
    params, _ = import_params(table, weights, abstract)

    def apply(params, x) -> Rows:
        return layer.apply({"params": params}, x, structure)[0]

    want = group(arrays, "grad")
    loss = weighted_sum(arrays) if want else None
    got, _, gradients = outputs_and_gradients(apply, loss, params, x)
    worst = _compare_outputs(sidecar, group(arrays, "out"), got, params, layer)
    if want:
        d_params, d_x = gradients
        gradients = export_params(table, d_params)
        gradients |= {"long_input": d_x.long, "global_input": d_x.global_}
        worst = max(worst, compare_gradients(gradients, want))
    return worst


def _compare_outputs(sidecar, outputs, got: Rows, params, layer) -> float:
    outputs.pop("loss", None)
    long_rows = masked_rows(sidecar, "l2l", "l2g")
    global_rows = masked_rows(sidecar, "g2g", "g2l")
    long_bias = params["long_out"]["bias"]
    side = "long_out" if layer.pattern.share_out else "global_out"
    global_bias = params[side]["bias"]
    differences = []
    for name, want in outputs.items():
        if name in ("long_output", "long_output_full", "long_output_sparse"):
            differences.append(_compare_rows(got.long, want, long_rows, long_bias))
        elif name == "global_output":
            differences.append(
                _compare_rows(got.global_, want, global_rows, global_bias)
            )
        else:
            raise AssertionError(f"unknown output {name!r}")
    assert differences, "the case has no outputs"
    return max(differences)
