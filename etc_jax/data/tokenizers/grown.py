"""A tokenizer with more tokens after its vocabulary.

No text is tokenised into them: the tokenizer below does not know them, so that "[q]" in
a document stays plain text and old ids stay. A task puts the new ids where its inputs
have them. Folders of Hugging Face may have others, words that were added after
training: these are found in texts, as the package `tokenizers` does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from etc_jax.base.registry import register
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.tokenizers.finding import Encoded, WithOffsets


@register("tokenizer", "grown")
class GrownTokenizer(Tokenizer):
    """A tokenizer and what was added to its vocabulary; see `grown`."""

    kind = "grown"

    def __init__(
        self,
        base: Tokenizer,
        added: Sequence[str],
        matched: Sequence[Mapping[str, Any]] = (),
    ):
        """Takes a tokenizer of another kind, and what is added to it.

        Args:
          base: the tokenizer.
          added: tokens in the order of their ids.
          matched: tokens of `added` or of the vocabulary that texts are searched for,
            as a tokenizer.json lists them: `content` and flags.

        Raises:
          ValueError: if a token stands there twice, or the vocabulary has it.
        """
        super().__init__([*base.pieces(range(base.vocab_size)), *added], base.special)
        # What was added stands for no text.
        self._regular_ids = base._regular_ids
        self.base, self._added = base, tuple(added)
        self.matched = tuple(map(dict, matched))
        self._encoder = (
            base.encoder_of(self.matched, self._added) if self.matched else base
        )

    @property
    def added_ids(self) -> dict[str, int]:
        return {token: self.base.vocab_size + i for i, token in enumerate(self._added)}

    def encode_batch(self, texts: Sequence[str]) -> list[Encoded]:
        encoded = self._encoder.encode_batch(texts)
        return [(ids.astype(self.id_dtype), starts) for ids, starts in encoded]

    def _with_raw_offsets(self, texts: Sequence[str]) -> list[WithOffsets]:
        return self._encoder.encode_with_offsets(texts)

    def _values(self) -> dict[str, Any]:
        base = json.loads(self.base.saved())
        values = {"kind": self.kind, "added": self._added, "base": base}
        return values | ({"found": self.matched} if self.matched else {})

    def _decode(self, ids: list[int]) -> str:
        parts, start = [], 0
        for i, number in enumerate([*ids, self.base.vocab_size]):
            if number < self.base.vocab_size:
                continue
            if start < i:
                parts.append(self.base.decode(ids[start:i]))
            parts += self.pieces(ids[i : i + 1])
            start = i + 1
        return " ".join(parts)

    def _facts(self) -> dict[str, Any]:
        facts = {"added": self._added, "base": self.base.fingerprint()}
        return facts | ({"found": self.matched} if self.matched else {})

    @classmethod
    def _from_saved(cls, saved: dict[str, Any]) -> GrownTokenizer:
        base = Tokenizer.from_json(saved["base"])
        return cls(base, saved["added"], saved.get("found", ()))


def grown(tokenizer: Tokenizer, tokens: Sequence[str]) -> GrownTokenizer:
    """The tokenizer with more tokens after those that it has.

    Raises:
      ValueError: if there is no token to add, one is blank, has white space or stands
        there twice, or the vocabulary has it.
    """
    _check(tokens, tokenizer)
    if isinstance(tokenizer, GrownTokenizer):
        added = (*tokenizer.added_ids, *tokens)
        return GrownTokenizer(tokenizer.base, added, tokenizer.matched)
    return GrownTokenizer(tokenizer, tokens)


def _check(tokens: Sequence[str], tokenizer: Tokenizer) -> None:
    if not tokens:
        raise ValueError("no token to add to the vocabulary; name one or more")
    for token in tokens:
        if not token or any(map(str.isspace, token)):
            raise ValueError(
                f"token {token!r} is blank or has white space; expected a name such as "
                "[q]"
            )
    if len(set(tokens)) < len(tokens):
        raise ValueError(f"tokens {', '.join(tokens)}: name each once")
    vocabulary = set(tokenizer.pieces(range(tokenizer.vocab_size)))
    if present := [token for token in tokens if token in vocabulary]:
        raise ValueError(
            f"the vocabulary of {len(vocabulary)} pieces has {', '.join(present)} "
            "already; leave that out, or choose another name"
        )
