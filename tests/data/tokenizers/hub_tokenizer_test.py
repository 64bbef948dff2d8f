"""Tokenizers of Hugging Face's folders: read, written, and read again."""

from __future__ import annotations

import json
import shutil

import pytest
import tokenizers
from hub_samples import (
    FOLDERS,
    TEXTS,
    WITH_SPECIAL,
    bert_json,
    bert_txt,
    t5_files,
    unigram_json,
)
from tokenizer_samples import byte_bpe, sentence_pieces, wordpiece

from etc_jax.data.tokenizers import hub as hub_tokenizer
from etc_jax.data.tokenizers.hub_writing import files_of
from etc_jax.data.tokenizers.tokenizer import Tokenizer, grown, open_tokenizer

JSON = [name for name in FOLDERS if "tokenizer.json" in name]
# What the package finds in texts, as transformers has it search for special tokens.
ALL_TEXTS = TEXTS + WITH_SPECIAL


def ids_of(tokenizer, texts=ALL_TEXTS):
    return [ids.tolist() for ids, _ in tokenizer.encode_batch(texts)]


def written(folder, tokenizer, max_length=64):
    folder.mkdir()
    for name, content in files_of(tokenizer, max_length).items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    "parts, is_theirs",
    [
        ({}, False),
        ({"added_tokens": [{"id": 0, "content": "[PAD]"}]}, True),
        ({"post_processor": {"type": "ByteLevel"}}, True),
        ({"post_processor": {"type": "ByteLevel"}, "kind": "BPE"}, False),
    ],
)
def test_either_part_that_we_do_not_write_tells_a_file_of_theirs(parts, is_theirs):
    assert hub_tokenizer.is_hub_description({"model": {"type": "BPE"}, **parts}) == (
        is_theirs
    )


@pytest.mark.parametrize("name", JSON)
def test_ids_are_those_of_the_package(tmp_path, name):
    folder = FOLDERS[name](tmp_path / "hf")
    description = json.loads((folder / "tokenizer.json").read_text())
    # The package's own, which does not look for special tokens either.
    theirs = tokenizers.Tokenizer.from_str(json.dumps(description))
    theirs.encode_special_tokens = True
    ours = open_tokenizer(folder)
    texts = TEXTS if "big_bird" in name else ALL_TEXTS
    want = [e.ids for e in theirs.encode_batch(list(texts), add_special_tokens=False)]
    assert ids_of(ours, texts) == want


@pytest.mark.parametrize("name", FOLDERS)
def test_what_is_written_is_read_as_the_same(tmp_path, name):
    source = FOLDERS[name](tmp_path / "hf")
    first = open_tokenizer(source)
    # As it goes through a model of etc_jax and the runs that begin from it.
    kept = Tokenizer.from_bytes(first.saved(), "tokenizer.json")
    out = written(tmp_path / "out", kept)
    shutil.copy(source / "config.json", out)
    again = open_tokenizer(out)
    assert again.fingerprint() == kept.fingerprint() == first.fingerprint()
    assert ids_of(again) == ids_of(first)
    values = json.loads((out / "tokenizer_config.json").read_bytes())
    # T5's sentinels are tokens that are added, with which a tokenizer is a grown one.
    values.pop("added_tokens_decoder", None)
    config = getattr(again, "base", again).hub["config"]
    assert values == config and config["model_max_length"] == 64
    assert again.special == first.special


@pytest.mark.parametrize("name", FOLDERS)
def test_special_tokens_in_a_text_are_text(tmp_path, name):
    tokenizer = open_tokenizer(FOLDERS[name](tmp_path / "hf"))
    special = (
        {tokenizer.special_id(r) for r in ("pad", "cls", "mask")}
        if not any(family in name for family in ("reformer", "t5"))
        else {tokenizer.special_id("pad")}
    )
    for ids in ids_of(tokenizer, WITH_SPECIAL):
        assert ids and not special & set(ids)


@pytest.mark.parametrize("name", FOLDERS)
def test_pieces_have_their_places_and_words(tmp_path, name):
    tokenizer = open_tokenizer(FOLDERS[name](tmp_path / "hf"))
    text = "the cat, the dog"
    [(ids, starts)] = tokenizer.encode_batch([text])
    [(same, offsets)] = tokenizer.encode_with_offsets([text])
    assert same == ids.tolist() and len(offsets) == len(ids)
    cuts = [text[a:b] for a, b in offsets]
    assert "".join(cuts).replace(" ", "") == text.replace(" ", "")
    firsts = [
        text[a:].lstrip()[0]
        for (a, _), start in zip(offsets, starts, strict=True)
        if start
    ]
    marks = [] if "spiece" in name or "big_bird" in name else [","]
    assert firsts == ["t", "c", *marks, "t", "d"]


def test_new_tokens_are_written_and_read(tmp_path):
    base = open_tokenizer(bert_json(tmp_path / "hf"))
    more = grown(base, ["[q]", "[/q]"])
    again = open_tokenizer(written(tmp_path / "out", more))
    assert again.added_ids == more.added_ids
    assert again.fingerprint() == more.fingerprint()
    spiece = grown(
        open_tokenizer(FOLDERS["big_bird spiece.model"](tmp_path / "s")), ["[q]"]
    )
    again = open_tokenizer(written(tmp_path / "out2", spiece))
    assert again.added_ids == spiece.added_ids


def with_words(folder):
    """Adds words to the tokenizer.json of a folder, of which two are in texts."""
    path = folder / "tokenizer.json"
    package = tokenizers.Tokenizer.from_file(str(path))
    size = package.get_vocab_size()
    alone = tokenizers.AddedToken("Alone", single_word=True, normalized=False)
    package.add_tokens(["<new>", alone])
    package.add_special_tokens(["[q]"])
    package.add_tokens(["last one"])
    package.save(str(path))
    return package, dict(
        zip(("<new>", "Alone", "[q]", "last one"), range(size, size + 4), strict=True)
    )


@pytest.mark.parametrize("name", JSON)
def test_words_that_were_added_are_found_in_texts(tmp_path, name):
    folder = FOLDERS[name](tmp_path / "hf")
    package, added = with_words(folder)
    package.encode_special_tokens = True
    ours = open_tokenizer(folder)
    assert ours.added_ids == added
    texts = [*TEXTS, "the<new>cat Alone, Aloneness [q] last one", "<new><new> last one"]
    want = [e.ids for e in package.encode_batch(texts, add_special_tokens=False)]
    again = open_tokenizer(written(tmp_path / "out", ours))
    for tokenizer in (ours, Tokenizer.from_bytes(ours.saved(), "saved"), again):
        assert tokenizer.fingerprint() == ours.fingerprint()
        assert [ids.tolist() for ids, _ in tokenizer.encode_batch(texts)] == want
    assert [ids for ids, _ in again.encode_with_offsets(texts)] == want
    # No word is found: pieces begin words as they do without.
    plain = [text for text in TEXTS if "one" not in text]
    base = ours.base.encode_batch(plain)
    for (_, starts), (_, known) in zip(ours.encode_batch(plain), base, strict=True):
        assert starts.tolist() == known.tolist()
    [(ids, starts)] = ours.encode_batch(["<new><new>"])
    assert ids.tolist()[-2:] == [added["<new>"]] * 2 and starts.all()
    more = grown(ours, ["[new]"])
    assert [ids.tolist() for ids, _ in more.encode_batch(texts)] == want


def test_words_to_be_found_beside_a_sentencepiece_model_are_refused(tmp_path):
    folder = FOLDERS["big_bird spiece.model"](tmp_path / "hf")
    (folder / "added_tokens.json").write_text('{"word": 71}')
    with pytest.raises(hub_tokenizer.InexpressibleError, match="a tokenizer.json"):
        open_tokenizer(folder)


@pytest.mark.parametrize("make", [wordpiece, byte_bpe])
def test_a_tokenizer_made_here_is_written(tmp_path, make):
    out = written(tmp_path / "out", make())
    description = tokenizers.Tokenizer.from_file(str(out / "tokenizer.json"))
    description.encode_special_tokens = True
    texts = list(ALL_TEXTS)
    want = [e.ids for e in description.encode_batch(texts, add_special_tokens=False)]
    assert ids_of(make()) == want
    assert description.encode("the").tokens[0] in ("[CLS]", "<s>")
    assert open_tokenizer(out).fingerprint() == make().fingerprint()


def test_what_transformers_has_not_is_refused():
    tokenizer = sentence_pieces(split_digit_commas=True)
    tokenizer.hub = {"config": {"tokenizer_class": "ReformerTokenizer"}}
    with pytest.raises(ValueError, match="splits commas off digits"):
        files_of(tokenizer, 8)


def _change(folder, name, **values):
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize(
    "name, values, message",
    [
        ("tokenizer.json", {"model": {"type": "BPE"}}, "its model is 'BPE'"),
        ("tokenizer.json", {"model": []}, "cannot be kept"),
        ("tokenizer.json", {"added_tokens": [{"id": 5}]}, "cannot be kept"),
        ("tokenizer_config.json", {"do_lower_case": "no"}, "do_lower_case is 'no'"),
        ("tokenizer_config.json", {"unk_token": "?"}, r"expected \[UNK\]"),
        ("tokenizer_config.json", {"tokenizer_class": 3}, "tokenizer_class is 3"),
        (
            "tokenizer.json",
            {"added_tokens": [{"id": 999, "content": "x", "special": True}]},
            r"added tokens have the ids \[999\]",
        ),
    ],
)
def test_what_cannot_be_kept_is_named(tmp_path, name, values, message):
    folder = bert_json(tmp_path / "hf")
    _change(folder, name, **values)
    with pytest.raises(hub_tokenizer.InexpressibleError, match=message) as error:
        open_tokenizer(folder)
    assert str(folder) in str(error.value)


@pytest.mark.parametrize("count", [-1, "100", 2**31, None, True])
def test_a_number_of_sentinels_that_is_none_is_refused(tmp_path, count):
    folder = t5_files(tmp_path / "hf", extra_ids=count)
    with pytest.raises(hub_tokenizer.InexpressibleError, match="extra_ids is .* to 10"):
        open_tokenizer(folder)


def test_sentinels_count_down_after_the_pieces(tmp_path):
    tokenizer = open_tokenizer(t5_files(tmp_path / "hf", extra_ids=3))
    last = range(tokenizer.vocab_size - 3, tokenizer.vocab_size)
    assert list(tokenizer.pieces(last)) == [
        "<extra_id_2>",
        "<extra_id_1>",
        "<extra_id_0>",
    ]
    without = open_tokenizer(t5_files(tmp_path / "none", extra_ids=0))
    assert without.vocab_size == tokenizer.vocab_size - 3
    # No text is tokenised into them.
    [(ids, _)] = tokenizer.encode_batch(["the <extra_id_0> cat"])
    assert ids.max() < last[0]


def test_a_piece_that_stands_there_twice_is_refused(tmp_path):
    folder = bert_txt(tmp_path / "hf")
    with (folder / "vocab.txt").open("a") as file:
        file.write("the\n")
    with pytest.raises(ValueError, match="cannot be kept: .*each once"):
        open_tokenizer(folder)


def test_another_program_has_no_class_of_its_own_here(tmp_path):
    folder = unigram_json(tmp_path / "hf")
    (folder / "tokenizer_config.json").unlink()
    (folder / "config.json").unlink()
    assert open_tokenizer(folder).kind == "packaged"
    assert open_tokenizer(folder / "tokenizer.json").special_id("mask") == 6


def test_a_folder_without_a_vocabulary_has_no_tokenizer(tmp_path):
    folder = bert_txt(tmp_path / "hf")
    (folder / "vocab.txt").unlink()
    with pytest.raises(FileNotFoundError, match="neither vocab.txt nor tokenizer.json"):
        open_tokenizer(folder)
