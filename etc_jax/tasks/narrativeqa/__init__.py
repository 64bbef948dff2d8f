"""NarrativeQA (Kočiský et al. 2018): questions about whole books and film scripts.

    python -m etc_jax.tasks.narrativeqa.split --out=narrativeqa narrativeqa/qaps.csv
    etc-jax prepare --task=narrativeqa --tokenizer=tokenizer.json --every_target \\
        --out=prepared/narrativeqa narrativeqa/qaps_train.csv

The files are those of its own release: `qaps.csv`, which has the questions of all sets,
or what the first command makes of it; beside it `documents.csv`, and the stories that
the release's script fetches, `tmp/<document>.content`. `--text=summary` reads
`third_party/wikipedia/summaries.csv` instead. A question has two answers, and its score
is the F1 of SQuAD over the better one, as in SCROLLS. `scrolls_narrative_qa` reads
SCROLLS's form.
"""

from etc_jax.datasets.task import register
from etc_jax.datasets.text_sets import text_data_set
from etc_jax.formats.text_to_text import TextToTextSizes
from etc_jax.tasks.narrativeqa import records

# As SLED reads it in SCROLLS (Ivgi et al. 2022, section 5.1).
SIZES = TextToTextSizes(input_length=16384, target_length=128)

DATA_SET = register(
    text_data_set(
        "narrativeqa",
        measure="f1",
        sizes=SIZES,
        prefix="Question",
        options=records.OPTIONS,
        release=records.release,
        parse=records.parse,
        companions=records.companions,
    )
)
"""The data set, as commands and configs find it."""
