"""Small random models in folders laid out as public ones are: names, files, rows."""

from __future__ import annotations

import argparse
import json
import pathlib
import random
from typing import NamedTuple

import numpy as np
import tokenizers

WORDS = [
    a + b + c
    for a in ("ba", "do", "fi", "ku", "le", "mo")
    for b in ("ra", "te", "zi", "no")
    for c in ("", "s", "lin")
]
TEXTS = (
    "Bara dote, fizi kuno lelin.",
    "mozis (dorates)   naïve\tlera",
    "12 kurates 日本",
)
# Of an encoder-decoder by the keys of BART; of T5's families in their own.
_SIZES = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
    "init_std": 0.5,
}
_T5_SIZES = {
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 24,
    "num_layers": 1,
    "num_decoder_layers": 1,
    "num_heads": 2,
}
FILLERS = 5


class Layout(NamedTuple):
    """A model as a public one lies on disk, and what it should compute.

    Attributes:
      source: what `etc-jax convert` is given, a folder or a file of fairseq.
      model: of transformers.
      tokenizer: of transformers.
    """

    source: pathlib.Path
    model: object
    tokenizer: object


def _sentences() -> list[str]:
    rng = random.Random(0)
    return [" ".join(rng.choices(WORDS, k=9)).capitalize() + "." for _ in range(200)]


def _byte_level() -> tuple[list[str], list[tuple[str, str]]]:
    """(pieces, merges) without special tokens."""
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.pre_tokenizer = level
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=alphabet, show_progress=False
    )
    trained.train_from_iterator(_sentences(), trainer)
    model = json.loads(trained.to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return pieces, [tuple(pair) for pair in model["merges"]]


def _roberta_vocabulary() -> tuple[list[str], list[tuple[str, str]]]:
    """(pieces as transformers numbers RoBERTa's, merges)."""
    pieces, merges = _byte_level()
    fillers = [f"madeupword{i:04}" for i in range(2)]
    first = ["<s>", "<pad>", "</s>", "<unk>"]
    return [*first, *pieces, "<|endoftext|>", *fillers, "<mask>"], merges


def _write_bpe(folder, pieces, merges, names=("vocab.json", "merges.txt")) -> None:
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    (folder / names[0]).write_text(json.dumps(vocabulary))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (folder / names[1]).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _roberta_tokenizer(pieces, merges):
    import transformers

    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    return transformers.RobertaTokenizer(vocab=vocabulary, merges=merges)


def _random(kind, config, scale: float = 1.0):
    """A model whose parts all matter: norms and biases are not trivial either."""
    import torch

    torch.manual_seed(0)
    model = kind(config).eval()
    with torch.no_grad():
        for name, x in model.named_parameters():
            if name.endswith("bias") or "norm" in name.lower():
                x.add_(torch.randn_like(x) * 0.3)
            elif x.ndim > 1:
                x.mul_(scale)
    return model


def _save(folder: pathlib.Path, model, values: dict, leave_out=()) -> None:
    """Writes the weights, and a config.json with the keys that the public one has."""
    import safetensors.torch

    folder.mkdir()
    weights = {name: x.clone() for name, x in model.state_dict().items()}
    for name in leave_out:
        del weights[name]
    path = folder / "model.safetensors"
    safetensors.torch.save_file(weights, path, {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(values, indent=2))


def bart_large_cnn(folder: pathlib.Path) -> Layout:
    """One row less than ids: `<mask>` has none. No tokenizer_config.json."""
    import transformers

    pieces, merges = _roberta_vocabulary()
    values = {
        **_SIZES,
        "_num_labels": 3,
        "activation_dropout": 0.0,
        "activation_function": "gelu",
        "add_bias_logits": False,
        "add_final_layer_norm": False,
        "architectures": ["BartForConditionalGeneration"],
        "attention_dropout": 0.0,
        "bos_token_id": 0,
        "classif_dropout": 0.0,
        "decoder_layerdrop": 0.0,
        "decoder_start_token_id": 2,
        "dropout": 0.1,
        "encoder_layerdrop": 0.0,
        "eos_token_id": 2,
        "forced_bos_token_id": 0,
        "forced_eos_token_id": 2,
        "gradient_checkpointing": False,
        "is_encoder_decoder": True,
        "model_type": "bart",
        "normalize_before": False,
        "normalize_embedding": True,
        "output_past": True,
        "pad_token_id": 1,
        "prefix": " ",
        "scale_embedding": False,
        "static_position_embeddings": False,
        "task_specific_params": {"summarization": {"num_beams": 4}},
        "use_cache": True,
        "vocab_size": len(pieces) - 1,
    }
    config = transformers.BartConfig(
        **_SIZES, vocab_size=len(pieces) - 1, forced_bos_token_id=0
    )
    model = _random(transformers.BartForConditionalGeneration, config)
    again = [f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    _save(folder, model, values, leave_out=("lm_head.weight", *again))
    tokenizer = _roberta_tokenizer(pieces, merges)
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    _write_bpe(folder, pieces, merges)
    return Layout(folder, model, tokenizer)


def _bart_of_fairseq(rows: int):
    import transformers

    config = transformers.BartConfig(**_SIZES, vocab_size=rows)
    return _random(transformers.BartForConditionalGeneration, config)


def _fairseq_weights(model, table) -> dict:
    """By fairseq's names, with another order of the token table's rows."""
    import torch

    weights = {k: x.clone() for k, x in model.model.state_dict().items()}
    del weights["shared.weight"]
    names = [f"{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    for name in (*names, "decoder.output_projection.weight"):
        weights[name] = table
    for side in ("encoder", "decoder"):
        weights[f"{side}.version"] = torch.tensor([3.0])
    return weights


_SETTINGS = {
    "arch": "bart_base",
    "activation_fn": "gelu",
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "no_scale_embedding": True,
    "encoder_normalize_before": False,
    "decoder_normalize_before": False,
    "dropout": 0.1,
}


def bart_base_of_fairseq_0_9(folder: pathlib.Path) -> Layout:
    """dict.txt over GPT-2's ids; filler words, and `<mask>` in the last row."""
    import torch

    folder.mkdir()
    pieces, merges = _byte_level()
    of_gpt2 = [*pieces, "<|endoftext|>"]
    random.Random(1).shuffle(of_gpt2)
    order = random.Random(2).sample(range(len(of_gpt2)), len(of_gpt2))
    fillers = [f"madeupword{i:04}" for i in range(FILLERS)]
    lines = [f"{word} {1000 - i}" for i, word in enumerate(order)]
    lines += [f"{word} 0" for word in fillers]
    (folder / "dict.txt").write_text("\n".join(lines) + "\n")
    _write_bpe(folder, of_gpt2, merges, ("encoder.json", "vocab.bpe"))
    first = ["<s>", "<pad>", "</s>", "<unk>"]
    known = [*first, *(of_gpt2[i] for i in order), *fillers, "<mask>"]
    model = _bart_of_fairseq(len(known))
    weights = _fairseq_weights(model, model.model.shared.weight.detach())
    settings = argparse.Namespace(**_SETTINGS, task="denoising", mask=0.3)
    torch.save({"args": settings, "model": weights}, folder / "model.pt")
    return Layout(folder / "model.pt", model, _roberta_tokenizer(known, merges))


def bart_base_of_fairseq_0_12(folder: pathlib.Path) -> Layout:
    """`cfg` without `args`, half precision, stale copies beside, RoBERTa's files."""
    import torch

    folder.mkdir()
    pieces, merges = _roberta_vocabulary()
    mask = len(pieces) - 1
    model = _bart_of_fairseq(len(pieces) + FILLERS).half().float()
    # The last row of the file is that of <mask>.
    table = model.model.shared.weight.detach().clone()
    table[[mask, -1]] = table[[-1, mask]]
    weights = _fairseq_weights(model, table)
    layer = "encoder.layers.0."
    for name, shape in {
        "in_proj_weight": (48, 16),
        "in_proj_bias": (48,),
        "out_proj_weight": (16, 16),
        "out_proj_bias": (16,),
        "fc1_weight": (24, 16),
        "fc1_bias": (24,),
        "fc2_weight": (16, 24),
        "fc2_bias": (16,),
    }.items():
        weights[layer + name] = torch.randn(shape)
    half = {name: x.half() for name, x in weights.items()}
    cfg = {"model": argparse.Namespace(**_SETTINGS), "task": {"_name": "denoising"}}
    torch.save({"args": None, "cfg": cfg, "model": half}, folder / "model.pt")
    _write_bpe(folder, pieces, merges)
    return Layout(folder / "model.pt", model, _roberta_tokenizer(pieces, merges))


def _train_pieces(path: pathlib.Path, **options) -> None:
    import io

    import sentencepiece

    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_sentences()),
        model_writer=content,
        vocab_size=90,
        model_type="unigram",
        character_coverage=1.0,
        minloglevel=2,
        **options,
    )
    path.write_bytes(content.getvalue())


_OF_T5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}


def long_t5_tglobal(folder: pathlib.Path) -> Layout:
    """`n_positions` 4096, rows after the 100 sentinels, logits of their own."""

    values = {
        **_T5_SIZES,
        "architectures": ["LongT5ForConditionalGeneration"],
        "decoder_start_token_id": 0,
        "dropout_rate": 0.1,
        "encoder_attention_type": "transient-global",
        "eos_token_id": 1,
        "feed_forward_proj": "gated-gelu",
        "global_block_size": 4,
        "initializer_factor": 1.0,
        "is_encoder_decoder": True,
        "layer_norm_epsilon": 1e-06,
        "local_radius": 5,
        "model_type": "longt5",
        "n_positions": 4096,
        "output_past": True,
        "pad_token_id": 0,
        "relative_attention_max_distance": 128,
        "relative_attention_num_buckets": 32,
        "tie_word_embeddings": False,
        "use_cache": True,
        "vocab_size": 90 + 100 + 28,
    }
    return _t5(folder, values, "LongT5", extra_ids=100)


def mt5_small(folder: pathlib.Path) -> Layout:
    """No sentinels after the pieces, rows after them, gated, logits of their own."""
    values = {
        **_T5_SIZES,
        "architectures": ["MT5ForConditionalGeneration"],
        "decoder_start_token_id": 0,
        "dropout_rate": 0.1,
        "eos_token_id": 1,
        "feed_forward_proj": "gated-gelu",
        "initializer_factor": 1.0,
        "is_encoder_decoder": True,
        "layer_norm_epsilon": 1e-06,
        "model_type": "mt5",
        "pad_token_id": 0,
        "relative_attention_num_buckets": 32,
        "tie_word_embeddings": False,
        "tokenizer_class": "T5Tokenizer",
        "use_cache": True,
        "vocab_size": 90 + 12,
    }
    return _t5(folder, values, "MT5", extra_ids=0)


def _t5(folder: pathlib.Path, values: dict, name: str, extra_ids: int) -> Layout:
    import torch
    import transformers

    kind = getattr(transformers, f"{name}ForConditionalGeneration")
    config = getattr(transformers, f"{name}Config")(**values)
    model = _random(kind, config, 3.0)
    rng = torch.Generator().manual_seed(3)
    own = torch.randn(model.shared.weight.shape, generator=rng)
    own[90 : 90 + extra_ids] = 0  # no sentinel is the likeliest
    model.lm_head.weight = torch.nn.Parameter(own)
    again = [f"{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    _save(folder, model, values, leave_out=again)
    _train_pieces(folder / "spiece.model", **_OF_T5)
    special = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    more = [f"<extra_id_{i}>" for i in range(extra_ids)]
    told = {**special, "extra_ids": extra_ids, "tokenizer_class": "T5Tokenizer"}
    told["additional_special_tokens"] = more or None
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    (folder / "special_tokens_map.json").write_text(json.dumps(special))
    return Layout(folder, model, transformers.AutoTokenizer.from_pretrained(folder))


def xlm_roberta_base(folder: pathlib.Path) -> Layout:
    """sentencepiece with fairseq's numbers, positions from 2, one type of token."""
    import transformers

    values = {
        "architectures": ["XLMRobertaForMaskedLM"],
        "attention_probs_dropout_prob": 0.1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": 16,
        "initializer_range": 0.5,
        "intermediate_size": 24,
        "layer_norm_eps": 1e-05,
        "max_position_embeddings": 66,
        "model_type": "xlm-roberta",
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "output_past": True,
        "pad_token_id": 1,
        "position_embedding_type": "absolute",
        "type_vocab_size": 1,
        "use_cache": True,
        "vocab_size": 90 + 2,
    }
    config = transformers.XLMRobertaConfig(**values)
    model = _random(transformers.XLMRobertaForMaskedLM, config)
    again = ("lm_head.decoder.weight", "lm_head.decoder.bias")
    _save(folder, model, values, leave_out=again)
    _train_pieces(folder / "sentencepiece.bpe.model")
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 64}')
    return Layout(folder, model, transformers.AutoTokenizer.from_pretrained(folder))


def ids_of(tokenizer, texts) -> list[np.ndarray]:
    """What transformers makes of texts, special tokens around each."""
    return [np.array(tokenizer(text).input_ids) for text in texts]
