"""Matrix FLOPs of a traced function.

XLA's own count (`cost_analysis`) takes the body of a loop once, whatever the number of
turns, so a scanned stack of layers would count as one layer.
"""

import math
from collections.abc import Iterator
from typing import Any

from jax.interpreters import partial_eval


def matmul_flops(jaxpr: Any) -> float:
    """FLOPs of all matrix products and convolutions of a jaxpr, over all devices.

    A scan counts as often as it turns, a Pallas kernel as it says itself or for each
    cell of its grid, a `shard_map` for each device; of branches the most expensive
    counts, and the body of a loop without a known end counts once. What
    rematerialisation computes again counts again; what nothing reads does not, as XLA
    leaves it out.

    Args:
      jaxpr: as `jax.jit(f).trace(...).jaxpr` gives.
    """
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    live, _ = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    return _flops(live)


def _flops(jaxpr: Any) -> float:
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    return sum(_equation_flops(equation) for equation in jaxpr.eqns)


def _equation_flops(equation: Any) -> float:
    name = equation.primitive.name
    if name == "dot_general":
        return _dot_flops(equation)
    if name == "conv_general_dilated":
        return _convolution_flops(equation)
    if name == "pallas_call" and (cost := equation.params["cost_estimate"]):
        return float(cost.flops)
    inner = [_flops(jaxpr) for jaxpr in _inner(equation.params)]
    if not inner:
        return 0.0
    return _turns(name, equation.params) * (max if name == "cond" else sum)(inner)


def _inner(params: dict[str, Any]) -> Iterator[Any]:
    """The jaxprs among the parameters of an equation."""
    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if hasattr(getattr(item, "jaxpr", item), "eqns"):
                yield item


def _turns(name: str, params: dict[str, Any]) -> int:
    if name == "scan":
        return params["length"]
    if name == "shard_map":
        # The parameter has had both names.
        old, new = params.get("manual_axes"), params.get("newly_manual_axes")
        return math.prod(params["mesh"].shape[axis] for axis in new or old)
    if name == "pallas_call":
        return math.prod(params["grid_mapping"].grid)
    return 1


def _dot_flops(equation: Any) -> float:
    lhs = equation.invars[0].aval.shape
    (contracted, _), _ = equation.params["dimension_numbers"]
    out = math.prod(equation.outvars[0].aval.shape)
    return 2.0 * out * math.prod(lhs[axis] for axis in contracted)


def _convolution_flops(equation: Any) -> float:
    kernel = equation.invars[1].aval.shape
    features = kernel[equation.params["dimension_numbers"].rhs_spec[0]]
    out = math.prod(equation.outvars[0].aval.shape)
    return 2.0 * out * math.prod(kernel) / features
