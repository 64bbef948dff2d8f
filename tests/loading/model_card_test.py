"""Cards of saved models: what they say, and what they leave alone."""

import json
import pathlib
import re
import shlex

import finetuned_run
import jax
import pytest
import yaml
from huggingface_hub import ModelCard, constants
from tiny_texts import CONFIGS, tiny, tiny_etc

import etc_jax
from etc_jax.cli import convert, evaluate, extend, grow
from etc_jax.conversion.formats import native
from etc_jax.loading import model_source, run_results
from etc_jax.loading.model import LoadedModel
from etc_jax.training.reporting.metrics import MetricsWriter

NAME = "wikihop"
MINE = "---\nlicense: mit\nlanguage: en\n---\n# Mine\n"


def card_of(folder) -> ModelCard:
    """The card, read as the Hub reads it, once it is YAML of one document."""
    card = ModelCard.load(pathlib.Path(folder) / "README.md")
    head = card.content.split("\n---\n")[0].removeprefix("---\n")
    assert yaml.safe_load(head) == card.data.to_dict()
    return card


def cells(card: ModelCard) -> dict[str, list[str]]:
    """{first cell of a row: the other cells} of all tables."""
    rows = re.findall(r"^\| (.*?) \|(.*) \|$", card.text, re.MULTILINE)
    return {first: [x.strip() for x in rest.split("|")] for first, rest in rows}


def numbers(params) -> str:
    return f"{sum(x.size for x in jax.tree.leaves(params)):,}"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to work in, with a BERT of Hugging Face that is under a licence."""
    monkeypatch.chdir(tmp_path)
    tiny("bert").save_pretrained("bert")
    pathlib.Path("bert/README.md").write_text(MINE)
    return tmp_path


# What writes a folder -> (its arguments, or the method; the family; the class that
# transformers reads it by, where it is for that).
WRITERS = {
    "hf": ((convert, "--hf=bert"), "bert", None),
    "to_hf": ((convert, "--to_hf=bert"), "bert", "BertForMaskedLM"),
    "grow": ((grow, "--from=bert", "--tokens=[q]"), "bert", None),
    "extend": (
        (extend, "--from=bert", "--to=longformer", "--max_length=128", "--window=4"),
        "longformer",
        "LongformerForMaskedLM",
    ),
    "save": ("save", "bert", None),
    "save_pretrained": ("save_pretrained", "bert", "BertForMaskedLM"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_each_writer_says_what_it_has_made_of_what(writer, here, capsys):
    how, family, class_name = WRITERS[writer]
    if isinstance(how, str):
        getattr(etc_jax.load("bert"), how)("model")
        command = f"LoadedModel.{how}"
    else:
        module, *flags = how
        assert module.main([*flags, "--out=model"]) == 0, capsys.readouterr().err
        name = module.__name__.rpartition(".")[2]
        command = shlex.join(["etc-jax", name, *flags, "--out=model"])
    card, model = card_of("model"), etc_jax.load("model")
    head, rows = card.data, cells(card)
    assert head.library_name == ("transformers" if class_name else "etc_jax")
    assert head.tags == ["etc_jax", family]
    assert (head.license, head.pipeline_tag) == ("mit", "fill-mask")
    assert head.language is None and head.base_model is None
    assert head.eval_results is None
    assert "`mit`, as `bert/README.md` states it" in card.text
    assert f"\n    {command}\n" in card.text
    assert rows["family"] == [f"`{family}`"]
    assert rows["parameters"] == [numbers(model.params)]
    assert rows["layers"] == ["2"] and rows["width"] == ["8"]
    assert rows["vocabulary"] == [str(model.config.vocab_size)]
    assert rows["longest input"] == [f"{model.max_length} tokens"]
    if family == "longformer":
        assert rows["attention"] == ["`SlidingWindow` (2 tokens to each side)"]
    loads = re.findall(r"```python\n(.*?)```", card.text, re.DOTALL)
    values: dict = {}
    exec(loads[0], values)
    assert isinstance(values["model"], LoadedModel)
    if class_name is None:
        assert len(loads) == 1
        return
    assert f"transformers.{class_name}.from_pretrained('model')" in loads[1]
    config = json.loads(pathlib.Path("model/config.json").read_text())
    assert config["architectures"] == [class_name]


@pytest.mark.parametrize("name", ["longformer", "bert"])
def test_a_card_says_what_transformers_has_to_be_told(name, tmp_path):
    encoder = tiny(name).params["encoder"]
    tiny(name, params={"encoder": encoder}).save_pretrained(tmp_path / "model")
    text = card_of(tmp_path / "model").text
    assert "Model.from_pretrained" in text
    assert ("`global_attention_mask`" in text) == (name == "longformer")


@pytest.mark.parametrize("name", [*CONFIGS, "etc"])
def test_models_of_all_families_have_a_card(name, tmp_path):
    model = tiny_etc() if name == "etc" else tiny(name)
    model.save(tmp_path / "model")
    card = card_of(tmp_path / "model")
    rows = cells(card)
    assert rows["family"] == [f"`{model.family}`"]
    assert rows["parameters"] == [numbers(model.params)]
    assert "A model in memory, by etc_jax" in card.text
    assert "No licence was found" in card.text and card.data.license is None
    assert "## Training" not in card.text
    if name == "sled":
        assert rows["longest input"] == ["96 tokens"]
    if name == "longformer":
        windows = (f"`SlidingWindow` ({n} tokens to each side)" for n in (2, 4))
        assert rows["attention"] == ["; ".join(windows)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose evaluations and official scores are on record."""
    folder = tmp_path_factory.mktemp("run") / "wikihop"
    finetuned_run.save_run(folder, finetuned_run.config(NAME), (12, 14))
    writer = MetricsWriter(folder)
    for step, loss in ((10, 0.5), (12, 0.3), (14, 0.4), (16, 0.1)):
        metrics = {"loss": loss, "accuracy": 1 - loss, "eval_secs": 2.0, "x": None}
        writer.write("eval", step, metrics)
        writer.write("train", step, {"loss": 9.0})
    writer.write("eval", 14, {"failed_evaluations": 1, "eval_secs": 2.0})
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 14, "kind": "ev')  # cut short by a crash
    records = finetuned_run.records(NAME, 4)
    file = finetuned_run.write(folder.parent / "dev.json", records)
    argv = [f"--model={folder}", f"--out={folder / 'dev'}", file]
    assert evaluate.main(argv) == 0
    scores = json.loads((folder / "dev/scores.json").read_text())
    others = {
        "of_another_model": scores | {"model_sha256": "0" * 64},
        "of_another_program": {"f1": 0.9},
    }
    for name, values in others.items():
        (folder / name).mkdir()
        (folder / name / "scores.json").write_text(json.dumps(values))
    return folder


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("exported") / "model"
    assert convert.main([f"--export={run}", f"--out={out}"]) == 0
    return out


def test_a_run_tells_how_it_was_trained_and_how_good_it_is(run, exported):
    card = card_of(exported)
    rows = cells(card)
    assert f"etc-jax convert --export={run} --out={exported}" in card.text
    assert rows["objective"] == ["`wikihop`"] and rows["seed"] == ["0"]
    assert rows["steps"] == ["14 of 1,000"] and rows["examples a step"] == ["8"]
    assert rows["optimizer"] == ["`adamw`, learning rate 0.001, linear schedule"]
    assert rows["training data"] == ["`train`"]
    assert rows["lengths (tokens)"] == ["long length 256, global length 48"]
    # Until the step of the model; times and what is no number are left out.
    assert rows["step"] == ["12", "14"]
    assert rows["loss"] == ["0.3", "0.4"] and rows["accuracy"] == ["0.7", "0.6"]
    assert "best (lowest loss) | last" in card.text
    assert "secs" not in card.text and "| x |" not in card.text
    scores = json.loads((run / "dev/scores.json").read_text())["metrics"]
    names = (f"{run.parent.name}/dev.json", "validation: dev")
    results = {
        (result.dataset_name, result.metric_type): result.metric_value
        for result in card.data.eval_results
    }
    want = {(names[0], metric): value for metric, value in scores.items()}
    assert results == want | {(names[1], "loss"): 0.4, (names[1], "accuracy"): 0.6}
    assert {x.task_type for x in card.data.eval_results} == {"multiple-choice"}
    assert rows["`wikihop`"][0].endswith("/dev.json`")


def test_results_are_of_the_data_that_they_were_found_on(tmp_path):
    """Official files, and windows, which may be those that were learnt."""
    cases = (((), "training: train"), (("valid/dev",), "validation: valid/dev"))
    for number, (paths, name) in enumerate(cases):
        changes = {"data__validation_files": ("/home/a/b/dev.json",)}
        changes["data__validation_paths"] = paths or ("train",)
        made = finetuned_run.config(NAME, **changes)
        run = finetuned_run.save_run(tmp_path / f"run{number}", made)
        metrics = {"loss": 0.5, "official_accuracy": 0.7}
        MetricsWriter(run).write("eval", finetuned_run.STEP, metrics)
        out = tmp_path / f"model{number}"
        assert convert.main([f"--export={run}", f"--out={out}"]) == 0
        results = card_of(out).data.eval_results
        assert [(x.dataset_name, x.metric_type) for x in results] == [
            (name, "loss"),
            ("validation: b/dev.json", "official_accuracy"),
        ]
        assert "/home" not in (out / "README.md").read_text()


def test_scores_and_evaluations_of_other_steps_are_left_out(run, tmp_path, caplog):
    flags = [f"--export={run}", "--step=12", f"--out={tmp_path / 'model'}"]
    assert convert.main(flags) == 0
    card = card_of(tmp_path / "model")
    assert cells(card)["step"] == ["12", "12"]
    assert {x.dataset_name for x in card.data.eval_results} == {"validation: dev"}
    assert "### Official scores" not in card.text
    told = "of_another_program/scores.json is left out: no scores of etc-jax evaluate"
    assert caplog.text.count(told) == 1


def test_an_exported_model_keeps_the_results_of_its_run(run, exported, tmp_path):
    of_run = run_results.read(model_source.find(run))
    of_export = run_results.read(model_source.find(exported))
    assert of_export == of_run and of_run.scores
    # A checkpoint outside of its run has its step alone.
    moved = tmp_path / "moved" / "14"
    moved.parent.mkdir()
    (run / "checkpoints/14").rename(moved)
    try:
        alone = run_results.read(model_source.find(moved))
    finally:
        moved.rename(run / "checkpoints/14")
    assert alone == run_results.RunResults(14)


def test_a_run_that_was_loaded_and_saved_tells_so(run, tmp_path):
    etc_jax.load(run).save(tmp_path / "model")
    card = card_of(tmp_path / "model")
    assert cells(card)["steps"] == ["14 of 1,000"]
    assert "What was changed in memory in between is not recorded." in card.text


def test_a_damaged_report_of_an_export_is_named(exported, tmp_path):
    report = exported / "report.json"
    before = report.read_text()
    report.write_text(json.dumps(json.loads(before) | {"results": [1]}))
    try:
        with pytest.raises(ValueError, match="report.json is damaged .*export the run"):
            run_results.read(model_source.find(exported))
    finally:
        report.write_text(before)


def test_a_run_is_under_the_licence_of_what_it_began_with(here):
    made = finetuned_run.config(NAME, checkpoint__init_from=str(here / "bert"))
    run = finetuned_run.save_run(here / "run", made)
    assert convert.main([f"--export={run}", "--out=model"]) == 0
    assert card_of("model").data.license == "mit"
    assert "| began with | `" in card_of("model").text
    (here / "bert").rename(here / "moved")
    assert convert.main([f"--export={run}", "--out=other"]) == 0
    assert card_of("other").data.license is None
    (here / "run/LICENSE").write_text("MIT License\n\nCopyright")
    assert convert.main([f"--export={run}", "--out=third"]) == 0
    assert card_of("third").data.license == "mit"


def test_a_licence_goes_from_card_to_card(here):
    assert convert.main(["--hf=bert", "--out=ours"]) == 0
    assert convert.main(["--to_hf=ours", "--out=back"]) == 0
    assert card_of("back").data.license == "mit"
    assert "`ours/README.md` states it" in card_of("back").text


def test_a_repository_is_the_base_model(tmp_path, monkeypatch):
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "hub" / "models--somebody--tiny-bert"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text(commit)
    tiny("bert").save_pretrained(repository / "snapshots" / commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    assert convert.main(["--hf=somebody/tiny-bert", "--out=model"]) == 0
    assert card_of("model").data.base_model == "somebody/tiny-bert"


EDITS = {
    "written by the user": MINE,
    "changed, with our line in it": None,
    "emptied": "",
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_card_of_the_user_is_never_replaced(edit, here, caplog):
    flags = ["--hf=bert", "--out=model", "--overwrite"]
    path = pathlib.Path("model/README.md")
    assert convert.main(flags) == 0
    text = path.read_text() + "More.\n" if EDITS[edit] is None else EDITS[edit]
    path.write_text(text)
    for _ in range(2):
        caplog.clear()
        assert convert.main(flags) == 0
        assert path.read_text() == text
        assert "model/README.md stays as it is, and no new card" in caplog.text
        assert not native.lists("model", "README.md")
    path.unlink()
    caplog.clear()
    assert convert.main(flags) == 0
    assert card_of("model").data.license == "mit" and not caplog.text


def test_a_card_that_nobody_has_changed_is_written_anew(here):
    flags = ["--hf=bert", "--out=model", "--overwrite"]
    assert convert.main(flags) == 0
    pathlib.Path("bert/README.md").write_text("---\nlicense: apache-2.0\n---\n")
    assert convert.main(flags) == 0
    assert card_of("model").data.license == "apache-2.0"


def test_names_of_any_kind_stay_what_they_are(here):
    """What a folder is called is no Markdown, no YAML and no code."""
    name = "a: `b`|c\n# d '\"\x1b[2J"
    (here / "bert").rename(here / name)
    assert convert.main([f"--hf={name}", f"--out={name}.out"]) == 0
    card = card_of(f"{name}.out")
    titles = [line for line in card.text.splitlines() if line.startswith("# ")]
    assert len(titles) == 1 and "\x1b" not in card.text
    assert card.text.count("```") == 2 and card.data.license == "mit"
