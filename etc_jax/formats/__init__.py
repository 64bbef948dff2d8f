"""How records become inputs of a kind of model: windows, and the schemas of batches.

    structured     long_tokens, long_types       int32 [b, n]
                   global_tokens, global_types   int32 [b, g]
                   structure                     Structure
    sequence       tokens, types                 int32 [b, n]
                   example_ids                   int32 [b, n]  1 for a token, 0: padding
                   global_index                  int32 [b, g]  positions, -1 for none
    text_to_text   input_tokens                  int32 [b, n]
                   input_example_ids             int32 [b, n]  as above
                   target_tokens                 int32 [b, m]
                   target_weights                float32 [b, m]  0 for padding

A batch to learn from has `labels` too, a dict, and `weights` float32 `[b]`, 1 for an
input and 0 for padding. Further inputs of a task stand beside, under names of their
own.
"""

from etc_jax.formats import (  # noqa: F401  (they register)
    sequence,
    structured,
    text_to_text,
)
