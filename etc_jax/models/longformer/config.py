"""Sizes and choices of Longformer."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from etc_jax.config.model_fields import sized
from etc_jax.layers.patterns.sliding_window import SlidingWindow
from etc_jax.layers.stack import run_of
from etc_jax.models.config_problems import window_problems
from etc_jax.models.roberta.config import RobertaConfig


@dataclasses.dataclass(frozen=True)
class LongformerConfig(RobertaConfig):
    """A Longformer (Beltagy et al. 2020): RoBERTa with windows and global tokens.

    Attributes:
      attention_window: keys that a token sees on both sides together, an even number,
        as Hugging Face counts (allenai's code counts one side); one for all layers, or
        one for each of a run of layers that is repeated, the last time as far as there
        are layers.
      attention_dilation: places from one key of a window to the next, for each layer of
        the run: a number, or one for each head. Empty: 1.
      causal: no key after the query.
      positions: "learnt", max_length rows of a table; "sinusoidal", sines that are
        added to the tokens, whose rows are multiplied by sqrt(embed_dim) then (Vaswani
        et al. 2017); "relative", causal windows with products of queries and maps of
        sines of offsets (Dai et al. 2019, section 3.3); "none", causal windows alone
        give the order. Without a table parameters fit any length: nothing is cut to
        max_length or refused for it.
      pre_norm: norms before the branches of a layer, and one after the last layer.
    """

    formats: ClassVar[tuple[str, ...]] = ("sequence", "text_to_text")
    position_kinds: ClassVar[tuple[str, ...]] = (
        "learnt",
        "sinusoidal",
        "relative",
        "none",
    )

    # The released models: 4096 positions, windows of 256 tokens to each side.
    max_length: int = 4096
    attention_window: tuple[int, ...] = (512,)
    attention_dilation: tuple[int | tuple[int, ...], ...] = ()
    causal: bool = False
    positions: str = "learnt"
    pre_norm: bool = sized(False)

    @property
    def token_scale(self) -> float:
        return self.embed_dim**0.5 if self.positions == "sinusoidal" else 1.0

    @property
    def text_globals(self) -> int:
        return 0 if self.causal else 1

    @property
    def patterns(self) -> tuple[SlidingWindow, ...]:
        steps = self.attention_dilation or (1,) * len(self.attention_window)
        relative = self.positions == "relative"
        windows = [
            # Both sides together -> one side.
            SlidingWindow(width // 2, step, self.causal, relative)
            for width, step in zip(self.attention_window, steps, strict=True)
        ]
        return run_of(windows, self.num_layers)

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from self._position_problems()
        yield from window_problems(self)
        run = len(self.attention_window)
        if self.attention_dilation and len(self.attention_dilation) != run:
            yield (
                "attention_dilation",
                f"is {self.attention_dilation}; expected one entry for each of the "
                f"{run} of attention_window",
            )
        for step in self.attention_dilation:
            steps = (step,) * self.num_heads if isinstance(step, int) else tuple(step)
            if len(steps) != self.num_heads or min(steps, default=0) < 1:
                yield (
                    "attention_dilation",
                    f"has {step!r}; expected a number of 1 or more, or one for each of "
                    f"the {self.num_heads} heads",
                )

    def _position_problems(self) -> Iterator[tuple[str, str]]:
        if self.positions in ("sinusoidal", "relative") and self.embed_dim % 2:
            yield (
                "embed_dim",
                f"is {self.embed_dim}; expected an even number: positions are "
                "pairs of a sine and a cosine",
            )
        if self.positions == "relative" and not self.causal:
            yield (
                "positions",
                "is 'relative', which causal windows alone have; set causal=True, or "
                "choose other positions",
            )
        if self.positions == "none" and not self.causal:
            yield (
                "positions",
                "is 'none', but a window that looks both ways does not tell the order "
                "of its tokens; set causal=True, or choose other positions",
            )
