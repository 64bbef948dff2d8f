"""The tokenizer of a run lies in its folder, for what goes on from there."""

import os

from etils import epath

from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer
from etc_jax.training.local_folder import local_folder
from etc_jax.training.workdir import is_recorded


def save(tokenizer: Tokenizer, workdir: epath.PathLike) -> None:
    """Writes it there, unless a run has begun there with the one that is there.

    Whether it is that of the data still is seen by its digest beside each checkpoint.
    """
    path = epath.Path(workdir) / TOKENIZER
    if path.exists() and is_recorded(epath.Path(workdir)):
        return
    part = path.with_name(f".{TOKENIZER}-{os.getpid()}")
    part.write_bytes(tokenizer.saved())
    part.replace(path)


def check_same(
    init_from: epath.PathLike,
    tokenizer: Tokenizer,
    named: str = "checkpoint.init_from",
) -> None:
    """Refuses to go on from a model of another vocabulary, where that is known.

    Args:
      init_from: a run's folder, one of its checkpoints, or a converted model.
      tokenizer: of the data.
      named: what gave the folder, for the message.

    Raises:
      ValueError: if a tokenizer lies there and is another one.
    """
    place = local_folder(init_from, named=named)
    # A checkpoint is two folders below the one of its run.
    for path in (folder / TOKENIZER for folder in (place, *list(place.parents)[:2])):
        if not path.exists():
            continue
        known, given = open_tokenizer(path).fingerprint(), tokenizer.fingerprint()
        if known != given:
            raise ValueError(
                f"{named} is a model of vocabulary {known[:12]}, but the "
                f"data is in {given[:12]}; prepare it with the tokenizer {path}"
            )
        return
