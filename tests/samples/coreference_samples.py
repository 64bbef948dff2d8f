"""Small documents in CoNLL's columns, over the vocabulary of `multihop_samples`."""

import pathlib

from etc_jax.tasks.coreference.records import Record, parse, read_parts

# (word, last column) of each sentence.
MILL = (
    (("Ann", "(1"), ("Lee", "1)"), ("owned", "-"), ("the", "(2"), ("mill", "2)")),
    (("She", "(1)"), ("built", "-"), ("it", "(2)"), (".", "-")),
    (("Her", "(3|(1)"), ("owner", "3)"), ("burned", "-")),
)
TON = (
    (("Ton", "(0)"), ("is", "-"), ("a", "(0"), ("town", "0)")),
    (("It", "(0)"), ("stands", "-"), ("in", "-"), ("Norland", "(5)"), (".", "-")),
)


def conll_2012(sentences=MILL, name="bn/a/00/a_0001", part="000", speaker="Ann_Lee"):
    """Columns apart by spaces, with a speaker."""
    lines = [f"#begin document ({name}); part {part}"]
    for sentence in sentences:
        for number, (word, cell) in enumerate(sentence):
            row = [name, int(part), number, word, "NN", "*", "-", "-", "-", speaker]
            lines.append("   ".join(map(str, [*row, "*", "*", cell])))
        lines.append("")
    return "\n".join([*lines, "#end document", ""])


def litbank(sentences=TON, name="2_ton_brat", part="0"):
    """Columns apart by tabs, an empty cell for no mention."""
    lines = [f"#begin document ({name}); part {part}"]
    for sentence in sentences:
        for number, (word, cell) in enumerate(sentence):
            row = [name, part, number, word, *"_" * 8, cell.replace("-", "")]
            lines.append("\t".join(map(str, row)))
        lines.append("")
    return "\n".join([*lines, "#end document", ""])


def write_text(folder: pathlib.Path, text: str, name="a_gold_conll") -> pathlib.Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def record_of(folder: pathlib.Path, text: str) -> Record:
    """The one record of a text."""
    [(_, part)] = read_parts(write_text(folder, text))
    return parse(part, lambda kind, message: None)


# The document of `MILL` as a JSON line, without what is mentioned once.
VALUE = {
    "doc_key": "bn/a/00/a_0001_0",
    "sentences": [[word for word, _ in sentence] for sentence in MILL],
    "speakers": [["Ann_Lee" for _ in sentence] for sentence in MILL],
    "clusters": [[[0, 1], [5, 5], [9, 9]], [[3, 4], [7, 7]]],
}
