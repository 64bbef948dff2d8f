"""WMT14 English-German (Bojar et al. 2014): translation, scored by BLEU.

    etc-jax prepare --task=wmt14_en_de --tokenizer=spiece.model \\
        --out=prepared/wmt europarl-v7.de-en.en commoncrawl.de-en.en

The score is of all sentences together and of detokenised text; see
`etc_jax.scoring.bleu`, which needs the extra "metrics".
"""

import dataclasses

from etc_jax.datasets.task import register
from etc_jax.datasets.text_converter import WORDING
from etc_jax.datasets.text_sets import text_data_set
from etc_jax.formats.text_to_text import TextToTextSizes
from etc_jax.tasks.wmt14_en_de import records

# Of single sentences: few have more than 100 words.
SIZES = TextToTextSizes(input_length=256, target_length=256)


DATA_SET = register(
    text_data_set(
        "wmt14_en_de",
        measure="bleu",
        sizes=SIZES,
        options=records.OPTIONS,
        wording=dataclasses.replace(WORDING, question="Sentence", answer="Translation"),
        read=records.read,
        parse=records.parse,
        release=records.release,
        companions=records.partners,
    )
)
"""The data set, as commands and configs find it."""
