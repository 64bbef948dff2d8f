"""A real encoder of sentences, made long: finds passages, labels texts, links names."""

from __future__ import annotations

from collections.abc import Mapping

from etc_jax import recipes
from etc_jax.papers.chain import Chain, Measured
from etc_jax.papers.study import Study
from etc_jax.papers.table import Row
from etc_jax.papers.tiny import steps

_RETRIEVAL, _LABELS = "own.long_retrieval", "own.long_texts"
_COREFERENCE = "own.coreference"
MODEL = "sentence-transformers/all-MiniLM-L6-v2"
# Tokens of a passage, what the model reads as it was, and what it can read if long.
PASSAGE, SHORT, LONGEST = 2000, 512, 4096
_INPUT = 2048
_STEPS = 40
# Paragraphs of fewer tokens are dialogue, which could stand anywhere.
_CLOZE = f"--length={PASSAGE}", "--least=24", f"--tokenizer={MODEL}", "--validation=0.4"

_FIELDS = {
    "train.batch_size": 8,
    "train.eval_steps": 1,
    "model.remat_policy": "none",
}


def _model(chain: Chain, family: str) -> str:
    """The encoder as it is, a BERT, or made long as another family."""
    if family == "bert":
        return chain.do("convert", "minilm/bert", f"--hf={MODEL}")
    words = f"--from={MODEL}", f"--to={family}", f"--max_length={LONGEST}"
    return chain.do("extend", f"minilm/{family}", *words, "--window=128")


def _pairs(chain: Chain, split: str, queries: int, seed: int) -> str:
    """A file of queries and passages, drawn anew for each seed."""
    flags = *_CLOZE, f"--split={split}", f"--queries={queries}", f"--seed={seed}"
    name = f"retrieval/{split}_seed{seed}.jsonl"
    return chain.do("corpora cloze", name, *flags, chain.texts)


def _retrieval(chain: Chain, row: Row, seed: int) -> Mapping[str, Measured]:
    """A model as it is made, or trained on other books."""
    is_long, is_trained = row.name.startswith("long"), row.name.endswith("trained")
    kind, length = ("long", _INPUT) if is_long else ("short", SHORT)
    model = _model(chain, "longformer" if is_long else "bert")
    train = _pairs(chain, "train", 4, seed)
    inputs = chain.do(
        *("prepare", f"retrieval/{kind}_inputs_seed{seed}", "--task=retrieval"),
        *(f"--tokenizer={MODEL}", f"--input_length={length}", train),
    )
    fields = _FIELDS | {"optimizer.learning_rate": 5e-5}
    run = steps.trained(
        *(chain, f"retrieval/{kind}{'_trained' if is_trained else ''}"),
        *(f"retrieval:prepared={inputs},from={model}", seed),
        *(_STEPS if is_trained else 0, *steps.changes(fields)),
    )
    if is_long and is_trained:  # for transformers and sentence-transformers
        chain.do("convert", f"retrieval/minilm-books-4096_seed{seed}", f"--to_hf={run}")
    asked = _pairs(chain, "validation", 1, seed)
    return steps.scored(chain, run, _RETRIEVAL, "books", asked)


# Row -> (family, tokens of its input).
_READERS = {
    "512 tokens": ("bert", SHORT),
    "Longformer: 1,024 tokens": ("longformer", 2 * SHORT),
    "ETC: 1,024 tokens": ("etc", 2 * SHORT),
}
# By the table's name of a data set: that of `etc-jax prepare`, steps, files of --data.
_LABELLED = {
    "movie_reviews": ("classification", 120, "train.jsonl.gz", "test.jsonl.gz"),
    "hyperpartisan": ("hyperpartisan", 60, "train.jsonl", "dev.jsonl"),
}


def _labels(chain: Chain, row: Row, seed: int) -> Mapping[str, Measured]:
    """Fine-tuned on texts with labels."""
    family, length = _READERS[row.name]
    model = _model(chain, family)
    lengths = "--format=sequence", f"--input_length={length}"
    if family == "etc":
        # A global token for each sentence.
        lengths = "--format=structured", f"--long_length={length}"
        lengths = *lengths, "--global_length=128"
    measured = {}
    for name, (task, num_steps, *files) in _LABELLED.items():
        train, dev = (f"{chain.data}/{name}/{file}" for file in files)
        folder, words = f"labels/{name}", (f"--task={task}", f"--tokenizer={MODEL}")
        prepare = "prepare", f"{folder}/{family}_inputs", *words, *lengths
        inputs = chain.do(*prepare, train)
        fields = _FIELDS | {"objective.name": task, "optimizer.learning_rate": 1e-4}
        run = steps.trained(
            *(chain, f"{folder}/{family}"),
            *(f"classification:prepared={inputs},from={model}", seed, num_steps),
            *steps.changes(fields),
        )
        measured |= steps.scored(chain, run, _LABELS, name, dev)
    return measured


# Mentions of more tokens are 1.6 % of LitBank's.
_MENTIONS = "--singletons", "--span_tokens=10", "--candidates=20480"


def _coreference(chain: Chain, row: Row, seed: int) -> Mapping[str, Measured]:
    """Mentions of stories of 2,000 words, read whole or in parts."""
    family = "longformer" if row.name.startswith("whole") else "bert"
    model = _model(chain, family)
    words = "--task=coreference", "--format=sequence", f"--tokenizer={MODEL}"
    parts = () if family == "longformer" else (f"--part_length={SHORT}",)
    train, dev = (f"{chain.data}/coreference/{part}.conll" for part in ("train", "dev"))
    inputs = chain.do(
        *("prepare", f"coreference/{family}_inputs", *words),
        *("--input_length=3072", "--global_length=1", *_MENTIONS, *parts, train),
    )
    fields = _FIELDS | {
        "train.batch_size": 1,
        "objective.name": "coreference",
        "objective.ffnn_dim": 256,
        "checkpoint.init_from_only": recipes.ENCODER_WITHOUT_POOLER,
        "optimizer.learning_rate": 2e-4,
    }
    run = steps.trained(
        *(chain, f"coreference/{family}"),
        *(f"token_classification:prepared={inputs},from={model}", seed, 120),
        *steps.changes(fields),
    )
    return steps.scored(chain, run, _COREFERENCE, "coreference", dev)


_IT = f"{MODEL} (Apache 2.0), a BERT of 6 layers of 384 that makes vectors of sentences"
STUDIES = {
    _RETRIEVAL: Study(
        f"{_IT}, as it is, reading {SHORT} tokens, or made a Longformer with "
        "windows of 128. A paragraph is taken out of each passage of "
        f"{PASSAGE} tokens of --texts, and is to find it among all passages of the "
        "validation documents, many of the same one. Trained rows see "
        f"{_STEPS} batches of 8 such pairs of other documents. Seeds draw paragraphs "
        "and order.",
        _retrieval,
    ),
    _LABELS: Study(
        f"{_IT}, as it is, reading {SHORT} tokens, or made a Longformer or an ETC with "
        "windows of 128, and not trained in between. 120 batches of 8 reviews, 60 of 8 "
        "articles of --data.",
        _labels,
    ),
    _COREFERENCE: Study(
        f"{_IT}, as it is, reading each story in parts of {SHORT} tokens apart from "
        "each other, or made a Longformer with windows of 128 that reads it whole. 120 "
        "steps of one story of --data, with mentions of up to 10 tokens.",
        _coreference,
    ),
}
