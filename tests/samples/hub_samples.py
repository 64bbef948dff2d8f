"""Small folders of tokenizers as Hugging Face's programs write them, made up here."""

from __future__ import annotations

import functools
import json
import pathlib
from typing import Any

import tokenizers
from tokenizer_samples import BPE_PIECES, MERGES, SENTENCES, train_model
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

# The letters of the texts below, so that not all is unknown.
_ODD = "éÉüßïİ北京日本語😀[]<>/CLSMASK"
BERT_PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BERT_PIECES += sorted({*"abcdefghijklmnopqrstuvwxyz0123456789.,", *_ODD})
BERT_PIECES += [f"##{piece}" for piece in BERT_PIECES[5:]] + ["the", "cat", "hello"]
TEXTS = (
    "",
    " ",
    "the cat said: hello",
    "  Hello \t World\n",
    "déjà vu NAÏVE Éé e\u0301 İ ß ﬁ Ａ",
    "北京 is 日本語, ok?",
    "\U0001f600 \U0001f469\u200d\U0001f469 a\U0001f600b",
    "a\0b\x07c\u202ed\ufeff \x85 \u2028",
    "x" * 150 + " " + "y" * 250,
    "the cat " * 300,
    "1,234.5 the's ##cat",
    "\u2581the",
    "trailing ",
)
WITH_SPECIAL = (
    "[CLS] the [MASK] cat[SEP]",
    "<s> the <mask> cat</s><pad><unk>",
    "[PAD][UNK]",
)


def _write(folder: pathlib.Path, **files: Any) -> pathlib.Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        name = name.replace("__", ".")
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


def _lines(pieces) -> bytes:
    return "".join(f"{piece}\n" for piece in pieces).encode()


def bert_txt(folder: pathlib.Path, **config: Any) -> pathlib.Path:
    """A vocab.txt, as transformers 4 wrote it."""
    return _write(
        folder,
        config__json={"model_type": "bert"},
        vocab__txt=_lines(BERT_PIECES),
        tokenizer_config__json=config,
    )


def bert_json(folder: pathlib.Path, **config: Any) -> pathlib.Path:
    """The files of transformers 5."""
    options = {"do_lower_case": True, "strip_accents": None} | config
    found = tokenizers.Tokenizer(
        models.WordPiece({p: i for i, p in enumerate(BERT_PIECES)}, unk_token="[UNK]")
    )
    found.normalizer = normalizers.BertNormalizer(
        lowercase=options["do_lower_case"],
        strip_accents=options["strip_accents"],
        handle_chinese_chars=options.get("tokenize_chinese_chars", True),
    )
    found.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    found.decoder = decoders.WordPiece()
    found.add_special_tokens(BERT_PIECES[:5])
    found.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return _write(
        folder,
        config__json={"model_type": "bert"},
        tokenizer__json=found.to_str().encode(),
        tokenizer_config__json={"tokenizer_class": "BertTokenizer", **options},
    )


def roberta_files(
    folder: pathlib.Path, family: str = "roberta", **config: Any
) -> pathlib.Path:
    """A vocab.json with merges.txt, as transformers 4 wrote them."""
    return _write(
        folder,
        config__json={"model_type": family},
        vocab__json={piece: i for i, piece in enumerate(BPE_PIECES)},
        merges__txt=_lines(["#version: 0.2", *(" ".join(m) for m in MERGES)]),
        **({"tokenizer_config__json": config} if config else {}),
    )


def roberta_json(folder: pathlib.Path, family: str = "roberta") -> pathlib.Path:
    """The files of transformers 5, with the mask that takes the space before it."""
    vocabulary = {piece: i for i, piece in enumerate(BPE_PIECES)}
    found = tokenizers.Tokenizer(models.BPE(vocabulary, list(MERGES)))
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    found.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    found.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True)])
    found.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    return _write(
        folder,
        config__json={"model_type": family},
        tokenizer__json=found.to_str().encode(),
        tokenizer_config__json={"tokenizer_class": "RobertaTokenizer"},
    )


@functools.cache
def sentence_piece_model(kind: str) -> bytes:
    """As BigBird's (unigram) or Reformer's (bpe), without its own normalization."""
    return train_model(
        model_type=kind,
        vocab_size=90,
        pad_id=0,
        eos_id=1,
        bos_id=2,
        unk_id=3,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        normalization_rule_name="identity",
    )


def spiece(folder: pathlib.Path, kind: str = "unigram") -> pathlib.Path:
    """A spiece.model, as transformers 4 wrote it."""
    family = "big_bird" if kind == "unigram" else "reformer"
    return _write(
        folder,
        config__json={"model_type": family},
        spiece__model=sentence_piece_model(kind),
    )


@functools.cache
def _t5_model() -> bytes:
    """As T5's: no token for the start, texts are normalised."""
    return train_model(
        model_type="unigram",
        vocab_size=90,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        normalization_rule_name="nmt_nfkc",
    )


def t5_files(folder: pathlib.Path, family: str = "t5", **config: Any) -> pathlib.Path:
    """A spiece.model of T5, as transformers 4 wrote it."""
    return _write(
        folder,
        config__json={"model_type": family},
        spiece__model=_t5_model(),
        **({"tokenizer_config__json": config} if config else {}),
    )


def unigram_json(folder: pathlib.Path) -> pathlib.Path:
    """BigBird's as transformers 5 writes it."""
    special = ["<pad>", "</s>", "<s>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    words = sorted({w for text in SENTENCES for w in text.split()})
    letters = sorted({c for word in words for c in word})
    vocabulary = [(piece, 0.0) for piece in special]
    vocabulary += [(f"\u2581{w}", -3.0 - 0.01 * i) for i, w in enumerate(words)]
    known = {piece for piece, _ in vocabulary}
    more = [c for c in ("\u2581", *letters) if c not in known]
    vocabulary += [(c, -6.0 - 0.01 * i) for i, c in enumerate(more)]
    found = tokenizers.Tokenizer(models.Unigram(vocabulary, unk_id=3))
    found.normalizer = normalizers.Sequence(
        [
            normalizers.Strip(left=False, right=False),
            normalizers.Replace(tokenizers.Regex(r" {2,}"), "\u2581"),
        ]
    )
    found.pre_tokenizer = pre_tokenizers.Metaspace()
    found.decoder = decoders.Metaspace()
    found.add_special_tokens(special)
    found.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 4), ("[SEP]", 5)],
    )
    names = ("bos", "eos", "unk", "pad", "cls", "sep", "mask")
    tokens = ("<s>", "</s>", "<unk>", "<pad>", "[CLS]", "[SEP]", "[MASK]")
    named = {f"{n}_token": t for n, t in zip(names, tokens, strict=True)}
    return _write(
        folder,
        config__json={"model_type": "big_bird"},
        tokenizer__json=found.to_str().encode(),
        tokenizer_config__json={"tokenizer_class": "BigBirdTokenizer", **named},
    )


FOLDERS = {
    "bert vocab.txt": bert_txt,
    "bert cased": functools.partial(bert_txt, do_lower_case=False),
    "bert accents": functools.partial(
        bert_txt, strip_accents=False, tokenize_chinese_chars=False
    ),
    "bert tokenizer.json": bert_json,
    "bert tokenizer.json cased": functools.partial(bert_json, do_lower_case=False),
    "roberta merges.txt": roberta_files,
    "longformer with a space first": functools.partial(
        roberta_files, family="longformer", add_prefix_space=True
    ),
    "roberta tokenizer.json": roberta_json,
    "longformer tokenizer.json": functools.partial(roberta_json, family="longformer"),
    "big_bird spiece.model": spiece,
    "reformer spiece.model": functools.partial(spiece, kind="bpe"),
    "big_bird tokenizer.json": unigram_json,
    "bart merges.txt": functools.partial(roberta_files, family="bart"),
    "bart by its class": functools.partial(
        roberta_files, family="bart", tokenizer_class="BartTokenizer"
    ),
    "led merges.txt": functools.partial(roberta_files, family="led"),
    "led tokenizer.json": functools.partial(roberta_json, family="led"),
    "t5 spiece.model": t5_files,
    "longt5 spiece.model of 10": functools.partial(
        t5_files, family="longt5", tokenizer_class="T5Tokenizer", extra_ids=10
    ),
}
