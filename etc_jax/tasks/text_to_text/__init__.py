"""One's own pairs of texts: a model reads the first and writes the second.

    etc-jax prepare --task=text_to_text --tokenizer=tokenizer.json --measure=rouge \\
        --input_length=4096 --target_length=256 --out=prepared/train train.jsonl

A file has a JSON object a line, with `input` and `target`, both text, `prefix` if there
is one, such as a question, and `id`; without, records are named by the beginning of
their SHA-256. Where several texts are right, `target` is a list, or neighbouring lines
have the same `id` and `input`. Records to be answered need no `target`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from etc_jax.datasets.pairs import TextOptions
from etc_jax.datasets.task import register
from etc_jax.datasets.text_sets import measured, text_data_set
from etc_jax.formats.text_to_text import TextToTextSizes

SIZES = TextToTextSizes(input_length=1024, target_length=128)


@dataclasses.dataclass(frozen=True)
class OwnTextOptions(TextOptions):
    """How texts become tokens, and what written ones are scored by.

    Attributes:
      measure: rouge (its geometric mean, without stemmer), f1 or exact_match as in
        SQuAD, both of which are shown, bleu (sacreBLEU), or classification, where each
        target is the name of a class. The best of several right texts counts.
    """

    measure: Literal["rouge", "f1", "exact_match", "bleu", "classification"] = "f1"

    def shaping(self, sizes: Any) -> dict[str, Any]:
        """See there: not how answers are scored."""
        fields = super().shaping(sizes)
        del fields["measure"]
        return fields

    def task_fields(self) -> dict[str, Any]:
        """Metric and score."""
        return measured(self.measure)


DATA_SET = register(
    text_data_set("text_to_text", measure="f1", sizes=SIZES, options=OwnTextOptions())
)
"""The data set, as commands and configs find it."""
