"""The input pipeline alone: tokens per second, and bytes sent for each example.

    taskset -c 0 python -m benchmarks input_pipeline --out=input.json

Batches are built from a made-up text in a token cache on disk, with sentences and
documents of about the lengths of Wikipedia's: 18 tokens a sentence, so that 4096 long
tokens take about 230 global ones (Ainslie et al. 2020, section 4.1). The sides:

    mlm_cpc        one global token a sentence, MLM and CPC: the paper's recipe
    no_cpc         the same without CPC
    fixed_blocks   one global token for 97 long ones, without CPC
    workers        mlm_cpc in --num_workers processes, apart from the other sides

Tokens are real long tokens: padding and global tokens do not count. A busy machine is
refused (exit code 3).
"""

import argparse
import dataclasses
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.tree_util import keystr

from benchmarks.kit import harness, report
from etc_jax.data.pretraining import masking
from etc_jax.data.pretraining.examples import Batch, PretrainingSizes
from etc_jax.data.pretraining.readers import PretrainingReader
from etc_jax.data.text import packing
from etc_jax.data.text.cache import TokenCache
from etc_jax.data.tokenizers.tokenizer import TokenIds
from etc_jax.data.workers import WorkerReader

REFERENCE = "mlm_cpc"
SIDES = (REFERENCE, "no_cpc", "fixed_blocks")
VOCAB_SIZE = 30_522
IDS = TokenIds(
    pad=0,
    sentence=1,
    cpc_mask=2,
    mask=103,
    regular_ids=(1000, VOCAB_SIZE),
    vocab_size=VOCAB_SIZE,
)


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What is built.

    Attributes:
      long_length, global_length: of an example.
      batch_size: examples of a batch.
      num_batches: batches of one round.
      text_tokens: length of the made-up text.
    """

    long_length: int = 4096
    global_length: int = 230
    batch_size: int = 8
    num_batches: int = 10
    text_tokens: int = 10_000_000


def write_text(folder: pathlib.Path, num_tokens: int, seed: int = 0) -> TokenCache:
    """A cache of random text, whose arrays are mapped from files."""
    rng = np.random.default_rng(seed)
    mean_tokens, mean_sentences = 18, 30
    lengths = _log_normal(rng, mean_tokens, 0.6, num_tokens // mean_tokens)
    sentences = _log_normal(rng, mean_sentences, 1.0, len(lengths) // mean_sentences)
    borders = np.cumsum([0, *sentences])
    lengths = np.resize(lengths, borders[-1])
    offsets = np.cumsum([0, *lengths])
    words = rng.random(offsets[-1]) < 0.8
    words[offsets[:-1]] = True
    tokens = rng.integers(*IDS.regular_ids, offsets[-1]).astype(np.uint16)
    made = TokenCache.from_arrays(
        tokens, words, offsets, borders, vocab_size=VOCAB_SIZE
    )
    mapped = {}
    for name in ("tokens", "word_bits", "sentence_offsets", "document_offsets"):
        np.save(folder / f"{name}.npy", getattr(made, name))
        mapped[name] = np.load(
            folder / f"{name}.npy", mmap_mode="r", allow_pickle=False
        )
    return dataclasses.replace(made, path=folder, **mapped)


def _log_normal(rng, mean: float, sigma: float, count: int) -> np.ndarray:
    """`count` lengths, 1 or more, of about this mean."""
    drawn = rng.lognormal(np.log(mean) - sigma**2 / 2, sigma, max(count, 1))
    return np.maximum(drawn.astype(np.int64), 1)


def make_reader(cache: TokenCache, sizes: Sizes, side: str) -> PretrainingReader:
    """The reader of one side."""
    shares = masking.MaskingShares(cpc=0.1 if side == REFERENCE else 0.0)
    lengths = {"long_length": sizes.long_length, "global_length": sizes.global_length}
    plan = packing.pack(
        cache,
        **lengths,
        max_sentence_tokens=min(packing.MAX_SENTENCE_TOKENS, sizes.long_length),
        global_tokens="fixed_blocks" if side == "fixed_blocks" else "sentences",
    )
    return PretrainingReader(
        cache,
        plan,
        IDS,
        PretrainingSizes.default(**lengths, shares=shares),
        batch_size=sizes.batch_size,
        seed=0,
        shares=shares,
    )


def arrays_of(batch: Batch) -> dict[str, np.ndarray]:
    """Every array of a batch, by a flat name."""
    found, _ = jax.tree_util.tree_flatten_with_path(batch)
    return {keystr(path, simple=True, separator="."): x for path, x in found}


def bytes_per_example(batch: Batch) -> dict[str, float]:
    """Bytes that each array of a batch takes for one example."""
    return {k: x.nbytes / len(x) for k, x in arrays_of(batch).items()}


def real_tokens(batch: Batch) -> int:
    """Long tokens of a batch that are not padding."""
    return int((batch["structure"].long_example_ids > 0).sum())


class _Rounds:
    """Builds the next batches with each call, so that nothing is seen twice."""

    def __init__(self, reader: Any, num_batches: int):
        self._reader, self._num_batches, self._step = reader, num_batches, 0
        self.tokens: list[int] = []
        self.batch: Batch = {}

    def __call__(self) -> Batch:
        tokens = 0
        for _ in range(self._num_batches):
            self.batch = self._reader.batch_at(self._step)
            tokens += real_tokens(self.batch)
            self._step += 1
        self.tokens.append(tokens)
        return self.batch


def _result(timing: harness.Timing, rounds: _Rounds, sizes: Sizes) -> dict[str, Any]:
    """What one side comes to, ready for JSON."""
    # One call for the check and one to warm up come before the timed ones.
    tokens = np.array(rounds.tokens[-len(timing.times) :])
    rates = tokens / np.array(timing.times)
    parts = bytes_per_example(rounds.batch)
    low, high = np.quantile(rates, [0.25, 0.75])
    examples = sizes.num_batches * sizes.batch_size
    return {
        "side": timing.name,
        "tokens_per_sec": float(np.median(rates)),
        "tokens_per_sec_quartiles": [float(low), float(high)],
        "batches_per_sec": sizes.num_batches / timing.median,
        "examples_per_sec": examples / timing.median,
        "fill": float(tokens.mean()) / (examples * sizes.long_length),
        "bytes_per_example": sum(parts.values()),
        "bytes_of_arrays": parts,
        "times": timing.times,
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The metrics of all sides, for a terminal."""
    head = ["side", "tokens/s", "quartiles", "batches/s", "fill", "bytes/example"]
    return report.table(
        head,
        [
            [
                row["side"],
                f"{row['tokens_per_sec']:,.0f}",
                "-".join(f"{x:,.0f}" for x in row["tokens_per_sec_quartiles"]),
                f"{row['batches_per_sec']:.1f}",
                f"{row['fill']:.1%}",
                f"{row['bytes_per_example']:,.0f}",
            ]
            for row in rows
        ],
    )


def timed(
    readers: Mapping[str, Any], sizes: Sizes, rounds: int, **options: Any
) -> list[dict[str, Any]]:
    """Metrics of some sides.

    Args:
      readers: of the sides, by name; the first is the reference.
      sizes: of what is built.
      rounds: timed runs of each side.
      **options: of `harness.interleaved`.
    """
    runs = {name: _Rounds(r, sizes.num_batches) for name, r in readers.items()}
    timings = harness.compare(
        [harness.Side(name, run, arrays_of) for name, run in runs.items()],
        reference=next(iter(runs)),
        rounds=rounds,
        tolerance=0.0,
        **options,
    )
    return [_result(t, runs[t.name], sizes) for t in timings]


def measure(args: argparse.Namespace, sizes: Sizes) -> dict[str, Any]:
    """Speed and size of every side, printed and ready for JSON."""
    with tempfile.TemporaryDirectory() as folder:
        cache = write_text(pathlib.Path(folder), sizes.text_tokens)
        readers = {name: make_reader(cache, sizes, name) for name in args.sides}
        rows = timed(readers, sizes, args.rounds)
        if args.num_workers:
            reader = readers[REFERENCE]
            with WorkerReader(reader, num_workers=args.num_workers) as workers:
                # Nothing between the rounds: workers would build ahead in that time.
                how = {"pause_secs": 0.0}
                rows += timed({"workers": workers}, sizes, args.rounds, **how)
        lengths = {"long_length": sizes.long_length}
        plan = packing.pack(cache, **lengths, global_length=sizes.global_length)
    windows, unpacked = plan.num_windows, len(plan.pieces)
    print(f"{sizes.long_length} long + {sizes.global_length} global tokens")
    print(f"{windows} windows, {unpacked / windows:.2f} times as many without packing")
    print(table(rows), flush=True)
    found = {"reference": REFERENCE, "num_workers": args.num_workers, "rows": rows}
    return found | {"windows": windows, "unpacked_windows": unpacked}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code. Fields of `Sizes` are options."""
    options = report.timing_parser("input_pipeline", __doc__, rounds=20)
    numbers = report.defaults_of(Sizes)
    report.add_numbers(options, {**numbers, "num_workers": 0})
    options.add_argument("--sides", type=report.names(SIDES), default=SIDES)
    args = options.parse_args(argv)
    if REFERENCE not in args.sides:
        options.error(f"--sides must name the reference {REFERENCE!r}")
    sizes = Sizes(**report.chosen(args, numbers))
    return report.run_quiet(
        options, args, lambda: (measure(args, sizes), ()), dtype="int32"
    )
