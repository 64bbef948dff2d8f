"""The user's folder of caches, of what can be made or fetched anew.

$ETC_JAX_CACHE_DIR, else $XDG_CACHE_HOME/etc_jax, else ~/.cache/etc_jax
"""

import os
import pathlib

VARIABLE = "ETC_JAX_CACHE_DIR"
# Copies of what lies in an object store, and what is made to be put there.
FILES, MODELS, OUTPUTS = "files", "models", "outputs"
_STORE = "gs://"


def root() -> pathlib.Path:
    """The folder.

    Raises:
      RuntimeError: if the user has no home.
    """
    if configured := os.environ.get(VARIABLE):
        return pathlib.Path(configured).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    # By that convention a relative path is no path.
    base = pathlib.Path(shared) if os.path.isabs(shared) else None
    return (base or pathlib.Path.home() / ".cache") / "etc_jax"


def as_given(text: str) -> str:
    """A message, with the addresses of what it calls by the paths of copies."""
    for kind in (FILES, MODELS, OUTPUTS):
        if f"/{kind}/" in text:
            text = text.replace(f"{root() / kind}/", _STORE)
    return text
