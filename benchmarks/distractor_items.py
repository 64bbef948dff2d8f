"""Invented questions among other paragraphs, as inputs of small encoder-decoders.

Articles in SQuAD's form (`tasks.synthetic`), and each question with other paragraphs
beside its own (`tasks.squad.distractors`), which say the same things of other names.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

import ml_collections

from benchmarks.structure_items import HELD_BACK_SERIES, TRAIN_SERIES, frequent_words
from etc_jax import config as config_lib
from etc_jax import prepare as windows
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets.task import find_task
from etc_jax.formats.text_to_text import TextToTextSizes
from etc_jax.tasks.squad import distractors
from etc_jax.tasks.squad.records import read
from etc_jax.tasks.synthetic import squad as invented

TASK = find_task("squad")
# Tokens of a question with T5's word before it, of a paragraph, of an answer.
QUESTION, PARAGRAPH, ANSWER = 12, 16, 2
_FACTS = 2


def length_of(paragraphs: int) -> int:
    """Tokens of an input with so many paragraphs."""
    # Two words of T5 stand before them, and an end after them.
    return QUESTION + PARAGRAPH * paragraphs + 3


@dataclasses.dataclass(frozen=True)
class Items:
    """Questions to learn from, and held-back ones.

    Attributes:
      folder: of the files and of everything that is made of them.
      paragraphs: of an input.
      train, held_back: the file of each of `distractors.ORDERS`.
      tokenizer: of the inputs.
    """

    folder: pathlib.Path
    paragraphs: int
    train: Mapping[str, pathlib.Path]
    held_back: Mapping[str, pathlib.Path]
    tokenizer: Tokenizer

    def caches(
        self, order: str, length: int, options: Mapping[str, Any]
    ) -> tuple[WindowCache, WindowCache]:
        """Inputs to learn from and held back, made once.

        Args:
          order: of the paragraphs.
          length: tokens of an input.
          options: of the inputs, see `datasets.pairs.PairOptions`.
        """
        task = TASK.with_options(options)
        named = "_".join(f"{name}{value}" for name, value in options.items())
        place = self.folder / f"{order}_{length}_{named}"
        made = [
            windows.prepare(
                task,
                [files[order]],
                self.tokenizer,
                place / name,
                sizes=TextToTextSizes(length, ANSWER),
            )
            for name, files in (("train", self.train), ("held_back", self.held_back))
        ]
        return made[0], made[1]


def write_items(
    folder: pathlib.Path,
    *,
    questions: int,
    held_back: int,
    paragraphs: int,
) -> Items:
    """Makes the files of questions and a vocabulary of their words, once.

    Args:
      folder: of the files.
      questions: to learn from.
      held_back: to be evaluated on.
      paragraphs: of an input.

    Raises:
      ValueError: if there are too few paragraphs to draw from.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [
        _write(folder / f"{number}", number, count, paragraphs)
        for number, count in ((TRAIN_SERIES, questions), (HELD_BACK_SERIES, held_back))
    ]
    records = read([files[0]["alone"]])
    texts = (f"question: {x.question} context: {x.context}" for x in records)
    tokenizer = frequent_words(texts)
    return Items(folder, paragraphs, *files, tokenizer)


def _write(
    folder: pathlib.Path, series: int, questions: int, paragraphs: int
) -> dict[str, pathlib.Path]:
    folder.mkdir(exist_ok=True)
    sizes = invented.SquadSizes(facts=_FACTS)
    plain = folder / "articles.json"
    if not plain.exists():
        articles = invented.records(questions // _FACTS, seed=series, sizes=sizes)
        invented.MAKER.write(plain, articles)
    files = {}
    for order in distractors.ORDERS:
        file = files[order] = folder / f"{order}.json"
        argv = [f"--order={order}", f"--count={paragraphs - 1}", f"--out={file}"]
        if not file.exists() and distractors.main([*argv, str(plain)]):
            raise ValueError(f"{plain}: no other paragraphs were added; see above")
    return files


def config(
    family: str, model: Mapping[str, Any], caches: tuple[WindowCache, WindowCache]
) -> ml_collections.ConfigDict:
    """A model of some size, from scratch, at the lengths of the inputs.

    Args:
      family: of the model, an encoder-decoder.
      model: its fields, but those that the vocabulary decides.
      caches: to learn from and held back.
    """
    train, held_back = caches
    made = config_lib.default_config(family, objective=TASK.name, source="windows")
    vocab_size = train.header["vocab_size"]
    special = train.load_tokenizer().special_id
    made.model.update(model, vocab_size=vocab_size, eos_id=special("sep"))
    made.model.update(pad_id=special("pad"), decoder_start_id=special("cls"))
    made.data.update(
        {f"{name}_length": value for name, value in train.sizes.items()},
        paths=(str(train.path),),
        held_back_paths=(str(held_back.path),),
        input_options=train.input_options,
        vocab_size=vocab_size,
    )
    made.train.compile_cache_dir = str(train.path.parent / "compile_cache")
    return made
