"""Packages of the extra "metrics" that scores of data sets need."""

import pytest

_PACKAGES = {
    "wmt14_en_de": "sacrebleu",
    "classification": "sklearn",
    "token_classification": "seqeval",
}


def require_for(data_set: str) -> None:
    """Skips a test where the scores of a data set cannot be worked out."""
    if data_set in _PACKAGES:
        pytest.importorskip(_PACKAGES[data_set])
