"""Golden cases of the whole official encoder."""

import dataclasses
import json

import jax
import numpy as np

from etc_jax.base.types import Rows
from etc_jax.conversion.engine import export_params
from etc_jax.conversion.formats.tf_checkpoint import TfCheckpoint
from etc_jax.models.etc.body import Etc
from etc_jax.models.etc.official import (
    config_from_official,
    import_official,
    official_names,
)
from parity.cases import Case, group, largest_difference
from parity.etc_layer import (
    compare_gradients,
    explicit,
    masked_rows,
    weighted_sum,
)
from parity.peers import outputs_and_gradients

_ADDERS = ("long_embedding_adder", "global_embedding_adder")


def _weights(case: Case, sidecar: dict, arrays) -> dict[str, np.ndarray]:
    """From the arrays, or from the checkpoint that the sidecar names."""
    weights = group(arrays, "w")
    if folder := sidecar.get("checkpoint_dir"):
        folder = case.path.parent / folder
        weights |= TfCheckpoint(folder)
        config = json.loads((folder / "etc_config.json").read_text())
        assert config == sidecar["config"]
    assert weights, "the case has no weights"
    return weights


def _arguments(inputs: dict[str, np.ndarray]):
    """(positional arguments but the adders, adders) of our model."""
    tokens = Rows(inputs.pop("token_ids"), inputs.pop("global_token_ids"))
    types = Rows(
        inputs.pop("segment_ids", None), inputs.pop("global_segment_ids", None)
    )
    positions = Rows(
        inputs.pop("position_ids", inputs.pop("long_position_ids", None)),
        inputs.pop("global_position_ids", None),
    )
    adders = Rows(*(inputs.pop(name, None) for name in _ADDERS))
    structure = explicit(inputs)
    assert not inputs, f"unknown inputs {sorted(inputs)}"
    return tokens, types, positions, structure, adders


def run(case: Case) -> float:
    """Compares outputs and gradients; the oracle's are compared layer by layer."""
    sidecar, arrays = case.description, case.arrays()
    assert not sidecar.get("is_training"), "dropout is on: nothing to compare"
    weights = _weights(case, sidecar, arrays)
    config, unknown = config_from_official(sidecar["config"])
    assert not unknown, f"unknown config keys {unknown}"
    return _run(sidecar, arrays, weights, dataclasses.replace(config, attention="xla"))


def _run(sidecar, arrays, weights, config) -> float:
    tokens, types, positions, structure, adders = _arguments(group(arrays, "in"))
    model = Etc(config)

    def apply(params, adders):
        return model.apply(
            {"params": params},
            tokens.long,
            tokens.global_,
            structure,
            types=types,
            positions=positions,
            adders=adders,
        )

    abstract = jax.eval_shape(
        lambda rng: model.init(rng, tokens.long, tokens.global_, structure),
        jax.random.key(0),
    )["params"]
    params, _ = import_official(weights, config, abstract)
    exported = export_params(official_names(config), params)
    for name in exported:
        np.testing.assert_array_equal(exported[name], weights[name])

    want = group(arrays, "grad")
    got, _, gradients = outputs_and_gradients(
        apply, weighted_sum(arrays) if want else None, params, adders
    )
    worst = _compare_outputs(sidecar, group(arrays, "out"), got)
    if want:
        d_params, d_adders = gradients
        gradients = export_params(official_names(config), d_params)
        gradients |= dict(zip(_ADDERS, d_adders, strict=True))
        worst = max(worst, compare_gradients(gradients, want))
    return worst


def _compare_outputs(sidecar: dict, outputs, got: Rows) -> float:
    outputs.pop("loss", None)
    differences = []
    for name, want in outputs.items():
        long = name in ("long_output", "long_output_full", "long_output_sparse")
        assert long or name == "global_output", f"unknown output {name!r}"
        pieces = ("l2l", "l2g") if long else ("g2g", "g2l")
        keep = np.ones(want.shape[:2], bool)
        for row in masked_rows(sidecar, *pieces):
            keep[row] = False
        rows = got.long if long else got.global_
        differences.append(largest_difference(rows[keep], want[keep]))
    assert differences, "the case has no outputs"
    return max(differences)
