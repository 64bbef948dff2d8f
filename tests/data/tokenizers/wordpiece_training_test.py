import json
import subprocess
import sys

import numpy as np
import pytest

from etc_jax.data.tokenizers import tokenizer
from etc_jax.data.tokenizers.wordpiece_training import frequent_words

TEXTS = [
    "The quick brown fox jumps over the lazy dog, again and again.",
    "Unaffable foxes are not affable; dogs jumping quickly are quicker.",
    "Tokenizers split words: token, tokens, tokenize, tokenized, tokenizing.",
    "Brown dogs and quick foxes, browner dogs and quicker foxes over and over.",
] * 8
SIZE = 205


@pytest.fixture(scope="module")
def trained():
    return tokenizer.train(TEXTS, vocab_size=SIZE)


def test_special_ids_are_those_of_uncased_bert(trained):
    ids = trained.token_ids
    assert (ids.pad, ids.sentence, ids.cpc_mask, ids.mask) == (0, 1, 2, 103)
    assert trained.decode([0, 1, 2, 100, 101, 102, 103]) == (
        "[PAD] [unused0] [unused1] [UNK] [CLS] [SEP] [MASK]"
    )
    assert ids.regular_ids == (104, SIZE)
    assert ids.vocab_size == trained.vocab_size == SIZE


def test_round_trip_lower_cases(trained):
    ((ids, words),) = trained.encode_batch(["Brown FOXES over dogs"])
    assert trained.decode(ids) == "brown foxes over dogs"
    assert ids.dtype == np.uint16 and words.dtype == bool


def test_word_starts_agree_with_the_words_of_the_text(trained):
    text = "unaffable tokenizing, quicker"
    ((ids, words),) = trained.encode_batch([text])
    assert len(ids) > words.sum() == 4  # the comma is a word
    starts = np.flatnonzero(words)
    spelled = [trained.decode(part) for part in np.split(ids, starts[1:])]
    assert spelled == ["unaffable", "tokenizing", ",", "quicker"]


def test_special_tokens_do_not_come_out_of_text(trained):
    ((ids, _),) = trained.encode_batch(["[MASK] [PAD] [CLS]"])
    assert not np.isin(ids, [0, 101, 103]).any()


def test_unknown_characters_are_unknown_and_empty_text_is_empty(trained):
    (ids, _), (empty, _) = trained.encode_batch(["\u4e2d", "  "])
    assert ids.tolist() == [100] and len(empty) == 0


def test_training_gives_the_same_vocabulary_in_every_process(trained):
    # Hash seeds differ between processes, which the trainer alone does not survive.
    code = (
        "import json, sys; from etc_jax.data.tokenizers import tokenizer;"
        "size = int(sys.argv[1]);"
        "print(tokenizer.train(json.load(sys.stdin), vocab_size=size).fingerprint())"
    )
    fingerprints = {
        subprocess.run(
            [sys.executable, "-c", code, str(SIZE)],
            input=json.dumps(TEXTS),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for _ in range(3)
    }
    assert fingerprints == {trained.fingerprint()}
    assert tokenizer.train(TEXTS, vocab_size=SIZE).fingerprint() in fingerprints


def test_fingerprint_tells_vocabularies_apart(trained):
    other = tokenizer.train(TEXTS, vocab_size=SIZE - 1)
    assert other.fingerprint() != trained.fingerprint()


def test_sizes_out_of_reach_are_errors():
    with pytest.raises(ValueError, match="leaves no room for words"):
        tokenizer.train(TEXTS, vocab_size=120)
    with pytest.raises(ValueError, match="lower vocab_size"):
        tokenizer.train(TEXTS, vocab_size=30_000)


# --- whole words ----------------------------------------------------------------------


def test_the_most_frequent_words_are_whole_and_others_unknown():
    texts = ["The fox, the Fox.", "the caf\u00e9: fox!", "the quick one"]
    made = frequent_words(texts, vocab_size=104 + 3, special=["[unused102]"])
    # "the" four times, "fox" three times; all others once.
    assert made.pieces(range(104, 107)) == ["[unused102]", "the", "fox"]
    [(ids, _)] = made.encode_batch(["The quick FOX"])
    assert ids.tolist() == [105, 100, 106]
    # Of equally frequent words the first by the alphabet, accents left out.
    more = frequent_words(reversed(texts), vocab_size=104 + 5)
    assert more.pieces([104, 105]) == ["the", "fox"]
    assert more.pieces(range(106, 109)) == ["!", ",", "."]


@pytest.mark.parametrize(
    "learn, more", [(frequent_words, {}), (tokenizer.train, {"min_char_count": 1})]
)
def test_a_cased_vocabulary_keeps_capitals_and_accents(learn, more):
    texts = ["Der B\u00e4cker backt.", "Der B\u00e4cker backt."]
    sizes = {frequent_words: 104 + 4, tokenizer.train: 104 + 30}
    made = learn(texts, vocab_size=sizes[learn], lower_case=False, **more)
    [(ids, _), (lower, _)] = made.encode_batch(["Der B\u00e4cker", "der backer"])
    assert made.pieces(ids) == ["Der", "B\u00e4cker"]
    assert made.decode(ids) == "Der B\u00e4cker"
    assert made.lower_case is False and ids.tolist() != lower.tolist()


@pytest.mark.parametrize("size", [104, 109])
def test_more_words_than_there_are_are_refused(size):
    with pytest.raises(ValueError, match=f"{size}; expected 105 to 108: 104 special"):
        frequent_words(["one two one", "three, one"], vocab_size=size)


def test_further_special_tokens_stand_after_those_of_bert():
    made = tokenizer.train(TEXTS, vocab_size=SIZE, special=["[unused102]"])
    assert made.pieces([103, 104]) == ["[MASK]", "[unused102]"]
    assert made.vocab_size == SIZE and made.token_ids.regular_ids == (105, SIZE)
