"""Tables 1 to 3 of BART-LS by a model of three layers, on invented documents."""

from __future__ import annotations

from collections.abc import Mapping

from etc_jax.papers.chain import Chain, Measured
from etc_jax.papers.study import Study
from etc_jax.papers.table import Row
from etc_jax.papers.tiny import steps

# Data set of the paper's size -> the one with files of its own.
TASKS = {"qmsum": "qmsum", "scrolls_qasper": "qasper"}
# Tokens of a block, which begins with a question of 8; of an input, and of a target.
BLOCK, LENGTH, TARGET = 40, 240, 12
# 106 special tokens and all words of short questions; rows of sentinels after them.
WORDS, SENTINELS = 283, 37
END = 102
SHORT_STEPS, TEXT_STEPS, STEPS = 300, 100, 50
MODEL = {
    **{"embed_dim": 64, "mlp_dim": 128, "num_layers": 2, "num_decoder_layers": 1},
    **{"max_length": BLOCK, "vocab_size": WORDS + SENTINELS, "dropout_rate": 0.0},
    # Without norms before the branches, and with weights as small as those of a width
    # of 768, a narrow model hardly begins to learn.
    **{"pre_norm": True, "final_norm": True, "initializer_range": 0.1},
    "activation": "relu",
}
# Of a model that learns texts and is small.
LIKE_SHORT = {
    **{"model.dtype": "float32", "model.remat_policy": "none"},
    **{"model.dropout_rate": 0.0, "model.logits_chunk_length": BLOCK},
    **{"optimizer.learning_rate": 1e-3, "optimizer.clip_norm": 1.0},
}
# The model that chooses what is missing from a text.
GENERATOR = {
    **{"vocab_size": WORDS, "embed_dim": 64, "mlp_dim": 128, "num_layers": 1},
    **{"num_heads": 4, "max_length": LENGTH, "attention_window": (BLOCK,)},
    **{"dtype": "float32", "remat_policy": "none"},
}
_INVENTED = ("--task=long_documents",)
_ONE_FACT = "--facts=1", "--wordings=1"
_READ = "--begin_token", f"--prefix_every={BLOCK}", f"--target_length={TARGET}"
_SELDOM = steps.changes({"train.eval_steps": 4})


def _short(chain: Chain) -> str:
    """Questions about texts of one block, and the vocabulary of everything."""
    asked = (*_INVENTED, "--ask=question", *_ONE_FACT, "--words=20")
    file = steps.invented(chain, "bart_ls/short", steps.TRAIN, 10_000, *asked)
    return chain.do(
        *("prepare", "bart_ls/short/inputs", "--task=text_to_text", *_READ),
        *(f"--input_length={BLOCK}", f"--vocab_size={WORDS}", "--whole_words", file),
    )


def _extended(chain: Chain, *more: str) -> str:
    """A BART of one block that has learnt short questions, made a BART-LS."""
    config = f"sled:text_to_text,truncated,short,prepared={_short(chain)}"
    fields = {f"model.{name}": x for name, x in MODEL.items()}
    fields |= {"train.batch_size": 64, "optimizer.learning_rate": 3e-3}
    flags = *steps.changes(fields), *_SELDOM
    bart = steps.trained(chain, "bart_ls/bart", config, 0, SHORT_STEPS, *flags)
    return chain.do(
        *("extend", f"bart_ls/{'blocks' if more else 'pooled'}", f"--from={bart}"),
        *("--to=bart_ls", f"--max_length={LENGTH}", f"--block_size={BLOCK}", *more),
    )


def _texts(chain: Chain, row: Row) -> tuple[str, str, str]:
    """(name, file, field of its records) of what a row is pre-trained on."""
    kind, sizes, least = "random", "--facts=2 --words=40", f"--length={LENGTH - 2}"
    if row.corpus:
        kind = row.corpus[0]
    number, name = 2500, "short_texts"
    if kind == "long":
        number, name, sizes = 500, "long_texts", "--facts=10 --words=200"
        least = "--min_length=200"
    flags = *_INVENTED, "--wordings=1", *sizes.split()
    file = steps.invented(chain, f"bart_ls/{name}", steps.TRAIN, number, *flags)
    if kind == "random":
        return kind, file, "input"
    flags = least, f"--tokenizer={_short(chain)}", "--format=jsonl"
    out = f"bart_ls/{name}/{kind}.jsonl"
    file = chain.do(f"corpora {kind}", out, *flags, "--text_field=input", file)
    return kind, file, "text"


def _pretrained(chain: Chain, row: Row) -> tuple[str, str]:
    """(name, folder) of the model that a row begins with."""
    if not row.pretrain:
        pools = _variants(row, "qmsum") == []
        return "bart", _extended(chain, *([] if pools else ["--pooling_layers=0"]))
    corpus, file, field = _texts(chain, row)
    variants = [x for x in row.pretrain.partition(":")[2].split(",") if x != "base"]
    length = LENGTH // 2 if "8k" in variants else LENGTH
    fields = LIKE_SHORT | {
        "checkpoint.init_from": _extended(chain),
        "data.source": "jsonl",
        "data.paths": (file,),
        "data.text_field": field,
        "data.input_length": length,
        "data.target_length": BLOCK,
        "train.batch_size": 16 * LENGTH // length,
    }
    if "model_based" in variants:
        fields |= {f"objective.generator.{k}": x for k, x in GENERATOR.items()}
    packing = [x for x in row.pretrain_changes if "data.packing" in x]
    config = ":".join(filter(None, ["denoising", ",".join(variants)]))
    flags = *steps.changes(fields), *packing, *_SELDOM
    name = "-".join(["texts", corpus, *variants])
    run = steps.trained(chain, f"bart_ls/{name}", config, 0, TEXT_STEPS, *flags)
    return name, run


def _variants(row: Row, data: str) -> list[str]:
    """What a row says of the model."""
    variants = row.runs[data].partition(":")[2].split(",")
    return [x for x in variants if x not in ("base", data)]


def _tuned(
    chain: Chain, table: str, row: Row, data: str, begun: tuple[str, str], seed: int
) -> dict[str, Measured]:
    """A run on a data set, and where its scores will be."""
    task, (name, start) = TASKS[data], begun
    folder, items = f"bart_ls/{task}", (f"--task={task}", *_ONE_FACT, "--words=110")
    train = steps.invented(chain, folder, steps.TRAIN, 1000, *items)
    dev = steps.invented(chain, folder, steps.DEV, 64, *items)
    inputs = chain.do(
        *("prepare", f"{folder}/inputs", f"--task={task}", *_READ),
        *(f"--input_length={LENGTH}", f"--tokenizer={_short(chain)}", train),
    )
    variants = _variants(row, data)
    arg = ",".join([*variants, "short", task, f"prepared={inputs}", f"from={start}"])
    writing = {"num_beams": 1, "num_tokens": TARGET}
    if data == "qmsum":  # The paper's are at least 40.
        writing["min_tokens"] = 0
    fields = {f"objective.generation.{k}": x for k, x in writing.items()}
    # Its loss needs a second pass over the inputs.
    fields |= {"objective.r3f.weight": 0.0, "train.batch_size": 16}
    fields |= {"model.dropout_rate": 0.0, "model.forced_eos_id": END}
    run = f"{folder}/{'-'.join([*variants, 'from', name])}"
    flags = *steps.changes(fields), *_SELDOM
    run = steps.trained(chain, run, f"bart_ls:{arg}", seed, STEPS, *flags)
    return steps.scored(chain, run, table, data, dev)


def _study(table: str) -> Study:
    def chain_fn(chain: Chain, row: Row, seed: int) -> Mapping[str, Measured]:
        begun, measured = _pretrained(chain, row), {}
        for data in (x for x in TASKS if x in row.runs):
            measured |= _tuned(chain, table, row, data, begun, seed)
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


STUDIES = {
    f"bart_ls.{x}": _study(f"bart_ls.{x}") for x in ("table1", "table2", "table3")
}
