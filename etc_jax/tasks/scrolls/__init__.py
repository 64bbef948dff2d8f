"""The seven data sets of SCROLLS (Shaham et al. 2022), each in SCROLLS's own form.

    etc-jax prepare --task=scrolls_qasper --tokenizer=tokenizer.json \\
        --every_target --out=prepared/qasper qasper.zip/train.jsonl
    etc-jax evaluate --model=runs/qasper --out=runs/qasper/dev \\
        qasper.zip/validation.jsonl

Files are lines of `<task>.zip`, in the archive or unpacked. Several references of one
input are lines of one id, and `--every_target` learns from each of them, as SCROLLS's
own training does. Test files have no outputs. The metric is the one that
`etc_jax.scoring.scrolls` gives the data set; `etc_jax.tasks.scrolls.submission` puts
the predictions of all seven into the file of the leaderboard.
"""

from etc_jax.datasets.task import register
from etc_jax.datasets.text_sets import text_data_set
from etc_jax.formats.text_to_text import TextToTextSizes
from etc_jax.scoring.scrolls import AVERAGED
from etc_jax.tasks.scrolls import records

# What SLED reads (Ivgi et al. 2022, section 5.1). SCROLLS's baselines write up to 1,024
# tokens; SLED up to 128 of an answer.
SUMMARY = TextToTextSizes(input_length=16384, target_length=1024)
ANSWER = TextToTextSizes(input_length=16384, target_length=128)

_QUERIES = {
    "qmsum": "Query",
    "narrative_qa": "Question",
    "qasper": "Question",
    "quality": "Question",
    "contract_nli": "Hypothesis",
}

DATA_SETS = {
    name: register(
        text_data_set(
            f"scrolls_{name}",
            measure=measure,
            sizes=SUMMARY if measure == "rouge" else ANSWER,
            release=records.RELEASES[name],
            prefix=_QUERIES.get(name, ""),
            between=records.BLANK_LINE,
        )
    )
    for name, measure in AVERAGED.items()
}
"""The data sets by their names in SCROLLS."""
