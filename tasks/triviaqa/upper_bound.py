"""Why a gold answer is lost between record and input; see `tasks.upper_bound`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from etc_jax.scoring.triviaqa import normalize
from tasks.triviaqa.inputs import DocumentsWindow


def why_lost(windows: Sequence[DocumentsWindow], answer: str) -> Iterator[str]:
    """Why the windows of a record do not give its gold answer back."""
    [window] = windows
    names = window.record.aliases
    if normalize(answer) not in map(normalize, names):
        yield f"{names[0]!r}: {window.unusable or f'tokens say {answer!r}'}"
