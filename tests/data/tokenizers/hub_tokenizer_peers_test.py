"""Tokenizers of folders beside transformers' own, which reads both ends."""

from __future__ import annotations

import json
import shutil

import pytest
from golden_data import require_shared
from hub_samples import FOLDERS, TEXTS, WITH_SPECIAL
from tokenizer_samples import byte_bpe, wordpiece

from etc_jax.data.tokenizers.hub_writing import files_of
from etc_jax.data.tokenizers.tokenizer import Tokenizer, grown, open_tokenizer

pytestmark = pytest.mark.torch
# transformers 5 leaves out what sentencepiece does at the ends of a text and between
# its words, unlike transformers 4 and the programs that trained such models.
_SPACES = ("", " ", "  Hello \t World\n", "the cat " * 300, "trailing ", "\u2581the")
# What T5's normalisation turns into spaces at the end.
_ENDS = tuple(text for text in TEXTS if text.endswith("\u2028"))


def peer(folder, **options):
    transformers = pytest.importorskip("transformers")
    return transformers.AutoTokenizer.from_pretrained(folder, **options)


def rewritten(source, out, tokenizer):
    out.mkdir()
    for name, content in files_of(tokenizer, 64).items():
        (out / name).write_bytes(content)
    shutil.copy(source / "config.json", out)
    return out


@pytest.mark.parametrize("name", FOLDERS)
def test_ids_are_those_of_transformers(tmp_path, name):
    folder = FOLDERS[name](tmp_path / "hf")
    theirs, ours = peer(folder, split_special_tokens=True), open_tokenizer(folder)
    as_pieces = "big_bird" in name or "t5" in name
    texts = TEXTS + (() if as_pieces else WITH_SPECIAL)
    if "spiece" in name:
        left_out = _SPACES + (_ENDS if "t5" in name else ())
        texts = [text for text in texts if text not in left_out]
    for text in texts:
        want = theirs(text, add_special_tokens=False).input_ids
        [(ids, _)] = ours.encode_batch([text])
        assert ids.tolist() == want, text


@pytest.mark.parametrize(
    "family, vocabulary, class_name",
    [
        ("bart", "roberta_bart", "BartTokenizer"),
        ("led", "roberta_bart", "LEDTokenizer"),
        ("t5", "t5", None),
        ("longt5", "t5", "T5Tokenizer"),
    ],
)
def test_real_vocabularies_are_read_as_transformers_does(
    tmp_path, family, vocabulary, class_name
):
    source = require_shared(f"data/tokenizers/{vocabulary}")
    for name in ("vocab.json", "merges.txt", "spiece.model"):
        if (source / name).is_file():
            shutil.copy(source / name, tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    if class_name is not None:
        values = {"tokenizer_class": class_name}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(values))
    theirs = peer(tmp_path, split_special_tokens=True)
    check_real(open_tokenizer(tmp_path), theirs, vocabulary)
    # As transformers 5 writes it: tokenizer.json.
    theirs.save_pretrained(tmp_path / "saved")
    check_real(open_tokenizer(tmp_path / "saved"), theirs, vocabulary)


def check_real(ours, theirs, vocabulary):
    assert ours.vocab_size == len(theirs)
    numbers = range(ours.vocab_size - 150, ours.vocab_size)
    assert list(ours.pieces(numbers)) == theirs.convert_ids_to_tokens(list(numbers))
    for text in TEXTS:
        if text in _ENDS and vocabulary == "t5":
            continue
        [(ids, _)] = ours.encode_batch([text])
        assert ids.tolist() == theirs(text, add_special_tokens=False).input_ids, text
        if theirs.unk_token_id not in ids:
            want = theirs.decode(ids, clean_up_tokenization_spaces=False)
            assert ours.decode(ids.tolist()) == want, text


@pytest.mark.parametrize("name", FOLDERS)
def test_what_is_written_is_the_same_to_transformers(tmp_path, name):
    folder = FOLDERS[name](tmp_path / "hf")
    kept = Tokenizer.from_bytes(open_tokenizer(folder).saved(), "tokenizer.json")
    theirs, back = peer(folder), peer(rewritten(folder, tmp_path / "out", kept))
    assert type(back) is type(theirs) and len(back) == len(theirs)
    assert back.model_max_length == 64
    assert back.special_tokens_map == theirs.special_tokens_map
    for text in TEXTS + WITH_SPECIAL:
        assert back(text).input_ids == theirs(text).input_ids, text
        assert back(text, "the cat") == theirs(text, "the cat"), text


ADDED = (
    "a <new>zzword cat",
    "zzwordzzword Alone Aloneness ALONE",
    "the hello [q] last one",
    "ZZWORD LAST ONE hel",
    "\u00e9zzword <new> <new>",
)


@pytest.mark.parametrize("name", FOLDERS)
def test_words_that_were_added_come_back(tmp_path, name):
    """Of what transformers 5 writes: through a saved model, and back."""
    transformers = pytest.importorskip("transformers")
    folder, saved = FOLDERS[name](tmp_path / "hf"), tmp_path / "saved"
    theirs = peer(folder)
    alone = transformers.AddedToken("Alone", single_word=True, normalized=False)
    theirs.add_tokens(["<new>", "zzword", alone])
    theirs.add_special_tokens({"extra_special_tokens": ["[q]"]})
    theirs.add_tokens(["last one", "hel"])
    theirs.save_pretrained(saved)
    shutil.copy(folder / "config.json", saved)
    split, ours = peer(saved, split_special_tokens=True), open_tokenizer(saved)
    for text in TEXTS + ADDED:
        [(ids, _)] = ours.encode_batch([text])
        assert ids.tolist() == split(text, add_special_tokens=False).input_ids, text
    kept = Tokenizer.from_bytes(ours.saved(), "tokenizer.json")
    back = peer(rewritten(saved, tmp_path / "out", kept))
    assert type(back) is type(theirs) and len(back) == len(theirs)
    assert back.special_tokens_map == theirs.special_tokens_map
    assert back.added_tokens_decoder == theirs.added_tokens_decoder
    for text in TEXTS + WITH_SPECIAL + ADDED:
        assert back(text).input_ids == theirs(text).input_ids, text


@pytest.mark.parametrize("name", ["bert vocab.txt", "roberta tokenizer.json"])
def test_new_tokens_have_their_ids(tmp_path, name):
    folder = FOLDERS[name](tmp_path / "hf")
    more = grown(open_tokenizer(folder), ["[q]", "[/q]"])
    back = peer(rewritten(folder, tmp_path / "out", more))
    ids = [more.added_ids["[q]"], more.added_ids["[/q]"]]
    assert back.convert_tokens_to_ids(["[q]", "[/q]"]) == ids
    assert len(back) == more.vocab_size
    for text in TEXTS:
        assert back(text).input_ids == peer(folder)(text).input_ids


@pytest.mark.parametrize(
    "make, family", [(wordpiece, "bert"), (byte_bpe, "roberta"), (byte_bpe, "big_bird")]
)
def test_a_tokenizer_made_here_is_read(tmp_path, make, family):
    (tmp_path / "config.json").write_text(f'{{"model_type": "{family}"}}')
    ours = make()
    back = peer(rewritten(tmp_path, tmp_path / "out", ours), split_special_tokens=True)
    for role in ("pad", "mask", "cls", "sep"):
        assert getattr(back, f"{role}_token_id") == ours.special_id(role)
    for text in TEXTS + WITH_SPECIAL:
        [(ids, _)] = ours.encode_batch([text])
        want = [ours.special_id("cls"), *ids.tolist(), ours.special_id("sep")]
        assert back(text).input_ids == want, text
