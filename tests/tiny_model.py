"""A model small enough to be compiled in seconds, and the ids of its vocabulary."""

from etc_jax.data.tokenizer import TokenIds
from etc_jax.models.etc import EtcConfig

MODEL = EtcConfig(
    vocab_size=64,
    embed_dim=32,
    num_layers=2,
    num_heads=2,
    mlp_dim=64,
    radius=11,
    max_distance=3,
    num_labels=10,
)


def token_ids(vocab_size: int) -> TokenIds:
    """The special tokens first, then text."""
    return TokenIds(
        pad=0,
        sentence=1,
        cpc_mask=2,
        mask=3,
        regular_ids=(4, vocab_size),
        vocab_size=vocab_size,
    )
