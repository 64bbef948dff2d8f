"""seqio Tasks -> token caches, once, for reading by index."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
from typing import Any

from etc_jax.data.text.cache import TokenCache, build_cache
from etc_jax.data.text.sentences import splitter_version
from etc_jax.tasks.seqio.documents import DocumentFiles, documents, find, tokenization
from etc_jax.tasks.seqio.tensorflow import seqio


def export(
    name: str, split: str, folder: str | os.PathLike, *, workers: int | str = 0
) -> dict[str, TokenCache]:
    """Writes the token cache of a Task, or one for each Task of a Mixture.

    The documents are those of `stream_documents(..., shuffle=False, num_epochs=1)`, in
    that order, token for token. Caches that are there are opened. An export that was
    killed goes on where it was, see `build_cache`.

    Args:
      name: of a registered Task or Mixture.
      split: such as "train".
      folder: gets a folder `task/split` for each Task.
      workers: processes that tokenise; 0: this one; or the address of a cluster, see
        `data.cluster`.

    Returns:
      The caches by name of their Task. For a Mixture, `rates_of` has the weights for
      `etc_jax.data.mixture`.

    Raises:
      ValueError: if name or split are unknown, the data is not there, or a folder
        holds something else.
    """
    tasks = seqio.get_subtasks(find(name, split))
    return {
        task.name: build_cache(
            documents(task, split),
            tokenization(task).tokenizer,
            pathlib.Path(folder, task.name, split),
            made_by=describe(task, split),
            workers=workers,
        )
        for task in tasks
    }


def describe(task: seqio.Task, split: str) -> dict[str, Any]:
    """All that the tokens of a document Task depend on, beside the tokenizer itself."""
    source = task.source
    if isinstance(source, DocumentFiles):
        text = source.describe(split)
    elif isinstance(source, seqio.TfdsDataSource):
        info, files = source.tfds_dataset.info, source.tfds_dataset.files(split)
        text = {
            "data_set": info.full_name,
            "bytes": int(info.dataset_size),
            "files": [[os.path.basename(f.filename), f.skip, f.take] for f in files],
        }
    else:
        raise ValueError(
            f"the source of Task {task.name!r} is a {type(source).__name__}, expected "
            "TFDS or files; register it with etc_jax.tasks.seqio.pretraining"
        )
    return {
        "task": task.name,
        "text": text,
        "paragraphs": tokenization(task).paragraphs_fn.__qualname__,
        "sentences": splitter_version(),
        "tokenizers": importlib.metadata.version("tokenizers"),
    }
