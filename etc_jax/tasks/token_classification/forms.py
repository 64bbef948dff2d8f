"""What a `Task` is where tags are of entities, and where they are plain."""

import functools
from typing import Any

from etc_jax.tasks.token_classification import schemes
from etc_jax.tasks.token_classification.decoding import (
    entities_right,
    score_entities,
    score_plain,
)
from etc_jax.tasks.token_classification.explained import pool_entities, pool_plain

ENTITIES: dict[str, Any] = {
    "metric": "f1",
    "score": score_entities,
    "right_share": entities_right,
    "pool_explained": pool_entities,
}
PLAIN_TAGS: dict[str, Any] = {
    "metric": "accuracy",
    "score": score_plain,
    "right_share": None,
    "pool_explained": pool_plain,
}


def fields_of(scheme: str) -> dict[str, Any]:
    """The fields of a `Task` for the tags of a scheme."""
    if scheme == schemes.PLAIN:
        return PLAIN_TAGS
    if scheme not in schemes.STRICT:
        return ENTITIES
    read = functools.partial(schemes.strict_spans_of, scheme=scheme)
    return ENTITIES | {
        "score": functools.partial(score_entities, read=read),
        "pool_explained": functools.partial(pool_entities, read=read),
    }
