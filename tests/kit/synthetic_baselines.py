"""Ways to answer without following relations: what they reach is the floor."""

import collections
import math
import re

_WORD = re.compile(r"\w+")
_NAME = re.compile(r"\b[A-Z][a-z]+(?: [A-Z][a-z]+)*|\b\d{4}\b")


def words(text: str) -> list[str]:
    return _WORD.findall(text.lower().replace("_", " "))


def names(text: str) -> list[str]:
    """Capitalised words that follow each other, and years."""
    return _NAME.findall(text)


def years(text: str) -> list[int]:
    return [int(name) for name in _NAME.findall(text) if name.isdigit()]


class TfIdf:
    """Cosine of word counts weighed by how rare words are in the given texts."""

    def __init__(self, texts: list[str]):
        counts = [collections.Counter(words(text)) for text in texts]
        seen = collections.Counter(word for count in counts for word in count)
        self._idf = {w: math.log((1 + len(texts)) / (1 + n)) for w, n in seen.items()}
        self._rows = [self._weigh(count) for count in counts]

    def _weigh(self, count) -> dict[str, float]:
        row = {w: n * self._idf[w] for w, n in count.items() if w in self._idf}
        norm = math.sqrt(sum(v * v for v in row.values())) or 1.0
        return {w: v / norm for w, v in row.items()}

    def similarities(self, query: str) -> list[float]:
        """Of each text to the query."""
        asked = self._weigh(collections.Counter(words(query)))
        return [sum(v * asked.get(w, 0.0) for w, v in r.items()) for r in self._rows]


def _best(scores: dict[str, float], rng) -> str:
    """The highest; ties are drawn."""
    top = max(scores.values())
    return rng.choice(sorted(name for name, s in scores.items() if s == top))


# WikiHop: record, random -> candidate.


def any_candidate(record, rng) -> str:
    return rng.choice(record["candidates"])


def most_mentioned(record, rng, sign=1) -> str:
    text = "\n".join(record["supports"]).lower()
    return _best({c: sign * text.count(c) for c in record["candidates"]}, rng)


def least_mentioned(record, rng) -> str:
    return most_mentioned(record, rng, sign=-1)


def nearest_to_subject(record, rng) -> str:
    """Fewest characters between a mention and one of the query's subject."""
    subject = record["query"].partition(" ")[2]
    scores = dict.fromkeys(record["candidates"], -math.inf)
    for support in map(str.lower, record["supports"]):
        places = [m.start() for m in re.finditer(re.escape(subject), support)]
        for c in scores:
            for match in re.finditer(re.escape(c), support):
                gaps = [-abs(match.start() - place) for place in places]
                scores[c] = max([scores[c], *gaps])
    return _best(scores, rng)


def beside_subject(record, rng) -> str:
    """In most documents that name the subject."""
    subject = record["query"].partition(" ")[2]
    near = [s.lower() for s in record["supports"] if subject in s.lower()]
    return _best({c: sum(c in s for s in near) for c in record["candidates"]}, rng)


def two_steps_away(record, rng) -> str:
    """In the document of somebody whom the subject's document names."""
    subject = record["query"].partition(" ")[2]
    texts = {s.partition(" is a")[0].lower(): s.lower() for s in record["supports"]}
    near = [text for name, text in texts.items() if name in texts[subject]]
    found = [c for c in record["candidates"] if any(c in text for text in near)]
    return rng.choice(found or record["candidates"])


def in_similar_sentences(record, rng) -> str:
    """Whose sentences are most like the query, by TF-IDF."""
    sentences = [s for x in record["supports"] for s in re.split(r"(?<=\.) ", x)]
    return _by_similarity(record, sentences, rng)


def in_similar_documents(record, rng) -> str:
    """Whose documents are most like the query, by TF-IDF."""
    return _by_similarity(record, record["supports"], rng)


def _by_similarity(record, texts, rng) -> str:
    scores = dict.fromkeys(record["candidates"], 0.0)
    similar = TfIdf(texts).similarities(record["query"])
    for text, similarity in zip(texts, similar, strict=True):
        for c in scores:
            if c in text.lower():
                scores[c] = max(scores[c], similarity)
    return _best(scores, rng)


WIKIHOP = (
    any_candidate,
    most_mentioned,
    least_mentioned,
    nearest_to_subject,
    beside_subject,
    two_steps_away,
    in_similar_sentences,
    in_similar_documents,
)


# HotpotQA: record -> prediction.


def similar_sentences(record, *, titles: bool) -> list[tuple[str, int, str]]:
    """(title, index, text) of all sentences, the most similar to the question first."""
    rows = [(t, i, s) for t, sents in record["context"] for i, s in enumerate(sents)]
    texts = [f"{title} {text}" if titles else text for title, _, text in rows]
    similar = TfIdf(texts).similarities(record["question"])
    order = sorted(range(len(rows)), key=lambda at: -similar[at])
    return [rows[at] for at in order]


def support_by_similarity(record, *, titles: bool) -> list[list]:
    """As many sentences as support the answer, the most similar ones."""
    best = similar_sentences(record, titles=titles)
    return [[title, at] for title, at, _ in best[: len(record["supporting_facts"])]]


def answer_by_similarity(record, *, titles: bool) -> str:
    """The first name of the most similar sentence that is not in the question."""
    for _, _, text in similar_sentences(record, titles=titles):
        for name in _NAME.findall(text):
            if name not in record["question"] and name not in ("The", "He", "She"):
                return name
    return ""


def most_named(record) -> str:
    """The name that stands most often in the documents and not in the question."""
    text = " ".join(s for _, sents in record["context"] for s in sents)
    counts = collections.Counter(
        name
        for name in _NAME.findall(text)
        if name not in record["question"] and name not in ("The", "He", "She")
    )
    return counts.most_common(1)[0][0]
