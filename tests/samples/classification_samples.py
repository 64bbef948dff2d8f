"""Small texts with labels, in the forms of IMDB and of hyperpartisan news."""

import gzip
import pathlib
from xml.sax.saxutils import escape, quoteattr

from etc_jax.tasks import hyperpartisan, imdb

REVIEW = {"id": "train/pos/1_9", "text": "the old mill stands.<br /><br />it is old"}
ARTICLE = {"id": "0000001", "title": "Mills", "text": "the old mill stands. it is old"}


def review(**changes) -> imdb.records.Record:
    value = {**REVIEW, "label": 1, "rating": 9, **changes}
    return imdb.records.parse(
        {k: v for k, v in value.items() if v is not None}, _no_note
    )


def article(**changes) -> hyperpartisan.records.Record:
    value = {**ARTICLE, "label": "true", **changes}
    value = {k: v for k, v in value.items() if v is not None}
    return hyperpartisan.records.parse(value, _no_note)


def _no_note(kind: str, message: str) -> None:
    raise AssertionError(f"{kind}: {message}")


def aclimdb(folder: pathlib.Path, texts: dict[str, str | bytes]) -> pathlib.Path:
    """A folder `train` with `neg` and `pos` and some files; its path."""
    for label in ("neg", "pos"):
        (folder / "train" / label).mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        path = folder / "train" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / "train"


def article_xml(name: str, inside: str, title: str = "T") -> str:
    """An article as it is in a file; `inside` is XML itself."""
    return (
        f'<article id="{name}" published-at="2017-09-10" title={quoteattr(title)}>'
        f"\n{inside}\n</article>"
    )


def truth_xml(name: str, label: str) -> str:
    url = escape("http://example.org/?a&b")
    return f'<article hyperpartisan="{label}" id="{name}" url="{url}"/>'


def release(folder: pathlib.Path, articles, truth=None, *, name="x", gz="") -> str:
    """Writes `articles-NAME.xml`, and the truth if there is some; the first path."""
    contents = {"articles": articles, "ground-truth": truth}
    for kind, elements in contents.items():
        if elements is None:
            continue
        if isinstance(elements, list):
            body = "\n".join(elements)
            elements = f'<?xml version="1.0"?>\n<articles>\n{body}\n</articles>\n'
        path = folder / f"{kind}-{name}.xml{gz}"
        text = elements.encode()
        path.write_bytes(gzip.compress(text) if gz else text)
    return str(folder / f"articles-{name}.xml{gz}")
