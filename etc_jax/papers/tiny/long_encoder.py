"""A real encoder of sentences, made long: finds passages, labels texts."""

from __future__ import annotations

from collections.abc import Mapping

from etc_jax.papers.chain import Chain, Measured
from etc_jax.papers.study import Study
from etc_jax.papers.table import Row
from etc_jax.papers.tiny import steps

_RETRIEVAL, _LABELS = "own.long_retrieval", "own.long_texts"
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


_NEWS = "hyperpartisan"
# Row -> (family, tokens of its input).
_READERS = {
    "512 tokens": ("bert", SHORT),
    "Longformer: 1,024 tokens": ("longformer", 2 * SHORT),
    "ETC: 1,024 tokens": ("etc", 2 * SHORT),
}


def _labels(chain: Chain, row: Row, seed: int) -> Mapping[str, Measured]:
    """Fine-tuned on articles with labels."""
    family, length = _READERS[row.name]
    model = _model(chain, family)
    lengths = "--format=sequence", f"--input_length={length}"
    if family == "etc":
        # A global token for each sentence.
        lengths = "--format=structured", f"--long_length={length}"
        lengths = *lengths, "--global_length=128"
    train, dev = (f"{chain.data}/{_NEWS}/{part}.jsonl" for part in ("train", "dev"))
    words = f"--task={_NEWS}", f"--tokenizer={MODEL}", *lengths
    inputs = chain.do("prepare", f"labels/{family}_inputs", *words, train)
    fields = _FIELDS | {"objective.name": _NEWS, "optimizer.learning_rate": 1e-4}
    run = steps.trained(
        *(chain, f"labels/{family}"),
        *(f"classification:prepared={inputs},from={model}", seed, _STEPS),
        *steps.changes(fields),
    )
    return steps.scored(chain, run, _LABELS, _NEWS, dev)


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
        f"windows of 128, and not trained in between. {_STEPS} batches of 8 "
        "articles of --data.",
        _labels,
    ),
}
