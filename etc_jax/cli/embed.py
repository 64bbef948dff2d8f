"""Embeds texts: one vector for each, of the hidden states of a model.

    etc-jax embed --model=longformer-base-4096 docs.jsonl --out=docs.npy
    etc-jax embed --model=models/bert --pooling=cls --normalize docs.txt \\
        --out=docs.npy
    cut -f2 table.tsv | etc-jax embed --model=runs/mlm - --out=table.npy

The model is the folder of a run, of a converted model, of Hugging Face or of
sentence-transformers, or the name of a repository in the local cache of Hugging Face.
Files have a text a line, in UTF-8; those named *.jsonl have objects with `text`, and
`id` if there is one; either may be gzipped (.gz); - is standard input. Parquet and
Arrow files, and folders of them, have rows with the same fields (extra parquet). The
vectors, float32 [texts, embed_dim], are in the order of the texts. A file beside them,
as docs.ids.jsonl, has the id of each in a line of JSON; without one, that is the file
and the number of the line. A blank line has a vector too, that of an empty text, and is
named on standard error. What cannot be read is an error with the file and the line.

Both files appear whole or not at all. Texts that are longer than the model reads are
cut, with a line on standard error, or are an error with --on_long=error. A model reads
as many tokens as it has positions, or as a folder of sentence-transformers says;
--max_length sets another limit up to the positions. T5 and LongT5 read texts of any
length.

Exit codes: 0 done; 2 something given is wrong; 4 the checkpoint is damaged.
"""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from tqdm import tqdm

from etc_jax.base.local_paths import INPUT, OUTPUT
from etc_jax.base.terminal import say
from etc_jax.base.whole_files import check_out, whole, whole_text
from etc_jax.cli import command_line, model_and_texts
from etc_jax.data.tokenizers.encoding import check_unicode
from etc_jax.datasets.fields import STRING, Fields
from etc_jax.datasets.records import BadRecordError
from etc_jax.datasets.tables import Row, TableOptions, record_id
from etc_jax.datasets.texts import read_texts
from etc_jax.loading.load import load
from etc_jax.training.errors import UserError
from etc_jax.training.preflight import compile_cache, compiling

_PROG = "etc-jax embed"


def _written(out: str) -> tuple[pathlib.Path, pathlib.Path]:
    """(file of the vectors, file of their ids)."""
    path = pathlib.Path(out)
    return path, path.with_suffix(".ids.jsonl")


_OUT = dataclasses.replace(OUTPUT, paths=lambda out: map(str, _written(out)))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line.ArgumentParser(_PROG, __doc__)
    add = parser.add_argument
    model_and_texts.add_flags(parser)
    add("--out", type=_OUT, required=True, metavar="FILE.npy", help="vectors")
    add("--overwrite", action="store_true", help="replace what --out holds")
    add(
        "--pooling",
        type=str,
        metavar="NAME",
        help="mean, cls, or global where the model has global tokens; default: as a "
        "folder of sentence-transformers says, else mean",
    )
    add(
        "--normalize",
        action=argparse.BooleanOptionalAction,
        help="vectors have length 1; default: as such a folder says, else not",
    )
    add("--max_length", type=int, help="tokens of a text; default: all the model reads")
    add("--on_long", choices=("cut", "error"), default="cut", help="default: cut")
    add("files", nargs="+", type=INPUT, metavar="FILE", help="texts, see above")
    return parser.parse_args(argv)


def _texts(name: str) -> Iterator[tuple[str, str, str]]:
    """(id, text, where it stands) of each text of a file.

    Raises:
      BadRecordError: naming the file and the line that has no text.
      OSError: if the file cannot be read.
    """
    for where, text in read_texts(name, "text", _text_of):
        if isinstance(text, BadRecordError):
            raise text
        yield *text, where


def _text_of(row: Row) -> tuple[str, str]:
    """(id, text) of a row."""
    fields = Fields(row.values)
    return record_id(fields, row.name, TableOptions()), fields.get("text", STRING)


def _read(names: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """(ids, texts) of some files, of which one text at least is not blank.

    Raises:
      BadRecordError, UserError, ValueError: naming the file and the line.
      OSError: if a file cannot be read.
    """
    rows = [row for name in names for row in _texts(name)]
    if not rows:
        raise UserError(f"{', '.join(names)}: no text is there")
    for text_id, text, _ in rows:
        check_unicode(text, text_id)
    ids, texts, origins = zip(*rows, strict=True)
    _tell_blank(texts, origins)
    return ids, texts


def _tell_blank(texts: Sequence[str], origins: Sequence[str]) -> None:
    """Names the texts that are blank: rows of the vectors go on being those of texts.

    Raises:
      UserError: if all are.
    """
    blank = [
        where for text, where in zip(texts, origins, strict=True) if not text.strip()
    ]
    if len(blank) == len(texts):
        raise UserError(f"{origins[0]}: no text is there, nor in what follows")
    if blank:
        say(
            f"{_PROG}: {len(blank)} of {len(texts)} texts are blank, the first in "
            f"{blank[0]}; each has the vector of an empty text",
            sys.stderr,
        )


@compile_cache.use(None)
def embed(args: argparse.Namespace) -> str:
    """Writes the vectors and the ids; returns a line on them.

    Raises:
      RunError, ValueError, OSError: if something given is wrong.
    """
    out, ids_file = _written(args.out)
    if out.suffix != ".npy":
        raise UserError(f"--out is {out}; expected the name of a .npy file")
    for path in (out, ids_file):
        check_out(path, overwrite=args.overwrite)
    ids, texts = _read(args.files)
    model = load(args.model, step=args.step, max_length=args.max_length)
    how = {
        name: getattr(args, name)
        for name in (
            *("pooling", "normalize", "batch_size", "on_long"),
            "special_tokens_in_text",
        )
    }
    until_first = compiling.announced(
        # Programs follow from lengths; the texts themselves may be many gigabytes.
        *("the model", model.config, args.max_length, how, [len(x) for x in texts]),
        done="first vectors after",
    )
    # None: on a terminal alone.
    plainly = command_line.warnings_as_lines(_PROG)
    with tqdm(total=len(texts), unit="texts", disable=None) as bar, plainly:

        def progress(done: int) -> None:
            first.close()
            bar.update(done - bar.n)

        with contextlib.ExitStack() as first:
            first.enter_context(until_first)
            vectors = model.encode(texts, progress=progress, **how)
    # Both are written before either gets its name: one without the other is worthless.
    with whole(out) as part, whole_text(ids_file) as lines, open(part, "wb") as file:
        lines.writelines(f"{json.dumps({'id': name})}\n" for name in ids)
        np.save(file, vectors)
    rows, width = vectors.shape
    return f"wrote {rows} vectors of {width} numbers to {out}, ids to {ids_file}"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    args = _parse(argv)
    return command_line.run(_PROG, lambda: embed(args))


if __name__ == "__main__":
    sys.exit(main())
