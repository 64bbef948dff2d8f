"""Continues a text with a language model of bytes.

    python -m etc_jax.generate --model=runs/enwik8 --prompt="The history of " \\
        --num_bytes=500 --temperature=0.8 --seed=1
    python -m etc_jax.generate --model=models/reformer --prompt_file=page.xml > more.xml

The model is the folder of a run of objective causal_lm on bytes, of one of its
checkpoints, or of a Reformer that `etc_jax.convert` made. What follows the prompt is
written to standard output, as bytes: they need not be UTF-8. The prompt itself is not.

A run's bytes are their own ids. Of a converted model this is taken to be so where it
has 256 ids; of another one say --first_id, the id of byte 0: 2 for
google/reformer-enwik8.

The same seed gives the same text on one kind of machine. --temperature=0 takes the
likeliest byte each time. Prompt and text together are at most as long as the model's
max_length. In LSH attention each byte sees what a text that ends with it shows; see
`etc_jax.models.reformer_decoding`.

Exit codes: 0 done; 2 something given is wrong; 4 the checkpoint is damaged.
"""

import argparse
import dataclasses
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from etc_jax.conversion import native
from etc_jax.data.byte_stream import BYTES, START
from etc_jax.local_paths import ArgumentParser
from etc_jax.models import reformer_decoding
from etc_jax.models.reformer_config import ReformerConfig
from etc_jax.terminal import say
from etc_jax.training.errors import RunError, UserError
from etc_jax.training.saved_params import read_params


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
    prompt.add_argument("--prompt", metavar="TEXT", help='may be ""')
    prompt.add_argument("--prompt_file", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--num_bytes", type=int, default=200, help="default: 200")
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


@dataclasses.dataclass(frozen=True)
class ByteModel:
    """A language model, and which ids are bytes.

    Attributes:
      params: nested dict of numpy arrays.
      config: of the model.
      first_id: of byte 0; those of the others follow.
    """

    params: dict[str, Any]
    config: ReformerConfig
    first_id: int

    def prompt(self, text: bytes) -> np.ndarray:
        """int32 `[1, bytes + 1]`: as in training, something stands before a text.

        Raises:
          UserError: if a byte is none of the model's.
        """
        ids = np.frombuffer(text, np.uint8).astype(np.int32) + self.first_id
        ids = np.concatenate([np.int32([START]), ids])
        if ids.max() >= self.config.vocab_size:
            raise UserError(
                f"the prompt has byte {ids.max() - self.first_id}, but the model knows "
                f"{self.config.vocab_size} ids only; leave it out"
            )
        return ids[None]


def open_model(folder: str, step: int | None, first_id: int | None) -> ByteModel:
    """Reads a language model of bytes.

    Args:
      folder: of a run, of a checkpoint, or of a converted model.
      step: of a run's checkpoint; None: the newest.
      first_id: of a converted model; None: 0, if it has no other ids than bytes.

    Raises:
      UserError, ValueError: if there is no such model.
      CorruptCheckpointError: if no whole checkpoint is left.
    """
    path = pathlib.Path(folder).expanduser()
    if native.exists(path):
        if step is not None:
            raise UserError(f"{folder} is a converted model: leave --step out")
        first_id = _first_id(folder, native.read_config(path), first_id)
        return ByteModel(*native.load(path), first_id)
    saved = read_params(folder, step)
    source = saved.config.data.source
    if source != "bytes":
        raise UserError(
            f"{folder} was trained on data.source={source!r}; expected a run on 'bytes'"
        )
    if first_id is not None:
        raise UserError(f"{folder} is a run, whose ids are known: leave --first_id out")
    return ByteModel(saved.params, _checked(folder, saved.config.model), 0)


def _checked(folder: str, config: Any) -> ReformerConfig:
    if not isinstance(config, ReformerConfig) or not config.causal:
        raise UserError(
            f"the model in {folder} has {type(config).__name__} with causal="
            f"{getattr(config, 'causal', None)}; expected a Reformer with causal=True"
        )
    return config


def _first_id(folder: str, config: Any, given: int | None) -> int:
    """Of a converted model, which does not say what its ids are."""
    size = _checked(folder, config).vocab_size
    if given is None and size != BYTES:
        raise UserError(
            f"{folder} has {size} ids, so that they are not just bytes; if they are "
            "bytes with others before, say which id byte 0 has, as in --first_id=2"
        )
    first = given or 0
    if not 0 <= first <= size - BYTES:
        raise UserError(
            f"--first_id is {first}, but {folder} has {size} ids: the {BYTES} bytes "
            "do not fit behind it"
        )
    return first


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
    prompt = model.prompt(text)
    tokens = reformer_decoding.generate(
        model.params,
        model.config,
        prompt,
        args.num_bytes,
        jax.random.key(args.seed),
        allowed=(model.first_id, model.first_id + BYTES),
        **options,
    )
    return (np.asarray(tokens[0]) - model.first_id).astype(np.uint8).tobytes()


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
