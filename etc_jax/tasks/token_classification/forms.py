"""What a `Task` is where tags are of entities, and where they are plain."""

from typing import Any

from etc_jax.tasks.token_classification.decoding import (
    entities_right,
    score_entities,
    score_plain,
)
from etc_jax.tasks.token_classification.explained import (
    pool_entities,
    pool_plain,
)

ENTITIES: dict[str, Any] = {
    "measure": "f1",
    "score": score_entities,
    "right_share": entities_right,
    "pool_explained": pool_entities,
}
PLAIN_TAGS: dict[str, Any] = {
    "measure": "accuracy",
    "score": score_plain,
    "right_share": None,
    "pool_explained": pool_plain,
}
