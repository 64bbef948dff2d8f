"""Whether the arrays of a checkpoint are those that are wanted."""

from collections.abc import Mapping
from typing import Any

import jax

from etc_jax.base.terminal import listing
from etc_jax.sharding import path_of
from etc_jax.training.errors import UserError

Leaves = Mapping[str, tuple[tuple[int, ...], str]]
_SHOWN = 5


def leaves_of(tree: Any) -> dict[str, tuple[tuple[int, ...], str]]:
    """{path: (shape, dtype)} of arrays, abstract arrays or their saved descriptions."""
    flat, _ = jax.tree_util.tree_flatten_with_path(
        tree, is_leaf=lambda x: hasattr(x, "shape")
    )
    return {path_of(k): (tuple(x.shape), str(x.dtype)) for k, x in flat}


def differences(saved: Leaves, wanted: Leaves) -> list[str]:
    """One line for each path that is not the same in both, by path."""
    wrong = []
    for path in sorted(saved.keys() | wanted.keys()):
        if path not in wanted:
            wrong.append(f"{path}: only in the checkpoint")
        elif path not in saved:
            wrong.append(f"{path}: not in the checkpoint")
        elif saved[path] != wanted[path]:
            (s_shape, s_dtype), (w_shape, w_dtype) = saved[path], wanted[path]
            wrong.append(
                f"{path}: {s_dtype}{list(s_shape)} in the checkpoint, "
                f"{w_dtype}{list(w_shape)} wanted"
            )
    return wrong


def check_same_leaves(saved: Leaves, wanted: Leaves, name: str) -> None:
    """Raises UserError unless both have the same paths, shapes and dtypes.

    Orbax itself casts in silence where only the dtype differs.

    Args:
      saved: path -> (shape, dtype) in the checkpoint.
      wanted: path -> (shape, dtype) in the model and optimizer.
      name: of the checkpoint, for the message.
    """
    if wrong := differences(saved, wanted):
        raise UserError(
            f"checkpoint {name} is of another model or optimizer; {len(wrong)} "
            f"differences ({_sections(wrong)}):{listing(wrong, _SHOWN)}"
        )


def _sections(wrong: list[str]) -> str:
    """Which sections of a config decide the paths that the messages begin with."""
    names = {"params": "model", "opt_state": "optimizer"}
    tops = {message.split("/")[0] for message in wrong}
    sections = [section for top, section in names.items() if top in tops]
    if "params" in tops:
        sections = ["model"]  # the optimizer's arrays follow the parameters
    where = " and ".join(sections or ["model", "optimizer"])
    return f"look at the config's section {where}, or at what changed in the code"
