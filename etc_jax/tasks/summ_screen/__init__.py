"""SummScreen (Chen et al. 2022): episodes of television series, to be recapped.

    etc-jax prepare --task=summ_screen_fd --tokenizer=tokenizer.json --out=dev \\
        SummScreen/ForeverDreaming/fd_dev.json

There are two data sets, `summ_screen_fd` of ForeverDreaming and `summ_screen_tms` of
TVMegaSite. The release has two archives: SummScreen, whose text is cut into parts of
words, and SummScreen_raw, which has a file an episode and no splits. Files of the first
say which episodes a split has; all text is that of the second, which is looked for
beside the first. A folder of episodes, all of which are read, may stand in the place of
such a file.
"""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from etc_jax.datasets.fields import STRING, Fields, list_of
from etc_jax.datasets.record_files import names_in, nearest_folder, no_folder, value_in
from etc_jax.datasets.task import register
from etc_jax.datasets.text_sets import of_lines, text_data_set, unfolded
from etc_jax.formats.text_to_text import TextToTextSizes

# BART-LS: 16,384 tokens are read (section 5.1), so many written (table 9).
SIZES = {
    "fd": TextToTextSizes(input_length=16384, target_length=300),
    "tms": TextToTextSizes(input_length=16384, target_length=640),
}

_STRINGS = list_of(STRING)


def release(
    path: str | os.PathLike, *, source: str
) -> Iterator[tuple[int, Any]] | None:
    """Of a list of episodes, or of a folder of them; see `DataSet.release`.

    Args:
      path: of the file or the folder.
      source: "fd" or "tms".
    """
    path = pathlib.Path(path)
    if path.is_dir():
        return unfolded(names_in(path, "filename"), functools.partial(_records, path))
    folder = _folder(path, source)
    values = of_lines(path, "filename", functools.partial(_records, folder))
    if values is not None and folder is None:
        raise no_folder(path, f"SummScreen_raw/{source} beside SummScreen")
    return values


def companions(path: str | os.PathLike, *, source: str) -> list[pathlib.Path]:
    """The folder of the episodes that a file lists; see `DataSet.companions`.

    Raises:
      BadRecordError: if it lists some, and the folder is not there.
    """
    if pathlib.Path(path).is_dir() or release(path, source=source) is None:
        return []
    return [_folder(path, source)]


def _folder(path: str | os.PathLike, source: str) -> pathlib.Path | None:
    return nearest_folder(path, f"SummScreen_raw/{source}")


def _records(folder: pathlib.Path, listed: Fields) -> Iterator[dict[str, Any]]:
    """The record of an episode: its transcript and its recap, in lines."""
    name = listed.text("filename")
    episode = Fields(value_in(folder, name))
    lines = {"input": episode.get("Transcript", _STRINGS)}
    if "Recap" in episode:
        lines["target"] = episode.get("Recap", _STRINGS)
    texts = {key: "\n".join(some).strip() for key, some in lines.items()}
    yield {"id": name.removesuffix(".json"), **texts}


DATA_SETS = {
    source: register(
        text_data_set(
            f"summ_screen_{source}",
            measure="rouge",
            sizes=sizes,
            release=functools.partial(release, source=source),
            companions=functools.partial(companions, source=source),
        )
    )
    for source, sizes in SIZES.items()
}
"""The data sets, as commands and configs find them."""
