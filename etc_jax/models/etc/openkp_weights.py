"""Official OpenKP checkpoints: the names of the variables beside the encoder's.

They stand at the root of a checkpoint, as those of `head_weights` do.
"""

import dataclasses

from etc_jax.conversion.engine import Row
from etc_jax.ops.ngrams import MAX_WORDS


def _norm(source: str, target: str) -> tuple[Row, Row]:
    return (
        Row(f"{source}/gamma", f"{target}/scale"),
        Row(f"{source}/beta", f"{target}/bias"),
    )


HEAD: tuple[Row, ...] = (
    *_norm("word_emb_layer_norm", "word_norm"),
    Row("{k:\\d}gram_conv/{leaf:kernel|bias}", "ngram_{k}/{leaf}"),
    Row("{k:\\d}gram_layer_norm/gamma", "ngram_{k}_norm/scale"),
    Row("{k:\\d}gram_layer_norm/beta", "ngram_{k}_norm/bias"),
    # Counted from 0 there.
    *(
        Row(f"logit_dense{k - 1}/kernel", f"ngram_{k}_logit/kernel")
        for k in range(1, MAX_WORDS + 1)
    ),
)

# With what those of looks begin; a model that sees none has none.
LOOKS = ("indicator_cross_", "font_id_", "parent_font_id_", "dense_feature_")

VISUAL: tuple[Row, ...] = (
    Row("indicator_cross_emb_lookup/embedding_table", "flag_embedder/embedding"),
    Row("font_id_emb_lookup/embedding_table", "font_embedder/embedding"),
    Row("parent_font_id_emb_lookup/embedding_table", "parent_font_embedder/embedding"),
    Row("dense_feature_projection/{leaf:kernel|bias}", "looks_in/{leaf}"),
    Row("dense_feature_layer2/{leaf:kernel|bias}", "looks_out/{leaf}"),
)

# Of `models.openkp.EtcForKeyphrases`, all but the encoder.
ROWS: tuple[Row, ...] = tuple(
    dataclasses.replace(row, target=f"{part}/{row.target}")
    for part, rows in (("head", HEAD), ("visual", VISUAL))
    for row in rows
)
