"""One's own pairs of texts: a model reads the first and writes the second.

    python -m etc_jax.prepare --task=text_to_text --tokenizer=tokenizer.json \\
        --input_length=512 --target_length=32 --out=prepared/train train.jsonl

A file has a JSON object a line, with `input` and `target`, both text, and `id` if there
is one; without, records are named by the beginning of their SHA-256. Records to be
answered need no `target`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from etc_jax import registry
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.datasets.explained import Explained, ExplainedDocument, Wording
from etc_jax.datasets.offsets import encode
from etc_jax.datasets.pairs import PLAIN, Pair, PairOptions, encoded, parse, read
from etc_jax.datasets.task import DataSet, Form
from etc_jax.formats.sequence import refuse_quirks
from etc_jax.formats.text_to_text import TextToTextSizes, TextToTextWindow, parts_of
from etc_jax.scoring.answers import exact_match, token_overlap
from etc_jax.scoring.result import Scores

SIZES = TextToTextSizes(input_length=1024, target_length=128)
WORDING = Wording(
    question="Record",
    answer="Output",
    places="",
    legend="",
    headed_by_id=True,
    side_by_side=True,
)


def features(
    record: Pair,
    tokenizer: Tokenizer,
    sizes: TextToTextSizes = SIZES,
    *,
    official_quirks: bool = False,
    options: PairOptions = PLAIN,
) -> list[TextToTextWindow]:
    """The one window of a record.

    Raises:
      BadRecordError: if the input has no token.
      ValueError: if the tokenizer lacks a special token, or quirks are asked for.
    """
    refuse_quirks("text_to_text", official_quirks)
    ids, target = encoded(record, tokenizer, options)
    return [
        TextToTextWindow(
            record=record,
            labels={},
            unusable="no target" if target is None else None,
            **parts_of(sizes, ids, target),
        )
    ]


def decode(
    texts: np.ndarray,
    windows: Sequence[TextToTextWindow],
    settings: Sequence[None] = (None,),
) -> list[list[str]]:
    """The written text of each window, without space around it."""
    del windows
    return [[text.strip()] * len(settings) for text in texts]


def explain(
    texts: np.ndarray, windows: Sequence[TextToTextWindow], setting: None = None
) -> list[Explained]:
    """For each window what was written, and the input."""
    found = decode(texts, windows, (setting,))
    return [
        Explained(
            w.record.id,
            "",
            text,
            (ExplainedDocument.of_text("Input", w.record.input),),
            reference=w.record.target,
            wording=WORDING,
        )
        for w, [text] in zip(windows, found, strict=True)
    ]


def gold_outputs(windows: Sequence[TextToTextWindow]) -> np.ndarray:
    """The targets, str `[b]`.

    Raises:
      ValueError: if a record has none.
    """
    if lacking := [w.record.id for w in windows if w.record.target is None]:
        raise ValueError(f"{lacking[0]!r} has no target")
    return np.array([w.record.target for w in windows], dtype=object)


def whole_length(record: Pair, tokenizer: Tokenizer) -> int:
    """Tokens of an input if nothing of it is cut off, with its end token."""
    [pieces] = encode(tokenizer, [record.input])
    return len(pieces) + 1


# --- score ----------------------------------------------------------------------------


def gold(record: Pair) -> dict[str, str] | None:
    """What `score` needs of a record; None without a target."""
    if record.target is None:
        return None
    return {"id": record.id, "target": record.target}


def score(gold: Sequence[Mapping[str, str]], predictions: Mapping[str, str]) -> Scores:
    """`exact_match` and `f1` of the words, both as in SQuAD, means over all records."""
    pairs = [(predictions.get(x["id"], ""), x["target"]) for x in gold]
    metrics = {
        "exact_match": np.mean([exact_match(*pair) for pair in pairs]).item(),
        "f1": np.mean([token_overlap(*pair).f1 for pair in pairs]).item(),
    }
    return Scores.of(metrics, [x["id"] for x in gold], {"text": predictions})


FORM = Form(
    learner="text",
    sizes=SIZES,
    features=features,
    options=PLAIN,
    decode=decode,
    explain=explain,
    gold_outputs=gold_outputs,
    whole_length=whole_length,
)
_WRITES = "a text is to be written, and models that read inputs so only choose"
DATA_SET = registry.register("data_set", "text_to_text")(
    DataSet(
        name="text_to_text",
        read=read,
        parse=parse,
        measure="f1",
        no_answer="",
        official=dict,
        gold=gold,
        score=score,
        forms={"text_to_text": FORM},
        absent={"structured": _WRITES, "sequence": _WRITES},
    )
)
