"""A config takes model and vocabulary from the folder that it starts from."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from finetuned_run import config as run_config, save_run
from tiny_texts import CONFIGS, PIECES, tiny

from etc_jax import config as config_lib
from etc_jax.cli.flag import set_by_variants
from etc_jax.config import model_fields
from etc_jax.configs.own_data import pairs
from etc_jax.conversion.formats import native
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.grown import grown
from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer
from etc_jax.objectives.jobs import run_tokenizer
from etc_jax.recipes import init_from
from etc_jax.training.errors import UserError


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """{kind: folder} of a LED."""
    place, model = tmp_path_factory.mktemp("models"), tiny("led")
    model.save(place / "native")
    model.save_pretrained(place / "hf")
    return place


def file_config(arg=""):
    """As a config file gives it, of the variants in `arg`."""
    config = pairs.get_config(arg)
    config.data.update(paths=("a.jsonl",), validation_paths=("b.jsonl",))
    return config


def values(folder, arg="", **changes):
    config = file_config(arg)
    config.checkpoint.init_from = str(folder)
    config.update_from_flattened_dict(changes)
    return config.to_dict()


def completed(folder, arg="", changes=None, **more):
    """The config and the fields of the model that are not those of the folder."""
    changes = {"data.input_length": 64, "data.target_length": 32} | (changes or {})
    said = set_by_variants(file_config, arg) | set(changes)
    made = init_from.completed(values(folder, arg, **changes), explicit=said, **more)
    return config_lib.from_config_dict(made)


@pytest.mark.parametrize("kind", ["native", "hf"])
def test_model_and_vocabulary_are_those_of_the_folder(folders, kind):
    config = completed(folders / kind)
    want, own = CONFIGS["led"], file_config().model
    free = [f for f in own if f != "family" and model_fields.is_free(type(want), f)]
    assert {"dtype", "remat_policy", "dropout_rate", "sled", "attention"} < set(free)
    for field in dataclasses.fields(want):
        expected = own if field.name in free else want
        got = getattr(config.model, field.name)
        assert got == getattr(expected, field.name) or field.name == "sled", field.name
    assert config.data.tokenizer == str(folders / kind)
    assert config.data.vocab_size == len(PIECES)


def test_ids_that_texts_are_written_with_go_with_the_vocabulary(tmp_path):
    ids = {"forced_bos_id": 4, "forced_eos_id": 3}
    config = dataclasses.replace(CONFIGS["led"], **ids)
    dataclasses.replace(tiny("led"), config=config).save(tmp_path / "model")
    model = completed(tmp_path / "model").model
    assert (model.forced_bos_id, model.forced_eos_id) == (4, 3)
    typed = completed(tmp_path / "model", changes={"model.forced_eos_id": 2}).model
    assert (typed.forced_bos_id, typed.forced_eos_id) == (4, 2)


def test_what_is_typed_for_training_alone_stays(folders):
    changes = {"model.dropout_rate": 0.3, "model.dtype": "float32"}
    model = completed(folders / "hf", changes=changes).model
    assert (model.dropout_rate, model.dtype) == (0.3, "float32")


def test_another_value_of_what_no_shape_shows_is_an_error(folders):
    changes = {"model.attention_window": (8,), "model.activation": "relu"}
    with pytest.raises(UserError) as caught:
        completed(folders / "hf", changes=changes)
    text = str(caught.value)
    assert "model.activation: 'gelu_exact' there, 'relu' here" in text
    assert "model.attention_window: (4,) there, (8,) here" in text
    assert "Leave out what says model.activation, model.attention_window" in text
    same = {"model.attention_window": (4,), "model.activation": "gelu_exact"}
    assert completed(folders / "hf", changes=same) == completed(folders / "hf")
    config = completed(folders / "hf", changes=changes, override=True)
    assert config.model.attention_window == (8,)
    assert config.model.embed_dim == CONFIGS["led"].embed_dim
    assert set(config.checkpoint.init_from_changes) == {
        "attention_window",
        "activation",
    }


def test_what_init_from_changes_names_stays_as_the_file_has_it(folders):
    asked = {"checkpoint.init_from_changes": ("attention_window",)}
    assert completed(folders / "hf", changes=asked).model.attention_window == (1024,)


def test_sizes_that_are_typed_are_left_to_the_shapes(folders):
    config = completed(folders / "native", changes={"model.num_layers": 1})
    assert config.model.num_layers == 1 != CONFIGS["led"].num_layers


def test_a_config_says_nothing_of_the_model_that_it_begins_with():
    def get_config(arg):
        config = file_config("")
        config.model.eos_id = 2 if "from=" in arg else 9
        config.train.num_steps = 7 if "long" in arg else 5
        return config

    assert set_by_variants(get_config, "long,from=models/led") == {"train.num_steps"}


def test_a_variant_is_said_and_the_family_of_the_file_alone_is_not(folders, tmp_path):
    assert "model.embed_dim" in set_by_variants(file_config, "large")
    assert set_by_variants(file_config, "t5") == {"model.family"}
    assert "model.embed_dim" in set_by_variants(file_config, "t5,large")
    tiny("t5").save(tmp_path / "t5")
    found = []
    for arg in ("", "t5"):
        given, said = values(tmp_path / "t5", arg), set_by_variants(file_config, arg)
        found.append(init_from.completed(given, explicit=said))
    assert [x["model"]["family"] for x in found] == ["t5", "t5"]
    assert [x["model"]["embed_dim"] for x in found] == [8, 8]
    with pytest.raises(UserError, match="model.family: 'led' there, 't5' here"):
        completed(folders / "native", "t5")


def test_a_model_that_reads_something_else_is_told_with_the_command(tmp_path):
    tiny("bert").save_pretrained(tmp_path / "bert")
    with pytest.raises(UserError, match="is a bert, which reads sequence inputs, but"):
        completed(tmp_path / "bert")
    config = config_lib.default_config("etc").to_dict()
    config["checkpoint"]["init_from"] = str(tmp_path / "bert")
    command = f"etc-jax extend --from={tmp_path / 'bert'} --to=etc --out=FOLDER"
    with pytest.raises(UserError, match=command):
        init_from.completed(config)


@pytest.mark.parametrize(
    "name, message",
    [
        ("x_step_1.index", "convert --official="),
        ("model.pt", "convert --fairseq=.*model.pt"),
        ("model.pkl.gz", "convert --trax=.*model.pkl.gz --config=FILE"),
        ("something", "has no model: neither config.json"),
    ],
)
def test_weights_of_other_programs_are_told_with_the_command(tmp_path, name, message):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / name).write_bytes(b"")
    with pytest.raises(UserError, match=message):
        completed(tmp_path / "there")


def test_an_unknown_family_of_hugging_face_names_those_that_are_known(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(UserError, match="model_type is 'gpt2'; what can be read is"):
        completed(tmp_path)


def test_a_run_and_its_checkpoints_are_read(tmp_path):
    was = run_config("hotpotqa")
    save_run(tmp_path / "run", was, steps=(6,))
    plain = config_lib.default_config("etc").to_dict()
    for place in ("run", "run/checkpoints/6"):
        plain["checkpoint"]["init_from"] = str(tmp_path / place)
        made = init_from.completed(plain)
        model = config_lib.from_config_dict(made).model
        assert dataclasses.replace(model, attention="dense") == was.model
        assert made["data"]["tokenizer"] == str(tmp_path / "run")


def test_a_run_that_has_begun_needs_the_folder_no_more(folders, tmp_path):
    shutil.copytree(folders / "native", tmp_path / "model")
    first = completed(tmp_path / "model", workdir=tmp_path / "run")
    (tmp_path / "run").mkdir()
    record = {"config": config_lib.to_dict(first)}
    (tmp_path / "run/run.json").write_text(json.dumps(record))
    shutil.rmtree(tmp_path / "model")
    again = completed(tmp_path / "model", workdir=tmp_path / "run")
    assert again == first
    with pytest.raises(UserError, match="there is no folder"):
        completed(tmp_path / "model", workdir=tmp_path / "other")


def test_a_helper_is_completed_too(tmp_path):
    tiny("longformer").save(tmp_path / "generator")
    config = config_lib.default_config("bart_ls", objective="model_denoising")
    plain = config.to_dict()
    plain["objective"]["generator_init_from"] = str(tmp_path / "generator")
    made = init_from.completed(plain)["objective"]
    assert made["generator_family"] == "longformer"
    found = native.model_config({"family": "longformer", **made["generator"]})
    want = CONFIGS["longformer"]
    assert found.embed_dim == want.embed_dim
    assert found.attention_window == want.attention_window
    with pytest.raises(UserError, match="generator.attention_window: .4, 8. there"):
        plain["objective"]["generator"]["attention_window"] = (2,)
        init_from.completed(plain, explicit=["objective.generator.attention_window"])


def test_without_a_tokenizer_the_rows_are_the_vocabulary(tmp_path):
    model = dataclasses.replace(tiny("led"), tokenizer=None)
    model.save(tmp_path / "bare")
    given = WordPieceTokenizer(PIECES[:-2])
    given.save(tmp_path / TOKENIZER)
    named = {"data.tokenizer": str(tmp_path / TOKENIZER)}
    config = completed(tmp_path / "bare", changes=named)
    assert config.data.vocab_size == len(PIECES) - 2
    made = init_from.completed(values(tmp_path / "bare"))
    assert made["data"]["vocab_size"] == len(PIECES)


def test_a_model_may_lack_rows_of_tokens_that_the_data_has_not(tmp_path):
    tokenizer = grown(WordPieceTokenizer(PIECES), ["[q]"])
    tiny("led", tokenizer=tokenizer).save(tmp_path / "model")
    model = completed(tmp_path / "model").model
    assert completed(tmp_path / "model").data.vocab_size == model.vocab_size + 1
    ids = np.array([3, 15, 0])
    run_tokenizer.check_rows(tokenizer, model, {"the cache": ids})
    with pytest.raises(ValueError, match=r"the cache has '\[q\]', id 16 .* 0 to 15"):
        run_tokenizer.check_rows(tokenizer, model, {"the cache": ids + 1})
    other = WordPieceTokenizer([*PIECES, "more"])
    with pytest.raises(ValueError, match="it is that of another model"):
        run_tokenizer.check_rows(other, model, {"the cache": ids})


def test_data_in_another_vocabulary_names_both(folders, tmp_path):
    other = WordPieceTokenizer([*PIECES[:-1], "other"])
    known = WordPieceTokenizer(PIECES)
    with pytest.raises(ValueError) as caught:
        run_tokenizer.check_same(folders / "hf", other, tmp_path)
    for x in (other, known):
        text = f"{x.kind} {x.fingerprint()[:12]} of {x.vocab_size} ids"
        assert text in str(caught.value)
    assert f"--tokenizer={folders / 'hf'}" in str(caught.value)
    run_tokenizer.check_same(folders / "hf", known, tmp_path)
    (tmp_path / "run.json").write_text("{}")  # a run that has begun
    run_tokenizer.check_same(tmp_path / "gone", other, tmp_path)


def test_a_family_that_is_none_is_told_with_the_config(folders):
    asked = values(folders / "hf", **{"model.family": "lde"})
    made = init_from.completed(asked, explicit={"model.family"})
    with pytest.raises(config_lib.ConfigError, match="did you mean 'led'"):
        config_lib.from_config_dict(made)
