"""Similar documents, one after the other, as long texts.

After Xiong et al. 2022, section 3.3 and appendix A ("C4-linked"). k-means divides the
documents into clusters. In a cluster, one document after the other that is left is
followed by its nearest neighbours until the text is full.

Unlike there, documents are compared by TF-IDF, over all of their words, and not by a
dense retrieval model; and each is in one text, not in up to two. So none is seen more
often than others, and none is both trained and evaluated on.

Documents are read twice. In the first pass some of them are drawn, from which word
frequencies and clusters are learned. In the second pass each is put into a file of its
cluster. Files are then read in blocks; the documents of a block are compared with each
other. So memory is bounded by `SAMPLE_CHARS` and `Linking.block_chars`, however many
documents there are. The time of a block grows with the square of its size.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from etc_jax.base.extras import needed
from etc_jax.base.rules import at_least, refuse, whole
from etc_jax.data.text.corpus import Document
from etc_jax.data.text.export import cut
from etc_jax.data.text.long_texts import LengthFn, LongText, measured
from etc_jax.data.text.prepare import sample

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Characters of the documents that frequencies and clusters are learned from.
SAMPLE_CHARS = 1 << 27
BLOCK_CHARS = 1 << 26
# Of a block, which short documents would fill with hundreds of thousands.
_BLOCK_DOCUMENTS = 1 << 18
_BATCH_CHARS = 1 << 22
# Words are hashed, so that a vocabulary takes no memory: a centre is 0.5 MB.
_FEATURES = 1 << 17
_RANDOM_PAIRS = 10_000


@dataclasses.dataclass(frozen=True)
class Linking:
    """How documents are linked.

    Attributes:
      length: the most that a text holds; a longer document is a text of its own.
      neighbours: how many of the documents that are left, the nearest ones of the first
        of a text, may follow it. (The paper has a number k that it does not tell.)
      clusters: the most there are. Each has a block's text at least, on average.
      block_chars: characters of the documents that are compared with each other.
      seed: of clusters, and of the documents that texts begin with.
    """

    length: int
    neighbours: int = 256
    clusters: int = 256
    block_chars: int = BLOCK_CHARS
    seed: int = 0

    def __post_init__(self):
        counts = "length", "neighbours", "clusters", "block_chars"
        refuse(at_least(1).problems(self, *counts))
        whole(0, 2**32 - 1).check(seed=self.seed)


class Linker:
    """Links the documents of a source.

    Attributes:
      random_similarity: mean cosine of two documents drawn at random, to compare those
        of neighbours with; None: there is only one document.
    """

    def __init__(
        self, source: Iterable[Document], linking: Linking, length_fn: LengthFn
    ):
        """Reads the source once, to learn frequencies of words and clusters.

        Args:
          source: the documents, which `texts` reads again.
          linking: how they are linked.
          length_fn: what `Linking.length` counts.

        Raises:
          MissingExtraError: if scikit-learn is not installed.
          ValueError, OSError: if the source cannot be read.
        """
        self._source, self._linking, self._length_fn = source, linking, length_fn
        self._vectors, self._chars = _Vectors(), 0
        drawn = self._vectors.fit(sample(self._read(), SAMPLE_CHARS))
        self._total_chars = self._chars
        blocks = -(-self._chars // linking.block_chars)
        # Fewer clusters of little text: on average each fills a block.
        count = min(linking.clusters, blocks, drawn.shape[0])
        self._clusters = _clusters(drawn, count, linking.seed) if count > 1 else None
        self.random_similarity = _random_similarity(drawn, linking.seed)

    def texts(self, folder: pathlib.Path) -> Iterator[LongText]:
        """Every document in one text: first those that are too long, then by clusters.

        The same source and settings give the same texts on one kind of machine.

        Args:
          folder: an empty one, for as much text as the source has.

        Raises:
          ValueError, OSError: if the source cannot be read or has changed, or the
            folder cannot be written.
        """
        most = self._linking.length
        for batch in cut(measured(self._read(), self._length_fn), _BATCH_CHARS):
            yield from (text for text in batch if text.length >= most)
            if short := [text for text in batch if text.length < most]:
                self._put(short, folder)
        if self._chars != self._total_chars:
            raise ValueError(
                f"the documents had {self._total_chars:,} characters when they were "
                f"first read, {self._chars:,} the second time; link them again when "
                "nothing writes to their files"
            )
        rng = np.random.default_rng(self._linking.seed)
        for path in sorted(folder.iterdir()):
            blocks = cut(_texts_in(path), self._linking.block_chars, _BLOCK_DOCUMENTS)
            for block in blocks:
                yield from self._linked(block, rng)

    def _read(self) -> Iterator[Document]:
        """The documents of the source, with a count of their characters."""
        self._chars = 0
        for document in self._source:
            self._chars += document.num_chars
            yield document

    def _put(self, texts: Sequence[LongText], folder: pathlib.Path) -> None:
        """Adds texts to the files of their clusters."""
        numbers = np.zeros(len(texts), int)
        if self._clusters is not None:
            numbers = self._clusters.predict(self._vectors(texts))
        for number in np.unique(numbers):
            path = folder / f"{number:06}"
            with open(path, "a", encoding="ascii") as file:
                for i in np.flatnonzero(numbers == number):
                    [document] = texts[i].documents
                    values = [texts[i].length, *dataclasses.astuple(document)]
                    file.write(f"{json.dumps(values)}\n")

    def _linked(
        self, texts: Sequence[LongText], rng: np.random.Generator
    ) -> Iterator[LongText]:
        lengths = np.array([text.length for text in texts])
        linked = chains(
            self._vectors(texts),
            lengths,
            most=self._linking.length,
            neighbours=self._linking.neighbours,
            rng=rng,
        )
        for members, similarities in linked:
            documents = itertools.chain(*(texts[i].documents for i in members))
            length = int(lengths[members].sum())
            yield LongText(tuple(documents), length, tuple(similarities.tolist()))


def chains(
    vectors: csr_array,
    lengths: np.ndarray,
    *,
    most: int,
    neighbours: int,
    rng: np.random.Generator,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows in chains: a random one, then its nearest ones of those that are left.

    A row that is too long for the room that is left is passed over, and one at a right
    angle to the first row never follows it.

    Args:
      vectors: float `[n, features]`, of norm 1, or 0; without negative elements.
      lengths: int `[n]`.
      most: of a chain; a longer row is a chain of its own.
      neighbours: how many of the nearest rows may follow the first.
      rng: of the first row of each chain.

    Yields:
      (rows, cosines of all but the first with the first); each row once in all.
    """
    is_free = np.ones(len(lengths), bool)
    for first in rng.permutation(len(lengths)):
        if not is_free[first]:
            continue
        is_free[first] = False
        # Vectors have norm 1, so that products are cosines: [n].
        cosines = vectors @ vectors[[first]].toarray()[0]
        near = np.flatnonzero(is_free & (cosines > 0))
        # Stable: equal cosines in the order of rows, on every machine.
        near = near[np.argsort(-cosines[near], kind="stable")[:neighbours]]
        chain, room = [first], most - lengths[first]
        for row in near:
            if lengths[row] <= room:
                chain.append(row)
                room -= lengths[row]
        is_free[chain] = False
        yield np.array(chain), cosines[chain[1:]]


class _Vectors:
    """TF-IDF of texts: float32 `[texts, _FEATURES]`, of norm 1; without a word 0."""

    def __init__(self):
        text = needed(
            "sklearn.feature_extraction.text",
            extra="corpora",
            to="link documents by their similarity",
        )
        self._counts = text.HashingVectorizer(
            n_features=_FEATURES, alternate_sign=False, norm=None, dtype=np.float32
        )
        self._weights = text.TfidfTransformer(sublinear_tf=True)

    def fit(self, documents: Sequence[Document]) -> csr_array:
        """Learns frequencies of words; returns the vectors of these documents."""
        counts = self._count(documents)
        return self._weights.fit(counts).transform(counts, copy=False)

    def __call__(self, texts: Sequence[LongText]) -> csr_array:
        """The vectors of texts of one document each."""
        counts = self._count(text.documents[0] for text in texts)
        return self._weights.transform(counts, copy=False)

    def _count(self, documents: Iterable[Document]) -> csr_array:
        return self._counts.transform("\n".join(d.paragraphs) for d in documents)


def _clusters(vectors: csr_array, count: int, seed: int):
    """k-means of some vectors, whose `predict` gives the cluster of each."""
    cluster = needed("sklearn.cluster", extra="corpora", to="cluster documents")
    return cluster.MiniBatchKMeans(count, random_state=seed).fit(vectors)


def _random_similarity(vectors: csr_array, seed: int) -> float | None:
    """Mean cosine of disjoint pairs of rows, some of them; None if there is no pair."""
    # Disjoint pairs: no document is compared with itself.
    half = min(vectors.shape[0] // 2, _RANDOM_PAIRS)
    if not half:
        return None
    drawn = np.random.default_rng(seed).permutation(vectors.shape[0])
    first, second = vectors[drawn[:half]], vectors[drawn[half : 2 * half]]
    return float(first.multiply(second).sum() / half)


def _texts_in(path: pathlib.Path) -> Iterator[LongText]:
    """The texts of a cluster's file."""
    with open(path, encoding="ascii") as file:
        for line in file:
            length, name, paragraphs, replaced = json.loads(line)
            document = Document(name, tuple(paragraphs), replaced)
            yield LongText((document,), length)
