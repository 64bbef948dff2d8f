"""From the data section of a config to the readers of pre-training batches."""

import dataclasses
import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from etc_jax.config.sections import DataConfig
from etc_jax.data.digests import shortened
from etc_jax.data.mixture import Mixture
from etc_jax.data.pretraining.examples import (
    PretrainingRows,
    PretrainingSizes,
    check_together,
)
from etc_jax.data.pretraining.masking import MaskingShares
from etc_jax.data.pretraining.readers import (
    MixtureReader,
    PackedText,
    PretrainingReader,
)
from etc_jax.data.source_configs import TextConfig, TokenCachesConfig
from etc_jax.data.text import prepare as prepare_lib
from etc_jax.data.text.cache import TokenCache
from etc_jax.data.text.packing import PackingPlan, pack
from etc_jax.data.text.reader import Plan, RowBuilder, RowReader, TextReader, planned
from etc_jax.data.text.statistics import describe_batches
from etc_jax.data.tokenizers.tokenizer import TokenIds, Tokenizer, open_tokenizer
from etc_jax.training.workdir import data_folder

_LOG = logging.getLogger(__name__)

# Batches looked at before training, and the share left out that is too much.
LOOKED_AT = 2
MAX_OVERFLOW = 0.2
MAX_LOST = 0.5


@dataclasses.dataclass(frozen=True)
class Corpora:
    """A vocabulary and the text in it.

    Attributes:
      tokenizer: the vocabulary.
      train: the training text, one cache a source.
      weights: how often each source is drawn from.
      validation: text for evaluation alone.
      inputs: digests of all this and of the files that it was made of; see `Job`.
    """

    tokenizer: Tokenizer
    train: tuple[TokenCache, ...]
    weights: tuple[float, ...]
    validation: TokenCache
    inputs: Mapping[str, str]

    @property
    def ids(self) -> dict[str, np.ndarray]:
        """All ids of the text, by where they lie."""
        return {str(x.path): x.tokens for x in (*self.train, self.validation)}

    def mixture(self, seed: int) -> Mixture | None:
        """In which order the sources are drawn from; None: there is one."""
        return Mixture(self.weights, seed=seed) if len(self.train) > 1 else None


def prepare(data: TextConfig, workdir: epath.PathLike) -> Corpora:
    """Reads and tokenises what `data` names, or opens what was cached before.

    Raises:
      ImportError: if a package of the extra `data` is missing.
      OSError, ValueError: if files cannot be read or do not fit together.
    """
    if isinstance(data, TokenCachesConfig):
        return _open_caches(data)
    prepared = prepare_lib.prepare(
        data_folder(data.cache_dir, workdir),
        source=data.documents(),
        tokenizer=_tokenizer(data),
        vocab_size=data.vocab_size,
        validation=data.validation_documents() or data.validation_fraction,
        workers=data.export_cluster or data.export_workers,
        report_fn=_LOG.info,
    )
    check_size(data, prepared.tokenizer)
    inputs = {
        "tokenizer": prepared.tokenizer.fingerprint(),
        "training tokens": prepared.train.digest,
        "held-back tokens": prepared.validation.digest,
        **_files_of(prepared.train.header["made_by"]),
    }
    return Corpora(
        prepared.tokenizer, (prepared.train,), (1.0,), prepared.validation, inputs
    )


def _files_of(made_by: Mapping[str, Any]) -> dict[str, str]:
    """The digests of text files, which have been read to find the cache."""
    described = [made_by["corpus"], made_by["held_back"]]
    files = [x.get("files", []) for x in described if isinstance(x, Mapping)]
    digests = {label: digest for side in files for label, _, _, digest in side}
    return shortened(digests, "text")


def _tokenizer(data: TextConfig) -> Tokenizer | None:
    if data.tokenizer is None:
        return None
    return open_tokenizer(data.tokenizer, lower_case=data.lower_case)


def _open_caches(data: TextConfig) -> Corpora:
    if len(data.validation_paths) != 1:
        raise ValueError(
            f"data.validation_paths has {len(data.validation_paths)} folders; expected "
            "one cache to evaluate on"
        )
    first_cache = TokenCache.open(data.paths[0])
    tokenizer = _tokenizer(data) or first_cache.load_tokenizer()
    check_size(data, tokenizer)
    fingerprint = tokenizer.fingerprint()
    train = tuple(TokenCache.open(path, fingerprint) for path in data.paths)
    weights = data.weights or tuple(float(cache.num_tokens) for cache in train)
    validation = TokenCache.open(data.validation_paths[0], fingerprint)
    paths = [*data.paths, data.validation_paths[0]]
    caches = zip(paths, [*train, validation], strict=True)
    inputs = {
        "tokenizer": fingerprint,
        **{f"token cache {path}": cache.digest for path, cache in caches},
    }
    return Corpora(tokenizer, train, weights, validation, inputs)


def check_size(data: DataConfig, tokenizer: Tokenizer) -> None:
    """Raises ValueError unless the config has the size of the vocabulary."""
    if tokenizer.vocab_size != data.vocab_size:
        raise ValueError(
            f"data.vocab_size is {data.vocab_size}, but the tokenizer has "
            f"{tokenizer.vocab_size} ids; set it to that"
        )


def in_rows(
    data: TextConfig,
    caches: Sequence[TokenCache],
    length: int,
    rows: RowBuilder,
    *,
    batch_size: int,
    seed: int,
    **options: Any,
) -> TextReader:
    """A reader of windows of so many tokens, without global ones.

    Args:
      data: how they are packed.
      caches: the texts.
      length: tokens of a window.
      rows: how windows become rows.
      batch_size: of the reader.
      seed: of the reader.
      **options: `mixture` or `evaluation` of `TextReader`.
    """
    plan_fn = functools.partial(_in_windows, data, length)
    order = {"batch_size": batch_size, "seed": seed}
    if data.part_per_row and not options.get("evaluation"):
        return RowReader(caches[0], plan_fn, rows, **order)
    texts = [(cache, plan_fn(cache)) for cache in caches]
    return TextReader(texts, rows, **order, **options)


def _in_windows(data: TextConfig, length: int, cache: TokenCache) -> Plan:
    return planned(
        cache,
        data.packing,
        long_length=length,
        max_sentence_tokens=data.max_sentence_tokens,
        min_sentences=data.min_sentences,
    )


@dataclasses.dataclass(frozen=True)
class Examples:
    """How text becomes examples, for one config.

    Attributes:
      data: the section.
      with_cpc: whether sentences are masked.
    """

    data: TextConfig
    with_cpc: bool

    @property
    def shares(self) -> MaskingShares:
        """What is masked; nothing for CPC where it has no weight."""
        if self.with_cpc:
            return self.pool_shares
        return dataclasses.replace(self.pool_shares, cpc=0.0)

    @property
    def sizes(self) -> PretrainingSizes:
        """Lengths of a batch."""
        return self._sizes(self.shares)

    @property
    def pool_shares(self) -> MaskingShares:
        """What is masked in the pool that measures CPC, with or without training it."""
        return MaskingShares(cpc=self.data.cpc_share, mlm=self.data.mlm_share)

    @property
    def pool_sizes(self) -> PretrainingSizes:
        """Lengths of the pool's batches."""
        return self._sizes(self.pool_shares)

    def _sizes(self, shares: MaskingShares) -> PretrainingSizes:
        data = self.data
        sizes = {"mlm_capacity": data.mlm_capacity}
        if shares.cpc:
            sizes["cpc_long_length"] = data.cpc_long_length
            sizes["cpc_global_length"] = data.cpc_global_length
        return PretrainingSizes.default(
            data.long_length,
            data.global_length,
            shares,
            max_sentence_tokens=data.max_sentence_tokens,
            **{name: value for name, value in sizes.items() if value is not None},
        )

    def pack(self, cache: TokenCache) -> PackedText:
        """The cache with its windows."""
        data = self.data
        return cache, pack(
            cache,
            long_length=data.long_length,
            global_length=data.global_length,
            max_sentence_tokens=data.max_sentence_tokens,
            min_sentences=data.min_sentences,
            global_tokens=data.global_tokens,
            tokens_per_block=data.tokens_per_block,
        )

    def training_reader(
        self, corpora: Corpora, *, batch_size: int, seed: int
    ) -> TextReader:
        """Endless batches of the training text."""
        ids = corpora.tokenizer.token_ids
        if self.data.part_per_row:
            return RowReader(
                corpora.train[0],
                functools.partial(_checked_plan, self, ids),
                PretrainingRows(ids, self.sizes, self.shares),
                batch_size=batch_size,
                seed=seed,
            )
        texts = [self.pack(cache) for cache in corpora.train]
        options = {"batch_size": batch_size, "seed": seed, "shares": self.shares}
        if (mixture := corpora.mixture(seed)) is None:
            return PretrainingReader(*texts[0], ids, self.sizes, **options)
        return MixtureReader(texts, mixture, ids, self.sizes, **options)

    def validation_reader(
        self, text: PackedText, ids: TokenIds, *, batch_size: int, seed: int
    ) -> PretrainingReader:
        """One fixed epoch of the validation text, as `pack` gave it."""
        return PretrainingReader(
            *text,
            ids,
            self.sizes,
            batch_size=batch_size,
            seed=seed,
            shares=self.shares,
            evaluation=True,
        )


def _checked_plan(examples: Examples, ids: TokenIds, cache: TokenCache) -> PackingPlan:
    _, plan = examples.pack(cache)
    check_together(cache, plan, ids, examples.sizes, examples.shares)
    return plan


def look_at(reader: TextReader) -> None:
    """Logs what the first batches hold and lose.

    Raises:
      ValueError: if much of what is chosen to be masked has no room, or much of the
        text is cut or left out.
    """
    metrics = describe_batches(reader, LOOKED_AT)
    described = (f"{k.replace('_', ' ')} {v:.4g}" for k, v in metrics.items() if v)
    _LOG.info("first %d batches: %s", LOOKED_AT, ", ".join(described))
    for kind, remedy in (
        ("mlm", "data.mlm_capacity"),
        ("cpc", "data.cpc_long_length and data.cpc_global_length"),
    ):
        share = metrics.get(f"{kind}_overflow_share", 0.0)
        if share > MAX_OVERFLOW:
            raise ValueError(
                f"{share:.1%} of what is chosen for {kind.upper()} has no room in the "
                f"first {LOOKED_AT} batches, more than {MAX_OVERFLOW:.0%}; raise "
                f"{remedy}, or leave them at None"
            )
    for name, what, remedy in (
        (
            "sentences_cut_share",
            "of the sentences are longer than data.max_sentence_tokens and are cut",
            "raise it, or end sentences in the text",
        ),
        (
            "tokens_dropped_share",
            "of the tokens are left out, in documents with fewer sentences than "
            "data.min_sentences",
            "lower it, or look at where documents end (data.document_per)",
        ),
        (
            "windows_left_out_share",
            f"of the windows of the first {LOOKED_AT} batches are left out, as nothing "
            "of them can be missing: a single sentence, or a single token",
            "raise data.input_length, lower data.max_sentence_tokens, or give text in "
            "sentences and more of it",
        ),
    ):
        if metrics[name] > MAX_LOST:
            raise ValueError(
                f"{metrics[name]:.1%} {what}, more than {MAX_LOST:.0%} may be; {remedy}"
            )


def check_validation(reader: TextReader) -> None:
    """Refuses validation text without an example: its loss would be no number.

    Args:
      reader: of evaluation; batches are built up to the first example.
    """
    for step in range(reader.steps_per_epoch):
        reader.batch_at(step)
        if any(counts.examples for counts in reader.source_counts):
            return
    raise ValueError(
        "nothing of the validation text can be missing: each of its windows is a "
        "single sentence or token; raise data.validation_fraction or use more text"
    )
