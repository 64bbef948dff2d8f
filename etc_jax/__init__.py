"""Long-document transformers in JAX: ETC first, its relatives beside it.

import etc_jax
model = etc_jax.load("longformer-base-4096")
vectors = model.encode(texts, pooling="mean")
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from etc_jax.loading.load import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    # Importing the package alone stays cheap: no jax, no models.
    if name == "load":
        from etc_jax.loading.load import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
