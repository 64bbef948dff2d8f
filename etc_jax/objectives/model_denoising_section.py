"""The config section of model-based denoising, with that of its generator."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from etc_jax.base import registry
from etc_jax.base.rules import Problem, at_least, number
from etc_jax.config.sections import DataConfig, Helper
from etc_jax.data.pretraining.denoising import Spans
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.objectives.masked_lm import MODELS
from etc_jax.objectives.sections import MissingTextConfig

# What BERT and its kin have beside their masked language models.
_UNREAD = ("encoder/pooler", "next_sentence")


@registry.register("objective_config", "model_denoising")
@dataclasses.dataclass(frozen=True)
class ModelDenoisingConfig(MissingTextConfig):
    """Text whose missing spans are those that a masked language model predicts worst.

    Candidate spans have `share / kept_share` of the tokens. Of each text's candidates,
    those with the highest mean loss of the model, the generator, are missing (Xiong et
    al. 2022, section 2.3).

    Attributes:
      kept_share: share of a text's candidate spans that is missing.
      generator_weight: weight of the generator's own loss. 0: the generator is frozen.
      generator_family: a family that registers a "masked_lm_model".
      generator: config of the generator, of the dataclass of its family.
      generator_init_from: the folder that the generator's parameters start from; see
        `checkpoint.init_from`, from which the encoder-decoder starts. A frozen
        generator needs one.
    """

    name: str = "model_denoising"
    kept_share: float = 0.2
    generator_weight: float = 1.0
    generator_family: str = "longformer"
    generator: Any = LongformerConfig()
    generator_init_from: str | None = None

    @classmethod
    def sections_by_name(cls, values: Mapping[str, Any]) -> dict[str, type]:
        """See `config.fields.build`; {} where the family is none."""
        family = values.get("generator_family", cls.generator_family)
        if registry.problem("model_config", family):
            return {}
        return {"generator": registry.lookup("model_config", family)}

    @property
    def candidates(self) -> Spans:
        """Which spans may be missing."""
        return dataclasses.replace(self.spans, density=self.share / self.kept_share)

    @property
    def helpers(self) -> tuple[Helper, ...]:
        """The generator."""
        return (
            Helper(
                "generator",
                self.generator_family,
                self.generator,
                self.generator_init_from,
                frozen=self.generator_weight == 0,
                unread=_UNREAD,
            ),
        )

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        yield from at_least(0).problems(self, "generator_weight")
        yield from number(0, 1, "()").problems(self, "kept_share")
        if 0 < self.kept_share <= self.share:
            yield (
                "kept_share",
                f"is {self.kept_share}, but the candidates are share / kept_share = "
                f"{self.share / self.kept_share:g} of the tokens; make it more than "
                f"share = {self.share}",
            )
        if self.generator_weight == 0 and self.generator_init_from is None:
            yield (
                "generator_init_from",
                "is not given, but with objective.generator_weight = 0 the generator "
                "is not trained; name the folder of a trained one, or raise "
                "generator_weight",
            )
        yield from self._generator_problems()

    def _generator_problems(self) -> Iterator[Problem]:
        family = self.generator_family
        if problem := registry.problem(MODELS, family):
            yield "generator_family", problem
        elif type(self.generator) is not registry.lookup("model_config", family):
            yield (
                "generator",
                f"is a {type(self.generator).__name__}, but generator_family is "
                f"{family!r}; give the fields of that family",
            )
        elif getattr(self.generator, "causal", False):
            yield (
                "generator",
                "has causal=True, but it predicts masked tokens from both sides; set "
                "objective.generator.causal=False",
            )

    def problems_with(self, data: DataConfig) -> Iterator[Problem]:
        yield from super().problems_with(data)
        limits = ("vocab_size", self.generator.vocab_size), self.generator.input_limit
        for (field, size), other in zip(
            limits, ("vocab_size", "input_length"), strict=True
        ):
            least = getattr(data, other)
            if size is not None and size < least:
                yield (
                    f"objective.generator.{field}",
                    f"is {size}, less than data.{other} = {least}; raise it to that or "
                    "more",
                )
