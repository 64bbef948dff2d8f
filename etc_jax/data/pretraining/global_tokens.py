"""Where the global tokens of a batch stand."""

import numpy as np


def global_index(mask: np.ndarray, num_globals: int | None = None) -> np.ndarray:
    """Places of global tokens, as `models.encoder.Encoder` takes them.

    Args:
      mask: bool or 0/1 `[b, n]`, as Hugging Face's global_attention_mask.
      num_globals: positions of each row; None: as many as the fullest row needs.

    Returns:
      int32 `[b, num_globals]`, ascending, -1 after the last.

    Raises:
      ValueError: if a row has more.
    """
    mask = np.asarray(mask) > 0
    if mask.ndim != 2:
        raise ValueError(f"mask has shape {mask.shape}, expected [batch, n]")
    counts = mask.sum(axis=1)
    most = int(counts.max(initial=0))
    if num_globals is None:
        num_globals = most
    if most > num_globals:
        raise ValueError(
            f"row {int(counts.argmax())} has {most} global tokens, but there is room "
            f"for {num_globals}; make fewer tokens global, or raise the number"
        )
    index = np.full((len(mask), num_globals), -1, np.int32)
    for row, is_global in zip(index, mask, strict=True):
        positions = np.flatnonzero(is_global)
        row[: len(positions)] = positions
    return index
