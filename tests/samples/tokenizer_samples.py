"""Small tokenizers of every kind, made on the spot."""

import io

import sentencepiece
from tokenizers import pre_tokenizers

from etc_jax.data.tokenizers.byte_bpe import ByteBpeTokenizer
from etc_jax.data.tokenizers.sentence_pieces import SentencePieceTokenizer
from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer

LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]

WORDPIECES = [
    *("[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("[unused2]", *LETTERS, *("##" + c for c in LETTERS)),
    *("[", "]", ".", ",", "the", "cat", "##s", "mask", "E", "Cat"),
]
WORDPIECES = list(dict.fromkeys(WORDPIECES))

# The space is spelled as U+0120, as in GPT-2.
MERGES = [("t", "h"), ("th", "e"), ("\u0120", "the"), ("c", "a"), ("ca", "t")]
MERGES += [("\u0120", "cat"), ("'", "s"), ("\u0120", "\u0120")]
BPE_PIECES = ["<s>", "<pad>", "</s>", "<unk>"]
BPE_PIECES += sorted(pre_tokenizers.ByteLevel.alphabet())
BPE_PIECES += [first + second for first, second in MERGES] + ["<mask>"]

SENTENCES = [
    "the cat sat on the mat, and the cats saw 1,234 dogs in 1999, 2000 and 2001,",
    "dogs and cats; it cost 1,000, or 2,500. the dog's mat is a 10, not a 7, they say",
    "a cat said: less < more > most / all_0123456789 mask and mask, unused pad",
] * 20
UNUSED = [f"<unused_{n}>" for n in range(2, 67)]


def wordpiece(**options) -> WordPieceTokenizer:
    return WordPieceTokenizer(WORDPIECES, **options)


def byte_bpe(**options) -> ByteBpeTokenizer:
    return ByteBpeTokenizer(BPE_PIECES, MERGES, **options)


def train_model(**options) -> bytes:
    """A .model file over SENTENCES."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(SENTENCES),
        model_writer=file,
        minloglevel=2,
        character_coverage=1.0,
        num_threads=1,
        split_by_number=False,
        split_by_unicode_script=False,
        hard_vocab_limit=False,
        **options,
    )
    return file.getvalue()


def official_model() -> bytes:
    """A model with the ids of official ETC's: <pad> </s> <s> <unused_2> ... <mask>."""
    return train_model(
        model_type="bpe",
        vocab_size=200,
        pad_id=0,
        eos_id=1,
        bos_id=2,
        unk_id=68,
        user_defined_symbols=[*UNUSED, "<mask>"],
    )


def t5_model() -> bytes:
    """A model with the ids of T5's: <pad> </s> <unk>."""
    return train_model(vocab_size=90, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)


def sentence_pieces(model: bytes | None = None, **options) -> SentencePieceTokenizer:
    return SentencePieceTokenizer(model or official_model(), **options)
