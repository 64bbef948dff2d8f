"""`etc_jax.load(...).encode` beside transformers: documents a second.

    etc-jax extend --from=FOLDER --to=longformer --max_length=4096 --window=512 \\
        --out=long
    python -m benchmarks encode --models=FOLDER,long --out=encode.json

A model is a folder that both libraries read, with its tokenizer. Documents are pieces
of the built-in text; as many are of 64 to 128 tokens as of 2,048 to 4,096, and longer
ones than the model reads are cut. Both libraries begin with the texts, take documents
of about one length together, as many at once, and end with the mean of each document's
hidden states; the first token of a Longformer is global. transformers has the attention
that it chooses itself ("sdpa" for BERT). Vectors are compared in every round. With
--platform=cuda --dtype=bfloat16 both compute in bfloat16 with float32 parameters.

This library compiles its programs in the first call. It is timed as well, and the
floors hold for it too: that is the first call against the other side's median, which
compiles nothing. Sides run in turn in one process, --rounds times. A busy machine is
refused (exit code 3); exit code 1 if a floor fails, which a CPU alone has.
"""

import argparse
import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import etc_jax
from benchmarks.kit import beside, harness, report
from benchmarks.kit.harness import TOLERANCES, Floor, Side
from etc_jax.data.text.corpus import built_in_corpus
from etc_jax.loading.model import LoadedModel

# How many times as fast as transformers, by family.
FASTER = {"bert": 1.0, "longformer": 1.5}


@dataclasses.dataclass(frozen=True)
class EncodeSizes:
    """What is encoded.

    Attributes:
      documents: how many.
      shortest, longest: tokens of a document, before it is cut.
      batch_size: documents that are computed together, at most.
      seed: of the documents' lengths.
    """

    documents: int = 256
    shortest: int = 64
    longest: int = 4096
    batch_size: int = 8
    seed: int = 0


def texts_of(model: LoadedModel, sizes: EncodeSizes) -> list[str]:
    """Pieces of the built-in text, one after another, of lengths in a random order."""
    rng = np.random.default_rng(sizes.seed)
    ratios = np.linspace(0.0, 1.0, sizes.documents)
    lengths = rng.permutation(
        sizes.shortest * (sizes.longest / sizes.shortest) ** ratios
    )
    # A word has a piece at least.
    words = list(itertools.islice(_words(), int(lengths.sum()) + 1))
    kinds = sorted(set(words))
    pieces = [len(ids) for ids, _ in model.tokenizer.encode_batch(kinds)]
    pieces_of = dict(zip(kinds, pieces, strict=True))
    ends = np.cumsum([pieces_of[word] for word in words])
    stops = np.searchsorted(ends, np.cumsum(lengths))
    starts = [0, *stops[:-1]]
    return [" ".join(words[a:b]) for a, b in zip(starts, stops, strict=True)]


def _words() -> Iterator[str]:
    for document in built_in_corpus().documents:
        for paragraph in document.paragraphs:
            yield from paragraph.split()


class TransformersEncoder:
    """Mean hidden states, as one writes it with transformers.

    Args:
      folder: of the model.
      max_length: tokens of a document, at most.
      batch_size: documents of a batch.
      dtype: see `beside.autocast`.
    """

    def __init__(self, folder: str, max_length: int, batch_size: int, dtype: str):
        beside.start_torch()
        import transformers

        self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.AutoModel.from_pretrained(folder).eval()
        self._model = model.to(beside.device())
        self._max_length = max_length
        self._batch_size = batch_size
        self._dtype = dtype

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """float32 `[texts, embed_dim]`."""
        import torch

        ids = self._tokenizer(
            list(texts), truncation=True, max_length=self._max_length
        )["input_ids"]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]), reverse=True)
        found = np.zeros((len(ids), self._model.config.hidden_size), np.float32)
        for start in range(0, len(order), self._batch_size):
            places = order[start : start + self._batch_size]
            batch = self._tokenizer.pad(
                {"input_ids": [ids[i] for i in places]}, return_tensors="pt"
            ).to(beside.device())
            mask = batch["attention_mask"]
            more = {}
            if self._model.config.model_type == "longformer":
                more["global_attention_mask"] = torch.zeros_like(mask)
                more["global_attention_mask"][:, 0] = 1
            with torch.inference_mode():
                with beside.autocast(self._dtype):
                    states = self._model(batch["input_ids"], mask, **more)[0].float()
                weights = mask[..., None].to(states.dtype)
                found[places] = ((states * weights).sum(1) / weights.sum(1)).cpu()
        return found


def _timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = run()
    return time.perf_counter() - start, found


def measure(
    args: argparse.Namespace, sizes: EncodeSizes, folder: str
) -> tuple[dict[str, Any], list[Floor]]:
    """Times of one model, printed; (for JSON, floors).

    Raises:
      WrongSideError: if the vectors are not the same, or not finite.
      ValueError: if there is no round.
    """
    model = etc_jax.load(folder)
    config = dataclasses.replace(model.config, dtype=args.dtype)
    model = dataclasses.replace(model, config=config)
    texts = texts_of(model, sizes)
    lengths = [len(one.ids) for one in model.inputs_of(texts)]
    peer = TransformersEncoder(folder, model.max_length, sizes.batch_size, args.dtype)
    options = {"pooling": "mean", "normalize": False, "batch_size": sizes.batch_size}
    own = functools.partial(model.encode, texts, **options)
    if args.rounds < 1:
        raise ValueError(f"--rounds is {args.rounds}; expected 1 or more")
    first, _ = _timed(own)
    secs: dict[str, list[float]] = {"etc_jax": [], "transformers": []}
    error = 0.0
    for _ in range(args.rounds):
        taken, vectors = _timed(own)
        secs["etc_jax"].append(taken)
        taken, want = _timed(functools.partial(peer.encode, texts))
        secs["transformers"].append(taken)
        got, want = (functools.partial(dict, vectors=x) for x in (vectors, want))
        side = Side("etc_jax", got, dict, want)
        error = max(error, harness.check(side, tolerance=TOLERANCES[args.dtype]))
    medians = {name: float(np.median(x)) for name, x in secs.items()}
    what = (
        f"{model.family} of {model.config.num_layers} layers of "
        f"{model.config.embed_dim}, {len(texts)} documents of "
        f"{min(lengths)} to {max(lengths)} tokens, {sum(lengths)} in all"
    )
    told = {"etc_jax, first call": first, **medians}
    print(f"\n{what}")
    for name, taken in told.items():
        print(f"{name:20} {taken:8.1f} s {len(texts) / taken:8.2f} documents a second")
    faster = FASTER.get(model.family, 0.0)
    floors = [
        Floor(
            f"{what}: {call}, times faster than transformers",
            medians["transformers"] / taken,
            faster,
            at_most=False,
        )
        for call, taken in (("first call", first), ("compiled", medians["etc_jax"]))
    ]
    metrics = {
        "model": what,
        "tokens": sum(lengths),
        "first_seconds": first,
        "compiling_seconds": first - medians["etc_jax"],
        "seconds": secs,
        "error": error,
    }
    return metrics, floors if args.platform == "cpu" else []


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code."""
    options = report.timing_parser("encode", __doc__, rounds=2)
    numbers = report.defaults_of(EncodeSizes)
    report.add_numbers(options, numbers)
    options.add_argument(
        "--models",
        type=lambda text: tuple(text.split(",")),
        required=True,
        help="folders of transformers, such as bert,longformer",
    )
    beside.add_precision(options)
    args = options.parse_args(argv)
    sizes = EncodeSizes(**report.chosen(args, numbers))
    beside.use(args)
    found = (measure(args, sizes, folder) for folder in args.models)
    return report.run_quiet(
        options, args, lambda: report.gathered(found), dtype=args.dtype
    )
