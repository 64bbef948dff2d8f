"""Golden cases of the official WordPiece."""

from etc_jax.data.tokenizers.tokenizer import WordPieceTokenizer
from parity.cases import Case


def run_wordpiece(case: Case) -> float:
    """Ids and pieces of every text, exactly."""
    sidecar = case.description
    known = {"case", "kind", "vocab", "items", "do_lower_case"}
    assert sidecar.keys() <= known, f"unknown {sidecar.keys() - known}"
    assert sidecar["items"], "no item"
    tokenizer = WordPieceTokenizer.from_vocab_file(
        case.path.parent / sidecar["vocab"],
        lower_case=sidecar.get("do_lower_case", True),
    )
    encoded = tokenizer.encode_batch([item["text"] for item in sidecar["items"]])
    for item, (ids, _) in zip(sidecar["items"], encoded, strict=True):
        assert ids.tolist() == item["ids"], item["text"]
        assert tokenizer.pieces(ids) == item["tokens"], item["text"]
    return 0.0
