"""The config sections of the objectives that learn no data set."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, Literal

from etc_jax.base import registry
from etc_jax.base.rules import Problem, at_least, number
from etc_jax.config.sections import DataConfig, ObjectiveConfig, RegularisedConfig
from etc_jax.data.pretraining.denoising import SpanLengths, Spans
from etc_jax.generation.options import GenerationConfig


@registry.register("objective_config", "mlm_cpc")
@dataclasses.dataclass(frozen=True)
class MlmCpcConfig(ObjectiveConfig):
    """Pre-training of ETC: masked words plus contrastive sentences (paper, 3.5).

    Attributes:
      mlm_weight, cpc_weight: of the two losses. A `cpc_weight` of 0 masks no sentence.
      similarity: of CPC predictions and targets; the paper leaves it open. "cosine" has
        a learned temperature.
      exclude_same_document: sentences of the same document are no negatives for each
        other; the paper names within-batch negatives and no exception.
    """

    reads: ClassVar[tuple[str, ...]] = ("text",)
    lengths: ClassVar[tuple[str, ...]] = ("long_length", "global_length")
    hub_task = "fill-mask"

    name: str = "mlm_cpc"
    mlm_weight: float = 0.8
    cpc_weight: float = 0.2
    similarity: Literal["cosine", "dot"] = "cosine"
    exclude_same_document: bool = False

    def problems(self) -> Iterator[Problem]:
        yield from at_least(0).problems(self, "mlm_weight", "cpc_weight")
        if self.mlm_weight == 0 and self.cpc_weight == 0:
            yield "mlm_weight", "and cpc_weight are both 0; nothing would be learnt"

    def problems_with(self, data: DataConfig) -> Iterator[Problem]:
        yield from super().problems_with(data)
        blocks = getattr(data, "global_tokens", None) == "fixed_blocks"
        if blocks and self.cpc_weight:
            yield (
                "data.global_tokens",
                "is 'fixed_blocks', but CPC masks sentences; set "
                "objective.cpc_weight=0 or data.global_tokens='sentences'",
            )
        if getattr(data, "packing", None) == "concatenated":
            yield (
                "data.packing",
                "is 'concatenated', which cuts sentences and documents anywhere, but "
                "mlm_cpc has a global token for each sentence; set "
                "data.packing='best_fit'",
            )


@registry.register("objective_config", "masked_lm")
@dataclasses.dataclass(frozen=True)
class MaskedLmConfig(ObjectiveConfig):
    """Masked tokens of one sequence, of bytes or of text."""

    reads: ClassVar[tuple[str, ...]] = ("bytes", "text")
    lengths: ClassVar[tuple[str, ...]] = ("input_length",)
    hub_task = "fill-mask"

    name: str = "masked_lm"


@dataclasses.dataclass(frozen=True)
class WrittenConfig(RegularisedConfig):
    """Texts that an encoder-decoder learns to write.

    As dropout, smoothing and z-loss are of training alone: an evaluation gives the
    plain cross entropy.

    Attributes:
      label_smoothing: share of a target that all tokens of the vocabulary get; BART is
        fine-tuned with 0.1.
      z_loss: weight of the squared logarithm of the normaliser; T5X has 1e-4.
      global_tokens: so many first places of each input are global, padding among them
        excepted: 1 for LED, whose first token is <s>; the prefix_length of inputs whose
        prefix has places of its own, for the tokens of a question; 0 for models without
        global tokens.
    """

    label_smoothing: float = 0.0
    z_loss: float = 0.0
    global_tokens: int = 0

    def problems(self) -> Iterator[Problem]:
        yield from number(0, 1, "[)").problems(self, "label_smoothing")
        yield from at_least(0).problems(self, "z_loss", "global_tokens")


@dataclasses.dataclass(frozen=True)
class TextToTextConfig(WrittenConfig):
    """A data set of texts to be written, by an encoder-decoder.

    Attributes:
      generation: how an evaluation writes them.
    """

    reads: ClassVar[tuple[str, ...]] = ("windows",)

    generation: GenerationConfig = GenerationConfig()

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        for name, only in (("temperature", 0), ("num_texts", 1)):
            value = getattr(self.generation, name)
            if value not in (None, only):
                yield (
                    f"generation.{name}",
                    f"is {value}, but an evaluation writes the likeliest text, and one "
                    "alone; leave it out",
                )


@registry.register("objective_config", "seq2seq")
@dataclasses.dataclass(frozen=True)
class Seq2SeqConfig(WrittenConfig):
    """One's own pairs of texts, with an encoder-decoder.

    Attributes:
      packed: several pairs share a row, where they have room and do not see each other;
        False: a row has one pair.
    """

    reads: ClassVar[tuple[str, ...]] = ("pairs",)
    lengths: ClassVar[tuple[str, ...]] = (
        "input_length",
        "target_length",
        "global_length",
    )

    name: str = "seq2seq"
    packed: bool = True


@dataclasses.dataclass(frozen=True)
class MissingTextConfig(WrittenConfig):
    """Text with something missing, and what was there, with an encoder-decoder.

    Attributes:
      share: of the tokens, or of the sentences, that are missing: 1,024 of 16,384 in
        BART-LS, 0.15 in T5, 0.3 in BART, and of sentences 0.3 in Pegasus.
      span_lengths: "fixed": of one mean; "mixed": each text has one of several means;
        "poisson": each span is drawn alone.
      mean_span_length: tokens; 3 in T5 and BART, 5 in table 3 of BART-LS.
      mixed_span_lengths: the means of "mixed": those of BART-LS' code.
      begin_token: texts begin with the first token of the vocabulary, such as <s>.
    """

    reads: ClassVar[tuple[str, ...]] = ("text",)
    lengths: ClassVar[tuple[str, ...]] = ("input_length", "target_length")

    share: float = 0.0625
    span_lengths: SpanLengths = "fixed"
    mean_span_length: float = 3.0
    mixed_span_lengths: tuple[float, ...] = (4.0, 8.0, 12.0)
    begin_token: bool = False

    @property
    def spans(self) -> Spans:
        """Which spans are missing."""
        return Spans(
            self.share,
            self.span_lengths,
            self.mean_span_length,
            self.mixed_span_lengths,
        )

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        yield from number(0, 1, "()").problems(self, "share")
        yield from at_least(1).problems(self, "mean_span_length")
        if not self.mixed_span_lengths or min(self.mixed_span_lengths) < 1:
            yield (
                "mixed_span_lengths",
                f"are {self.mixed_span_lengths}; expected one or more, each 1 or more",
            )
        if self.global_tokens:
            yield (
                "global_tokens",
                f"is {self.global_tokens}, but rows of this objective have none; leave "
                "it out",
            )


@registry.register("objective_config", "denoising")
@dataclasses.dataclass(frozen=True)
class DenoisingConfig(MissingTextConfig):
    """Text whose missing parts are drawn at random, or chosen by ROUGE.

    Attributes:
      kind: "spans" (T5, BART-LS), "infilling" (BART) or "gap_sentences" (Pegasus).
      permute_sentences: of infilling: sentences are read in a random order.
      gap_choice: which sentences are missing: "independent", "sequential", "random" or
        "lead"; see `data.pretraining.denoising.choose_sentences`.
      unique_tokens: ROUGE counts a token once in a sentence.
    """

    name: str = "denoising"
    kind: Literal["spans", "infilling", "gap_sentences"] = "spans"
    permute_sentences: bool = True
    gap_choice: Literal["independent", "sequential", "random", "lead"] = "independent"
    unique_tokens: bool = True


@registry.register("objective_config", "causal_lm")
@dataclasses.dataclass(frozen=True)
class CausalLmConfig(ObjectiveConfig):
    """A language model."""

    reads: ClassVar[tuple[str, ...]] = ("text", "bytes", "images", "symbols")
    lengths: ClassVar[tuple[str, ...]] = ("input_length",)
    hub_task = "text-generation"

    name: str = "causal_lm"
