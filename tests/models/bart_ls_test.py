"""BART-LS: what its encoder sees, padding, meshes, errors."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from encoder_decoder_test import (
    SIZES,
    apply,
    random_params,
    tokens,
)

from etc_jax.models.bart_ls.config import BartLsConfig
from etc_jax.models.encoder_decoder.body import EncoderDecoder

CONFIG = BartLsConfig(
    **SIZES | {"num_layers": 3},
    max_target_length=16,
    block_size=8,
    pooling_layers=2,
    pool_kernel=6,
    pool_stride=4,
    pool_padding=3,
)
# The rows of table 1.
ROWS = {
    "blocks": {"pooling_layers": 0},
    "overlap": {"pooling_layers": 0, "overlap": True},
    "globals": {"pooling_layers": 0, "num_globals": 2},
    "pooling": {},
}


def config_of(row):
    return dataclasses.replace(CONFIG, **ROWS[row])


def reads_of(config, place, n=32):
    """Which tokens the row of one place depends on, bool `[n]`."""
    places = np.arange(n, dtype=np.int32)[None]
    config = dataclasses.replace(
        config, vocab_size=n, pad_id=0, eos_id=0, decoder_start_id=0
    )
    params = random_params(config)
    model = EncoderDecoder(config)

    def out(table):
        variables = {"params": params | {"token_embedder": {"embedding": table}}}
        rows = model.apply(variables, places, method="encode").rows
        return jnp.sum(jnp.sin(rows[0, place]))

    table = params["token_embedder"]["embedding"]
    return np.abs(jax.jit(jax.grad(out))(table)).max(axis=1) > 0


def test_layers_with_averages_read_everything():
    """A single one, whose token 18 is in the block 16 to 23."""
    changes = {"num_layers": 1, "pooling_layers": 1}
    config = dataclasses.replace(config_of("pooling"), **changes)
    assert reads_of(config, 18).all()


def test_positions_count_tokens_alone():
    """Padding inside a text has none, as in fairseq."""
    config = dataclasses.replace(
        config_of("blocks"), block_size=64, num_layers=1, pooling_layers=0
    )
    params, read = random_params(config), tokens(1, 9)
    holes = np.insert(read, [3, 3, 6], config.pad_id, axis=1)
    ids = np.insert(np.ones_like(read), [3, 3, 6], 0, axis=1)
    got = apply(config, params, holes, None, ids, method=_rows)
    want = apply(config, params, read, None, None, method=_rows)
    np.testing.assert_allclose(got[0, ids[0] > 0], want[0], atol=2e-5)


def _rows(model, read, written, ids):
    del written
    return model.encode(read, ids).rows


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"block_size": 0}, "block_size is 0; expected 1 or more"),
        (
            {"pooling_layers": 4},
            "pooling_layers is 4; expected 0 to num_layers, 3",
        ),
        ({"num_globals": 9}, "num_globals is 9, of blocks of 8 tokens"),
        ({"pool_padding": 4}, "pool_padding is 4; expected half of pool_kernel 6"),
        ({"pool_stride": 0}, "pool_stride is 0; expected 1 or more"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    config = dataclasses.replace(CONFIG, **changes)
    with pytest.raises(ValueError, match=message):
        EncoderDecoder(config).init(jax.random.key(0), tokens(1, 4), tokens(1, 4))
