"""ContractNLI (Koreeda and Manning 2021): does a contract say so? Written as a text.

    etc-jax prepare --task=contract_nli --tokenizer=tokenizer.json \\
        --out=prepared/contract_nli contract-nli.zip/train.json

The files are those of its own release, in the archive or unpacked. Each contract is
asked about all hypotheses; the hypothesis is the prefix, and the choice is spelled as
in SCROLLS, whose score is exact match: Entailment, Contradiction or Not mentioned. The
spans of evidence are not learnt. `scrolls_contract_nli` reads SCROLLS's form.
"""

from etc_jax.datasets.task import register
from etc_jax.datasets.text_sets import text_data_set
from etc_jax.formats.text_to_text import TextToTextSizes
from etc_jax.tasks.contract_nli import records

# As SLED reads it in SCROLLS (Ivgi et al. 2022, section 5.1).
SIZES = TextToTextSizes(input_length=16384, target_length=128)

DATA_SET = register(
    text_data_set(
        "contract_nli",
        measure="exact_match",
        sizes=SIZES,
        release=records.release,
        prefix="Hypothesis",
        between="\n\n",
    )
)
"""The data set, as commands and configs find it."""
