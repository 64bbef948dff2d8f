"""Which files a run would miss: known before any of them is read."""

import pathlib
from collections.abc import Iterator

from etc_jax import registry
from etc_jax.config import Config
from etc_jax.config_sections import TASKS, DataConfig
from etc_jax.data.cache import HEADER
from etc_jax.data.sources import read_documents
from etc_jax.data.tokenizer import open_tokenizer


def missing_inputs(config: Config) -> Iterator[str]:
    """One message for each path of the data section that leads to nothing usable."""
    data = config.data
    if data.tokenizer is not None:
        try:
            open_tokenizer(data.tokenizer, lower_case=data.lower_case)
        except (OSError, ValueError) as error:
            yield f"data.tokenizer: {error}"
    if data.source == "builtin":
        return
    for field in ("paths", "held_back_paths"):
        for path in getattr(data, field):
            if (problem := _problem(data, path)) is not None:
                yield f"data.{field}: {problem}"


for _name in ("mlm_cpc", *TASKS):
    registry.register("objective_inputs", _name)(missing_inputs)


def _problem(data: DataConfig, path: str) -> str | None:
    if data.source in _CACHES:
        if (pathlib.Path(path) / HEADER).exists():
            return None
        kind, remedy = _CACHES[data.source]
        return f"no {kind} in {path} ({HEADER} is missing); {remedy}"
    try:
        read_documents([path], format=data.source, document_border=data.document_per)
    except (OSError, ValueError) as error:
        return str(error)
    return None


_CACHES = {
    "cache": ("token cache", "correct the path"),
    "windows": ("window cache", "make it with `python -m etc_jax.prepare`"),
}
