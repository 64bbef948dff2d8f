"""dict.txt over GPT-2's ids, and the row of `<mask>`."""

import json

import pytest
from tokenizer_samples import BPE_PIECES, MERGES
from tokenizers import pre_tokenizers

from etc_jax.data.tokenizers import fairseq
from etc_jax.data.tokenizers.byte_bpe import ByteBpeTokenizer

# As GPT-2 numbers them: other ids than in RoBERTa's vocabulary.
OF_GPT2 = [*sorted(pre_tokenizers.ByteLevel.alphabet(), reverse=True)]
OF_GPT2 += [first + second for first, second in MERGES]
FILLERS = [f"madeupword{i:04}" for i in range(3)]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
WORDS = [*map(str, range(len(OF_GPT2))), *FILLERS]
TEXT = "the cat's the"


def lines_of(words) -> str:
    return "".join(f"{word} {i}\n" for i, word in enumerate(words))


def write(folder, pieces=None, dictionary=None, names=("encoder.json", "vocab.bpe")):
    if pieces is not None:
        ids = {piece: i for i, piece in enumerate(pieces)}
        (folder / names[0]).write_text(json.dumps(ids))
        pairs = "".join(f"{a} {b}\n" for a, b in MERGES)
        (folder / names[1]).write_text(f"#version: 0.2\n{pairs}", encoding="utf-8")
    if dictionary is not None:
        (folder / "dict.txt").write_text(dictionary)
    return folder


@pytest.mark.parametrize(
    "names", [("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt")]
)
def test_a_dictionary_gives_the_pieces_of_gpt2_their_rows(tmp_path, names):
    words = [*reversed(WORDS[:-3]), *FILLERS]
    rows = 4 + len(words) + 1
    found = fairseq.read(write(tmp_path, OF_GPT2, lines_of(words), names), rows)
    known = [*SPECIAL, *reversed(OF_GPT2), *FILLERS, "<mask>"]
    want = ByteBpeTokenizer(known, MERGES)
    assert found.tokenizer.fingerprint() == want.fingerprint()
    assert found.tokenizer.decode(found.tokenizer.encode_batch([TEXT])[0][0]) == TEXT
    # The tokenizer has <mask> where the file has it.
    row = found.mask_row(rows, sentinels=False, masks=None)
    assert row == found.mask_id == rows - 1


def test_roberta_s_own_files_are_read_as_they_are(tmp_path):
    folder = write(tmp_path, BPE_PIECES, names=("vocab.json", "merges.txt"))
    write(folder, OF_GPT2)  # and GPT-2's beside them are not
    found = fairseq.read(folder, 300)
    assert found.words is None and found.mask_id == BPE_PIECES.index("<mask>")


IDS, MASK = len(BPE_PIECES), len(BPE_PIECES) - 1


@pytest.mark.parametrize(
    "rows, sentinels, masks, want",
    [
        (IDS, False, True, MASK),
        (IDS - 1, False, False, None),  # bart.large.cnn
        (IDS + 5, False, True, IDS + 4),  # bart.base
        (IDS + 4, False, False, None),  # the same, fine-tuned to write
        (IDS + 9, True, None, MASK),  # BART-LS
    ],
)
def test_without_a_dictionary_the_task_tells_the_row_of_mask(
    rows, sentinels, masks, want
):
    vocabulary = fairseq.Vocabulary(ByteBpeTokenizer(BPE_PIECES, MERGES))
    assert vocabulary.mask_row(rows, sentinels=sentinels, masks=masks) == want


@pytest.mark.parametrize(
    "rows, sentinels, want", [(9, False, None), (10, False, 9), (17, True, 9)]
)
def test_a_dictionary_tells_the_row_of_mask(rows, sentinels, want):
    vocabulary = fairseq.Vocabulary(None, (*SPECIAL, *"abcde"))
    assert vocabulary.mask_row(rows, sentinels=sentinels, masks=None) == want
    named = fairseq.Vocabulary(None, (*SPECIAL, *"abc", "<mask>", *"de"))
    assert named.mask_row(10, sentinels=False, masks=None) == 7


@pytest.mark.parametrize(
    "pieces, dictionary, rows, message",
    [
        (OF_GPT2, None, 300, "is GPT-2's vocabulary, whose ids dict.txt maps"),
        (OF_GPT2[:-1], lines_of(WORDS), 300, "dict.txt has 263, but .* ids 0 to 262"),
        (OF_GPT2, "5 x\n", 300, "dict.txt:1: '5 x' is not a line"),
        (OF_GPT2, "5 9\n6 9\n5 9\n", 300, "dict.txt:3: '5' is there twice"),
    ],
)
def test_files_that_do_not_fit_are_named(tmp_path, pieces, dictionary, rows, message):
    with pytest.raises(ValueError, match=message):
        fairseq.read(write(tmp_path, pieces, dictionary), rows)


@pytest.mark.parametrize("rows", [8, 11])
def test_a_dictionary_of_another_table_is_refused(rows):
    vocabulary = fairseq.Vocabulary(None, (*SPECIAL, *"abcde"))
    with pytest.raises(ValueError, match=f"has 9 words, .* but the table {rows} rows"):
        vocabulary.mask_row(rows, sentinels=False, masks=None)


def test_an_unknown_task_asks_for_the_dictionary():
    vocabulary = fairseq.Vocabulary(ByteBpeTokenizer(BPE_PIECES, MERGES))
    with pytest.raises(ValueError, match="put the dict.txt of the model beside"):
        vocabulary.mask_row(IDS + 5, sentinels=False, masks=None)


def test_merges_that_are_missing_are_named(tmp_path):
    (write(tmp_path, OF_GPT2, lines_of(WORDS)) / "vocab.bpe").unlink()
    with pytest.raises(ValueError, match="needs merges.txt or vocab.bpe beside it"):
        fairseq.read(tmp_path, 300)
