"""Writes texts: a language model continues one, an encoder-decoder answers each.

    etc-jax generate --model=runs/enwik8 --prompt="The history of " \\
        --num_tokens=500 --temperature=0.8 --seed=1
    etc-jax generate --model=models/reformer --prompt_file=page.xml > more.xml
    etc-jax generate --model=runs/pairs --inputs=dev.jsonl --num_beams=4 \\
        --no_repeat_ngram=3 > written.jsonl
    cut -f1 table.tsv | etc-jax generate --model=models/bart --inputs=-

The model is the folder of a run, of one of its checkpoints, of a model that
`etc-jax convert` made, or of Hugging Face; or a name in its cache.

A language model (objective causal_lm) continues a prompt. What follows the prompt is
written to standard output; the prompt itself is not. A model of text has its tokenizer
in its folder. A model of bytes has none: what it writes need not be UTF-8. The bytes of
a run are their own ids; of a converted model without a tokenizer this is taken to be so
where it has 256 ids; of another one say --first_id, the id of byte 0: 2 for
google/reformer-enwik8. Prompt and text together are at most as long as the model has
positions. In LSH attention each token sees what a text that ends with it shows; see
`etc_jax.models.reformer.decoding`.

An encoder-decoder reads one text and writes another. --inputs are files with a text a
line, in UTF-8, or - for standard input; a file named *.jsonl has objects with `input`,
and `id` if there is one; either may be gzipped (.gz). Parquet and Arrow files, and
folders of them, have rows with the same fields (extra parquet). Each input gives a line
of JSON, in their order, as soon as it is written; a line that is blank or cannot be
read is named on standard error and left out:

    {"id": "dev.jsonl:1", "output": "...", "score": -0.31}

With --num_texts=2 there are "outputs" and "scores", the best first, and fewer where the
rules allow no more. --prompt is one input, and its texts are written plainly. --prefix
is read before every input that has no `prefix` of its own, such as a question about it.
With --sled.window=256 a converted model of short texts reads long ones by overlapping
windows (SLED). A text that is longer than the positions of the model is cut, and a line
on standard error says at the end how many were; T5 and LongT5 read texts of any length.

What no option says, a folder's generation_config.json does: beams, lengths, penalties,
first and last tokens, tokens that are never written. A run on a data set of texts
writes as its objective.generation says. Else the likeliest token is taken each time, or
one is drawn if a --temperature is given. --print_options prints the options in force,
and from where each comes; what of the file is not supported is told in one line.

With --special_tokens_in_text, special tokens in a text are read as such, so that a T5
fills in `The <extra_id_0> walks in <extra_id_1> park.` and a BART `The <mask> walks.`

The same seed gives the same text on one kind of machine. --temperature=0 takes the
likeliest token each time.

Exit codes: 0 done; 2 something given is wrong; 4 the checkpoint is damaged.
"""

import argparse
import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from etc_jax.base.local_paths import INPUT, MODEL
from etc_jax.base.terminal import say
from etc_jax.cli import command_line
from etc_jax.conversion.formats import native
from etc_jax.data.input_files import BadRecordError, read_bytes, read_whole
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.datasets import options, pairs
from etc_jax.datasets.tables import Row
from etc_jax.datasets.texts import read_texts
from etc_jax.generation import decoding, language_model, text_writer
from etc_jax.generation.language_model import (
    LanguageModel,
    codec_of_model,
    codec_of_run,
)
from etc_jax.generation.loop import Options
from etc_jax.generation.options import GenerationConfig
from etc_jax.generation.text_writer import TextWriter
from etc_jax.loading import model_source
from etc_jax.models.sled.config import SledConfig
from etc_jax.ops import sampling
from etc_jax.training.checkpoints.saved_params import SavedParams
from etc_jax.training.errors import UserError
from etc_jax.training.preflight import compile_cache, compiling

_PROG = "etc-jax generate"

T = TypeVar("T")

_SLED, _HOW = "sled.", GenerationConfig()
# Of encoder-decoders alone, beside how texts are written, with what they are where
# they are not given.
_OF_WRITERS: dict[str, Any] = {
    "inputs": None,
    "prefix": None,
    "batch_size": 8,
    "begin_token": None,
    "global_tokens": None,
}


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line.ArgumentParser(_PROG, __doc__)
    parser.add_argument("--model", required=True, type=MODEL, help="folder, see above")
    parser.add_argument("--step", type=int, help="of a run; default: the newest")
    prompt = parser.add_mutually_exclusive_group(required=True)
    prompt.add_argument(
        "--prompt", type=str, metavar="TEXT", help='may be "" for bytes'
    )
    prompt.add_argument("--prompt_file", type=INPUT, metavar="FILE")
    prompt.add_argument(
        "--inputs", type=INPUT, nargs="+", metavar="FILE", help="see above"
    )
    prompt.add_argument(
        "--print_options",
        action="store_true",
        help="print the options in force, and from where each comes; write nothing",
    )
    options.add_flags(parser.add_argument_group("how texts are written"), _HOW)
    parser.add_argument("--seed", type=int, default=0, help="of the draws; default: 0")
    parser.add_argument("--first_id", type=int, help="of byte 0, see above")
    parser.add_argument(
        "--special_tokens_in_text",
        action="store_true",
        help="<mask> and the like in a text are special tokens; default: plain text",
    )
    _add_options_of_writers(parser)
    return parser.parse_args(argv)


def _add_options_of_writers(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("encoder-decoders")
    options.add_flags(group, SledConfig(), _SLED)
    group.add_argument(
        "--prefix", type=str, metavar="TEXT", help="read before each input"
    )
    size = _OF_WRITERS["batch_size"]
    group.add_argument("--batch_size", type=int, default=size, help="inputs at once")
    group.add_argument(
        "--begin_token",
        action=argparse.BooleanOptionalAction,
        help="inputs begin with <s>; default: as in training",
    )
    group.add_argument(
        "--global_tokens",
        type=int,
        help="first tokens of an input that are global; default: as in training",
    )


def open_model(
    folder: str,
    step: int | None = None,
    first_id: int | None = None,
    begin_token: bool | None = None,
    global_tokens: int | None = None,
    sled: Mapping[str, Any] = MappingProxyType({}),
) -> LanguageModel | TextWriter:
    """Reads a language model, or an encoder-decoder.

    Args:
      folder: of a run, of a checkpoint, or of another model; see `model_source.find`.
      step: of a run's checkpoint; None: the newest.
      first_id: of a converted model of bytes; None: 0, if it has no other ids.
      begin_token: of an encoder-decoder, see `text_writer.TextWriter`.
      global_tokens: see there.
      sled: fields of `SledConfig` that are otherwise, of a converted model.

    Raises:
      UserError, ValueError: if there is no such model.
      CorruptCheckpointError: if no whole checkpoint is left.
    """
    source = model_source.find(folder, step)
    more = {"begin_token": begin_token, "global_tokens": global_tokens}
    if source.saved is not None:
        return _of_run(source.saved, first_id, sled, more)
    config = _with_sled(folder, source.config, sled) if sled else source.config
    decoder = decoding.decoder_of(native.family_of(config), config)
    decoder.check(1)
    tokenizer = source.tokenizer
    if not text_writer.writes(decoder):
        codec = codec_of_model(tokenizer, config.vocab_size, first_id, folder)
        return language_model.of_model(source.params, decoder, codec, source.generation)
    if tokenizer is None:
        raise UserError(
            f"{folder} has no {TOKENIZER}, by which texts become tokens; convert the "
            "model with its tokenizer's files beside it"
        )
    return text_writer.of_model(
        source.params, tokenizer, decoder, **more, file=source.generation
    )


def _of_run(
    saved: SavedParams, first_id: int | None, sled: Mapping[str, Any], more: dict
) -> LanguageModel | TextWriter:
    """The model of a run, see `open_model`."""
    if sled:
        listed = ", ".join(f"--{_SLED}{name}" for name in sled)
        raise UserError(
            f"{saved.run} is a run, which reads inputs as it was trained: leave "
            f"{listed} out"
        )
    if first_id is not None:
        raise UserError(
            f"{saved.run} is a run, whose ids are known: leave --first_id out"
        )
    decoder = decoding.decoder_of(saved.config.family, saved.config.model)
    decoder.check(1)
    if text_writer.writes(decoder):
        return text_writer.of_run(saved, decoder, **more)
    return LanguageModel(saved.params, decoder, codec_of_run(saved))


def _with_sled(folder: str, config: Any, changes: Mapping[str, Any]) -> Any:
    """The config of a converted model that reads by windows.

    Raises:
      UserError: if that model cannot, or not so.
    """
    if not hasattr(config, "sled"):
        raise UserError(
            f"{folder} is a {type(config).__name__}, no encoder-decoder, whose encoder "
            f"--{_SLED}window is for; leave it out"
        )
    sled = dataclasses.replace(config.sled, **changes)
    config = dataclasses.replace(config, sled=sled)
    if found := list(config.problems()):
        raise UserError("; ".join(f"--{field} {text}" for field, text in found))
    return config


def _continued(model: LanguageModel, args: argparse.Namespace) -> Iterator[bytes]:
    """What follows the prompt; what is given is checked at once."""
    given = [n for n, usual in _OF_WRITERS.items() if getattr(args, n) != usual]
    sled = options.from_flags(args, SledConfig(), _SLED)
    given += [f"{_SLED}{name}" for name in sled]
    if given:
        listed = ", ".join(f"--{name}" for name in given)
        raise UserError(
            f"{args.model} is a language model, which does not take {listed}; leave "
            "it out, or name an encoder-decoder"
        )
    how = options.from_flags(args, _HOW)
    if args.print_options:
        return _told(model.in_force(how, 1))
    if args.prompt_file is not None:
        text = _prompt_in(args.prompt_file, read_bytes)
    else:
        text = os.fsencode(args.prompt)  # the bytes that were typed
    model.options(how, len(model.codec.encode(text)))
    sampling.key(args.seed)
    return _each_after(model, text, how, args.seed)


def _each_after(model: LanguageModel, text: bytes, how: Any, seed: int):
    for number, found in enumerate(model.continued(text, how, seed)):
        yield b"\n" * (number > 0) + found


def _told(lines: Sequence[str]) -> Iterator[bytes]:
    return (f"{line}\n".encode() for line in lines)


def _prompt_in(path: pathlib.Path, read_fn: Callable[[pathlib.Path], T]) -> T:
    """The prompt in a file.

    Raises:
      BadRecordError: naming the file that cannot be read.
      OSError: if there is none.
    """
    try:
        return read_fn(path)
    except BadRecordError as error:
        raise error.at(os.fspath(path)) from error


def _inputs(
    writer: TextWriter, args: argparse.Namespace, broken: list[BadRecordError]
) -> Iterator[pairs.Pair]:
    """The inputs of some files, or of standard input.

    What is no input is told and left out.

    Args:
      writer: that reads them.
      args: of the command line.
      broken: takes what ends the reading of a file: the inputs before it are written
        first.
    """
    for name in args.inputs:
        try:
            for where, row in read_texts(name, "input"):
                try:
                    yield _input_of(row, writer, args.prefix)
                except BadRecordError as error:
                    say(f"{_PROG}: {error.at(where)}; left out", sys.stderr)
        except BadRecordError as error:
            broken.append(error)


def _input_of(
    row: Row | BadRecordError, writer: TextWriter, prefix: str | None
) -> pairs.Pair:
    """What is read, named by its id or by its file and line.

    Raises:
      BadRecordError: if it cannot be, as without a token.
    """
    if isinstance(row, BadRecordError):
        raise row
    found = pairs.parse(row.values, lambda kind, message: None)
    name = found.id if "id" in row.values else row.name
    found = dataclasses.replace(found, id=name, prefix=found.prefix or prefix)
    pairs.encoded(found, writer.tokenizer, writer.pairs)
    return found


def _written(writer: TextWriter, args: argparse.Namespace) -> Iterator[bytes]:
    """What an encoder-decoder writes, line by line; see `_continued`."""
    how = options.from_flags(args, _HOW)
    if args.print_options:
        return _told(writer.in_force(how))
    how = writer.options(how)
    if args.batch_size < 1:
        raise UserError(f"--batch_size is {args.batch_size}; expected 1 or more")
    return _each_written(writer, args, how, sampling.key(args.seed))


def _each_written(writer: TextWriter, args: argparse.Namespace, how: Options, rng):
    if args.inputs is None:
        text = args.prompt
        if args.prompt_file is not None:
            text = _prompt_in(args.prompt_file, read_whole)
        one = pairs.Pair("", text, None, args.prefix)
        [found] = writer.write([one], how, batch_size=1, rng=rng)
        yield from (f"{one.text}\n".encode() for one in found)
        return
    broken: list[BadRecordError] = []
    given, read = itertools.tee(_inputs(writer, args, broken))
    written = writer.write(read, how, batch_size=args.batch_size, rng=rng)
    wrote = False
    for one, found in zip(given, written, strict=False):
        wrote = True
        line = _result(one.id, found, how.num_texts > 1)
        yield f"{json.dumps(line, ensure_ascii=False)}\n".encode()
    if broken:
        raise broken[0]
    if not wrote:
        raise UserError(f"{', '.join(args.inputs)}: there is no input to answer")


def _result(name: str, found: Sequence[text_writer.Text], many: bool) -> dict[str, Any]:
    if not many:
        return {"id": name, "output": found[0].text, "score": found[0].score}
    texts, scores = [x.text for x in found], [x.score for x in found]
    return {"id": name, "outputs": texts, "scores": scores}


def generate(args: argparse.Namespace) -> Iterator[bytes]:
    """What is written, piece by piece.

    Raises:
      RunError, ValueError, OSError: if something given is wrong; before compiling.
    """
    given = (args.model, args.step, args.first_id, args.begin_token, args.global_tokens)
    model = open_model(*given, options.from_flags(args, SledConfig(), _SLED))
    if args.special_tokens_in_text:
        model = model.with_special_tokens()
    write = _continued if isinstance(model, LanguageModel) else _written
    pieces = write(model, args)
    if args.print_options:
        yield from pieces
        return
    with contextlib.ExitStack() as first:
        first.enter_context(
            compiling.announced(
                *("the model", model.decoder.config, sorted(vars(args).items())),
                done="first text after",
            )
        )
        for piece in pieces:
            first.close()
            yield piece


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    args = _parse(argv)
    return command_line.run(_PROG, lambda: _print(args))


@compile_cache.use(None)
def _print(args: argparse.Namespace) -> None:
    with command_line.warnings_as_lines(_PROG):
        for piece in generate(args):
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
