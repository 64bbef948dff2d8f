"""Real slices of data sets that are written: raw files to official scores."""

import gzip
import json

import pytest
from golden_data import require_shared
from tokenizer_samples import byte_bpe, sentence_pieces, t5_model
from written_samples import write_pair

from etc_jax import config as config_lib
from etc_jax.cli import evaluate, prepare
from etc_jax.scoring import squad as squad_scoring
from etc_jax.training import errors
from etc_jax.training.run import train_and_evaluate

COUNT = 6
MODEL = {
    "embed_dim": 8,
    "num_heads": 2,
    "num_layers": 1,
    "num_decoder_layers": 1,
    "mlp_dim": 8,
    "max_length": 96,
    "dropout_rate": 0.0,
}
LENGTHS = {"input_length": 96, "target_length": 6}


def trained(
    name, family, tokenizer, file, folder, *, options=(), validation_files=(), **model
):
    """The folder of a run of two steps on a file."""
    tokenizer.save(folder / "tokenizer.json")
    flags = [f"--{key}={length}" for key, length in LENGTHS.items()]
    flags += [f"--{text}".removesuffix("=true") for text in options]
    assert 0 == prepare.main(
        [
            *(f"--task={name}", f"--tokenizer={folder / 'tokenizer.json'}", *flags),
            *(f"--out={folder / 'cache'}", "--workers=0", str(file)),
        ]
    )
    values = config_lib.default_config(family)
    values.model.update(vocab_size=tokenizer.vocab_size, **MODEL, **model)
    values.objective.name = name
    cache = (str(folder / "cache"),)
    values.data.update(source="windows", paths=cache, validation_paths=cache, **LENGTHS)
    values.data.update(vocab_size=tokenizer.vocab_size, input_options=tuple(options))
    values.data.validation_files = validation_files
    values.train.update(batch_size=8, num_steps=2, eval_every_steps=2)
    values.checkpoint.every_steps = 2
    config = config_lib.from_config_dict(values)
    run = folder / "run"
    assert train_and_evaluate(config, str(run)).exit_code == errors.DONE
    return run


def evaluated(run, file):
    """(what `etc-jax evaluate` writes of scores, its official file)."""
    out = run.with_name("dev")
    assert evaluate.main([f"--model={run}", f"--out={out}", str(file)]) == 0
    names = (evaluate.SCORES, "predictions.json")
    scores, official = (json.loads((out / name).read_text()) for name in names)
    return scores, official


@pytest.mark.usefixtures("one_device")
def test_a_t5_translates_and_is_scored_by_bleu(tmp_path):
    sacrebleu = pytest.importorskip("sacrebleu")
    pytest.importorskip("sacremoses")
    folder = require_shared("data/wmt_en_de")
    sides = {
        language: (folder / f"val.{language}").read_text("utf-8").splitlines()[:COUNT]
        for language in ("en", "de")
    }
    file = write_pair(tmp_path, sides, "val")
    options = ("direction=de-en", "detokenise=true")
    tokenizer = sentence_pieces(t5_model())
    ends = {"eos_id": tokenizer.special_id("sentence"), "head_dim": 4}
    ends["pad_id"] = ends["decoder_start_id"] = tokenizer.special_id("pad")
    more = {"options": options, "validation_files": (str(file),)}
    run = trained("wmt14_en_de", "t5", tokenizer, file, tmp_path, **more, **ends)
    scores, official = evaluated(run, file)
    assert list(official) == [f"val:{i + 1}" for i in range(COUNT)]
    # The references are English text, without the tokens of Moses.
    spelled = {" ,": ",", " .": ".", " ;": ";", " &apos;s": "'s"}
    references = sides["en"]
    for tokens, text in spelled.items():
        references = [x.replace(tokens, text) for x in references]
    found = sacrebleu.corpus_bleu(list(official.values()), [references])
    assert scores["metrics"]["bleu"] == pytest.approx(found.score / 100)
    assert scores["signatures"]["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")
    assert scores["options"]["direction"] == "de-en"
    lines = (run / "metrics.jsonl").read_text().splitlines()
    [last] = [x for x in map(json.loads, lines) if x["kind"] == "eval"]
    for key, value in scores["metrics"].items():
        assert last[f"official_{key}"] == pytest.approx(value, abs=1e-6)


@pytest.mark.usefixtures("one_device")
# A causal Longformer does it in `matrix_test.py`.
@pytest.mark.full
def test_a_bart_answers_squad_and_is_scored_over_all_answers(tmp_path):
    folder = require_shared("data/squad")
    packed = (folder / "dev-v1.1.multiref.json.gz").read_bytes()
    [article, *_] = json.loads(gzip.decompress(packed))["data"]
    paragraph = {**article["paragraphs"][0]}
    paragraph["qas"] = paragraph["qas"][:COUNT]
    release = {"version": "1.1", "data": [{"title": "t", "paragraphs": [paragraph]}]}
    file = tmp_path / "dev.json"
    file.write_text(json.dumps(release))
    tokenizer = byte_bpe()
    roles = {"pad_id": "pad", "decoder_start_id": "sep", "eos_id": "sep"}
    ids = {key: tokenizer.special_id(role) for key, role in roles.items()}
    more = {"options": ("begin_token=true",), **ids}
    run = trained("squad", "bart", tokenizer, file, tmp_path, **more)
    scores, official = evaluated(run, file)
    assert official.keys() == {question["id"] for question in paragraph["qas"]}
    predicted = (run.with_name("dev") / "predictions.json").read_text()
    again = squad_scoring.score(release["data"], json.loads(predicted))
    assert scores["metrics"] == pytest.approx(dict(again.metrics))
