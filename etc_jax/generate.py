"""Continues a text with a causal language model.

    python -m etc_jax.generate --model=runs/enwik8 --prompt="The history of " \\
        --num_tokens=500 --temperature=0.8 --seed=1
    python -m etc_jax.generate --model=models/reformer --prompt_file=page.xml > more.xml

The model is the folder of a run of objective causal_lm on text or on bytes, of one of
its checkpoints, or of a model that `etc_jax.convert` made. What follows the prompt is
written to standard output; the prompt itself is not.

A model of text has its tokenizer in its folder. A model of bytes has none: what it
writes need not be UTF-8. A run's bytes are their own ids; of a converted model without
a tokenizer this is taken to be so where it has 256 ids; of another one say --first_id,
the id of byte 0: 2 for google/reformer-enwik8.

The same seed gives the same text on one kind of machine. --temperature=0 takes the
likeliest token each time. Prompt and text together are at most as long as the model's
max_length. In LSH attention each token sees what a text that ends with it shows; see
`etc_jax.models.reformer_decoding`.

Exit codes: 0 done; 2 something given is wrong; 4 the checkpoint is damaged.
"""

import argparse
import dataclasses
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any, Protocol

import jax
import numpy as np

from etc_jax import decoding
from etc_jax.conversion.formats import native
from etc_jax.data.bytes.stream import BYTES, START
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.local_paths import ArgumentParser
from etc_jax.terminal import say
from etc_jax.training.checkpoints.saved_params import SavedParams, read_params
from etc_jax.training.errors import RunError, UserError


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = ArgumentParser(
        texts=("prompt",),
        prog="python -m etc_jax.generate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--model", required=True, help="folder, see above")
    parser.add_argument("--step", type=int, help="of a run; default: the newest")
    prompt = parser.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--prompt", metavar="TEXT", help='may be "" for bytes')
    prompt.add_argument("--prompt_file", type=pathlib.Path, metavar="FILE")
    parser.add_argument(
        "--num_tokens", type=int, default=200, help="to write; default: 200"
    )
    parser.add_argument("--temperature", type=float, default=1.0, help="default: 1")
    parser.add_argument(
        "--top_k", type=int, default=0, help="of so many likeliest; default: 0, all"
    )
    parser.add_argument(
        "--top_p", type=float, default=1.0, help="of the likeliest that reach it"
    )
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument("--first_id", type=int, help="of byte 0, see above")
    return parser.parse_args(argv)


class Codec(Protocol):
    """Texts as ids and back.

    Attributes:
      allowed: (first, one past the last) of the ids that stand for text.
    """

    allowed: tuple[int, int]

    def encode(self, text: bytes) -> list[int]:
        """The ids of a prompt, one at least.

        Raises:
          UserError: if it has none.
        """

    def decode(self, ids: np.ndarray) -> bytes:
        """The text of int ids `[n]`, all of them allowed."""


@dataclasses.dataclass(frozen=True)
class ByteCodec:
    """Bytes, which are ids one after the other.

    Attributes:
      first_id: of byte 0.
      vocab_size: of the model.
    """

    first_id: int
    vocab_size: int

    @property
    def allowed(self) -> tuple[int, int]:
        """See `Codec`."""
        return self.first_id, self.first_id + BYTES

    def encode(self, text: bytes) -> list[int]:
        """See `Codec`; as in training, something stands before a text."""
        ids = [START, *(byte + self.first_id for byte in text)]
        if max(ids) >= self.vocab_size:
            raise UserError(
                f"the prompt has byte {max(ids) - self.first_id}, but the model knows "
                f"{self.vocab_size} ids only; leave it out"
            )
        return ids

    def decode(self, ids: np.ndarray) -> bytes:
        """See `Codec`."""
        return (ids - self.first_id).astype(np.uint8).tobytes()


@dataclasses.dataclass(frozen=True)
class TextCodec:
    """Text in UTF-8 by a tokenizer.

    Attributes:
      tokenizer: of the model.
    """

    tokenizer: Tokenizer

    @property
    def allowed(self) -> tuple[int, int]:
        """See `Codec`: no special tokens."""
        return self.tokenizer.token_ids.regular_ids

    def encode(self, text: bytes) -> list[int]:
        """See `Codec`."""
        try:
            [(ids, _)] = self.tokenizer.encode_batch([text.decode()])
        except UnicodeDecodeError as error:
            raise UserError(
                f"the prompt is not UTF-8 ({error}), which this model's tokenizer reads"
            ) from error
        if not len(ids):
            raise UserError(
                "the prompt has no token; a model of text needs one at least to go on"
            )
        return list(map(int, ids))

    def decode(self, ids: np.ndarray) -> bytes:
        """See `Codec`."""
        return self.tokenizer.decode(ids.tolist()).encode()


@dataclasses.dataclass(frozen=True)
class LanguageModel:
    """What continues a text.

    Attributes:
      params: nested dict of numpy arrays.
      decoder: of the model.
      codec: of its ids.
    """

    params: dict[str, Any]
    decoder: decoding.Decoder
    codec: Codec


def open_model(folder: str, step: int | None, first_id: int | None) -> LanguageModel:
    """Reads a language model.

    Args:
      folder: of a run, of a checkpoint, or of a converted model.
      step: of a run's checkpoint; None: the newest.
      first_id: of a converted model of bytes; None: 0, if it has no other ids.

    Raises:
      UserError, ValueError: if there is no such model.
      CorruptCheckpointError: if no whole checkpoint is left.
    """
    path = pathlib.Path(folder).expanduser()
    if native.exists(path):
        if step is not None:
            raise UserError(f"{folder} is a converted model: leave --step out")
        config = native.read_config(path)
        decoder = decoding.decoder_of(native.family_of(config), config)
        decoder.check(1)
        codec = _converted_codec(path, config.vocab_size, first_id)
        return LanguageModel(native.load(path).params, decoder, codec)
    saved = read_params(folder, step)
    if first_id is not None:
        raise UserError(f"{folder} is a run, whose ids are known: leave --first_id out")
    codec = _codec_of_run(folder, saved)
    decoder = decoding.decoder_of(saved.config.family, saved.config.model)
    decoder.check(1)
    return LanguageModel(saved.params, decoder, codec)


def _codec_of_run(folder: str, saved: SavedParams) -> Codec:
    gives = saved.config.data.gives
    if gives == "bytes":
        return ByteCodec(0, saved.config.model.vocab_size)
    if gives != "text":
        raise UserError(
            f"{folder} was trained on data.source={saved.config.data.source!r}, which "
            f"gives {gives}; expected a run on text or bytes"
        )
    # A checkpoint is two folders below the one of its run.
    path = saved.folder.parent.parent / TOKENIZER
    if not path.exists():
        raise UserError(
            f"{path} is missing: a run on text has its tokenizer there. Name the "
            "folder of the run, or a checkpoint that lies where the run left it"
        )
    return TextCodec(Tokenizer.from_bytes(path.read_bytes(), str(path)))


def _converted_codec(path: pathlib.Path, size: int, first_id: int | None) -> Codec:
    """Of a model with a tokenizer beside it, or else of bytes."""
    if (path / TOKENIZER).is_file():
        if first_id is not None:
            raise UserError(f"{path} has a tokenizer: leave --first_id out")
        return TextCodec(
            Tokenizer.from_bytes(native.read_file(path, TOKENIZER), str(path))
        )
    if first_id is None and size != BYTES:
        raise UserError(
            f"{path} has {size} ids and no {TOKENIZER}, so that they are not just "
            "bytes; if they are bytes with others before, say which id byte 0 has, as "
            "in --first_id=2"
        )
    first = first_id or 0
    if not 0 <= first <= size - BYTES:
        raise UserError(
            f"--first_id is {first}, but {path} has {size} ids: the {BYTES} bytes do "
            "not fit after it"
        )
    return ByteCodec(first, size)


def generate(args: argparse.Namespace) -> bytes:
    """What follows the prompt.

    Raises:
      RunError, ValueError, OSError: if something given is wrong; before compiling.
    """
    if args.prompt_file is not None:
        text = args.prompt_file.read_bytes()
    else:
        text = os.fsencode(args.prompt)  # the bytes that were typed
    options = {name: getattr(args, name) for name in ("temperature", "top_k", "top_p")}
    model = open_model(args.model, args.step, args.first_id)
    tokens = decoding.generate(
        model.decoder,
        model.params,
        np.array([model.codec.encode(text)], np.int32),
        args.num_tokens,
        jax.random.key(args.seed),
        allowed=model.codec.allowed,
        **options,
    )
    return model.codec.decode(np.asarray(tokens[0]))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    args = _parse(argv)
    try:
        text = generate(args)
    except (RunError, ValueError, OSError) as error:
        say(f"etc_jax.generate: {error}", sys.stderr)
        return getattr(error, "exit_code", UserError.exit_code)
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
