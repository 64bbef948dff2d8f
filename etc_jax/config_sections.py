"""The sections of a config: their fields, defaults and what each field may be."""

import dataclasses
import itertools
import re
from collections.abc import Iterator
from typing import Literal

from etc_jax import registry
from etc_jax.config_fields import Problem, at_least, between, suggestion


def registered(kind: str, name: str) -> Iterator[Problem]:
    """The problem of a name that nothing is registered under."""
    try:
        registry.lookup(kind, name)
    except KeyError:
        known = list(registry.names(kind))
        yield "name", f"no {kind} named {name!r}; {suggestion(name, known)}"


@dataclasses.dataclass(frozen=True)
class ObjectiveConfig:
    """What is learnt: masked words plus contrastive sentences, or a task.

    Attributes:
      name: "mlm_cpc", pre-training (paper, section 3.5); the name of a task,
        fine-tuning (appendix C): "hotpotqa", "natural_questions", "openkp", "wikihop",
        or one of `objectives/encoder_finetuning.py` and `encoder_multihop.py`;
        "causal_lm", a language model; "masked_lm", masked tokens of a flat sequence.
      mlm_weight, cpc_weight: of the two losses. A `cpc_weight` of 0 masks no sentence.
      similarity: of CPC predictions and targets; the paper leaves it open. "cosine" has
        a learned temperature.
      exclude_same_document: sentences of the same document are no negatives for each
        other; the paper names within-batch negatives and no exception.
      final_layer: of WikiHop: one more feed-forward block before the logits.
      label_smoothing: of WikiHop: share of the target spread over all candidates.
      keyphrase_loss: of OpenKP: which occurrence of a keyphrase is learnt, the "first"
        or the "best" rated one, the paper's max loss.
      visual_features: of OpenKP: the model is told what elements look like.
      span_tokens: of coreference: those of the longest span that may be a mention. This
        and what follows is for coreference alone, and by default as in Joshi et al.
        2019.
      part_length: tokens that the encoder reads at once; 0: the whole text.
      singletons: what is mentioned once is an entity, and is learnt as one.
      ffnn_dim, head_dropout_rate: hidden width of the scores of spans and pairs, and
        dropout there.
      top_ratio: spans that are kept for each word.
      max_antecedents: of a kept span that get the full score.
    """

    name: str = "mlm_cpc"
    mlm_weight: float = 0.8
    cpc_weight: float = 0.2
    similarity: Literal["cosine", "dot"] = "cosine"
    exclude_same_document: bool = False
    final_layer: bool = True
    label_smoothing: float = 0.0
    keyphrase_loss: Literal["first", "best"] = "first"
    visual_features: bool = True
    span_tokens: int = 30
    part_length: int = 0
    singletons: bool = False
    ffnn_dim: int = 3000
    head_dropout_rate: float = 0.3
    top_ratio: float = 0.4
    max_antecedents: int = 50

    def problems(self) -> Iterator[Problem]:
        yield from registered("objective", self.name)
        yield from at_least(self, 0, "mlm_weight", "cpc_weight")
        if self.mlm_weight == 0 and self.cpc_weight == 0:
            yield "mlm_weight", "and cpc_weight are both 0; nothing would be learnt"
        if not 0 <= self.label_smoothing < 1:
            yield (
                "label_smoothing",
                f"is {self.label_smoothing}; expected 0 <= label_smoothing < 1",
            )
        yield from at_least(self, 1, "span_tokens", "ffnn_dim", "max_antecedents")
        yield from at_least(self, 0, "part_length")
        if not 0 <= self.head_dropout_rate < 1:
            yield "head_dropout_rate", f"is {self.head_dropout_rate}; expected 0 to 1"
        if self.top_ratio <= 0:
            yield "top_ratio", f"is {self.top_ratio}; expected more than 0"
        yield from self._unused()

    def _unused(self) -> Iterator[Problem]:
        """A value that would be left out in silence."""
        if self.name not in _OWN_FIELDS:  # registered by another package
            return
        others = (fields for name, fields in _OWN_FIELDS.items() if name != self.name)
        for field in itertools.chain(*others):
            if getattr(self, field) != getattr(ObjectiveConfig, field):
                yield (
                    field,
                    f"is {getattr(self, field)!r}, but objective.name={self.name!r} "
                    "does not use it; leave it out",
                )


# Objective -> the fields that it alone uses.
_OWN_FIELDS = {
    "mlm_cpc": ("mlm_weight", "cpc_weight", "similarity", "exclude_same_document"),
    "causal_lm": (),
    "masked_lm": (),
    "coreference": (
        *("span_tokens", "part_length", "singletons", "ffnn_dim"),
        *("head_dropout_rate", "top_ratio", "max_antecedents"),
    ),
    "hotpotqa": (),
    "hyperpartisan": (),
    "imdb": (),
    "natural_questions": (),
    "openkp": ("keyphrase_loss", "visual_features"),
    "triviaqa": (),
    "wikihop": ("final_layer", "label_smoothing"),
}
# Objectives that learn a task, from its prepared inputs.
_PRETRAINING = ("mlm_cpc", "causal_lm", "masked_lm")
TASKS = tuple(n for n in _OWN_FIELDS if n not in _PRETRAINING)

# Sources of language models, whose examples have no sentences.
BYTE_SOURCES = ("bytes", "byte_images", "duplication")


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Where examples come from and how they are made.

    Attributes:
      source: "builtin": the documentation of Python itself; "text" and "jsonl": files;
        "cache": token caches that were exported before; "windows": caches of a task's
        inputs, by `python -m etc_jax.prepare`, for fine-tuning. For language models:
        "bytes" of any files, split by position; "byte_images", one `.npy` file of
        uint8; "duplication", invented sequences 0w0w.
      paths: of files, globs such as "books/*.jsonl.gz"; of caches, their folders.
      held_back_paths: files or caches for evaluation alone; without them a share of
        the documents is held back.
      held_back_files: for source "windows": official files of development data. With
        them each evaluation also answers all of their records and gives the official
        figures, as "official_joint_f1"; `checkpoint.best_metric` can be one of them.
      weights: how often each cache of `paths` is drawn from, for source "cache"; ():
        by their tokens.
      flat: for source "windows": without structure above sentences, the ablation of
        the paper's section 4.2.
      official_quirks: for source "windows": the data was prepared with the flag of
        that name, and evaluation must make its inputs so too.
      input_options: likewise the options of `etc_jax.prepare` that shape inputs, where
        they are not those by default, such as ("tokens_per_block=97", "flat=true").
      text_field: the field of a JSONL row that holds the text.
      document_per: "file" or "line"; what one document of a text file is.
      tokenizer: file or folder of a vocabulary; None: that of the caches, for other
        sources one that is trained on them.
      lower_case: for a WordPiece `vocab.txt`; None: as the vocabulary suggests.
      vocab_size: ids of the vocabulary, trained or given.
      cache_dir: folder of the token cache; None puts it into the workdir.
      export_workers: processes that tokenise; 0: this one.
      read_workers: processes that build batches; 0: threads of this one.
      global_tokens: "sentences": one a sentence; "fixed_blocks": one every
        `tokens_per_block` tokens, without CPC.
      tokens_per_block: 97 in the paper's ablation on Natural Questions.
      long_length, global_length: tokens of one example.
      min_sentences: documents with fewer are left out (paper, appendix C).
      max_sentence_tokens: longer sentences are cut.
      mlm_share: of the tokens that CPC leaves, masked for MLM.
      cpc_share: of the sentences, masked for CPC.
      mlm_capacity: places for masked tokens; None: from the lengths.
      cpc_long_length, cpc_global_length: room for masked sentences; None: likewise.
      held_back_fraction: share of the documents that is for evaluation alone; for
        source "bytes" of validation, and of test, which stands behind it.
      scored_length: for source "bytes": how many bytes of an evaluation's window count,
        the last ones, so that others stand before them; None: all.
    """

    source: Literal[
        "builtin",
        "text",
        "jsonl",
        "cache",
        "windows",
        "bytes",
        "byte_images",
        "duplication",
    ] = "builtin"
    paths: tuple[str, ...] = ()
    held_back_paths: tuple[str, ...] = ()
    held_back_files: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    flat: bool = False
    official_quirks: bool = False
    input_options: tuple[str, ...] = ()
    text_field: str = "text"
    document_per: Literal["file", "line"] = "file"
    tokenizer: str | None = None
    lower_case: bool | None = None
    vocab_size: int = 8192
    cache_dir: str | None = None
    export_workers: int = 0
    read_workers: int = 0
    global_tokens: Literal["sentences", "fixed_blocks"] = "sentences"
    tokens_per_block: int = 97
    long_length: int = 512
    global_length: int = 64
    min_sentences: int = 7
    max_sentence_tokens: int = 128
    mlm_share: float = 0.15
    cpc_share: float = 0.1
    mlm_capacity: int | None = None
    cpc_long_length: int | None = None
    cpc_global_length: int | None = None
    held_back_fraction: float = 0.05
    scored_length: int | None = None

    def problems(self) -> Iterator[Problem]:
        yield from at_least(
            self,
            1,
            "vocab_size",
            "tokens_per_block",
            "long_length",
            "global_length",
            "min_sentences",
            "max_sentence_tokens",
            "mlm_capacity",
            "cpc_long_length",
            "cpc_global_length",
        )
        yield from at_least(self, 0, "export_workers", "read_workers")
        yield from between(
            self, 0, 1, "held_back_fraction", "mlm_share", "cpc_share", open_ends=True
        )
        short = 1 <= self.long_length < self.max_sentence_tokens
        if short and self.source not in ("windows", *BYTE_SOURCES):
            yield (
                "max_sentence_tokens",
                f"is {self.max_sentence_tokens}, more than long_length = "
                f"{self.long_length}: such a sentence fits into no window; lower it",
            )
        yield from self._source_problems()

    def _source_problems(self) -> Iterator[Problem]:
        if self.source in ("builtin", "duplication"):
            for field in ("paths", "held_back_paths"):
                if getattr(self, field):
                    yield field, f"is given, but source {self.source!r} reads no files"
        elif not self.paths:
            yield "paths", f"is empty; name the files or folders of {self.source!r}"
        if self.source in ("cache", "windows") and not self.held_back_paths:
            yield "held_back_paths", "is empty; name a cache to evaluate on"
        if self.source == "byte_images":
            for field in ("paths", "held_back_paths"):
                if len(getattr(self, field)) != 1:
                    yield field, f"is {getattr(self, field)}; expected one .npy file"
        if self.source == "bytes" and self.held_back_paths:
            yield "held_back_paths", "is given, but source 'bytes' is split by position"
        if self.scored_length is not None and self.source != "bytes":
            yield "scored_length", f"is given, but source is {self.source!r}, not bytes"
        for field in ("flat", "official_quirks", "input_options", "held_back_files"):
            value = getattr(self, field)
            if value and self.source != "windows":
                yield field, f"is {value}, but source {self.source!r} does not use it"
        yield from self._option_problems()
        if not self.weights:
            return
        if self.source != "cache" or len(self.weights) != len(self.paths):
            yield (
                "weights",
                f"has {len(self.weights)} values; expected one for each of the "
                f"{len(self.paths)} folders in paths, and source 'cache'",
            )
        if min(self.weights) <= 0:
            yield "weights", f"is {self.weights}; expected numbers above 0"

    def _option_problems(self) -> Iterator[Problem]:
        names = []
        for text in self.input_options:
            name, sign, _ = text.partition("=")
            names.append(name)
            if not sign:
                yield "input_options", f"has {text!r}; expected NAME=VALUE"
        if len(set(names)) < len(names):
            yield "input_options", f"is {self.input_options}; name each option once"


@dataclasses.dataclass(frozen=True)
class AdafactorConfig:
    """What only Adafactor has (Shazeer & Stern 2018); the defaults are T5's.

    Attributes:
      decay_rate: update t keeps 1 - t ** -decay_rate of the second moments.
      clipping_threshold: of the root mean square of an update.
      multiply_by_parameter_scale: updates are relative to the size of a parameter.
      min_parameter_scale: in place of a smaller size (eps2 in the paper).
      momentum: share of the last update that is kept; 0: none, which saves its memory.
      min_dim_size_to_factor: matrices with fewer rows or columns keep all squares.
      eps: added to squared gradients (eps1 in the paper).
    """

    decay_rate: float = 0.8
    clipping_threshold: float = 1.0
    multiply_by_parameter_scale: bool = True
    min_parameter_scale: float = 1e-3
    momentum: float = 0.0
    min_dim_size_to_factor: int = 128
    eps: float = 1e-30

    def problems(self) -> Iterator[Problem]:
        yield from at_least(self, 1, "clipping_threshold", "min_dim_size_to_factor")
        for field in ("decay_rate", "min_parameter_scale", "eps"):
            if not getattr(self, field) > 0:
                yield field, f"is {getattr(self, field)}; expected more than 0"
        if not 0 <= self.momentum < 1:
            yield "momentum", f"is {self.momentum}; expected 0 <= momentum < 1"


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """How gradients become updates.

    Attributes:
      name: of the optimizer; see `training/optimizer.py`.
      learning_rate: the peak of the schedule.
      b1, b2, eps: decay of the two moments and what is added to the root, of all but
        Adafactor.
      weight_decay: of matrices and tables, times the learning rate.
      clip_norm: largest global norm of the gradient of all that is learnt.
      groups: (pattern, factor) rows: the learning rate of the parameters whose path
        ends so is the factor times that of the run; 0 freezes them. The first row that
        matches counts; see `training/optimizer_groups.py`.
      shard_state: split the optimizer's arrays over mesh axis data too (ZeRO, stage 1):
        less memory, the same updates. May change between a run and its continuation.
      adafactor: fields of that optimizer alone.
    """

    name: str = "adamw"
    learning_rate: float = 1e-3
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-6
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    groups: tuple[tuple[str, float], ...] = ()
    shard_state: bool = False
    adafactor: AdafactorConfig = AdafactorConfig()

    def problems(self) -> Iterator[Problem]:
        yield from registered("optimizer", self.name)
        yield from at_least(self, 0, "weight_decay")
        for field in ("learning_rate", "eps", "clip_norm"):
            if not getattr(self, field) > 0:
                yield field, f"is {getattr(self, field)}; expected more than 0"
        for field in ("b1", "b2"):
            if not 0 <= getattr(self, field) < 1:
                yield field, f"is {getattr(self, field)}; expected 0 <= {field} < 1"
        yield from self._group_problems()
        yield from self._unused()

    def _group_problems(self) -> Iterator[Problem]:
        for pattern, factor in self.groups:
            if not factor >= 0:
                yield "groups", f"gives {pattern!r} {factor}; expected 0 or more"
            try:
                re.compile(pattern)
            except re.error as error:
                yield "groups", f"has {pattern!r}, no regular expression: {error}"

    def _unused(self) -> Iterator[Problem]:
        """A value that would be left out in silence."""
        if self.name != "adafactor":
            if self.adafactor != AdafactorConfig():
                yield (
                    "adafactor",
                    f"is changed, but optimizer.name={self.name!r} does not use it; "
                    "choose 'adafactor', or leave the section out",
                )
            return
        for field in ("b1", "b2", "eps"):
            if getattr(self, field) != getattr(OptimizerConfig, field):
                yield (
                    field,
                    f"is {getattr(self, field)}, but 'adafactor' does not use it; set "
                    "optimizer.adafactor.decay_rate, momentum or eps",
                )


# The schedules that have an exponent and an end.
_POLYNOMIALS = ("polynomial", "polynomial_bert")


@dataclasses.dataclass(frozen=True)
class ScheduleConfig:
    """How the learning rate moves; see `training/schedule.py` for the names.

    Attributes:
      name: of the schedule.
      warmup_steps: updates from 0 up to the peak, which is `optimizer.learning_rate`.
      power: exponent of a polynomial schedule.
      end_value: learning rate at the last step of a polynomial schedule.
    """

    name: str = "linear"
    warmup_steps: int = 0
    power: float = 1.0
    end_value: float = 0.0

    def problems(self) -> Iterator[Problem]:
        yield from registered("schedule", self.name)
        yield from at_least(self, 0, "warmup_steps", "end_value")
        if not self.power > 0:
            yield "power", f"is {self.power}; expected more than 0"
        if self.name in _POLYNOMIALS:
            return
        for field, unset in (("power", 1.0), ("end_value", 0.0)):
            if getattr(self, field) != unset:
                yield (
                    field,
                    f"is {getattr(self, field)}, but schedule.name={self.name!r} does "
                    f"not use it; choose one of {', '.join(_POLYNOMIALS)}",
                )


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """How long, how often, how much.

    Attributes:
      num_steps: optimizer steps of the whole run.
      batch_size: examples of one step, over all devices.
      accumulation_steps: microbatches that a step's batch is cut into, one after the
        other, to save memory. The gradient is the mean of theirs, so a loss that is a
        mean over something other than rows (masked tokens) weighs each microbatch
        alike, and negatives within a batch are those of the microbatch alone.
      seed: of parameters, dropout and data, in [0, 2**32).
      param_dtype: that matrices and tables are stored in; norms, biases and all of the
        optimizer stay in float32. With `model.dtype` it makes the precision policies
        float32 / float32, bfloat16 / float32 and bfloat16 / bfloat16 (computed /
        stored). The last halves what parameters and gradients take, and loses updates
        smaller than 1/512 of a weight: for short runs and little memory.
      eval_every_steps: evaluation also follows the last step.
      eval_steps: batches of one evaluation; None: all there are.
      max_nonfinite_steps: so many bad updates in a row end the run.
      prefetch_batches: batches built ahead.
      compile_cache_dir: XLA's persistent cache, which is code that runs as you; None:
        `compiled` in $ETC_JAX_CACHE_DIR, by default ~/.cache/etc_jax, which you alone
        can write to. Of several machines, one that all share: the first process alone
        writes.
      check_batches: batches that are looked at before anything is compiled.
      tensorboard: also write the metrics for TensorBoard (extra `tensorboard`).
      profile_start_step: updates before the profiler starts; None: no profile.
      profile_steps: updates that it watches; the trace is in `workdir/profile`.
    """

    num_steps: int = 1000
    batch_size: int = 8
    accumulation_steps: int = 1
    seed: int = 0
    param_dtype: Literal["float32", "bfloat16"] = "float32"
    log_every_steps: int = 50
    eval_every_steps: int = 500
    eval_steps: int | None = None
    max_nonfinite_steps: int = 10
    prefetch_batches: int = 2
    compile_cache_dir: str | None = None
    check_batches: int = 8
    tensorboard: bool = False
    profile_start_step: int | None = None
    profile_steps: int = 3

    def problems(self) -> Iterator[Problem]:
        yield from at_least(
            self,
            1,
            "num_steps",
            "batch_size",
            "accumulation_steps",
            "log_every_steps",
            "eval_every_steps",
            "eval_steps",
            "max_nonfinite_steps",
            "prefetch_batches",
            "check_batches",
            "profile_steps",
        )
        yield from at_least(self, 0, "profile_start_step")
        # jax.random.key keeps 32 bits: a larger seed would be another one in silence.
        if not 0 <= self.seed < 2**32:
            yield "seed", f"is {self.seed}; expected 0 <= seed < 2**32"


@dataclasses.dataclass(frozen=True)
class CheckpointConfig:
    """How often the state is saved, which saves stay, and what the first one is.

    Attributes:
      every_steps: a save also follows the last step.
      keep: so many of the newest stay.
      keep_every_steps: those of its multiples stay for ever; None: no others.
      keep_best: so many of the best stay as well.
      best_metric: what "best" is measured by: a figure of the evaluation.
      best_is: whether lower or higher is better.
      init_from: a run's folder (its newest checkpoint), the folder of one checkpoint,
        or one that `etc_jax.convert` wrote: the parameters start from there, with a
        fresh optimizer at step 0.
      init_from_only: parameters, or the beginnings of their paths, that are taken from
        there, such as "encoder"; all others start as without `init_from`. (): all.
      init_from_partial: parameters, or the beginnings of their paths, that are not
        taken from there: they start as without `init_from`, and what the checkpoint
        has under these paths is left. Without them both must have the same.
      init_from_changes: fields of the model that may differ from those of `init_from`,
        although no shape shows it, such as ("attention_window",) where windows grow
        from stage to stage, or "family", with what one of the two alone has. All others
        must agree, but those that their dataclass declares `sized` or `free`
        (`model_fields.py`).
    """

    every_steps: int = 500
    keep: int = 3
    keep_every_steps: int | None = None
    keep_best: int = 0
    best_metric: str = "loss"
    best_is: Literal["lowest", "highest"] = "lowest"
    init_from: str | None = None
    init_from_only: tuple[str, ...] = ()
    init_from_partial: tuple[str, ...] = ()
    init_from_changes: tuple[str, ...] = ()

    def most_kept(self, num_steps: int) -> int:
        """How many checkpoints a run of `num_steps` keeps at most."""
        for_ever = num_steps // self.keep_every_steps if self.keep_every_steps else 0
        return self.keep + self.keep_best + for_ever

    def kept_by(self) -> str:
        """The fields that keep checkpoints, with their values."""
        fields = ("keep", "keep_best", "keep_every_steps")
        given = [f for f in fields if getattr(self, f)]
        return ", ".join(f"checkpoint.{f} = {getattr(self, f)}" for f in given)

    def problems(self) -> Iterator[Problem]:
        yield from at_least(self, 1, "every_steps", "keep", "keep_every_steps")
        yield from at_least(self, 0, "keep_best")
        every, for_ever = self.every_steps, self.keep_every_steps
        if for_ever is not None and every >= 1 and for_ever % every:
            yield (
                "keep_every_steps",
                f"is {for_ever}, not a multiple of every_steps = {every}: no save "
                f"would be of such a step; use {max(every, for_ever // every * every)}",
            )
        for field in ("init_from_only", "init_from_partial", "init_from_changes"):
            if getattr(self, field) and self.init_from is None:
                yield (
                    field,
                    "is given, but init_from is not; name the checkpoint to start from",
                )
        if self.init_from_only and self.init_from_partial:
            yield "init_from_partial", "and init_from_only exclude each other"
