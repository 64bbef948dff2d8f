"""Tokenizers that the `tokenizers` package runs as a tokenizer.json describes them.

Of the kinds without a class of their own, as a Unigram with BERT's special tokens in a
folder that transformers 5 wrote.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import tokenizers

from etc_jax.base.registry import register
from etc_jax.data.tokenizers.base import PackageTokenizer, from_description
from etc_jax.data.tokenizers.finding import NO_TEXT
from etc_jax.data.tokenizers.special_tokens import SpecialTokens

# Parts of the package's JSON that ids of a text depend on.
PARTS = ("normalizer", "pre_tokenizer", "model")


@register("tokenizer", "packaged")
class PackagedTokenizer(PackageTokenizer):
    """A tokenizer of the package, less its search for special tokens in texts."""

    kind = "packaged"

    def __init__(self, description: dict[str, Any], special: SpecialTokens):
        """Takes the description.

        Args:
          description: the package's JSON; of it, normalizer, pre_tokenizer, model and
            decoder matter.
          special: where special tokens stand.

        Raises:
          ValueError: if it is none, or its ids are not 0, 1, 2, ...
        """
        self._description = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [],
            "post_processor": None,
            **{part: description.get(part) for part in (*PARTS, "decoder")},
        }
        super().__init__(pieces_of(description), special)
        self._tokenizer = from_description(self._description)
        self._of_texts = from_description(self._without_special_tokens())

    def _without_special_tokens(self) -> dict[str, Any]:
        """The description with other spellings of special tokens, as no text has."""
        other = copy.deepcopy(self._description)
        model = other["model"]

        def spelling(piece: str) -> str:
            return NO_TEXT + piece if self.special.is_reserved(piece) else piece

        if isinstance(model["vocab"], list):
            model["vocab"] = [[spelling(p), score] for p, score in model["vocab"]]
        else:
            model["vocab"] = {spelling(p): i for p, i in model["vocab"].items()}
        if isinstance(model.get("unk_token"), str):
            model["unk_token"] = spelling(model["unk_token"])
        return other

    @property
    def _encoder(self) -> tokenizers.Tokenizer:
        return self._of_texts

    def _values(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "special": dataclasses.asdict(self.special),
            "description": self._description,
        }

    def _facts(self) -> dict[str, Any]:
        parts = {part: self._description[part] for part in PARTS}
        return {**parts, "special": dataclasses.asdict(self.special)}

    @classmethod
    def _from_saved(cls, saved: dict[str, Any]) -> PackagedTokenizer:
        return cls(saved["description"], SpecialTokens(**saved["special"]))

    @classmethod
    def _from_package(cls, saved: dict[str, Any]) -> PackagedTokenizer:
        raise NotImplementedError("saved files of this kind name it")


def pieces_of(description: dict[str, Any]) -> list[str]:
    """The vocabulary of the package's JSON, in the order of ids.

    Raises:
      ValueError: if there is none, or its ids are not 0, 1, 2, ...
    """
    model = description.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, list) and vocabulary:
        pairs = [pair for pair in vocabulary if isinstance(pair, list | tuple) and pair]
        if len(pairs) == len(vocabulary) and all(isinstance(p[0], str) for p in pairs):
            return [pair[0] for pair in pairs]
    if isinstance(vocabulary, dict) and vocabulary:
        ids = list(vocabulary.values())
        if all(type(i) is int for i in ids) and sorted(ids) == list(range(len(ids))):
            return sorted(vocabulary, key=vocabulary.__getitem__)
    raise ValueError(
        "model.vocab is not a vocabulary of which each piece has one of the ids 0, 1, "
        "2, ..."
    )
