"""The coordinator's table of keys, through which processes exchange values."""

from typing import Any

import jax


def look_up(client: Any, key: str) -> str | None:
    """The value under a key; None if nobody has set it yet.

    Raises:
      JaxRuntimeError: if the coordinator cannot be asked.
    """
    try:
        return client.key_value_try_get(key)
    except jax.errors.JaxRuntimeError as error:
        if "NOT_FOUND" not in str(error):
            raise
        return None
