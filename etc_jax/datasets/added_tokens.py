"""Tokens that a task adds to a vocabulary and puts into its inputs."""

from __future__ import annotations

from collections.abc import Sequence

from etc_jax.data.tokenizers.base import Tokenizer


def added_ids(tokenizer: Tokenizer, tokens: Sequence[str], task: str) -> dict[str, int]:
    """Ids of the tokens that a task needs.

    A piece of text that is spelled as one of them is another token.

    Args:
      tokenizer: one that has grown by them.
      tokens: of the task.
      task: its name, for the error.

    Raises:
      ValueError: if the tokenizer lacks one.
    """
    added = tokenizer.added_ids
    if missing := [token for token in tokens if token not in added]:
        raise ValueError(
            f"a vocabulary of {tokenizer.vocab_size} pieces lacks the added tokens "
            f"{', '.join(missing)}, which inputs of {task} have; add them to the model "
            "with etc-jax grow --from=MODEL "
            f"--tokens='{','.join(missing)}' --out=GROWN, and give the tokenizer in "
            "GROWN"
        )
    return {token: added[token] for token in tokens}
