"""Which values of a config the variants of its file give."""

from __future__ import annotations

from collections.abc import Callable

import ml_collections

from etc_jax.config import flat_items

_FAMILY = "model.family"


def said_by(get_config: Callable[[str], ml_collections.ConfigDict], arg: str) -> set:
    """Dotted paths of the values that the variants of a config file give.

    A variant gives what the config would not have without it. If that is another
    family, the other fields of the model are no more than its usual ones.

    Args:
      get_config: of the file.
      arg: what stands after the colon, variants joined by commas.
    """
    names = arg.split(",") if arg else []
    whole = flat_items(get_config(arg).to_dict()) if names else {}
    found: set[str] = set()
    for i in range(len(names)):
        try:
            rest = get_config(",".join(names[:i] + names[i + 1 :]))
        except ValueError:
            continue  # the others do not go without it
        left = flat_items(rest.to_dict())
        paths = {path for path in whole if left.get(path) != whole[path]}
        found |= {_FAMILY} if _FAMILY in paths else paths
    return found
