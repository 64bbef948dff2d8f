"""Official ETC fine-tuning checkpoints: the names of the heads' variables.

They stand at the root of a checkpoint, beside the encoder (`official`); kernels
are kept transposed there.
"""

import dataclasses
from collections.abc import Iterable

from etc_jax.conversion.engine import TRANSPOSE, Row
from etc_jax.models.etc import openkp_weights as etc_openkp

_FINAL = "global_output_layer/transform/residual_block/"


def _linear(source: str, target: str, *, joint: str = "_output_") -> tuple[Row, Row]:
    return (
        Row(f"{source}{joint}weights", f"{target}/kernel", TRANSPOSE),
        Row(f"{source}{joint}bias", f"{target}/bias"),
    )


HOTPOTQA: tuple[Row, ...] = (
    *_linear("supporting_facts", "support"),
    *_linear("answer_type", "answer_type"),
    *_linear("answer_span", "answer_span"),
)

NATURAL_QUESTIONS: tuple[Row, ...] = (
    *_linear("cls/nq/long", "answer_span"),
    *_linear("answer_type", "answer_type"),
)

CANDIDATES: tuple[Row, ...] = (
    *_linear("output", "candidate", joint="_"),
    Row(f"{_FINAL}dense_layers/layer_0/{{leaf:kernel|bias}}", "mlp/wi/{leaf}"),
    Row(f"{_FINAL}dense_layers/layer_1/{{leaf:kernel|bias}}", "mlp/wo/{leaf}"),
    Row(f"{_FINAL}layer_norm/gamma", "mlp_norm/scale"),
    Row(f"{_FINAL}layer_norm/beta", "mlp_norm/bias"),
)


def _in_head(rows: Iterable[Row]) -> tuple[Row, ...]:
    return tuple(dataclasses.replace(row, target=f"head/{row.target}") for row in rows)


# By the name of the task (see `objectives.learners.finetuning`): all but the encoder.
TASKS = {
    "hotpotqa": _in_head(HOTPOTQA),
    "natural_questions": _in_head(NATURAL_QUESTIONS),
    "openkp": etc_openkp.ROWS,
    "wikihop": _in_head(CANDIDATES),
}


def options_of(task: str, names: Iterable[str]) -> dict[str, bool]:
    """The options of the objective that a task's checkpoint was trained with.

    What leaves no trace in them, such as the loss, is as by default.
    """
    names = set(names)
    if task == "wikihop":
        final = any(name.startswith(_FINAL) for name in names)
        return {"final_layer": final}
    if task == "openkp":
        looks = any(name.startswith(etc_openkp.LOOKS) for name in names)
        return {"visual_features": looks}
    return {}
