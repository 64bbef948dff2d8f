"""SLED's figures and its table 2, by a small BART on invented articles."""

from __future__ import annotations

from collections.abc import Mapping

from etc_jax.papers.chain import Chain, Measured
from etc_jax.papers.study import Study
from etc_jax.papers.table import Row
from etc_jax.papers.tiny import steps
from etc_jax.papers.tiny.steps import DEV, TRAIN

TASK, VOCABULARY = "squad_distractors", 159
# Positions of a question, a paragraph, and what the backbone has learnt to read; tokens
# of a window.
QUESTION, PARAGRAPH, SHORT, WINDOW = 8, 14, 28, 18
# Paragraphs of a question of each figure.
FOUR, TWO = 4, 2
EXTENDED = 3 * SHORT  # positions of LED, those of the backbone over and over
MODEL = steps.BART | {"optimizer.eps": 1e-6}
# Rows of figures 3 and 4 -> (config, its variant, whether the question is apart).
SYSTEMS: Mapping[str, tuple[str, str, bool]] = {
    "BART-base oracle (gold paragraph alone)": ("sled", "truncated", False),
    "SLED": ("sled", "", True),
    "LED": ("led", "", True),
    "LED-L": ("led", "local", True),
    "LED (question tokens global)": ("led", "", True),
    "LED-L (no global tokens)": ("led", "local", True),
    "BART-base (first 1K tokens)": ("sled", "truncated", False),
    "(b) SLED, c = 1": ("sled", "one_token", True),
    "(b) SLED, prefix as a chunk of its own": ("sled", "no_prefix", True),
    "(b) SLED, decoder without the prefix": ("sled", "drop_prefix", True),
}
ORDERS = ("ordered", "shuffled")
# Rows of table 2 -> share of a window that is context.
SHARES = {"alpha = 0.5": 0.5, "alpha = 0.05": 0.05, "alpha = 0": 0.0}


def _records(chain: Chain, part: str) -> str:
    """Articles, of two questions each."""
    flags = "--task=squad", "--facts=2", "--things=2", "--name_words=1"
    count = {TRAIN: 1600, DEV: 128}[part]
    return steps.invented(chain, "sled/articles", part, count, *flags, "--name_pool=24")


def _backbone(chain: Chain) -> tuple[str, str]:
    """A BART that answers questions of short texts, and its vocabulary."""
    short, dev = (
        chain.do(
            *("synthetic", f"sled/short/{part}.json", "--task=squad_pieces"),
            *(f"--count={count}", f"--seed={seed}"),
        )
        for part, count, seed in ((TRAIN, 32_000, 3), (DEV, 256, 2))
    )
    read = f"--task={TASK}", "--order=alone", "--target_length=2"
    read += (f"--input_length={SHORT}",)
    learn = f"--vocab_size={VOCABULARY}", "--whole_words"
    words = chain.do("prepare", "sled/short/train", *read, *learn, short)
    checked = chain.do("prepare", "sled/short/dev", *read, f"--tokenizer={words}", dev)
    fields = MODEL | {
        # Positions are learnt as far as texts reach; LED has them over and over.
        "model.max_length": SHORT,
        "optimizer.learning_rate": 3e-3,
        "train.batch_size": 64,
    }
    config = f"sled:{TASK},truncated,short,prepared={words},validation={checked}"
    argv = config, 0, 2500, *steps.changes(fields)
    return steps.trained(chain, "sled/backbone", *argv), words


def _run(
    chain: Chain,
    name: str,
    order: str,
    seed: int,
    config: str,
    paragraphs: int,
    apart: bool,
    fields: Mapping[str, object],
    read: int = 0,
) -> str:
    """A model that begins with the backbone and sees each question once.

    It is given `paragraphs`, and reads the first `read` of them; 0: all.
    """
    backbone, words = _backbone(chain)
    family, variants = config.split(":")
    if family == "led":
        flags = f"--from={backbone}", "--to=led", f"--max_length={EXTENDED}"
        backbone = chain.do("extend", "sled/led", *flags, f"--window={WINDOW}")
    # The question, the paragraphs, and an end token twice.
    length = QUESTION + (read or paragraphs) * PARAGRAPH + 2 if apart else SHORT
    flags = [f"--task={TASK}", f"--order={order}", "--target_length=2"]
    flags += [f"--tokenizer={words}", f"--input_length={length}"]
    if order != "alone":
        flags.append(f"--distractors={paragraphs - 1}")
    if apart:
        flags.append(f"--prefix_length={QUESTION}")
    kind = f"{order}_{length}" + ("_apart" if apart else "")
    kind += f"_of_{paragraphs}" if read else ""
    train, dev = (
        chain.do("prepare", f"sled/{kind}_{part}", *flags, _records(chain, part))
        for part in (TRAIN, DEV)
    )
    argument = ",".join(filter(None, [TASK, "short", variants]))
    argument += f",prepared={train},validation={dev},from={backbone}"
    every = MODEL | {
        "model.max_length": EXTENDED if family == "led" else SHORT,
        "optimizer.learning_rate": 1e-3,
        "train.batch_size": 32,
        **fields,
    }
    return steps.trained(
        *(chain, f"sled/{name}-{order}-{paragraphs}", f"{family}:{argument}"),
        *(seed, 100),
        *steps.changes(every),
    )


def _row(
    chain: Chain,
    row: Row,
    order: str,
    seed: int,
    table: str,
    data: str,
    paragraphs: int,
) -> dict[str, Measured]:
    """The columns of a data set, of a row of figure 3 or 4."""
    config, variants, apart = SYSTEMS[row.name]
    fields = {}
    if config == "sled" and variants not in ("truncated", "one_token"):
        fields = {"model.sled.window": WINDOW}
    if config == "led":
        fields = {"model.attention_window": f"({WINDOW},)"}
    name = f"{config}-{variants}" if variants else config
    argv = order, seed, f"{config}:{variants}", paragraphs, apart, fields
    run = _run(chain, name, *argv)
    return steps.scored(chain, run, table, data, _records(chain, DEV))


def figure3(chain: Chain, row: Row, seed: int) -> dict[str, Measured]:
    """A paragraph among four; see `Study`."""
    measured = {}
    for order in ("alone",) if "alone" in row.name else ORDERS:
        data = f"{TASK}_{order}"
        measured |= _row(chain, row, order, seed, "sled.figure3", data, FOUR)
    return measured


def figure4(chain: Chain, row: Row, seed: int) -> dict[str, Measured] | None:
    """One of two paragraphs; see `Study`."""
    if row.name not in SYSTEMS:
        return None
    return _row(chain, row, "shuffled", seed, "sled.figure4", "hotpotqa_text", TWO)


def _anywhere(
    chain: Chain,
    table: str,
    name: str,
    seed: int,
    fields: Mapping[str, object],
    family: str = "sled",
    read: int = 0,
) -> dict[str, Measured]:
    """The score of a table whose rows find a paragraph anywhere among four."""
    argv = "shuffled", seed, f"{family}:", FOUR, True, fields, read
    run = _run(chain, name, *argv)
    return steps.scored(chain, run, table, f"{TASK}_shuffled", _records(chain, DEV))


def table2(chain: Chain, row: Row, seed: int) -> dict[str, Measured]:
    """Less and less context in a window; see `Study`."""
    share, name, fields = SHARES[row.name], "sled", {"model.sled.window": WINDOW}
    if share != 0.5:  # which is figure 3's, whose run it is
        name = f"alpha-{share}"
        fields["model.sled.padding_share"] = share
    return _anywhere(chain, "sled.table2", name, seed, fields)


def chunks(chain: Chain, row: Row, seed: int) -> dict[str, Measured]:
    """Windows of other lengths; see `Study`."""
    window = int(row.name.removeprefix("c = "))
    # Of figure 3's length it is that figure's run.
    name = "sled" if window == WINDOW else f"window-{window}"
    fields = {"model.sled.window": window}
    return _anywhere(chain, "own.chunk_size", name, seed, fields)


def lengths(chain: Chain, row: Row, seed: int) -> dict[str, Measured]:
    """The beginnings of inputs alone; see `Study`."""
    family, _, part = row.name.lower().partition(", ")
    read = 0 if part == "all" else int(part.split()[0])
    fields = {"model.sled.window": WINDOW}
    if family == "led":
        fields = {"model.attention_window": f"({WINDOW},)"}
    name = f"{family}-read-{read}" if read else family
    return _anywhere(chain, "own.input_length", name, seed, fields, family, read)


_RECIPE = (
    "All begin with one BART of 2 + 1 layers of 64, trained on 2,500 batches of 64 "
    "questions of short texts of 28 tokens; then 100 batches of 32 questions, each "
    "seen once. Windows are of 18 tokens, half of them context, behind the question. "
    "256 other questions for the score."
)
_FOUR = (
    "Invented articles in SQuAD's form; each question among four paragraphs of 14 "
    "tokens, which say the same things of other names, the right one first or "
    f"anywhere; a guess among them gives 25. {_RECIPE}"
)
STUDIES = {
    "sled.figure3": Study(
        f"{_FOUR} BART alone reads the first 28 tokens, a paragraph and a half.",
        figure3,
    ),
    "sled.figure4": Study(
        "As figure 3, of two paragraphs, one of which has the answer: a window has to "
        "be found, and no two paragraphs joined as in HotpotQA, which a model of this "
        f"size does not learn; a guess gives 50. {_RECIPE}",
        figure4,
    ),
    "sled.table2": Study(_FOUR, table2),
    "own.chunk_size": Study(_FOUR, chunks),
    "own.input_length": Study(_FOUR, lengths),
}
