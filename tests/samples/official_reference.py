"""The official encoder in numpy, straight from its variables: slow, float64, dense.

Written from the description of the official model, apart from our modules; it reads
variables by their official names, so it also says what every name means.
"""

import math

import numpy as np

ROOT = "etc_document_bert/"
LAYERS = f"{ROOT}global_local_transformer_layers/"


def variable_shapes(c: dict) -> dict[str, tuple[int, ...]]:
    """Official variable name -> shape, for a full official config."""
    hidden, width = c["hidden_size"], c["num_attention_heads"] * _head_size(c)
    embedding = c["embedding_size"] or hidden
    shapes = {
        f"{ROOT}token_emb_lookup/embedding_table": (c["vocab_size"], embedding),
        f"{ROOT}segment_emb_lookup/embedding_table": (c["segment_vocab_size"], hidden),
    }
    if embedding != hidden:
        shapes |= _dense(f"{ROOT}token_emb_lookup/projection", embedding, hidden)
    for side in ("long", "global"):
        shapes |= _norm(f"{ROOT}{side}_emb_layer_norm", hidden)
        if rows := c["max_absolute_position_embeddings"]:
            shapes[f"position_emb_lookup_{side}/embedding_table"] = (rows, hidden)
    for i in range(c["num_hidden_layers"]):
        layer = f"{LAYERS}fused_att_layer_{i}"
        for name in projections(c):
            where = f"{layer}/fused_global_local_att/{name}_projection/linear"
            shapes |= _dense(where, hidden, width)
        for side in ("long",) if c["share_att_output_projection"] else SIDES:
            where = f"{layer}/fused_global_local_att/{side}_output_projection"
            shapes |= _dense(where, width, hidden)
        if (v := c["relative_vocab_size"]) is not None:
            for table in TABLES:
                where = f"{layer}/fused_global_local_att/{table}/relative_"
                heads = c["num_attention_heads"]
                shapes[f"{where}emb_table"] = (v, heads, _head_size(c))
                shapes[f"{where}bias_table"] = (v, heads)
        for number in (0, 1):
            shapes |= _norm(f"{layer}/layer_norm_{number}", hidden)
        for prefix in ("",) if c["share_feed_forward_params"] else ("long_", "global_"):
            where = f"{LAYERS}{prefix}feed_forward_layer_{i}"
            inner = c["intermediate_size"]
            shapes |= _dense(f"{where}/dense_layers/layer_0", hidden, inner)
            shapes |= _dense(f"{where}/dense_layers/layer_1", inner, hidden)
            shapes |= _norm(f"{where}/layer_norm", hidden)
    return shapes


SIDES = ("long", "global")
TABLES = ("long_qkv_attention/qkv_relative_attention", "global_qkv_attention")


def _head_size(c: dict) -> int:
    return c["att_size_per_head"] or c["hidden_size"] // c["num_attention_heads"]


def _dense(name: str, rows: int, columns: int) -> dict:
    return {f"{name}/kernel": (rows, columns), f"{name}/bias": (columns,)}


def _norm(name: str, size: int) -> dict:
    return {f"{name}/gamma": (size,), f"{name}/beta": (size,)}


def projections(c: dict) -> list[str]:
    """The query, key and value projections that exist in a sharing mode."""
    if c["share_qkv_projections"]:
        pieces = ["l2l"]
    elif c["share_kv_projections"]:
        pieces = ["l2l", "g2g"]
    else:
        pieces = ["l2l", "l2g", "g2g", "g2l"]
    queries = ["long_query"] + ["global_query"] * (not c["share_qkv_projections"])
    return queries + [f"{p}_{kind}" for p in pieces for kind in ("key", "value")]


class Reference:
    """The model: `Reference(config, variables)(inputs)`."""

    def __init__(self, config: dict, variables: dict):
        self.c = config
        self.w = {k: np.asarray(v, np.float64) for k, v in variables.items()}

    def __call__(self, inputs: dict) -> tuple[np.ndarray, np.ndarray]:
        """(long output, global output)."""
        x = [self._embed(inputs, side) for side in SIDES]
        for i in range(self.c["num_hidden_layers"]):
            x = self._layer(i, x, inputs)
        return tuple(x)

    def _embed(self, inputs, side):
        g = "" if side == "long" else "global_"
        ids = inputs[f"{g}token_ids"]
        x = self.w[f"{ROOT}token_emb_lookup/embedding_table"][ids]
        if f"{ROOT}token_emb_lookup/projection/kernel" in self.w:
            x = self._linear(f"{ROOT}token_emb_lookup/projection", x)
        default = np.full_like(ids, 1 if side == "long" else 0)
        segments = inputs.get(f"{g}segment_ids", default)
        x = x + self.w[f"{ROOT}segment_emb_lookup/embedding_table"][segments]
        if self.c["max_absolute_position_embeddings"]:
            order = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
            places = inputs.get(f"{g}position_ids", order)
            x = x + self.w[f"position_emb_lookup_{side}/embedding_table"][places]
        x = x + inputs.get(f"{side}_embedding_adder", 0.0)
        return self._normed(f"{ROOT}{side}_emb_layer_norm", x)

    def _linear(self, name, x):
        return x @ self.w[f"{name}/kernel"] + self.w[f"{name}/bias"]

    def _normed(self, name, x):
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred**2).mean(-1, keepdims=True)
        y = centred / np.sqrt(variance + 1e-12)
        return y * self.w[f"{name}/gamma"] + self.w[f"{name}/beta"]

    def _layer(self, i, x, inputs):
        layer = f"{LAYERS}fused_att_layer_{i}"
        norms = [f"{layer}/layer_norm_{number}" for number in (0, 1)]
        x = self._residual(x, norms, lambda y: self._attention(layer, y, inputs))
        shared = self.c["share_feed_forward_params"]
        blocks = [
            f"{LAYERS}{'' if shared else side + '_'}feed_forward_layer_{i}"
            for side in SIDES
        ]
        norms = [f"{block}/layer_norm" for block in blocks]
        return self._residual(
            x, norms, lambda y: [self._mlp(*a) for a in zip(blocks, y, strict=True)]
        )

    def _residual(self, x, norms, branch):
        norm = [self._normed] * 2
        if self.c["use_pre_activation_order"]:
            y = branch([f(n, a) for f, n, a in zip(norm, norms, x, strict=True)])
            return [a + b for a, b in zip(x, y, strict=True)]
        y = branch(x)
        return [f(n, a + b) for f, n, a, b in zip(norm, norms, x, y, strict=True)]

    def _mlp(self, block, x):
        x = self._linear(f"{block}/dense_layers/layer_0", x)
        root = math.sqrt(2 / math.pi)
        x = {
            "gelu": lambda: 0.5 * x * (1 + np.tanh(root * (x + 0.044715 * x**3))),
            "relu": lambda: np.maximum(x, 0),
            "tanh": lambda: np.tanh(x),
            "linear": lambda: x,
            None: lambda: x,
        }[self.c["hidden_act"]]()
        return self._linear(f"{block}/dense_layers/layer_1", x)

    def _attention(self, layer, x, inputs):
        base = f"{layer}/fused_global_local_att/"
        out = []
        for side, own, pieces in zip(
            (0, 1), SIDES, ("l2l l2g", "g2g g2l"), strict=True
        ):
            y = self._softmax(base, side, x, pieces.split(), inputs)
            same = self.c["share_att_output_projection"]
            name = "long" if same else own
            out.append(self._linear(f"{base}{name}_output_projection", y))
        return out

    def _heads(self, base, name, x):
        y = self._linear(f"{base}{name}_projection/linear", x)
        return y.reshape(*y.shape[:-1], self.c["num_attention_heads"], -1)

    def _softmax(self, base, side, x, pieces, inputs):
        share_qkv = self.c["share_qkv_projections"]
        owner = SIDES[0 if share_qkv else side]
        query = self._heads(base, f"{owner}_query", x[side])
        logits, values = [], []
        for piece in pieces:
            other = x[0 if piece[2] == "l" else 1]
            name = piece
            if share_qkv:
                name = "l2l"
            elif self.c["share_kv_projections"]:
                name = "l2l" if side == 0 else "g2g"
            key = self._heads(base, f"{name}_key", other)
            values.append(self._heads(base, f"{name}_value", other))
            score = np.einsum("bqhd,bkhd->bhqk", query, key)
            mask, ids = self._side_inputs(piece, score.shape, inputs)
            if ids is not None:
                table = f"{base}{TABLES[side]}/relative_"
                rows = self.w[f"{table}emb_table"][ids]  # [b, q, k, h, d]
                score = score + np.einsum("bqhd,bqkhd->bhqk", query, rows)
                score = score + np.moveaxis(self.w[f"{table}bias_table"][ids], -1, 1)
            score = score / math.sqrt(query.shape[-1])
            logits.append(score - 10000.0 * (1 - mask[:, None]))
        logits = np.concatenate(logits, axis=-1)
        p = np.exp(logits - logits.max(-1, keepdims=True))
        p = p / p.sum(-1, keepdims=True)
        y = np.einsum("bhqk,bkhd->bqhd", p, np.concatenate(values, axis=1))
        return y.reshape(*y.shape[:2], -1)

    def _side_inputs(self, piece, shape, inputs):
        b, _, q, k = shape
        mask = inputs.get(f"{piece}_att_mask")
        ids = inputs.get(f"{piece}_relative_att_ids")
        if piece != "l2l":
            return np.ones((b, q, k)) if mask is None else mask, ids
        width = 2 * self.c["local_radius"] + 1
        mask = np.ones((b, q, width), int) if mask is None else mask
        return _square(mask, q), None if ids is None else _square(ids, q)


def _square(band, n):
    """Slot s of row i is column i + s - radius."""
    radius = band.shape[-1] // 2
    out = np.zeros((len(band), n, n), band.dtype)
    for i in range(n):
        for slot in range(band.shape[-1]):
            if 0 <= i + slot - radius < n:
                out[:, i, i + slot - radius] = band[:, i, slot]
    return out
