"""What every tokenizer does, and what those of the `tokenizers` package share."""

from __future__ import annotations

import abc
import hashlib
import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import tokenizers

from etc_jax.base import registry
from etc_jax.data.tokenizers.finding import (
    FLAGS,
    NO_TEXT,
    Encoded,
    PackageEncoder,
    SegmentEncoder,
    WithOffsets,
)
from etc_jax.data.tokenizers.offsets import settled
from etc_jax.data.tokenizers.special_tokens import (
    ROLES,
    SpecialTokens,
    TokenIds,
    describe,
    longest_run,
    resolve,
)

# The field of a saved file with `Tokenizer.hub`.
HUB = "hugging_face"

# What values of another shape than expected lead to.
OF_BAD_JSON = (ValueError, KeyError, TypeError, AttributeError, IndexError)


class Tokenizer(abc.ABC):
    """Text to ids and back, over a fixed vocabulary.

    Special tokens never come out of text: "[MASK]" in a document is plain text, unless
    the tokenizer is one of `special_in_text.with_special_tokens`.

    Attributes:
      kind: name of the class in saved files; registered as a "tokenizer".
      special: where special tokens stand.
      hub: what a folder of Hugging Face says beside what ids of a text depend on, to
        be written back: see `hub_tokenizer`. Empty for all others.
    """

    kind: ClassVar[str]
    hub: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self,
        pieces: Sequence[str],
        special: SpecialTokens,
        *,
        never_text: np.ndarray | None = None,
    ):
        """Takes the vocabulary.

        Args:
          pieces: in the order of ids.
          special: where special tokens stand.
          never_text: bool `[vocab_size]`, ids that do not stand for text beside the
            reserved pieces of `special`.

        Raises:
          ValueError: if there is no piece, or one stands there twice.
        """
        self._pieces = list(pieces)
        self.special = special
        # A piece has one id, or decoding and encoding would disagree.
        different = len(set(self._pieces))
        if not different or different < len(self._pieces):
            raise ValueError(
                f"vocabulary of {len(self._pieces)} pieces, {different} of them "
                "different; expected at least one, and each once"
            )
        regular = ~np.array([special.is_reserved(p) for p in self._pieces])
        if never_text is not None:
            regular &= ~never_text
        self._regular_ids = longest_run(regular)
        self._roles = resolve(special, self._pieces)

    @property
    def vocab_size(self) -> int:
        return len(self._pieces)

    @property
    def id_dtype(self) -> np.dtype:
        """The smallest unsigned type that holds every id and is stored compactly."""
        return np.dtype(np.uint16 if self.vocab_size <= 2**16 else np.uint32)

    @property
    def regular_ids(self) -> tuple[int, int]:
        """(first, one past last) of the ids that stand for text; see `longest_run`."""
        return self._regular_ids

    @property
    def token_ids(self) -> TokenIds:
        """What building pre-training examples needs.

        Raises:
          ValueError: naming the special tokens that the vocabulary lacks.
        """
        roles = ("pad", "sentence", "cpc_mask", "mask")
        missing = [describe(self.special, r) for r in roles if r not in self._roles]
        if missing:
            raise ValueError(
                f"this {self.kind} vocabulary of {self.vocab_size} pieces lacks: "
                f"{', '.join(missing)}; pre-training needs a vocabulary that has them"
            )
        return TokenIds(
            **{role: self._roles[role] for role in roles},
            regular_ids=self._regular_ids,
            vocab_size=self.vocab_size,
        )

    def special_id(self, role: str) -> int:
        """The id of a special token; roles are the fields of `SpecialTokens`.

        Raises:
          ValueError: if there is no such role, or the vocabulary lacks its token.
        """
        if role not in ROLES:
            raise ValueError(f"no special token {role!r}; there are {', '.join(ROLES)}")
        if role not in self._roles:
            raise ValueError(
                f"this {self.kind} vocabulary of {self.vocab_size} pieces lacks "
                f"{describe(self.special, role)}; use a vocabulary that has it"
            )
        return self._roles[role]

    @property
    def added_ids(self) -> dict[str, int]:
        """Ids of tokens that were added to the vocabulary; see `grown_tokenizer`."""
        return {}

    @abc.abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[Encoded]:
        """(ids `[t]`, word starts bool `[t]`) of each text, without special tokens.

        A word start is the first piece of a word, for whole-word masking. The first
        piece of a text is one.

        Raises:
          ValueError: see `encoded_by`.
        """

    def encode_with_offsets(self, texts: Sequence[str]) -> list[WithOffsets]:
        """(ids as of `encode_batch`, offsets) of each text.

        The offsets of a piece are the (first, one past the last) character of the text
        that it stands for, without white space around, unless the piece is nothing
        else. They go forward. A character that becomes several pieces belongs to each.
        Of those that the tokenizer drops, accents and other marks belong to the piece
        of the character before them, all others to none.

        Raises:
          ValueError: if the pieces of a text do not spell it; see `encoded_by`.
        """
        encoded = self._with_raw_offsets(texts)
        return [
            (ids, settled(text, offsets))
            for text, (ids, offsets) in zip(texts, encoded, strict=True)
        ]

    @abc.abstractmethod
    def _with_raw_offsets(self, texts: Sequence[str]) -> list[WithOffsets]:
        """As `encode_with_offsets`, with offsets that are not settled yet."""

    def encoder_of(
        self, matched: Sequence[Mapping[str, Any]], added: Sequence[str]
    ) -> SegmentEncoder | PackageEncoder:
        """What encodes texts as this tokenizer does, and finds tokens in them.

        Args:
          matched: what texts are searched for, as a tokenizer.json lists tokens:
            `content`, of the vocabulary or of `added`, and `finding.FLAGS`.
          added: tokens after the vocabulary, in the order of their ids.
        """
        ids = {piece: i for i, piece in enumerate([*self._pieces, *added])}
        return SegmentEncoder(self, {ids[x["content"]]: x for x in matched})

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids, with special tokens spelled out.

        Raises:
          ValueError: if an id is outside of the vocabulary.
        """
        return self._decode(self._checked(ids))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The pieces of some ids as the vocabulary spells them, to be shown.

        Raises:
          ValueError: if an id is outside of the vocabulary.
        """
        return [self._pieces[i] for i in self._checked(ids)]

    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of everything that ids of a text depend on."""
        facts = {"kind": self.kind, **self._facts()}
        text = json.dumps(facts, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    def save(self, path: str | os.PathLike) -> None:
        """Writes one file, whatever its name, that `load` reads."""
        pathlib.Path(path).write_bytes(self.saved())

    def saved(self) -> bytes:
        """The JSON that `save` writes."""
        values = self._values()
        if self.hub:
            values[HUB] = dict(self.hub)
        return json.dumps(values, indent=1).encode("ascii")

    @classmethod
    def load(cls, path: str | os.PathLike) -> Tokenizer:
        """Reads what `save` wrote: a tokenizer of the class that it was.

        Raises:
          ValueError: if the file is not one.
          OSError: if it cannot be read.
        """
        return cls.from_bytes(pathlib.Path(path).read_bytes(), os.fspath(path))

    @classmethod
    def from_bytes(cls, saved: bytes, name: str) -> Tokenizer:
        """As `load`, of what is in a file.

        Args:
          saved: of it.
          name: of the file, for the error.

        Raises:
          ValueError: if it is no tokenizer.
        """
        try:
            loaded = cls.from_json(json.loads(saved))
        except (*OF_BAD_JSON, RecursionError) as e:
            raise ValueError(
                f"{name} is not a tokenizer saved by etc_jax ({e}); train it again, or "
                "give the standard files: vocab.txt, vocab.json with merges.txt, or a "
                "sentencepiece .model"
            ) from e
        if not isinstance(loaded, cls):
            raise ValueError(f"{name} is a {loaded.kind} tokenizer, not a {cls.kind}")
        return loaded

    @staticmethod
    def from_json(saved: dict[str, Any]) -> Tokenizer:
        """The tokenizer of a saved file's JSON, of any kind.

        Raises:
          ValueError, KeyError, TypeError: if it is none.
        """
        saved = dict(saved)
        hub = saved.pop(HUB, {})
        kind = saved["kind"] if "kind" in saved else saved["model"]["type"]
        loaded = registry.lookup("tokenizer", kind)._from_saved(saved)
        loaded.hub = dict(hub)
        return loaded

    @abc.abstractmethod
    def _decode(self, ids: list[int]) -> str:
        """The text of ids that are all in the vocabulary."""

    @abc.abstractmethod
    def _values(self) -> dict[str, Any]:
        """What a saved file holds, as JSON values."""

    @abc.abstractmethod
    def _facts(self) -> dict[str, Any]:
        """What ids depend on, as JSON values."""

    @classmethod
    @abc.abstractmethod
    def _from_saved(cls, saved: dict[str, Any]) -> Tokenizer:
        """The tokenizer of a saved file's JSON, of this kind."""

    def _checked(self, ids: Iterable[int]) -> list[int]:
        ids = [int(i) for i in ids]
        if wrong := [i for i in ids if not 0 <= i < self.vocab_size]:
            raise ValueError(
                f"id {wrong[0]} is outside of this {self.kind} vocabulary of "
                f"{self.vocab_size} pieces; the ids are of another tokenizer"
            )
        return ids


class PackageTokenizer(Tokenizer):
    """A tokenizer that the `tokenizers` package runs, saved in the package's format."""

    _tokenizer: tokenizers.Tokenizer  # set by subclasses

    def _values(self) -> dict[str, Any]:
        """The JSON of the `tokenizers` package."""
        return json.loads(self._tokenizer.to_str())

    def encode_batch(self, texts: Sequence[str]) -> list[Encoded]:
        encoded = PackageEncoder(self._encoder).encode_batch(texts)
        return [(ids.astype(self.id_dtype), starts) for ids, starts in encoded]

    def _with_raw_offsets(self, texts: Sequence[str]) -> list[WithOffsets]:
        return PackageEncoder(self._encoder).encode_with_offsets(texts)

    @property
    def _encoder(self) -> tokenizers.Tokenizer:
        """What encodes texts: special tokens are plain text to it."""
        return self._tokenizer

    def encoder_of(
        self, matched: Sequence[Mapping[str, Any]], added: Sequence[str]
    ) -> PackageEncoder:
        wanted = {token["content"]: token for token in matched}
        # Special tokens are found by their spelling in the vocabulary.
        special = any(map(self.special.is_reserved, wanted))
        base = self._tokenizer if special else self._encoder
        flags = dict.fromkeys(FLAGS, False)
        # The others keep their ids under names that no text has.
        rest = [wanted.pop(x, {"content": NO_TEXT + x, **flags}) for x in added]
        ids = {piece: i for i, piece in enumerate([*self._pieces, *added])}
        tokens = [
            {**x, "id": ids[x["content"].removeprefix(NO_TEXT)], "special": False}
            for x in [*wanted.values(), *rest]
        ]
        described = json.loads(base.to_str()) | {"added_tokens": tokens}
        return PackageEncoder(tokenizers.Tokenizer.from_str(json.dumps(described)))

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=False)

    @classmethod
    def _from_saved(cls, saved: dict[str, Any]) -> Tokenizer:
        # As the installed version writes it: older files lack newer fields.
        saved = json.loads(from_description(saved).to_str())
        loaded = cls._from_package(saved)
        ours = json.loads(loaded._tokenizer.to_str())
        if differing := sorted(k for k in saved | ours if saved.get(k) != ours.get(k)):
            names = ", ".join(differing)
            raise ValueError(f"it has another {names} than etc_jax writes")
        return loaded

    @classmethod
    @abc.abstractmethod
    def _from_package(cls, saved: dict[str, Any]) -> PackageTokenizer:
        """The tokenizer of the package's JSON, so far as this class knows it."""


def from_description(description: dict[str, Any]) -> tokenizers.Tokenizer:
    """The package's tokenizer of its JSON.

    Raises:
      ValueError: if it is none.
    """
    try:
        return tokenizers.Tokenizer.from_str(json.dumps(description))
    except Exception as error:  # the package raises bare Exception for a bad file
        reason = repr(str(error))[:200]  # it quotes the file
        raise ValueError(f"the tokenizers package cannot read it: {reason}") from error
