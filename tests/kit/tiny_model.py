"""Models small enough to be compiled in seconds, and the ids of their vocabulary."""

import dataclasses

from etc_jax.data.tokenizers.tokenizer import TokenIds
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.reformer.config import ReformerConfig

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

# Two repeats of both kinds of layer; 48 tokens are several chunks.
REFORMER = ReformerConfig(
    vocab_size=11,
    embed_dim=8,
    num_layers=4,
    pattern=("local", "lsh"),
    num_heads=2,
    mlp_dim=12,
    max_length=48,
    axial_shape=(6, 8),
    axial_dims=(3, 5),
    local_chunk_length=4,
    lsh_chunk_length=8,
    num_buckets=(4,),
    dropout_rate=0.0,
    initializer_range=0.5,
)
# Of which every width differs from the others.
REFORMER_OF_ODD_WIDTHS = dataclasses.replace(
    REFORMER,
    vocab_size=19,
    embed_dim=12,
    head_dim=5,
    mlp_dim=16,
    axial_dims=(4, 8),
    dropout_rate=0.1,
    initializer_range=0.4,
)
# A language model of bytes.
REFORMER_OF_BYTES = ReformerConfig(
    vocab_size=256,
    embed_dim=8,
    num_layers=1,
    pattern=("local",),
    num_heads=2,
    mlp_dim=8,
    max_length=32,
    axial_shape=None,
    axial_dims=None,
    local_chunk_length=8,
    dropout_rate=0.0,
    initializer_range=0.5,
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
