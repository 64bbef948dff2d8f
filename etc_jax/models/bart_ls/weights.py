"""Names of the weights of a BART-LS, which its authors' code gives."""

from etc_jax.conversion.engine import Row
from etc_jax.models.bart import weights as bart
from etc_jax.models.bart_ls.config import BartLsConfig
from etc_jax.models.encoder_decoder.weights import layer_path, runs_of


def names(config: BartLsConfig) -> tuple[Row, ...]:
    """See `bart.weights.names`: with the layers that attend to averages."""
    if not config.pooling_layers:
        return bart.names(config)
    theirs, side = runs_of(config).top_source(), config.encoder_side
    ours = layer_path("encoder", stack="top_stack")
    return (
        *bart.names(config),
        *bart.maps(f"{theirs}self_attn.", f"{ours}attention/blocks/", side),
        *bart.maps(f"{theirs}pool_attn.", f"{ours}attention/pool/", side),
        *bart.layer(theirs, ours),
    )
