"""Similar documents follow each other, each once and unchanged."""

import sys

import numpy as np
import pytest
from scipy import sparse

from etc_jax.base.extras import MissingExtraError
from etc_jax.data.text import linking
from etc_jax.data.text.corpus import Document
from etc_jax.data.text.linking import Linker, Linking, chains
from etc_jax.data.text.long_texts import in_words

TOPICS, PER_TOPIC, WORDS = 3, 40, 30


def topic_documents(seed=0):
    """Documents of three topics, whose words differ but for some that all have."""
    rng = np.random.default_rng(seed)
    common = [f"common{i}" for i in range(20)]
    documents = []
    for i in rng.permutation(TOPICS * PER_TOPIC).tolist():
        own = [f"topic{i % TOPICS}word{j}" for j in range(60)]
        words = [*rng.choice(own, WORDS - 10), *rng.choice(common, 10)]
        text = " ".join(rng.permutation(words))
        documents.append(Document(f"{i % TOPICS}/{i}", (text[:50].strip(), text[50:])))
    return documents


def link(documents, folder, **options):
    """(linker, its texts)."""
    folder.mkdir()
    linker = Linker(documents, Linking(**options), in_words)
    return linker, list(linker.texts(folder))


def purity(texts):
    """Share of the documents after the first that are of its topic."""
    return np.mean(
        [d.source == t.documents[0].source for t in texts for d in t.documents[1:]]
    )


# A block of all text, and blocks of some documents each, in as many clusters.
@pytest.mark.parametrize("block_chars", [10**6, 10_000])
def test_neighbours_share_a_topic(tmp_path, block_chars):
    documents = topic_documents()
    linker, texts = link(
        documents, tmp_path / "w", length=320, block_chars=block_chars, clusters=3
    )
    assert (linker._clusters is None) == (block_chars == 10**6)
    everyone = [d for text in texts for d in text.documents]
    assert sorted(everyone, key=lambda d: d.name) == sorted(
        documents, key=lambda d: d.name
    )
    assert purity(texts) > 0.95
    # Chance is a third, as in the order of the documents.
    sources = np.array([document.source for document in documents])
    assert 0.2 < np.mean(sources[1:] == sources[:-1]) < 0.47
    near = np.mean([s for text in texts for s in text.similarities])
    assert near > 1.5 * linker.random_similarity


def test_no_text_is_longer_than_asked_for_but_a_single_document(tmp_path):
    documents = topic_documents()
    long = Document("long/0", tuple(d.paragraphs[1] for d in documents))
    _, texts = link([*documents, long], tmp_path / "w", length=320)
    for text in texts:
        assert text.length == sum(in_words(text.documents))
        assert text.length <= 320 or text.documents == (long,)
        assert len(text.similarities) == len(text.documents) - 1
    assert sum(text.documents == (long,) for text in texts) == 1
    # Short ones fill the room: all texts but the last few of each topic.
    assert np.median([text.length for text in texts]) > 280


def test_a_seed_decides(tmp_path):
    options = {"length": 320, "clusters": 5, "block_chars": 10_000}
    runs = {
        name: link(topic_documents(), tmp_path / name, seed=seed, **options)[1]
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    }
    assert runs["a"] == runs["b"] != runs["c"]


def chains_by_hand(vectors, lengths, most, neighbours, order):
    """The same by loops over numbers of 64 bits."""
    left, found = list(range(len(lengths))), []
    for first in order:
        if first not in left:
            continue
        left.remove(first)
        near = sorted((-float(vectors[first] @ vectors[i]), i) for i in left)
        chain, total = [first], lengths[first]
        for minus, i in near[:neighbours]:
            if minus < 0 and total + lengths[i] <= most:
                chain.append(i)
                total += lengths[i]
        left = [i for i in left if i not in chain]
        found.append(chain)
    return found


@pytest.mark.parametrize("neighbours", [1, 4, 100])
def test_chains_are_those_of_a_plain_loop(neighbours):
    rng = np.random.default_rng(3)
    # Sparse, so that some are at right angles, and some are 0.
    vectors = np.abs(rng.normal(size=(60, 12))) * (rng.random((60, 12)) < 0.2)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    assert (vectors.sum(1) == 0).any()
    lengths = rng.integers(1, 40, 60)
    lengths[:3] = 150
    how = {"most": 100, "neighbours": neighbours}
    found = list(
        chains(sparse.csr_array(vectors), lengths, rng=np.random.default_rng(5), **how)
    )
    order = np.random.default_rng(5).permutation(60).tolist()
    want = chains_by_hand(vectors, lengths, order=order, **how)
    assert [rows.tolist() for rows, _ in found] == want
    for rows, cosines in found:
        np.testing.assert_allclose(cosines, vectors[rows[1:]] @ vectors[rows[0]])
    assert neighbours > 1 or max(map(len, want)) == 2


AWKWARD = {
    "one document": ["Only this one."],
    "identical documents": ["The same text again."] * 30,
    "no words": ["...", "!!! ???", "— «»", "."],
    "some without words": ["!!!", "about whales", "whales about", "?"],
    "unicode": [
        "Übergröße naïve 鯨の歌 🐋",
        "鯨の歌 größer",
        "क़लम и Привет",
        "\u2028 x",
    ],
}


@pytest.mark.parametrize("name", AWKWARD)
# More clusters than documents.
@pytest.mark.parametrize("block_chars", [1, 10**6])
def test_awkward_corpora_come_through(tmp_path, name, block_chars):
    documents = [Document(f"d/{i}", (text,)) for i, text in enumerate(AWKWARD[name])]
    linker, texts = link(
        documents, tmp_path / "w", length=12, block_chars=block_chars, clusters=100
    )
    everyone = sorted(d for text in texts for d in map(repr, text.documents))
    assert everyone == sorted(map(repr, documents))
    if name == "no words":
        assert len(texts) == len(documents)
    if name == "one document":
        assert linker.random_similarity is None
    if name == "identical documents" and block_chars > 1:
        assert [len(text.documents) for text in texts] == [3] * 10
        assert linker.random_similarity == pytest.approx(1)


def test_frequencies_come_from_a_sample_and_clusters_hold_all(tmp_path, monkeypatch):
    monkeypatch.setattr(linking, "SAMPLE_CHARS", 15_000)  # of some 40,000
    documents = topic_documents()
    _, texts = link(
        documents, tmp_path / "w", length=320, block_chars=14_000, clusters=3
    )
    assert sum(len(text.documents) for text in texts) == len(documents)
    assert purity(texts) > 0.9


def test_documents_that_change_between_the_passes_are_an_error(tmp_path):
    linker = Linker(iter(topic_documents()), Linking(320), in_words)
    with pytest.raises(ValueError, match="first read, 0 the second time"):
        list(linker.texts(tmp_path))


@pytest.mark.parametrize(
    "field, value", [("length", 0), ("neighbours", 0), ("clusters", -1), ("seed", -1)]
)
def test_a_number_out_of_range_is_named(field, value):
    with pytest.raises(ValueError, match=f"{field} is {value}; expected"):
        Linking(**({"length": 5} | {field: value}))


def test_the_extra_is_named_where_scikit_learn_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    with pytest.raises(MissingExtraError, match=r'sklearn .* "etc_jax\[corpora\]"'):
        Linker(topic_documents(), Linking(10), in_words)
