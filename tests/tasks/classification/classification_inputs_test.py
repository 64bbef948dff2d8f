"""Inputs of texts to be classified: their layout, and what of a text is cut off."""

import numpy as np
import pytest
from classification_samples import article, review
from golden_data import require_shared
from multihop_samples import tokenizer
from tokenizer_samples import byte_bpe, wordpiece

from etc_jax.data.schema import stacked
from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.tasks import classification, hyperpartisan, imdb

HYPERPARTISAN_TASK = hyperpartisan.DATA_SET.in_format()
IMDB_TASK = imdb.DATA_SET.in_format()

SIZES = SequenceSizes(input_length=16, global_length=3)


def window(record=None, model=None, sizes=SIZES):
    [made] = classification.inputs.features(
        record or review(), model or tokenizer(), sizes
    )
    return made


# --- layout ---------------------------------------------------------------------------


def test_the_layout_with_a_vocabulary_of_bert():
    made = window()
    assert tokenizer().pieces(made.tokens) == [
        *("[CLS]", "the", "old", "mill", "stands", ".", "it", "is", "old", "[SEP]"),
        *["[PAD]"] * 6,
    ]
    assert made.example_ids.tolist() == [1] * 10 + [0] * 6
    assert made.global_index.tolist() == [0, -1, -1]
    assert made.global_index.dtype == np.int32
    assert not made.types.any() and made.num_chars == len(made.record.text)


def test_the_layout_with_a_vocabulary_of_roberta():
    model = byte_bpe()
    made = window(review(text="the cat's"), model)
    assert model.pieces(made.tokens[:5]) == ["<s>", "the", "Ġcat", "'s", "</s>"]
    assert made.example_ids.tolist() == [1] * 5 + [0] * 11
    assert made.global_index.tolist() == [0, -1, -1]


@pytest.mark.parametrize("model", [tokenizer, byte_bpe])
def test_white_space_is_one_space(model):
    spaced = "the<br /><br />old \t mill\u3000is\n old"
    many, one = (
        window(review(text=x), model()) for x in (spaced, "the old mill is old")
    )
    assert many.tokens.tolist() == one.tokens.tolist()


@pytest.mark.parametrize(
    "record, number",
    [
        (review(label=0, rating=2), 0),
        (review(), 1),
        (article(label="false"), 0),
        (article(), 1),
    ],
)
def test_the_label_is_a_number(record, number):
    made = window(record)
    assert made.labels["label"].shape == () and made.labels["label"].dtype == np.int32
    assert int(made.labels["label"]) == number and made.unusable is None
    assert record.labels[number] == record.label


def test_both_tasks_read_a_text_alike():
    one, other = window(review(text=article().text)), window(article())
    assert one.tokens.tolist() == other.tokens.tolist()


# --- what does not fit ----------------------------------------------------------------


@pytest.mark.parametrize("model", [tokenizer, wordpiece, byte_bpe])
@pytest.mark.parametrize("n", [3, 4, 5, 8, 11, 16, 40])
def test_the_head_of_a_text_is_kept(model, n):
    text = "the  cat.\n\nthe\u3000cat's a cat"
    whole, cut = (
        window(review(text=text), model(), SequenceSizes(k, 1)) for k in (99, n)
    )
    length = int(whole.example_ids.sum())
    kept = min(n, length)
    ids = cut.tokens.tolist()
    assert ids[: kept - 1] == whole.tokens.tolist()[: kept - 1]
    assert ids[kept - 1] == whole.tokens[length - 1]
    assert cut.example_ids.tolist() == [1] * kept + [0] * (n - kept)
    # The characters that are said to be in it are those that its tokens spell.
    read, spelled = cut.record.text[: cut.num_chars], ids[1 : kept - 1]
    assert "".join(read.split()) == _letters(text, model(), spelled)
    assert not read[-1].isspace() and (kept < length or read == text)


def _letters(text: str, model, ids: list[int]) -> str:
    """What some tokens spell, without spaces; an unknown word by its own letters."""
    one_by_one = "".join(text.split())
    spelled = "".join(p.removeprefix("##").removeprefix("Ġ") for p in model.pieces(ids))
    # The only character of the text that a vocabulary lacks is the apostrophe.
    spelled = spelled.replace("[UNK]", "'")
    assert one_by_one.startswith(spelled)
    return spelled


def test_sizes_without_room_for_a_text_are_refused():
    with pytest.raises(ValueError, match="input_length 2 leaves no room.*at least 3"):
        window(sizes=SequenceSizes(2, 1))
    assert tokenizer().pieces(window(sizes=SequenceSizes(3, 1)).tokens)[1] == "the"


def test_a_text_without_a_token_is_named():
    with pytest.raises(BadRecordError, match="no text: 'train/pos/1_9' has no token"):
        window(review(text="\u200b"), tokenizer())
    with pytest.raises(BadRecordError, match="no Unicode"):
        window(review(text="half \ud800"), byte_bpe())


def test_no_inputs_are_no_batch():
    with pytest.raises(ValueError, match="at least one"):
        stacked([])


# --- real files -----------------------------------------------------------------------

REAL = {
    IMDB_TASK: ("imdb/test.slice.jsonl.gz", 200),
    HYPERPARTISAN_TASK: (
        "hyperpartisan/articles-train_dev.xml.gz",
        580,
    ),
}


@pytest.mark.parametrize("task", REAL, ids=lambda task: task.name)
def test_real_texts_are_cut_as_the_tokenizer_cuts_them(task):
    folder = require_shared("data")
    name, number = REAL[task]
    model = open_tokenizer(folder / "tokenizers" / "roberta_bart")
    sizes = SequenceSizes(512, 1)
    records = list(task.read([folder / name], None))
    assert len(records) == number
    cls, sep = model.special_id("cls"), model.special_id("sep")
    for record in records[:40]:
        [made] = task.features(record, model, sizes)
        ids = made.tokens.tolist()
        length = int(made.example_ids.sum())
        [(want, _)] = model.encode_batch([" ".join(record.text.split())])
        assert ids[:length] == [cls, *want.tolist()[:510], sep]
        if length < 512:
            assert model.decode(ids[1:-1][: length - 2]) == " ".join(
                record.text.split()
            )
