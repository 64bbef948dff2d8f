"""Tokenizers in folders of Hugging Face, as transformers 5 reads them.

tokenizer_config.json, or else the model_type of config.json, names the class of
transformers that reads a folder. The class decides what of the other files counts:

    BertTokenizer                       the vocabulary alone, with the options of
                                        tokenizer_config.json
    RobertaTokenizer, LongformerTokenizer,
    BartTokenizer, LEDTokenizer         vocabulary and merges alone, with the same
    T5Tokenizer                         the sentencepiece model, with sentinels after
                                        its pieces
    XLMRobertaTokenizer                 pieces and normalisation alone: of
                                        tokenizer.json, or of the sentencepiece model,
                                        after fairseq's special tokens
    others with a sentencepiece model   the model, as sentencepiece reads it
    others                              all of tokenizer.json

What else the folder says goes along as `Tokenizer.hub` and is written back by
`hub_writing`. Special tokens never come out of text here, which transformers does with
split_special_tokens=True; `special_in_text` has its default.
"""

from __future__ import annotations

import base64
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from etc_jax.base import registry
from etc_jax.data.tokenizers.added_tokens import (
    added_tokens,
    content,
    with_sentinels,
)
from etc_jax.data.tokenizers.base import (
    HUB,
    OF_BAD_JSON,
    Tokenizer,
    from_description,
)
from etc_jax.data.tokenizers.byte_bpe import ByteBpeTokenizer, read_merges, read_pieces
from etc_jax.data.tokenizers.finding import FLAGS
from etc_jax.data.tokenizers.grown import GrownTokenizer
from etc_jax.data.tokenizers.packaged import (
    PARTS,
    PackagedTokenizer,
    pieces_of,
)
from etc_jax.data.tokenizers.sentence_pieces import (
    SentencePieceTokenizer,
    read_unigram,
)
from etc_jax.data.tokenizers.special_tokens import (
    BYTE_LEVEL,
    SENTENCEPIECE,
    SENTENCEPIECE_OF_BERT,
    WORDPIECE,
    SpecialTokens,
)
from etc_jax.data.tokenizers.wordpiece import UNKNOWN, WordPieceTokenizer

TOKENIZER = "tokenizer.json"
CONFIG = "tokenizer_config.json"
MODEL_CONFIG = "config.json"
VOCAB_TXT, VOCAB_JSON, MERGES = "vocab.txt", "vocab.json", "merges.txt"
_ADDED = "added_tokens.json"
_BERT = ("BertTokenizer",)
_BYTE_LEVEL = tuple(
    f"{name}Tokenizer" for name in "Roberta Longformer Bart LED".split()
)
_T5 = ("T5Tokenizer",)
_XLM_ROBERTA = ("XLMRobertaTokenizer",)
# transformers' own: longer words are unknown. The official code of BERT has 200.
_MAX_WORD_CHARS = 100
# Parts of a tokenizer.json that ids of a text do not depend on.
_BESIDE = ("post_processor", "decoder", "truncation", "padding")
_SPECIAL = (SENTENCEPIECE_OF_BERT, WORDPIECE, BYTE_LEVEL, SENTENCEPIECE)

_LONGEST = 300


class InexpressibleError(ValueError):
    """The folder has a tokenizer, but none that can be kept."""


def is_hub_folder(folder: pathlib.Path) -> bool:
    """Whether the vocabulary of a folder is to be read as transformers does.

    A folder with a bare vocabulary is read as the official code of its model does.
    """
    if (folder / CONFIG).is_file():
        return True
    if not (folder / MODEL_CONFIG).is_file():
        return False
    return _usual_class(_json_of(folder / MODEL_CONFIG).get("model_type")) is not None


def _usual_class(model_type: Any) -> str | None:
    """What transformers takes for a model whose folder names no class."""
    if model_type not in registry.names("hugging_face"):
        return None
    return registry.lookup("hugging_face", model_type).tokenizer_class


def is_hub_description(description: Mapping[str, Any]) -> bool:
    """Whether a tokenizer.json is one of transformers, not one that etc_jax saved."""
    model = description.get("model")
    if "kind" in description or HUB in description or not isinstance(model, dict):
        return False
    extras = description.get("added_tokens") or description.get("post_processor")
    return bool(extras) or model.get("type") not in ("WordPiece", "BPE")


def read(folder: pathlib.Path) -> Tokenizer:
    """The tokenizer of a folder of Hugging Face.

    Raises:
      FileNotFoundError: if there is none.
      InexpressibleError: if it is of a kind that cannot be kept, or is damaged.
    """
    config = _json_of(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    description = None
    if (folder / TOKENIZER).is_file():
        description = _json_of(folder / TOKENIZER)
    try:
        return _read(folder, config, description)
    except (FileNotFoundError, InexpressibleError):
        raise
    except OF_BAD_JSON as error:
        raise InexpressibleError(
            f"the tokenizer in {folder} cannot be kept: {_told(error)}"
        ) from error


def read_description(path: pathlib.Path) -> Tokenizer:
    """The tokenizer of a tokenizer.json of transformers, without the files beside it.

    Raises:
      InexpressibleError: see `read`.
    """
    description = _json_of(path)
    try:
        base = _described(description)
        return _complete(base, {}, description, {})
    except OF_BAD_JSON as error:
        raise InexpressibleError(
            f"{path} is not a tokenizer saved by etc_jax, nor one of another program "
            f"that can be kept: {_told(error)}"
        ) from error


def _told(error: Exception) -> str:
    """An error in one line, which may quote what stands in a damaged file."""
    text = str(error) if isinstance(error, ValueError) else repr(error)
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _read(folder: pathlib.Path, config: dict, description: dict | None) -> Tokenizer:
    name = _class_of(folder, config)
    models = sorted(folder.glob("*.model"))
    if name in _BERT:
        base = _bert(folder, config, description)
    elif name in _BYTE_LEVEL:
        base = _byte_level(folder, config, description)
    elif name in _XLM_ROBERTA and (description is not None or len(models) == 1):
        base = _xlm_roberta(models, config, description)
    elif len(models) == 1:
        base = _sentence_pieces(models[0])
    elif len(models) > 1:
        raise ValueError(f"there are {', '.join(m.name for m in models)}; keep one")
    elif description is not None:
        base = _described(description)
    else:
        raise FileNotFoundError(f"no vocabulary of a {name} in {folder}")
    added = {}
    if (folder / _ADDED).is_file():
        added = _json_of(folder / _ADDED)
    if name in _T5 and models:
        config = with_sentinels(config, base.vocab_size)
    settings = {k: v for k, v in config.items() if k not in _OF_A_PLACE}
    return _complete(base, {**settings, "tokenizer_class": name}, description, added)


# Of tokenizer_config.json: where the folder was, and code to be run from elsewhere.
_OF_A_PLACE = (
    *("auto_map", "name_or_path", "special_tokens_map_file", "tokenizer_file"),
    *("is_local", "local_files_only", "vocab_file", "merges_file"),
)


def _class_of(folder: pathlib.Path, config: Mapping[str, Any]) -> str:
    name = config.get("tokenizer_class")
    if name is None and (folder / MODEL_CONFIG).is_file():
        kind = _json_of(folder / MODEL_CONFIG).get("model_type")
        name = _usual_class(kind)
    if name is None:
        name = "PreTrainedTokenizerFast"
    if not isinstance(name, str):
        raise ValueError(f"tokenizer_class is {name!r}, expected a name")
    plain = name.removesuffix("Fast")
    return name if plain == "PreTrainedTokenizer" else plain


def _json_of(path: pathlib.Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InexpressibleError(f"{path} is not JSON: {_told(error)}") from error
    if not isinstance(values, dict):
        kind = type(values).__name__
        raise InexpressibleError(f"{path} holds a {kind}, expected an object")
    return values


def _option(config: Mapping[str, Any], name: str, default: Any) -> Any:
    value = config.get(name, default)
    if not isinstance(value, bool) and value is not default:
        raise ValueError(f"{name} is {value!r} in {CONFIG}, expected true or false")
    return value


def _bert(folder, config, description) -> WordPieceTokenizer:
    if description is not None:
        _expect_model(description, "WordPiece")
        pieces = pieces_of(description)
    else:
        pieces = _lines(_existing(folder / VOCAB_TXT))
    unknown = content(config.get("unk_token", UNKNOWN))
    if unknown != UNKNOWN:
        raise ValueError(f"unk_token is {unknown!r}, expected {UNKNOWN}")
    return WordPieceTokenizer(
        pieces,
        lower_case=_option(config, "do_lower_case", True),
        strip_accents=_option(config, "strip_accents", None),
        chinese_chars=_option(config, "tokenize_chinese_chars", True),
        max_word_chars=_MAX_WORD_CHARS,
    )


def _byte_level(folder, config, description) -> ByteBpeTokenizer:
    if description is not None:
        _expect_model(description, "BPE")
        pieces = pieces_of(description)
        # Older files have "a b" for ["a", "b"].
        pairs = [
            tuple(m.split(" ") if isinstance(m, str) else m)
            for m in description["model"]["merges"]
        ]
    else:
        pieces = read_pieces(_existing(folder / VOCAB_JSON))
        pairs = read_merges(_existing(folder / MERGES))
    before = _option(config, "add_prefix_space", False)
    return ByteBpeTokenizer(pieces, pairs, add_prefix_space=before)


def _existing(path: pathlib.Path) -> pathlib.Path:
    if not path.is_file():
        raise FileNotFoundError(f"neither {path.name} nor {TOKENIZER} in {path.parent}")
    return path


def _lines(path: pathlib.Path) -> list[str]:
    """The pieces of a vocab.txt; an id is the number of a line, as transformers has it.

    Raises:
      ValueError: if it is not UTF-8, or a piece stands there twice.
    """
    lines = path.read_bytes().decode("utf-8").replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _sentence_pieces(path: pathlib.Path) -> SentencePieceTokenizer:
    tokenizer = SentencePieceTokenizer.from_model_file(path)
    if "[MASK]" in tokenizer.pieces(range(tokenizer.vocab_size)):
        return SentencePieceTokenizer.from_model_file(
            path, special=SENTENCEPIECE_OF_BERT
        )
    return tokenizer


# fairseq's first four pieces, in the place of sentencepiece's first three.
_OF_FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>")


def _xlm_roberta(models, config, description) -> PackagedTokenizer:
    if description is not None:
        _expect_model(description, "Unigram")
        vocabulary = description["model"]["vocab"]
        normalizer = _precompiled(description.get("normalizer"))
    else:
        read = read_unigram(models[0])
        first_pieces = [(piece, 0.0) for piece in _OF_FAIRSEQ]
        vocabulary = [*first_pieces, *read.pieces[3:], ("<mask>", 0.0)]
        table = base64.b64encode(read.characters).decode("ascii")
        normalizer = {"type": "Precompiled", "precompiled_charsmap": table}
        normalizer = normalizer if table else None
    before = _option(config, "add_prefix_space", True)
    spaces = {
        "type": "Metaspace",
        "replacement": "\u2581",
        "prepend_scheme": "always" if before else "never",
        "split": True,
    }
    described = {
        "normalizer": normalizer,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "WhitespaceSplit"}, spaces],
        },
        "decoder": spaces,
        "model": {
            "type": "Unigram",
            "unk_id": _OF_FAIRSEQ.index("<unk>"),
            "vocab": [list(pair) for pair in vocabulary],
            "byte_fallback": False,
        },
    }
    return PackagedTokenizer(described, BYTE_LEVEL)


def _precompiled(normalizer: dict[str, Any] | None) -> dict[str, Any] | None:
    """The first table of characters of a normalizer, which is all that counts."""
    parts = [normalizer or {}, *(normalizer or {}).get("normalizers", ())]
    return next((x for x in parts if x.get("type") == "Precompiled"), None)


def _expect_model(description: Mapping[str, Any], kind: str) -> None:
    got = description["model"].get("type", kind)
    if got != kind:
        raise ValueError(f"its model is {got!r} in {TOKENIZER}, expected {kind!r}")


def _described(description: dict[str, Any]) -> Tokenizer:
    """The tokenizer of all that a tokenizer.json says: of a class of its own if any."""
    bare = {**description, "added_tokens": [], "post_processor": None}
    bare |= {"truncation": None, "padding": None}
    # As the installed version writes it: older files lack newer fields.
    bare = json.loads(from_description(bare).to_str())
    for kind in (WordPieceTokenizer, ByteBpeTokenizer):
        try:
            tokenizer = kind._from_package(bare)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        ours = tokenizer._values()
        if all(ours[part] == bare[part] for part in PARTS):
            return tokenizer
    pieces = set(pieces_of(bare))
    return PackagedTokenizer(bare, _special_of(pieces))


def _special_of(pieces: set[str]) -> SpecialTokens:
    """The family of which a vocabulary has the mask, or the most of the others."""
    roles = ("mask", "pad", "cls", "sep", "sentence", "cpc_mask")

    def matches(special: SpecialTokens) -> tuple[bool, int]:
        has = [getattr(special, role) in pieces for role in roles]
        return has[0], sum(has)

    return max(_SPECIAL, key=matches)


def _complete(
    base: Tokenizer,
    config: Mapping[str, Any],
    description: Mapping[str, Any] | None,
    added: Mapping[str, Any],
) -> Tokenizer:
    """The tokenizer with what the folder says beside, and with the tokens it adds."""
    description = description or {}
    listed = list(added_tokens(config, description, added))
    base.hub = {
        "config": {k: v for k, v in config.items() if k != "added_tokens_decoder"},
        "added_tokens": [token for _, token in listed],
        **{part: description.get(part) for part in _BESIDE},
    }
    pieces = base.pieces(range(base.vocab_size))
    more: dict[int, str] = {}
    for number, token in listed:
        piece = token["content"]
        if number < len(pieces):
            if pieces[number] != piece:
                raise ValueError(
                    f"{piece!r} is added as id {number}, which is {pieces[number]!r}"
                )
        else:
            more[number] = piece
    matched = [
        {name: token[name] for name in ("content", *FLAGS)}
        for _, token in listed
        if not (token["special"] or base.special.is_reserved(token["content"]))
    ]
    if matched and isinstance(base, SentencePieceTokenizer):
        raise ValueError(
            f"{matched[0]['content']!r} is added to the vocabulary to be found in "
            "texts, which a sentencepiece model is not searched for; save the "
            "tokenizer with transformers 5, which writes a tokenizer.json"
        )
    if not more:
        return GrownTokenizer(base, (), matched) if matched else base
    if sorted(more) != list(range(len(pieces), len(pieces) + len(more))):
        raise ValueError(
            f"added tokens have the ids {sorted(more)[:9]}, expected {len(pieces)}, ..."
        )
    return GrownTokenizer(base, [more[number] for number in sorted(more)], matched)
