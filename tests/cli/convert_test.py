"""The command line of conversion: what it writes, and what it refuses."""

import json
import os
import pathlib
import re
import subprocess
import sys

import bert_reference as reference
import limits
import numpy as np
import official_heads
import pytest
from golden_data import ROOT, require_shared

from etc_jax.cli import convert, convert_sources
from etc_jax.conversion.engine import flatten
from etc_jax.conversion.formats import native
from etc_jax.conversion.formats.tf_checkpoint import TfCheckpoint
from etc_jax.data.tokenizers.tokenizer import open_tokenizer

# ml_collections loads config files in a way that Python announces to give up.
pytestmark = pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")

CONFIG = '''"""The model of the tests."""
from etc_jax import config as config_lib


def get_config(arg=""):
    config = config_lib.default_config()
    config.model.update(vocab_size=40, embed_dim=12, num_layers=2, num_heads=3)
    config.model.update(mlp_dim=20, radius=4, max_distance=2, num_labels=8)
    if arg == "shared":
        config.model.update(share_qkv=True, share_out=True)
    elif arg:
        raise ValueError(f"no variant {arg!r}")
    return config
'''
PIECES = ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TOKENS = "bert.embeddings.word_embeddings.weight"
SCALAR = "cpc_log_temperature"


@pytest.fixture(scope="module")
def arrays():
    return reference.random_arrays(reference.CONFIG)


@pytest.fixture
def here(tmp_path, arrays, monkeypatch):
    """A folder with a config file and a BERT, to work in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.py").write_text(CONFIG)
    reference.write_folder(tmp_path / "bert", reference.CONFIG, arrays)
    pieces = PIECES + [f"w{i}" for i in range(29 - len(PIECES))]
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(pieces))
    return tmp_path


@pytest.fixture
def run(capsys):
    """Runs the command; gives (exit code, standard output, standard error)."""

    def run(*argv):
        code = convert.main([str(a) for a in argv])
        return code, *capsys.readouterr()

    return run


LIFT = ("--lift=bert", "--config=config.py", "--out=model")


def test_bert_is_lifted_into_the_model_of_a_config_file(here, run, arrays):
    code, out, err = run(*LIFT)
    assert (code, err) == (0, "")
    assert "the lift of the ETC paper" in out and "wrote model" in out
    params, config = native.load(here / "model")
    assert (config.vocab_size, config.radius, config.activation) == (40, 4, "gelu")
    table = params["encoder"]["embeddings"]["token_embedder"]["embedding"]
    np.testing.assert_array_equal(table[:29], arrays[TOKENS])
    # What is new is as in a new model, not 0 and not left out.
    assert 0.01 < table[29:].std() < 0.03
    np.testing.assert_allclose(params[SCALAR], np.log(0.1), rtol=1e-6)
    report = json.loads((here / "model" / "report.json").read_text())
    told = {path.partition("[")[0] for path in [*report["lifted"], *report["new"]]}
    assert told == set(flatten(params))
    assert report["made_from"] == {"lift": "bert", "family": "bert"}


def test_flags_depart_from_the_papers_lift(here, run, arrays):
    flags = "--positions=copy --types=first --activation=source --epsilon=source"
    code, out, _ = run(*LIFT, *flags.split(), "--special", "sentence=cls")
    assert code == 0
    params, config = native.load(here / "model")
    assert (config.activation, config.layer_norm_epsilon) == ("gelu_exact", 1e-6)
    assert config.max_positions == 16
    embeddings = params["encoder"]["embeddings"]
    table = embeddings["token_embedder"]["embedding"]
    np.testing.assert_array_equal(table[1], arrays[TOKENS][4])
    positions = arrays["bert.embeddings.position_embeddings.weight"]
    for side in ("long", "global"):
        got = embeddings[f"{side}_position_embedder"]["embedding"]
        np.testing.assert_array_equal(got, positions)
    for change in ("activation=gelu_exact", "max_positions=16"):
        assert f"to be given in a run as well: --config.model.{change}" in out


def test_variants_and_changes_of_the_config_count(here, run):
    code, _, err = run(
        "--lift=bert",
        "--config=config.py:shared",
        "--config.model.radius=7",
        "--config.model.scan_layers=False",
        "--out=model",
    )
    assert (code, err) == (0, "")
    params, config = native.load(here / "model")
    assert config.share_qkv and config.radius == 7
    layer = params["encoder"]["stack"]["layers_1"]["layer"]["attention"]
    assert set(layer) == {
        *("long_query", "l2l_key", "l2l_value", "long_out"),
        *("long_labels", "global_labels"),
    }


def test_the_seed_decides_what_is_new(here, run):
    made = []
    for out, seed in (("a", 0), ("b", 0), ("c", 1)):
        run(*LIFT[:2], f"--out={out}", f"--seed={seed}")
        made.append((here / out / "params.safetensors").read_bytes())
    assert made[0] == made[1] != made[2]


def test_nothing_is_overwritten_unless_asked(here, run):
    assert run(*LIFT)[0] == 0
    before = (here / "model" / "params.safetensors").read_bytes()
    code, _, err = run(*LIFT, "--seed=1")
    assert code == 2 and "holds a saved model already" in err
    assert (here / "model" / "params.safetensors").read_bytes() == before
    assert run(*LIFT, "--seed=1", "--overwrite")[0] == 0
    assert (here / "model" / "params.safetensors").read_bytes() != before


@pytest.mark.parametrize(
    "changes, message",
    [
        (["--lift=absent"], "no config.json in absent"),
        (["--config=absent.py"], "there is no file absent.py"),
        (["--config=config.py:a:b"], "no variant 'a:b'\n$"),
        (
            ["--config.model.num_layer=3"],
            "no field .model.num_layer.; did you mean .num_layers.",
        ),
        (["--config.model.num_layers=three"], "three"),
        (["--config.model.num_layers=3"], "model.num_layers is 3; the source has 2"),
        (["--config.model.num_labels=3"], "model.num_labels .* needs"),
        (["--config.model.vocab_size=28"], "model.vocab_size is 28"),
        (["--special", "sentence"], "'sentence'; expected ROLE=ROLE"),
        (["--special", "sentense=cls"], "no special token 'sentense'"),
        (["--special", "nq_question=cls"], "lacks nq_question"),
    ],
)
def test_what_does_not_fit_is_told_before_anything_is_made(
    here, run, monkeypatch, changes, message
):
    def never(*_):
        raise AssertionError("the model was initialised")

    monkeypatch.setattr(convert_sources, "_fresh", never)
    names = {c.partition("=")[0] for c in changes}
    argv = [a for a in LIFT if a.partition("=")[0] not in names]
    code, out, err = run(*argv, *changes)
    assert code == 2 and out == ""
    assert re.search(message, err), err
    assert err.startswith("etc-jax convert: ")
    assert not (here / "model").exists()


@pytest.mark.parametrize(
    "argv, message",
    [
        (
            ["--out=y"],
            "one of the arguments --official --lift --hf --trax --fairseq --to_hf",
        ),
        (["--lift=bert", "--official=x", "--out=y"], "not allowed with"),
        (["--lift=bert", "--config=config.py"], "--out"),
        (["--lift=bert", "--out=y"], "--lift needs --config=NAME"),
        (["--lift=b", "--out=y", "--config.model.radius=3"], "--lift needs --config"),
        ([*LIFT, "--config.model.radius", "3"], "write --config.model.radius=VALUE"),
        ([*LIFT, "--verify"], "--verify cannot go with --lift"),
        (["--official=x", "--out=y", "--config=c.py"], "--config cannot go with"),
        (["--official=x", "--out=y", "--seed=0"], "--seed cannot go with --official"),
        ([*LIFT, "--positions=keep"], "invalid choice: 'keep'"),
        ([*LIFT, "--over"], "there is no flag --over; did you mean '--overwrite'?"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(run, capsys, argv, message):
    with pytest.raises(SystemExit) as caught:
        run(*argv)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def official_folder():
    return require_shared("fixtures/etc_official/v9_ckpt")


def test_an_official_checkpoint_becomes_a_model(here, run):
    folder = official_folder()
    code, out, err = run(f"--official={folder}", "--out=model", "--verify")
    assert (code, err) == (0, "")
    params, config = native.load(here / "model")
    official = json.loads((folder / "etc_config.json").read_text())
    assert (config.embed_dim, config.radius) == (
        official["hidden_size"],
        official["local_radius"],
    )
    assert set(params) == {"encoder"}
    source = TfCheckpoint(folder)
    table = params["encoder"]["embeddings"]["token_embedder"]["embedding"]
    np.testing.assert_array_equal(
        table, source["etc_document_bert/token_emb_lookup/embedding_table"]
    )
    # Every variable is loaded or told.
    report = json.loads((here / "model" / "report.json").read_text())
    loaded = {name for names in report["loaded"].values() for name in names}
    assert loaded | set(report["left_over"]) == set(source)
    assert "left over in the checkpoint: global_step" in out


def with_head(monkeypatch, task, **parts):
    """Lets the command see random variables of a head beside the official encoder."""
    folder = official_folder()
    variables = {name: TfCheckpoint(folder)[name] for name in TfCheckpoint(folder)}
    official = json.loads((folder / "etc_config.json").read_text())
    sizes = official["hidden_size"], official["intermediate_size"]
    head = official_heads.drawn(official_heads.shapes(task, *sizes, **parts))
    monkeypatch.setattr(convert_sources, "TfCheckpoint", lambda place: variables | head)
    return f"--official={folder}", head


@pytest.mark.parametrize(
    "task, path, variable",
    [
        ("hotpotqa", "head/answer_span/kernel", "answer_span_output_weights"),
        ("natural_questions", "head/answer_span/kernel", "cls/nq/long_output_weights"),
        ("openkp", "head/ngram_3/kernel", "3gram_conv/kernel"),
        ("openkp", "visual/looks_out/kernel", "dense_feature_layer2/kernel"),
        ("wikihop", "head/candidate/kernel", "output_weights"),
    ],
)
def test_the_head_of_a_fine_tuned_checkpoint_comes_too(
    here, run, monkeypatch, task, path, variable
):
    official, head = with_head(monkeypatch, task)
    code, out, err = run(official, "--out=model", f"--head={task}")
    assert code == 0, err
    assert f"{task} head" in out
    assert "1 left over in the checkpoint: global_step" in out
    params = flatten(native.load("model").params)
    want = head[variable] if task == "openkp" else head[variable].T
    np.testing.assert_array_equal(params[path], want)


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize(
    "task, part, path",
    [("openkp", "looks", "visual/"), ("wikihop", "final_layer", "head/mlp/")],
)
def test_a_part_is_there_if_the_checkpoint_has_it(
    here, run, monkeypatch, task, part, path, there
):
    official, _ = with_head(monkeypatch, task, **{part: there})
    code, _, err = run(official, "--out=model", f"--head={task}")
    assert code == 0, err
    params = flatten(native.load("model").params)
    assert any(name.startswith(path) for name in params) == there
    parts = {name.partition("/")[0] for name in params}
    assert parts - {"visual"} == {"encoder", "head"}


def test_a_head_that_the_checkpoint_does_not_have_is_refused(here, run, monkeypatch):
    official, _ = with_head(monkeypatch, "hotpotqa")
    code, _, err = run(official, "--out=model", "--head=wikihop")
    assert code == 2 and "head/candidate/kernel" in err
    assert not pathlib.Path("model").exists()


def test_the_vocabulary_of_a_lifted_model_lies_beside_it(here, run):
    code, _, err = run(*LIFT)
    assert code == 0, err
    lifted = open_tokenizer(here / "model" / "tokenizer.json")
    assert lifted.fingerprint() == open_tokenizer(here / "bert").fingerprint()
    (here / "bert" / "vocab.txt").unlink()
    code, _, err = run(*LIFT, "--overwrite")
    assert code == 0, err
    assert not (here / "model" / "tokenizer.json").exists()


@pytest.mark.parametrize(
    "text, message",
    [
        (None, "no etc_config.json; give the checkpoint's config by --etc_config"),
        ("{", "is not JSON"),
        ("[]", "holds a list"),
        ("{}", "needs vocab_size"),
        ('{"vocab_size": "many"}', "etc_config.json: "),
        ('{"vocab_size": 9}', "no TensorFlow checkpoint at model.ckpt"),
    ],
)
def test_an_official_checkpoint_that_is_not_whole_is_refused(here, run, text, message):
    if text is not None:
        (here / "etc_config.json").write_text(text)
    code, _, err = run("--official=model.ckpt", "--out=model")
    assert code == 2 and message in err
    assert not (here / "model").exists()


def test_an_official_config_of_other_sizes_is_refused(here, run):
    folder = official_folder()
    official = json.loads((folder / "etc_config.json").read_text())
    (here / "other.json").write_text(json.dumps(official | {"intermediate_size": 50}))
    code, _, err = run(f"--official={folder}", "--out=model", "--etc_config=other.json")
    assert code == 2 and "mlp/wi/kernel: etc_document_bert/global" in err
    assert not (here / "model").exists()


@pytest.mark.parametrize(
    "count, text",
    [
        (0, "none"),
        (2, "n0, n1"),
        (8, "n6, n7"),
        (11, "n7 and 3 more (see report.json)"),
    ],
)
def test_long_lists_are_cut(count, text):
    assert convert_sources._listed([f"n{i}" for i in range(count)]).endswith(text)


def test_the_module_runs_as_a_program(here):
    got = subprocess.run(
        [sys.executable, "-m", "etc_jax.cli.convert", "--help"],
        capture_output=True,
        text=True,
        timeout=limits.SECS,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert got.returncode == 0, got.stderr
    assert "etc-jax convert --official=" in got.stdout
    assert not list(pathlib.Path(here).glob("model*"))
