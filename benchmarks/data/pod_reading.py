"""What reading takes where many hosts train on one large text: a model of it.

    python -m benchmarks pod_reading --out=pod_reading.json
    python -m benchmarks pod_reading --hosts=1,256,1024 --host_gb_per_s=3

A token cache of made-up documents, as long as those of C4, is opened, packed and read
here; what that takes a byte, a token and a document is taken to the size of C4 (305 GB,
365 million documents, 156 billion tokens: Dodge et al. 2021, table 1). What a store
gives is no measurement but an option: how long a request takes, what one stream of a
file gives, and what a host takes.

Each host copies the cache from the store, compares its checksums, plans which text
shares a window, and reads its rows from its disk.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.kit import report
from benchmarks.kit.memory import peak_of_call
from etc_jax.base import stores
from etc_jax.data.text.cache import TokenCache, build_cache
from etc_jax.data.text.corpus import Document
from etc_jax.data.text.packing import pack
from etc_jax.data.text.reader import RowReader
from etc_jax.data.tokenizers.tokenizer import train

GB = 1e9
# Of C4 in English.
DOCUMENTS, TOKENS = 365e6, 156e9
_WORDS_A_SENTENCE = 20
_LENGTHS = {"long_length": 4096, "global_length": 256}
_READ = 2000  # windows
_PARTS = 4


@dataclasses.dataclass(frozen=True)
class Measured:
    """What reading takes here.

    Attributes:
      files: of a cache.
      bytes_per_token: of its files.
      check_secs_per_gb: to open it, checksums compared.
      plan_secs, plan_bytes: to plan windows, a document.
      part_secs, part_bytes: the same of a part of the text, with what is kept of it.
      window_secs: to read a window that lies in memory.
      tokens_per_window: that are in it.
    """

    files: int
    bytes_per_token: float
    check_secs_per_gb: float
    plan_secs: float
    plan_bytes: float
    part_secs: float
    part_bytes: float
    window_secs: float
    tokens_per_window: float


def _words(count: int) -> list[str]:
    return [f"w{number}" for number in range(count)]


def _documents(count: int, tokens: int, rng: np.random.Generator):
    """Documents whose lengths differ as those of web pages do."""
    words = np.array(_words(1000))
    # A log-normal distribution of this width has its mean at 1.65 times the median.
    lengths = np.exp(rng.normal(np.log(tokens / 1.65), 1.0, count)).astype(int) + 7
    for number, length in enumerate(lengths):
        drawn = rng.choice(words, length)
        sentences = [
            " ".join(drawn[start : start + _WORDS_A_SENTENCE])
            for start in range(0, length, _WORDS_A_SENTENCE)
        ]
        yield Document(f"made/{number}", tuple(sentences))


def measure(documents: int) -> Measured:
    """What a cache of so many documents takes."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "cache")
        tokenizer = train([" ".join(_words(1000))] * 20, vocab_size=1100)
        text = _documents(documents, int(TOKENS / DOCUMENTS), rng)
        build_cache(text, tokenizer, path, made_by={}, split_fn=list)
        files = [file.stat().st_size for file in path.iterdir()]
        began = time.perf_counter()
        cache = TokenCache.open(path)
        check_secs = time.perf_counter() - began
        began = time.perf_counter()
        plan = pack(cache, **_LENGTHS)
        plan_secs = time.perf_counter() - began
        plan_bytes = peak_of_call(lambda: pack(cache, **_LENGTHS))
        began = time.perf_counter()
        pack(cache.part(0, _PARTS), **_LENGTHS)
        part_secs = time.perf_counter() - began
        part_bytes = peak_of_call(lambda: pack(cache.part(0, _PARTS), **_LENGTHS))
        chosen = rng.integers(plan.num_windows, size=_READ).tolist()
        began = time.perf_counter()
        windows = [plan.read(cache, index) for index in chosen]
        window_secs = (time.perf_counter() - began) / _READ
    return Measured(
        files=len(files),
        bytes_per_token=sum(files) / cache.num_tokens,
        check_secs_per_gb=check_secs / (sum(files) / GB),
        plan_secs=plan_secs / documents,
        plan_bytes=plan_bytes / documents,
        part_secs=part_secs / documents * _PARTS,
        part_bytes=part_bytes / documents * _PARTS,
        window_secs=window_secs,
        tokens_per_window=float(np.mean([len(x.tokens) for x in windows])),
    )


@dataclasses.dataclass(frozen=True)
class Store:
    """What a store gives.

    Attributes:
      request_secs: until the first byte of an answer.
      stream_gb_per_s: of one file.
      host_gb_per_s: all streams of a host.
    """

    request_secs: float
    stream_gb_per_s: float
    host_gb_per_s: float


def predict(measured: Measured, store: Store, hosts: int, rows: int) -> dict[str, Any]:
    """What one host of so many needs, for a text of the size of C4.

    Args:
      measured: here.
      store: that holds the cache.
      hosts: that share a batch.
      rows: of the batch, over all hosts.
    """
    size = TOKENS * measured.bytes_per_token / GB
    speed = min(store.host_gb_per_s, stores.STREAMS * store.stream_gb_per_s)
    requests = size * GB / stores.SLICE_BYTES
    waits = requests / stores.STREAMS * store.request_secs
    rows_a_host = -(-rows // hosts)
    # Of the text; every host looks at some rows more before it begins.
    share = min(1.0, (rows_a_host + RowReader.described_rows.stop) / rows)
    return {
        "hosts": hosts,
        "requests": requests,
        "gb": size,
        "gb_of_all": size * hosts,
        "copy_secs": size / speed + waits,
        "check_secs": size * measured.check_secs_per_gb,
        "plan_secs": DOCUMENTS * measured.plan_secs,
        "plan_gb": DOCUMENTS * measured.plan_bytes / GB,
        "parts_secs": share * DOCUMENTS * measured.part_secs,
        "parts_gb": share * DOCUMENTS * measured.part_bytes / GB,
        "step_bytes": rows_a_host * measured.tokens_per_window * 2,
        "step_secs": rows_a_host * measured.window_secs,
    }


def _table(rows: Sequence[dict[str, Any]]) -> str:
    head = ("", *(f"{row['hosts']:,} hosts" for row in rows))
    lines = {
        "requests of a host at its start": ("requests", ",.0f"),
        "GB that a host copies": ("gb", ",.0f"),
        "TB that the store gives": ("gb_of_all", ",.1f"),
        "minutes to copy": ("copy_secs", ",.0f"),
        "minutes to compare checksums": ("check_secs", ",.1f"),
        "minutes to plan windows": ("plan_secs", ",.0f"),
        "GB of memory to plan": ("plan_gb", ",.0f"),
        "seconds, with a part for each row": ("parts_secs", ",.1f"),
        "GB of memory, with a part for each row": ("parts_gb", ",.1f"),
        "KB of tokens of a host and step": ("step_bytes", ",.0f"),
        "ms to read them": ("step_secs", ",.2f"),
    }
    scale = {"gb_of_all": 1e-3, "step_bytes": 1e-3, "step_secs": 1e3}
    scale |= dict.fromkeys(("copy_secs", "check_secs", "plan_secs"), 1 / 60)
    return report.table(
        head,
        [
            (text, *(format(row[key] * scale.get(key, 1), form) for row in rows))
            for text, (key, form) in lines.items()
        ],
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code."""
    options = report.parser("pod_reading", __doc__)
    add = options.add_argument
    add("--documents", type=int, default=100_000, help="of the cache here")
    add("--hosts", type=report.integers, default=(1, 64, 1024))
    add("--rows", type=int, default=4096, help="of a batch of all hosts")
    for field, value in (
        ("request_secs", 0.05),
        ("stream_gb_per_s", 0.1),
        ("host_gb_per_s", 1.5),
    ):
        add(f"--{field}", type=float, default=value)

    args = options.parse_args(argv)
    return report.run(options, args, lambda: (_predict_all(args), 0))


def _predict_all(args: argparse.Namespace) -> dict[str, Any]:
    measured = measure(args.documents)
    store = Store(args.request_secs, args.stream_gb_per_s, args.host_gb_per_s)
    rows = [predict(measured, store, hosts, args.rows) for hosts in args.hosts]
    print(_table(rows))
    return {
        "options": report.arguments(args),
        "measured": dataclasses.asdict(measured),
        "rows": rows,
    }
