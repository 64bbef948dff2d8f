"""Fixtures of the tests of seqio Tasks."""

from seqio_samples import (  # noqa: F401
    data_dir_fixture,
    notes_fixture,
    registered_fixture,
    sio_fixture,
    tokenizer_fixture,
)
