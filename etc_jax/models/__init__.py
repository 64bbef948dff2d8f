"""Model families: named sizes and their assembly from layers."""

# They register families.
from etc_jax.models import (  # noqa: F401
    bart_ls_config,
    encoder,
    encoder_decoder,
    encoder_decoder_flops,
    encoder_decoding,
    encoder_flops,
    encoder_lm,
    etc,
    etc_flops,
    reformer,
    reformer_decoding,
    reformer_flops,
    reformer_seq2seq,
    reformer_seq2seq_decoding,
    seq2seq_decoding,
)
