"""A small vocabulary with official ETC's special tokens, and records to go with it."""

import json
import pathlib
import re

from etc_jax.data.tokenizers.tokenizer import Tokenizer, WordPieceTokenizer, grown
from etc_jax.datasets.task import Task
from etc_jax.models.etc.config import EtcConfig

_WORDS = """
the mill old was built by its first owner ann lee a baker she owned it burned who . ,
yes no is in ton norland sudland country of new york city town large stands river no
##s ##ed north south opera film - ( )
""".split()
_LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]
PIECES = ["[PAD]", *(f"[unused{i}]" for i in range(6)), "[UNK]", "[CLS]", "[SEP]"]
PIECES += ["[MASK]", *_WORDS, *_LETTERS, *("##" + c for c in _LETTERS), "_"]


def tokenizer() -> WordPieceTokenizer:
    return WordPieceTokenizer(list(dict.fromkeys(PIECES)))


def tokenizer_for(task: Task) -> Tokenizer:
    """The same with what inputs of a task add to it."""
    return grown(tokenizer(), task.tokens) if task.tokens else tokenizer()


def small_etc(vocab_size: int | None = None) -> EtcConfig:
    """A model for inputs of `tokenizer`."""
    return EtcConfig(
        vocab_size=vocab_size or tokenizer().vocab_size,
        embed_dim=8,
        num_layers=1,
        num_heads=2,
        mlp_dim=16,
        radius=3,
        max_distance=2,
        num_labels=10,
        attention="dense",
    )


HOTPOT = {
    "_id": "a1",
    "question": "Who built the mill?",
    "answer": "Ann Lee",
    "type": "bridge",
    "level": "hard",
    "supporting_facts": [["Old Mill", 0], ["Ann Lee", 1]],
    "context": [
        ["Old Mill", ["The Old Mill was built by its first owner.", " It burned."]],
        ["Ton", ["Ton is a town in Norland."]],
        ["Ann Lee", ["Ann Lee was a baker.", " She owned the Old Mill."]],
    ],
}

WIKIHOP = {
    "id": "WH_0",
    "query": "country old mill",
    "answer": "norland",
    "candidates": ["norland", "sudland", "new york", "new york city"],
    "supports": [
        "The Old Mill stands in Ton. It burned.",
        "Ton is a town in Norland. Norlands is no town. New York City is a city.",
    ],
}


def write_json(folder: pathlib.Path, value, name: str = "records.json") -> pathlib.Path:
    path = folder / name
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def split_at_stops(text: str) -> list[str]:
    """A sentence splitter without a model."""
    return [part.strip() for part in re.findall(r"[^.]+\.?", text) if part.strip()]
