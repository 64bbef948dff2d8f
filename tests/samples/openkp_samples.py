"""Small pages in OpenKP's format, over the vocabulary of `multihop_samples`."""

import json
import pathlib

from etc_jax.tasks.openkp import records as openkp_records

# x, width, y, height, block, inline, heading, leaf, font size, bold.
PLAIN = [40.0, 600.0, 70.0, 18.0, 1.0, 0.0, 0.0, 1.0, 14.0, 0.0]
TITLE = [40.0, 600.0, 20.0, 40.0, 1.0, 0.0, 1.0, 1.0, 28.0, 1.0]
BODY = [0.0, 980.0, 0.0, 1500.0, 1.0, 0.0, 0.0, 0.0, 14.0, 0.0]

TEXTS = (
    "Old Mill",
    "The old mill stands in Ton .",
    "The mill burned",
    "country of Ton",
)


def page(
    texts=TEXTS,
    phrases=("old mill", "Ton"),
    url="http://x.org/mill",
    looks=None,
    **changes,
):
    """The JSON value of a page of some elements, the first of which is its title.

    `looks` has ten numbers of each, as `PLAIN`.
    """
    nodes, start = [], 0
    looks = looks or [TITLE, *[PLAIN] * (len(texts) - 1)]
    for i, (text, look) in enumerate(zip(texts, looks, strict=True)):
        end = start + len(text.split(" "))
        feature = [*look, *BODY]
        nodes.append(
            {
                "Id": i,
                "text": text,
                "feature": feature,
                "start_idx": start,
                "end_idx": end,
            }
        )
        start = end
    value = {
        "url": url,
        "text": " ".join(texts),
        "VDOM": json.dumps(nodes),
        "KeyPhrases": [phrase.split(" ") for phrase in phrases],
    }
    return {**value, **changes}


def record(*args, **changes) -> openkp_records.Record:
    return openkp_records.parse(page(*args, **changes), lambda kind, message: None)


def write_lines(folder: pathlib.Path, values, name="pages.jsonl") -> pathlib.Path:
    path = folder / name
    path.write_text("".join(json.dumps(v) + "\n" for v in values), encoding="utf-8")
    return path
