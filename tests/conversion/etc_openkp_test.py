import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.base.types import Rows
from etc_jax.conversion.engine import export_params, import_params
from etc_jax.conversion.families import etc_openkp
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.ngram_head import NgramHead
from etc_jax.models.openkp import EtcForKeyphrases, VisualEmbedding
from etc_jax.ops.visual import Visual
from etc_jax.structure import Structure

E = 4
CONFIG = EtcConfig(embed_dim=E, num_heads=2)
IDS = jnp.zeros((1, 2), jnp.int32)

# Official variable -> shape, as the released code makes them.
HEAD = {
    "word_emb_layer_norm/gamma": (E,),
    "word_emb_layer_norm/beta": (E,),
    **{f"{k}gram_conv/kernel": (k, E, E) for k in range(1, 6)},
    **{f"{k}gram_conv/bias": (E,) for k in range(1, 6)},
    **{f"{k}gram_layer_norm/gamma": (E,) for k in range(1, 6)},
    **{f"{k}gram_layer_norm/beta": (E,) for k in range(1, 6)},
    **{f"logit_dense{k}/kernel": (E, 1) for k in range(5)},
}
VISUAL = {
    "indicator_cross_emb_lookup/embedding_table": (8, E),
    "font_id_emb_lookup/embedding_table": (24, E),
    "parent_font_id_emb_lookup/embedding_table": (24, E),
    "dense_feature_projection/kernel": (13, E),
    "dense_feature_projection/bias": (E,),
    "dense_feature_layer2/kernel": (E, E),
    "dense_feature_layer2/bias": (E,),
}
LOOK = Visual(IDS, IDS, IDS, jnp.zeros((1, 2, 8)))
PARTS = {
    "head": (NgramHead(CONFIG), (jnp.zeros((1, 2, E)), IDS), etc_openkp.HEAD, HEAD),
    "visual": (
        VisualEmbedding(CONFIG),
        (LOOK,),
        etc_openkp.VISUAL,
        VISUAL,
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_official_variables_come_in_and_out_unchanged(name):
    module, inputs, table, shapes = PARTS[name]
    rng = np.random.default_rng(0)
    official = {k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()}
    abstract = jax.eval_shape(module.init, jax.random.key(0), *inputs)["params"]
    params, report = import_params(table, official, abstract)
    assert not report.missing and not report.unused
    back = export_params(table, params)
    assert set(back) == set(official)
    for variable, value in official.items():
        np.testing.assert_array_equal(back[variable], value)


def test_the_rows_are_those_of_all_but_the_encoder():
    tokens = Rows(IDS, IDS)
    structure = Structure(IDS, IDS, jnp.zeros((1, 2, 1), jnp.int16))
    model = EtcForKeyphrases(dataclasses.replace(CONFIG, mlp_dim=6, num_layers=1))
    call = (tokens, structure, tokens, IDS, LOOK)
    abstract = jax.eval_shape(model.init, jax.random.key(0), *call)["params"]
    del abstract["encoder"]
    official = {k: np.zeros(s, np.float32) for k, s in {**HEAD, **VISUAL}.items()}
    params, _ = import_params(etc_openkp.ROWS, official, abstract)
    assert jax.tree.map(np.shape, params) == jax.tree.map(np.shape, abstract)
