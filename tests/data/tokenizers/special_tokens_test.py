import numpy as np
import pytest
from hypothesis import given, strategies as st

from etc_jax.data.tokenizers import special_tokens as sp

# Specification of official ETC, tokenisation: uncased BERT, in which [unused<n>] has
# the id n + 1 up to 99, then [UNK] [CLS] [SEP] [MASK], then [unused99] and on.
BERT = ["[PAD]", *(f"[unused{i}]" for i in range(99)), "[UNK]", "[CLS]", "[SEP]"]
BERT += ["[MASK]", *(f"[unused{i}]" for i in range(99, 994)), "!", "the"]
SENTENCE_PIECES = ["<pad>", "</s>", "<s>"]
SENTENCE_PIECES += [*(f"<unused_{n}>" for n in range(2, 100)), "a"]


def test_roles_of_wordpiece_have_the_official_ids():
    assert sp.resolve(sp.WORDPIECE, BERT) == {
        **{"pad": 0, "sentence": 1, "cpc_mask": 2, "mask": 103, "cls": 101, "sep": 102},
        **{"question": 3, "candidate": 4, "paragraph": 5, "nq_question": 35},
        **{"nq_cls": 101, "nq_sep": 102, "nq_html_start": 107, "nq_html_end": 108},
    }
    assert BERT[35] == "[unused34]"


def test_roles_of_sentencepiece_have_the_official_ids():
    assert sp.resolve(sp.SENTENCEPIECE, SENTENCE_PIECES) == {
        **{"pad": 0, "sentence": 1, "cpc_mask": 2},
        **{"cls": 40, "question": 41, "candidate": 42, "paragraph": 43},
        **{"nq_cls": 64, "nq_sep": 3, "nq_question": 35},
        **{"nq_html_start": 36, "nq_html_end": 37},
    }


def test_a_number_is_not_taken_where_text_stands():
    pieces = ["[PAD]", "the", "[unused1]", "[UNK]", "[MASK]", "cat"]
    assert sp.resolve(sp.WORDPIECE, pieces) == {
        **{"pad": 0, "cpc_mask": 2, "mask": 4, "question": 3, "candidate": 4}
    }


@pytest.mark.parametrize(
    "table, piece, reserved",
    [
        (sp.WORDPIECE, "[unused993]", True),
        (sp.WORDPIECE, "[unused]", False),
        (sp.WORDPIECE, "[", False),
        (sp.SENTENCEPIECE, "<unused_12>", True),
        (sp.SENTENCEPIECE, "<extra_id_99>", True),
        (sp.SENTENCEPIECE, "<sun>", False),
        (sp.BYTE_LEVEL, "<|endoftext|>", True),
        (sp.BYTE_LEVEL, "madeupword0002", True),
        (sp.BYTE_LEVEL, "<?", False),
    ],
)
def test_reserved_pieces(table, piece, reserved):
    assert table.is_reserved(piece) is reserved


@given(st.lists(st.booleans()))
def test_longest_run_is_a_run_and_none_is_longer(flags):
    first, stop = sp.longest_run(np.array(flags, bool))
    assert all(flags[first:stop])
    runs = "".join("x" if flag else " " for flag in flags).split()
    assert stop - first == max(map(len, runs), default=0)
