"""Caches as earlier versions wrote them."""

import json
import pathlib
import zipfile

from repository import TESTS

# Seven of `window_samples.make_rich_window`, as commit fa1a099 wrote them.
STRUCTURED = TESTS / "data/structured_windows_version_2.zip"


def window_cache_of_version_2(path: pathlib.Path) -> pathlib.Path:
    """Puts a cache of structured windows into a folder."""
    with zipfile.ZipFile(STRUCTURED) as file:
        file.extractall(path)
    return path


def without_checksums(path: pathlib.Path) -> None:
    """Rewrites the header of a cache in place.

    Args:
      path: of a token cache, or of windows in version 2.
    """
    file = path / "header.json"
    header = json.loads(file.read_text())
    for name in ("checksum", "files"):
        del header[name]
    header["format_version"] -= 1
    if "task" in header:  # of windows: values had a checksum already
        for array in header["arrays"].values():
            del array["head"]
    else:
        del header["arrays"]
    file.write_text(json.dumps(header, indent=2, sort_keys=True) + "\n")
