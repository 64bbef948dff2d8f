"""Real slices of data sets that are written: raw files to official scores."""

import json

import pytest
from golden_data import require_shared
from small_run import evaluated, once, prepared, sizes_of, small_config, trained
from tokenizer_samples import sentence_pieces, t5_model
from written_samples import write_pair

COUNT = 6
FORM = ("wmt14_en_de", "text_to_text")
LENGTHS = (96, 6)
MODEL = {"num_decoder_layers": 1, "mlp_dim": 8, "max_length": 96, "dropout_rate": 0.0}


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
    cache = prepared(*FORM, file, tokenizer, LENGTHS, tmp_path, options)
    config = small_config(
        *("wmt14_en_de", cache, tokenizer.vocab_size, sizes_of(*FORM, LENGTHS)),
        family="t5",
        model={**MODEL, **ends},
        data__input_options=options,
        data__validation_files=(str(file),),
        train__batch_size=8,
        **once(2),
    )
    run, out = tmp_path / "run", tmp_path / "dev"
    trained(config, run)
    scores = evaluated(run, file, out)
    official = json.loads((out / "predictions.json").read_text())
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
