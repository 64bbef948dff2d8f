"""Special tokens in texts, beside transformers' default."""

import json
import re
import shutil

import pytest
from golden_data import require_shared
from hub_samples import FOLDERS
from tokenizer_samples import byte_bpe, wordpiece

from etc_jax.data.tokenizers.hub_writing import files_of
from etc_jax.data.tokenizers.special_in_text import with_special_tokens
from etc_jax.data.tokenizers.tokenizer import Tokenizer, grown, open_tokenizer

pytestmark = pytest.mark.torch

# At the start, at the end, inside of a text and of a word, adjacent, with and without
# spaces; S and T are special tokens.
TEXTS = (
    "S",
    "the cat S the cat",
    "the catSthe cat",
    "the cat S",
    "S the cat",
    "Sthe  cat",
    "the cat  S  T the",
    "STS",
    "S T",
    "catSs theT. S, the",
    "the <S> [S] cat",
    "the s cat t",
    "the cat\tS\nthe",
)


# transformers 5 keeps spaces beside them that sentencepiece leaves out.
SPACES_DIFFER = ("big_bird spiece.model", "reformer spiece.model")


def texts_of(tokenizer) -> list[str]:
    """Those texts, with the special tokens of a tokenizer."""
    base = getattr(tokenizer, "base", tokenizer)
    pieces = base.pieces(range(base.vocab_size))
    found = [x for x in pieces if base.special.is_reserved(x) and "unused" not in x]
    found += [*list(tokenizer.added_ids)[-2:], "<nothing>"]
    return [
        text.replace("S", one).replace("T", other)
        for one, other in zip(found, [*found[1:], found[0]], strict=True)
        for text in TEXTS
    ]


def check(ours: Tokenizer, theirs, texts):
    model = with_special_tokens(ours)
    want = theirs(texts, add_special_tokens=False).input_ids
    got = [ids.tolist() for ids, _ in model.encode_batch(texts)]
    assert dict(zip(texts, got, strict=True)) == dict(zip(texts, want, strict=True))
    assert [ids for ids, _ in model.encode_with_offsets(texts)] == want


def peer(folder):
    transformers = pytest.importorskip("transformers")
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("name", FOLDERS)
def test_ids_are_those_of_transformers(tmp_path, name):
    folder = FOLDERS[name](tmp_path / "hf")
    ours = open_tokenizer(folder)
    texts = texts_of(ours)
    if name in SPACES_DIFFER:
        texts = [x for x in texts if not re.search(r" <| \[|[>\]] |  ", x)]
        assert len(texts) > 9
    check(ours, peer(folder), texts)
    # As it is kept beside a converted model.
    check(Tokenizer.from_bytes(ours.saved(), "saved"), peer(folder), texts)


@pytest.mark.parametrize(
    "name", ["bert tokenizer.json", "roberta tokenizer.json", "t5 spiece.model"]
)
def test_tokens_are_found_as_their_flags_say(tmp_path, name):
    transformers = pytest.importorskip("transformers")
    theirs, saved = peer(FOLDERS[name](tmp_path / "hf")), tmp_path / "saved"
    flags = ("single_word", "lstrip", "rstrip", "normalized")
    tokens = [f"<{flag}>" for flag in flags] + ["alone", "<ALL>"]
    theirs.add_special_tokens(
        {
            "extra_special_tokens": [
                *(
                    transformers.AddedToken(token, **{flag: True})
                    for flag, token in zip(flags, tokens, strict=False)
                ),
                transformers.AddedToken("alone", single_word=True),
                transformers.AddedToken("<ALL>", lstrip=True, rstrip=True),
            ]
        }
    )
    theirs.add_tokens(["zzword"])
    theirs.save_pretrained(saved)
    shutil.copy(tmp_path / "hf/config.json", saved)
    texts = [
        text.replace("S", one).replace("T", "zzword")
        for one in [*tokens, "<Normalized>", "aloneness"]
        for text in TEXTS
    ]
    check(open_tokenizer(saved), theirs, texts)


@pytest.mark.parametrize("make", [wordpiece, byte_bpe])
def test_a_tokenizer_made_here_is_the_same_to_transformers(tmp_path, make):
    made = grown(make(), ["[q]"])
    for name, content in files_of(made, 64).items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    check(made, peer(tmp_path), texts_of(made))


@pytest.mark.parametrize(
    "family, vocabulary, text",
    [
        ("bert", "bert_base_uncased", "A title [SEP] An abstract: [MASK], [MASK]s."),
        ("bart", "roberta_bart", "The <mask> walks in<mask> park.</s><s> <mask>"),
        ("t5", "t5", "The <extra_id_0> walks in<extra_id_1>park <extra_id_99></s>."),
    ],
)
def test_real_vocabularies(tmp_path, family, vocabulary, text):
    for path in require_shared(f"data/tokenizers/{vocabulary}").iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    theirs = peer(tmp_path)
    check(open_tokenizer(tmp_path), theirs, [text])
    # As transformers 5 writes it: tokenizer.json.
    theirs.save_pretrained(tmp_path / "saved")
    check(open_tokenizer(tmp_path / "saved"), theirs, [text])
