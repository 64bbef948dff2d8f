"""WMT14 English-German (Bojar et al. 2014): translation, scored by BLEU.

    etc-jax prepare --task=wmt14_en_de --tokenizer=spiece.model \\
        --out=prepared/wmt europarl-v7.de-en.en commoncrawl.de-en.en

The score is of all sentences together and of detokenised text; see
`etc_jax.scoring.bleu`, which needs the extra "metrics".
"""

import dataclasses
from typing import Any

from etc_jax.datasets.pairs import Pair
from etc_jax.datasets.task import DataSet, register
from etc_jax.datasets.text_converter import ONLY_WRITTEN, WORDING, make_text_converter
from etc_jax.formats.text_to_text import TextToTextSizes
from etc_jax.scoring import bleu
from etc_jax.tasks.wmt14_en_de import records

# Of single sentences: few have more than 100 words.
SIZES = TextToTextSizes(input_length=256, target_length=256)


def gold(record: Pair) -> dict[str, Any] | None:
    """What `score` needs of a record; None without a translation."""
    if record.target is None:
        return None
    return {"id": record.id, "references": [record.target]}


def unread_gold(name: str) -> dict[str, Any]:
    """What `score` takes for a pair that cannot be read.

    What it would be compared with is not known: it adds nothing, and is counted.
    """
    return {"id": name, "references": [""]}


DATA_SET = register(
    DataSet(
        name="wmt14_en_de",
        read=records.read,
        parse=records.parse,
        release=records.release,
        companions=records.partners,
        metric="bleu",
        no_answer="",
        official=dict,
        gold=gold,
        score=bleu.score,
        unread_gold=unread_gold,
        converters={
            "text_to_text": make_text_converter(
                "wmt14_en_de",
                sizes=SIZES,
                options=records.OPTIONS,
                wording=dataclasses.replace(
                    WORDING, question="Sentence", answer="Translation"
                ),
            )
        },
        absent=ONLY_WRITTEN,
    )
)
"""The data set, as commands and configs find it."""
