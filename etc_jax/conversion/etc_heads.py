"""Official ETC fine-tuning checkpoints: the names of the heads' variables.

They stand at the root of a checkpoint, beside the encoder (`etc_official`); kernels
are kept transposed there.
"""

import dataclasses
from collections.abc import Iterable

from etc_jax.conversion.engine import TRANSPOSE, Row

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

# By the name of the task; see `objectives.finetuning`.
TASKS = {"hotpotqa": HOTPOTQA, "wikihop": CANDIDATES}


def rows(task: str, *, target: str) -> list[Row]:
    """The rows of a task's head, which stands at `target` in our parameters."""
    return [
        dataclasses.replace(row, target=f"{target}{row.target}") for row in TASKS[task]
    ]


def has_final_layer(names: Iterable[str]) -> bool:
    """Whether a WikiHop checkpoint with these variables has one."""
    return any(name.startswith(_FINAL) for name in names)
