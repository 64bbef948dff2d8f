"""Variables of official ETC beside its encoder, as the released code makes them."""

import numpy as np

FINAL = "global_output_layer/transform/residual_block"


def shapes(task: str, width: int, inner: int, *, looks=True, final_layer=True) -> dict:
    """{variable: shape} of the head of a task.

    Args:
      task: hotpotqa, natural_questions, openkp or wikihop.
      width: of the model.
      inner: of its feed-forward blocks.
      looks: of openkp, whether the model sees how a page looks.
      final_layer: of wikihop, whether there is one.
    """
    if task == "hotpotqa":
        found = {}
        sizes = {"supporting_facts": 1, "answer_type": 3, "answer_span": 2}
        for name, n in sizes.items():
            found |= {f"{name}_output_weights": (n, width), f"{name}_output_bias": (n,)}
        return found
    if task == "natural_questions":
        return {
            "cls/nq/long_output_weights": (4, width),
            "cls/nq/long_output_bias": (4,),
            "answer_type_output_weights": (5, width),
            "answer_type_output_bias": (5,),
        }
    if task == "wikihop":
        final = {
            f"{FINAL}/dense_layers/layer_0/kernel": (width, inner),
            f"{FINAL}/dense_layers/layer_0/bias": (inner,),
            f"{FINAL}/dense_layers/layer_1/kernel": (inner, width),
            f"{FINAL}/dense_layers/layer_1/bias": (width,),
            f"{FINAL}/layer_norm/gamma": (width,),
            f"{FINAL}/layer_norm/beta": (width,),
        }
        found = {"output_weights": (1, width), "output_bias": (1,)}
        return found | (final if final_layer else {})
    return ngrams(width) | (visual(width) if looks else {})


def ngrams(width: int) -> dict:
    """The head of openkp alone."""
    found = {f"word_emb_layer_norm/{x}": (width,) for x in ("gamma", "beta")}
    for k in range(1, 6):
        found |= {
            f"{k}gram_conv/kernel": (k, width, width),
            f"{k}gram_conv/bias": (width,),
            f"{k}gram_layer_norm/gamma": (width,),
            f"{k}gram_layer_norm/beta": (width,),
            f"logit_dense{k - 1}/kernel": (width, 1),
        }
    return found


def visual(width: int) -> dict:
    """What openkp's model sees pages by."""
    return {
        "indicator_cross_emb_lookup/embedding_table": (8, width),
        "font_id_emb_lookup/embedding_table": (24, width),
        "parent_font_id_emb_lookup/embedding_table": (24, width),
        "dense_feature_projection/kernel": (13, width),
        "dense_feature_projection/bias": (width,),
        "dense_feature_layer2/kernel": (width, width),
        "dense_feature_layer2/bias": (width,),
    }


def drawn(found: dict) -> dict[str, np.ndarray]:
    """Random variables of those shapes."""
    rng = np.random.default_rng(0)
    return {k: rng.normal(size=shape).astype(np.float32) for k, shape in found.items()}
