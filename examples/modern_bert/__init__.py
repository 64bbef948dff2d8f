"""ModernBERT (Warner et al. 2024): a family of models in a folder outside the library.

`--plugin=modern_bert` makes it known: `--config.model.family=modern_bert`.
"""

from etc_jax.models.family import Family, register
from modern_bert.body import ModernBert, ModernBertFlops, ModernBertForMaskedLm
from modern_bert.config import ModernBertConfig
from modern_bert.extension import EXTENSION
from modern_bert.weights import EXCHANGE, names

FAMILY = register(
    "modern_bert",
    Family(
        ModernBertConfig,
        sizes={
            "base": ModernBertConfig(),
            "large": ModernBertConfig(
                embed_dim=1024, num_layers=28, num_heads=16, mlp_dim=2624
            ),
        },
        body=ModernBert,
        masked_lm=ModernBertForMaskedLm,
        flops=ModernBertFlops,
        text_encoder="sequence",
        weight_names=names,
        exchange=EXCHANGE,
        extension=EXTENSION,
    ),
)
