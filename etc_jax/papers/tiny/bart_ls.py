"""Tables 1 to 3 and figure 4 of BART-LS by three layers, on invented documents."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from etc_jax.configs.text_to_text import bart_ls
from etc_jax.papers.chain import Chain, Measured
from etc_jax.papers.paper_scale import mechanism
from etc_jax.papers.study import Study
from etc_jax.papers.table import Row, variants_of
from etc_jax.papers.tiny import steps

# Data set of the paper's size -> (the one with files of its own, how texts are
# written; the paper's summaries have 40 tokens or more).
TASKS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "qmsum": ("qmsum", {"num_beams": 1, "num_tokens": 12, "min_tokens": 0}),
    "scrolls_qasper": ("qasper", {"num_beams": 1, "num_tokens": 12}),
}
# Tokens of a block, which begins with a question of 8, and of an input.
BLOCK, LENGTH = 40, 240
# 106 special tokens, the last of which but four ends a text, and all words of short
# questions; 37 rows of the table after them are sentinels.
WORDS, ROWS, END = 283, 320, 102
SHORT_STEPS, TEXT_STEPS, STEPS = 300, 100, 100
MODEL = steps.BART | {
    **{"model.mlp_dim": 128, "model.max_length": BLOCK, "model.vocab_size": ROWS},
    **{"train.batch_size": 64, "optimizer.learning_rate": 3e-3},
}
# What a small model has not as a large one that learns texts.
ON_TEXTS = {
    **{"model.dtype": "float32", "model.remat_policy": "none"},
    **{"model.dropout_rate": 0.0, "model.logits_chunk_length": BLOCK},
    **{"optimizer.learning_rate": 1e-3, "optimizer.clip_norm": 1.0},
    **{"data.vocab_size": WORDS, "data.max_sentence_tokens": LENGTH // 4},
}
# The model that chooses what is missing from a text.
GENERATOR = {
    **{"vocab_size": WORDS, "embed_dim": 64, "mlp_dim": 128, "num_layers": 1},
    **{"num_heads": 4, "max_length": LENGTH, "attention_window": (BLOCK,)},
    **{"dtype": "float32", "remat_policy": "none"},
}
_DOCUMENTS = "--task=long_documents", "--wordings=1"
_READ = "--begin_token", f"--prefix_every={BLOCK}", "--target_length=12"
_SELDOM = steps.changes({"train.eval_steps": 4})


def _short(chain: Chain) -> str:
    """Questions about texts of one block, and the vocabulary of everything."""
    asked = "--task=long_documents", "--ask=question", "--facts=1", "--wordings=1"
    file = steps.invented(
        chain, "bart_ls/short", steps.TRAIN, 10_000, *asked, "--words=20"
    )
    return chain.do(
        *("prepare", "bart_ls/short/inputs", "--task=text_to_text", *_READ),
        *(f"--input_length={BLOCK}", f"--vocab_size={WORDS}", "--whole_words", file),
    )


def _extended(chain: Chain, *more: str) -> str:
    """A BART of one block that has learnt short questions, made a BART-LS."""
    config = f"sled:text_to_text,truncated,short,prepared={_short(chain)}"
    flags = *steps.changes(MODEL), *_SELDOM
    bart = steps.trained(chain, "bart_ls/bart", config, 0, SHORT_STEPS, *flags)
    name = "_".join(["long", *(x.strip("-") for x in more)])
    return chain.do(
        *("extend", f"bart_ls/{name}", f"--from={bart}"),
        *("--to=bart_ls", f"--max_length={LENGTH}", f"--block_size={BLOCK}", *more),
    )


def _texts(chain: Chain, kind: str) -> tuple[str, str]:
    """(file, field of its records) of the texts of a corpus."""
    name, count, sizes = "short_texts", 2500, ("--facts=2", "--words=40")
    length = f"--length={LENGTH - 2}"
    if kind == "long":
        name, count, sizes = "long_texts", 500, ("--facts=10", "--words=200")
        length = "--min_length=200"
    name, flags = f"bart_ls/{name}", (*_DOCUMENTS, *sizes)
    file = steps.invented(chain, name, steps.TRAIN, count, *flags)
    if kind == "random":
        return file, "input"
    flags = length, f"--tokenizer={_short(chain)}", "--format=jsonl"
    flags += "--text_field=input", file
    return chain.do(f"corpora {kind}", f"{name}/{kind}.jsonl", *flags), "text"


def _on_texts(chain: Chain, row: Row, config: str, seed: int) -> tuple[str, str]:
    """(name, folder) of a run that fills in what is missing from texts."""
    corpus = row.corpus[0] if row.corpus else "random"
    file, field = _texts(chain, corpus)
    variants = [x for x in variants_of(config) if x != "base"]
    length = LENGTH // 2 if "8k" in variants else LENGTH
    fields = ON_TEXTS | {
        "checkpoint.init_from": _extended(chain),
        **{"data.source": "jsonl", "data.paths": (file,), "data.text_field": field},
        **{"data.input_length": length, "data.target_length": BLOCK},
        "train.batch_size": 16 * LENGTH // length,
    }
    if "model_based" in variants:
        fields |= {f"objective.generator.{k}": x for k, x in GENERATOR.items()}
    packing = [x for x in row.pretrain_changes if "data.packing" in x]
    config = ":".join(filter(None, ["denoising", ",".join(variants)]))
    flags = *steps.changes(fields), *packing, *_SELDOM
    name = "-".join(["texts", corpus, *variants])
    run = steps.trained(chain, f"bart_ls/{name}", config, seed, TEXT_STEPS, *flags)
    return name, run


def _tuned(
    chain: Chain, table: str, row: Row, data: str, seed: int
) -> dict[str, Measured]:
    """A run on a data set, and where its scores will be."""
    task, writing = TASKS[data]
    folder, items = f"bart_ls/{task}", (f"--task={task}", "--facts=1", "--wordings=1")
    train, dev = (
        steps.invented(chain, folder, part, count, *items, "--words=110")
        for part, count in ((steps.TRAIN, 1000), (steps.DEV, 64))
    )
    inputs = chain.do(
        *("prepare", f"{folder}/inputs", f"--task={task}", *_READ),
        *(f"--input_length={LENGTH}", f"--tokenizer={_short(chain)}", train),
    )
    variants = [x for x in variants_of(row.runs[data]) if x not in ("base", data)]
    name, start = "bart", ""
    if row.pretrain:
        name, start = _on_texts(chain, row, row.pretrain, 0)
    else:
        more = mechanism(variants, num_globals=bart_ls.SHORT_GLOBALS)
        start = _extended(chain, *more)
    arg = ",".join([*variants, "short", task, f"prepared={inputs}", f"from={start}"])
    fields = {f"objective.generation.{k}": x for k, x in writing.items()}
    # Its loss needs a second pass over the inputs.
    fields |= {"objective.r3f.weight": 0.0, "train.batch_size": 16}
    fields |= {"model.dropout_rate": 0.0, "model.forced_eos_id": END}
    name = f"{folder}/{'-'.join([*variants, 'from', name])}"
    flags = *steps.changes(fields), *_SELDOM
    run = steps.trained(chain, name, f"bart_ls:{arg}", seed, STEPS, *flags)
    measured = steps.scored(chain, run, table, data, dev)
    if task == "qasper":  # SCROLLS has another name for it.
        measured = {
            column: dataclasses.replace(x, name="answer_f1")
            for column, x in measured.items()
        }
    return measured


def _study(table: str) -> Study:
    def chain_fn(chain: Chain, row: Row, seed: int) -> Mapping[str, Measured]:
        measured: dict[str, Measured] = {}
        for data in (x for x in TASKS if x in row.runs):
            measured |= _tuned(chain, table, row, data, seed)
        return measured

    about = (
        "Invented documents of 110 words, one sentence of which says who sells what, "
        "in the files of QMSum and Qasper: the query about it, or about all, and the "
        "question. A BART of 2 + 1 layers of 64 learns such questions about texts of "
        f"{BLOCK} tokens ({SHORT_STEPS} batches of 64, one seed) and is made a BART-LS "
        f"of {LENGTH} tokens in blocks of {BLOCK}."
    )
    if table != "bart_ls.table1":
        about += (
            f" Rows with pre-training fill in other invented texts for {TEXT_STEPS} "
            "batches of 16 first, one seed."
        )
    about += f" Then {STEPS} batches of 16; 64 other documents for the score."
    return Study(about, chain_fn)


def _curves(chain: Chain, row: Row, seed: int) -> Mapping[str, Measured]:
    """The loss at the end of a curve, which the run itself draws."""
    name, _ = _on_texts(chain, row, row.runs["texts"], seed)
    return {"loss": Measured(f"bart_ls/{name}_seed{seed}", "loss", "evaluation")}


STUDIES = {
    f"bart_ls.{x}": _study(f"bart_ls.{x}") for x in ("table1", "table2", "table3")
}
STUDIES["bart_ls.figure4"] = Study(
    f"The pre-training of table 3: texts of {LENGTH} tokens, of which a sixteenth is "
    f"missing, and of half the length, of which an eighth is, for {TEXT_STEPS} batches "
    "of as many tokens. Nats a token that is to be written, of held-back texts.",
    _curves,
)
