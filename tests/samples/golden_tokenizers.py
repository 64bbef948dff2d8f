"""The real vocabularies of the golden cases of tokenizers."""

import functools

from golden_data import require_shared

from etc_jax.data.tokenizers.tokenizer import (
    Tokenizer,
    WordPieceTokenizer,
    open_tokenizer,
)

# Kind in a case -> folder of the vocabulary.
FOLDERS = {
    "bert": "bert_base_uncased",
    "roberta_bart": "roberta_bart",
    "gpt2": "gpt2",
    "t5": "t5",
}
# The program behind the BERT cases took "[MASK]" in a text for the special token.
BERT_MASK = 103


@functools.cache
def open_golden(kind: str) -> Tokenizer:
    """The tokenizer that the cases of a kind were made with."""
    folder = require_shared(f"data/tokenizers/{FOLDERS[kind]}")
    if kind == "bert":
        # The cases were made with the default limit of the tokenizers package, 100
        # characters a word; the official limit, and ours, is 200.
        return WordPieceTokenizer.from_vocab_file(
            folder / "vocab.txt", max_word_chars=100
        )
    return open_tokenizer(folder)
