"""Documents and a vocabulary for all that caches them."""

import pytest
from corpus_samples import make_documents, trained_on


@pytest.fixture(scope="session")
def documents():
    return make_documents()


@pytest.fixture(scope="session")
def trained(documents):
    return trained_on(documents)
