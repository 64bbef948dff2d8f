"""Shows what an input looks like to the model: who sees whom, under which label.

    etc-jax inspect --text="First sentence. Second one." --out=attention.png
    etc-jax inspect --corpus='books/*.jsonl.gz' --index=3
    etc-jax inspect --cache=runs/mine/data/train --index=7 --out=example.png

A text, the document of a number of some files, or a training example of a token cache:
packed and masked as training sees it. Each sentence gets a global token. Prints
tokens, sentences and counts of pairs, and draws the picture if `--out` is given.
"""

import argparse
import dataclasses
import itertools
import re
import sys
from collections.abc import Callable, Sequence

import jax
import numpy as np

from etc_jax.base.local_paths import INPUT, OF_MODEL, OUTPUT
from etc_jax.base.terminal import say
from etc_jax.base.whole_files import check_out
from etc_jax.cli import command_line, drawing
from etc_jax.structure import Rules, Structure, builders

_PROG = "etc-jax inspect"

Tokenize = Callable[[str], list[str]]
_WORDS = re.compile(r"\w+|[^\w\s]")
_BLANK_LINES = re.compile(r"\n\s*\n")


@dataclasses.dataclass(frozen=True)
class TextInput:
    """A text cut into sentences and tokens, and its structure.

    Attributes:
      sentences: tokens of each sentence.
      structure: sentence i has global token i.
      notes: a remark on each sentence, "" for none; () for none at all.
    """

    sentences: tuple[tuple[str, ...], ...]
    structure: Structure
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> list[str]:
        return [token for sentence in self.sentences for token in sentence]

    @property
    def globals(self) -> list[str]:
        return [f"g{i}" for i in range(len(self.sentences))]


def words(text: str) -> list[str]:
    """Words and punctuation marks, one token each."""
    return _WORDS.findall(text)


def load_tokenizer(path: str) -> Tokenize:
    """A function from text to tokens, from the file or folder of a vocabulary.

    Raises:
      ValueError, OSError: if there is none, or it is not a tokenizer.
    """
    from etc_jax.data.tokenizers.tokenizer import open_tokenizer

    tokenizer = open_tokenizer(path)
    return lambda text: tokenizer.pieces(tokenizer.encode_batch([text])[0][0])


def from_text(text: str, tokenize: Tokenize = words) -> TextInput:
    """Cuts a text into sentences, tokens and a structure.

    Raises:
      ImportError: if nupunkt is not installed.
      ValueError: if the text has no tokens.
    """
    from etc_jax.data.text.sentences import split_sentences

    cut = [tuple(tokenize(s)) for s in split_sentences(_BLANK_LINES.split(text))]
    sentences = tuple(s for s in cut if s)
    if not sentences:
        raise ValueError(f"the text has no tokens: {text[:40]!r}")
    lengths = [len(s) for s in sentences]
    return TextInput(sentences, builders.plain_text(lengths))


def from_batch(batch, tokenizer) -> TextInput:
    """The first row of a pre-training batch as it is masked."""
    padded = batch["structure"]
    n = int(np.sum(padded.long_example_ids[0] > 0))
    g = int(np.sum(padded.global_example_ids[0] > 0))
    structure = Structure(
        long_example_ids=padded.long_example_ids[0, :n],
        global_example_ids=padded.global_example_ids[0, :g],
        links=padded.links[0, :n],
    )
    pieces = tokenizer.pieces(batch["long_tokens"][0, :n])
    owner = structure.links[:, 0]
    sentences = tuple(
        tuple(pieces[at] for at in np.flatnonzero(owner == i)) for i in range(g)
    )
    masked = batch["global_tokens"][0, :g] == tokenizer.token_ids.cpc_mask
    notes = tuple(
        f"document {document}" + ", masked for CPC" * bool(hidden)
        for document, hidden in zip(structure.global_example_ids, masked, strict=True)
    )
    return TextInput(sentences, structure, notes)


def example_of_cache(
    folder: str, index: int, *, long_length: int, global_length: int
) -> TextInput:
    """A training example of a token cache: packed and masked, always in the same way.

    Raises:
      ValueError: if the cache is damaged or has no example of that number.
    """
    from etc_jax.data.pretraining.examples import PretrainingSizes
    from etc_jax.data.pretraining.readers import PretrainingReader
    from etc_jax.data.text.cache import TokenCache
    from etc_jax.data.text.packing import pack

    cache = TokenCache.open(folder)
    tokenizer = cache.load_tokenizer()
    plan = pack(cache, long_length=long_length, global_length=global_length)
    if not 0 <= index < plan.num_windows:
        raise ValueError(
            f"{folder} gives {plan.num_windows} examples of {long_length} long tokens, "
            f"so --index must be 0..{plan.num_windows - 1}, got {index}"
        )
    reader = PretrainingReader(
        cache,
        plan,
        tokenizer.token_ids,
        PretrainingSizes.default(long_length, global_length),
        batch_size=1,
        seed=0,
        evaluation=True,
    )
    return from_batch(reader.batch_at(index), tokenizer)


def count_pairs(matrix: np.ndarray, g: int) -> dict[str, tuple[int, int]]:
    """(pairs seen, all pairs) of each kind of attention.

    Args:
      matrix: `[g + n, g + n]`, of `drawing.label_matrix`.
      g: global tokens, which come first.
    """
    seen = matrix != drawing.UNSEEN
    pieces = {
        "g2g": seen[:g, :g],
        "g2l": seen[:g, g:],
        "l2g": seen[g:, :g],
        "l2l": seen[g:, g:],
        "all": seen,
    }
    return {name: (int(x.sum()), x.size) for name, x in pieces.items()}


def describe(text: TextInput, matrix: np.ndarray) -> str:
    """Sentences with their global tokens, and how many pairs are seen.

    Args:
      text: with g global and n long tokens.
      matrix: `[g + n, g + n]`, of `drawing.label_matrix`.
    """
    lines = [
        f"{len(text.tokens)} long tokens, {len(text.globals)} sentences, each with a "
        "global token",
        "",
        "global   long tokens  sentence",
    ]
    start = 0
    notes = text.notes or ("",) * len(text.globals)
    for name, sentence, note in zip(text.globals, text.sentences, notes, strict=True):
        span = f"{start}-{start + len(sentence) - 1}"
        remark = f"[{note}] " if note else ""
        lines.append(f"{name:8s} {span:12s} {remark}{' '.join(sentence)}")
        start += len(sentence)
    lines += ["", "piece      pairs seen       all pairs    share"]
    for piece, (seen, total) in count_pairs(matrix, len(text.globals)).items():
        lines.append(f"{piece:5s} {seen:15,d} {total:15,d} {seen / total:8.1%}")
    return "\n".join(lines)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line.ArgumentParser(_PROG, __doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", type=str, help="the text itself")
    source.add_argument("--file", type=INPUT, help="a file with the text, UTF-8")
    source.add_argument(
        "--corpus", type=INPUT, help="text or JSONL files, also .gz, as a glob"
    )
    source.add_argument("--cache", type=INPUT, help="folder of a token cache")
    parser.add_argument("--index", type=int, default=0, help="of document or example")
    parser.add_argument("--text_field", type=str, default="text", help="of JSONL rows")
    parser.add_argument("--tokenizer", type=OF_MODEL, help="vocabulary; default: words")
    parser.add_argument(
        "--out", type=OUTPUT, help="picture to write, for example attention.png"
    )
    parser.add_argument("--overwrite", action="store_true", help="if --out exists")
    parser.add_argument("--long_length", type=int, default=512, help="with --cache")
    parser.add_argument("--global_length", type=int, default=64, help="with --cache")
    parser.add_argument("--radius", type=int, default=4)
    parser.add_argument("--max_distance", type=int, default=3)
    parser.add_argument("--hard_g2l", action="store_true")
    parser.add_argument("--hard_l2g", action="store_true")
    args = parser.parse_args(argv)
    if args.cache is not None and args.tokenizer is not None:
        parser.error("a cache brings its own tokenizer; leave --tokenizer out")
    return args


def _read(path: str) -> str:
    from etc_jax.data.input_files import BadRecordError, read_whole

    try:
        return read_whole(path)
    except (OSError, BadRecordError) as e:
        raise ValueError(f"cannot read the text of {path}: {e}") from e


def _document(args: argparse.Namespace):
    from etc_jax.data.text.sources import read_documents

    documents = read_documents([args.corpus], text_field=args.text_field)
    picked = next(itertools.islice(documents, args.index, None), None)
    if args.index < 0 or picked is None:
        raise ValueError(f"{args.corpus} has no document of --index {args.index}")
    return picked


def _input_of(args: argparse.Namespace) -> TextInput:
    if args.cache is not None:
        lengths = (args.long_length, args.global_length)
        return example_of_cache(
            args.cache, args.index, long_length=lengths[0], global_length=lengths[1]
        )
    tokenize = words if args.tokenizer is None else load_tokenizer(args.tokenizer)
    if args.corpus is not None:
        return from_text("\n\n".join(_document(args).paragraphs), tokenize)
    text = args.text if args.file is None else _read(args.file)
    return from_text(text, tokenize)


def _show(args: argparse.Namespace) -> None:
    if args.out is not None:
        check_out(args.out, overwrite=args.overwrite)
    text = _input_of(args)
    rules = Rules(
        radius=args.radius,
        max_distance=args.max_distance,
        hard_g2l=args.hard_g2l,
        hard_l2g=args.hard_l2g,
    )
    named = (text.tokens, text.globals)
    if args.out is None:
        matrix = drawing.label_matrix(text.structure, rules, *map(len, named))
    else:
        matrix = drawing.draw(text.structure, rules, *named, args.out)
    say(describe(text, matrix))
    if args.out is not None:
        say(f"\nwrote {args.out}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code, 2 for bad input."""
    args = _parse(argv)
    # A picture needs no accelerator, and looking must not take one from a running job.
    jax.config.update("jax_platforms", "cpu")
    return command_line.run(_PROG, lambda: _show(args))


if __name__ == "__main__":
    sys.exit(main())
