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
and from where each comes; one line names what of the file is not supported.

With --special_tokens_in_text, special tokens in a text are read as such, so that a T5
fills in `The <extra_id_0> walks in <extra_id_1> park.` and a BART `The <mask> walks.`

The same seed gives the same text on one kind of machine, whatever the --batch_size,
and the same as `etc_jax.load(MODEL).generate`. --temperature=0 takes the likeliest
token each time.

Exit codes: 0 done; 2 something given is wrong; 4 the checkpoint is damaged.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Sequence

from etc_jax.base.local_paths import INPUT
from etc_jax.base.terminal import say
from etc_jax.cli import command_line, model_and_texts
from etc_jax.cli.model_and_texts import BATCH_SIZE
from etc_jax.data.input_files import BadRecordError, read_bytes, read_whole
from etc_jax.datasets import options, pairs
from etc_jax.datasets.pairs import Pair
from etc_jax.datasets.tables import Row
from etc_jax.datasets.texts import read_texts
from etc_jax.generation.language_model import LanguageModel
from etc_jax.generation.options import GenerationConfig
from etc_jax.generation.writer import Input, Text, Writer
from etc_jax.loading.load import load
from etc_jax.loading.writers import SLED, Reading
from etc_jax.models.sled.config import SledConfig
from etc_jax.training.errors import UserError
from etc_jax.training.preflight import compile_cache, compiling

_PROG = "etc-jax generate"

# Flags of encoder-decoders alone, with what they are where they are not given.
_OF_ENCODER_DECODERS = {"inputs": None, "prefix": None, "batch_size": BATCH_SIZE}


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line.ArgumentParser(_PROG, __doc__)
    model_and_texts.add_flags(parser)
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
    writing = parser.add_argument_group("how texts are written")
    options.add_flags(writing, GenerationConfig())
    parser.add_argument("--seed", type=int, default=0, help="of the draws; default: 0")
    parser.add_argument("--first_id", type=int, help="of byte 0, see above")
    _add_flags_of_encoder_decoders(parser)
    return parser.parse_args(argv)


def _add_flags_of_encoder_decoders(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("encoder-decoders")
    options.add_flags(group, SledConfig(), SLED)
    group.add_argument(
        "--prefix", type=str, metavar="TEXT", help="read before each input"
    )
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


def _writer(args: argparse.Namespace) -> Writer:
    """The model that is asked for.

    Raises:
      RunError, ValueError: if there is none, or it does not take what is given.
    """
    reading = Reading(
        args.special_tokens_in_text,
        args.first_id,
        args.begin_token,
        args.global_tokens,
        options.from_flags(args, SledConfig(), SLED),
    )
    writer = load(args.model, step=args.step).writer(reading)
    if args.batch_size < 1:
        raise UserError(f"--batch_size is {args.batch_size}; expected 1 or more")
    flags = _OF_ENCODER_DECODERS.items() if isinstance(writer, LanguageModel) else ()
    if refused := [name for name, usual in flags if getattr(args, name) != usual]:
        listed = ", ".join(f"--{name}" for name in refused)
        raise UserError(
            f"{args.model} is a language model, which does not take {listed}; leave "
            "it out, or name an encoder-decoder"
        )
    return writer


def _prompt(args: argparse.Namespace, writer: Writer) -> Input:
    """The one text that is given.

    Raises:
      BadRecordError, UserError, ValueError: if it cannot be read, naming its file.
      OSError: if there is no such file.
    """
    try:
        text = _prompt_text(args, writer.reads_bytes)
    except BadRecordError as error:
        raise error.at(os.fspath(args.prompt_file)) from error
    return writer.input_of(Pair("", text, None, args.prefix))


def _prompt_text(args: argparse.Namespace, of_bytes: bool) -> str:
    path = args.prompt_file
    if not of_bytes:
        return args.prompt if path is None else read_whole(path)
    # The bytes that were typed, of any encoding.
    content = os.fsencode(args.prompt) if path is None else read_bytes(path)
    return content.decode("utf-8", "surrogateescape")


def _inputs(
    writer: Writer, args: argparse.Namespace, broken: list[BadRecordError]
) -> Iterator[Input]:
    """The inputs of some files, or of standard input.

    What is no input is named on standard error and left out.

    Args:
      writer: that reads them.
      args: of the command line.
      broken: takes what ends the reading of a file: the inputs before it are written
        first.
    """

    def parse(row: Row) -> Input:
        pair = pairs.parse(row.values, lambda kind, message: None)
        name = pair.id if "id" in row.values else row.name
        prefix = pair.prefix or args.prefix
        return writer.input_of(dataclasses.replace(pair, id=name, prefix=prefix))

    for name in args.inputs:
        try:
            for _, one in read_texts(name, "input", parse):
                if isinstance(one, BadRecordError):
                    say(f"{_PROG}: {one}; left out", sys.stderr)
                else:
                    yield one
        except BadRecordError as error:
            broken.append(error)


def _line(name: str, texts: Sequence[Text], many: bool) -> str:
    """The line of JSON of an input, with one text or `many`."""
    if many:
        outputs, scores = [x.text for x in texts], [x.score for x in texts]
        values = {"id": name, "outputs": outputs, "scores": scores}
    else:
        values = {"id": name, "output": texts[0].text, "score": texts[0].score}
    return f"{json.dumps(values, ensure_ascii=False)}\n"


def _plain(texts: Sequence[Text], end: str) -> str:
    """The texts of a prompt, as they are."""
    return "\n".join(x.text for x in texts) + end


def generate(args: argparse.Namespace) -> Iterator[str]:
    """What is printed, piece by piece.

    Raises:
      RunError, ValueError, OSError: if something given is wrong: before compiling, but
        for a file that is damaged, which is told after the inputs that are before.
    """
    writer, how = _writer(args), options.from_flags(args, GenerationConfig())
    if args.print_options:
        yield from (f"{line}\n" for line in writer.in_force(how))
        return
    broken: list[BadRecordError] = []
    is_prompt = args.inputs is None
    inputs = [_prompt(args, writer)] if is_prompt else _inputs(writer, args, broken)
    written = writer.write(inputs, how, batch_size=args.batch_size, seed=args.seed)
    end = "" if isinstance(writer, LanguageModel) else "\n"
    many = not is_prompt and writer.options(how).num_texts > 1
    with contextlib.ExitStack() as first:
        first.enter_context(
            compiling.announced(
                *("the model", writer.decoder.config, sorted(vars(args).items())),
                done="first text after",
            )
        )
        name = None
        for name, texts in written:
            first.close()
            yield _plain(texts, end) if is_prompt else _line(name, texts, many)
        if broken:
            raise broken[0]
        if name is None:
            raise UserError(f"{', '.join(args.inputs)}: there is no input to answer")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    args = _parse(argv)
    return command_line.run(_PROG, lambda: _print(args))


@compile_cache.use(None)
def _print(args: argparse.Namespace) -> None:
    with command_line.warnings_as_lines(_PROG):
        for piece in generate(args):
            sys.stdout.buffer.write(piece.encode("utf-8", "surrogateescape"))
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
