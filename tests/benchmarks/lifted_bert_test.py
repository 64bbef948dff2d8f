"""A BERT lifted into ETC and as itself: the models, the inputs, and the table."""

import json

import bert_reference as reference
import numpy as np
import pytest
import tiny_text
from stand_ins import TINY_BERT, differing, flat

from benchmarks.data.lifted_bert_items import SETS, in_pairs, write_items
from benchmarks.rows import lifted_bert, lifted_bert_models
from benchmarks.rows.lifted_bert import ROWS
from benchmarks.rows.lifted_bert_models import BERT, ETC, Source
from etc_jax.configs.etc import bert_base_nq
from etc_jax.conversion.engine import flatten
from etc_jax.conversion.formats import native
from etc_jax.tasks.hotpotqa.decoding import gold_outputs, official_gold
from etc_jax.tasks.hotpotqa.records import read
from etc_jax.tasks.synthetic import wikihop as invented_wikihop

# ml_collections loads config files in a way that Python announces to give up.
pytestmark = pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")

LONG, SHORT = 1024, 256
WORDS = "embeddings.word_embeddings.weight"
SIZES = [
    *("--items=24", "--validation=6", "--contexts=4", "--words=0"),
    *(f"--long_length={LONG}", f"--short_length={SHORT}", "--workers=0"),
    *("--steps=4", "--batch_size=8"),
    *("--pretraining_steps=2", "--pretraining_batch_size=8"),
    "--config.model.attention=dense",
]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with text."""
    folder = tmp_path_factory.mktemp("lifted")
    tiny_text.write_rows(folder / "text.jsonl")
    return folder


@pytest.fixture
def argv(here, tiny_bert):
    def make(*more, headless=False, workdir="runs"):
        return [
            f"--bert={tiny_bert[headless]}",
            f"--workdir={here / workdir}",
            *("--text", str(here / "text.jsonl")),
            *("--text_field=body", "--text_validation=0.4"),
            *SIZES,
            *more,
        ]

    return make


@pytest.fixture
def lifts(argv):
    def make(*more, **which):
        given = lifted_bert.COMMAND.options().parse_known_args(argv(*more, **which))
        return lifted_bert.prepare(*given)

    return make


def test_rows_differ_in_what_they_say_alone(lifts):
    made = lifts()
    etc, lifted, bert, continued = (made.config(row, 1) for row in ROWS.values())
    assert differing(etc, lifted) == {"checkpoint.init_from"}
    assert differing(bert, continued) == {"checkpoint.init_from"}
    # What a BERT is by the config of that name, but for the source's own numbers.
    models = {name for name in differing(etc, continued) if name.startswith("model.")}
    asked = bert_base_nq.get_config().model
    taken = {"radius": SHORT, "max_positions": SHORT, "layer_norm_epsilon": 1e-6}
    assert models == {
        f"model.{name}"
        for name in (
            *("share_qkv", "share_out", "max_distance", "num_labels", "hard_l2g"),
            # The last one is a matter of memory alone.
            *("activation", *taken, "logits_chunk_length"),
        )
    }
    for path in models:
        name = path.removeprefix("model.")
        assert flat(continued)[path] == taken.get(name, asked[name]), name
    assert differing(etc, continued) - models == {
        *("checkpoint.init_from", "data.flat", "data.paths", "data.validation_paths"),
        *("data.long_length", "data.global_length", "train.compile_cache_dir"),
    }
    assert bert.data.flat and not etc.data.flat
    assert bert.data.long_length == SHORT < etc.data.long_length <= LONG
    assert etc.checkpoint.init_from_only == ("encoder",)


def test_options_go_to_every_row_but_leave_a_bert_one(lifts):
    made = lifts("--config.model.radius=5", "--config.model.dtype=float32")
    etc, bert = (made.config(ROWS[name], 0).model for name in ("etc", "bert_512"))
    assert (etc.radius, bert.radius) == (5, SHORT)
    assert etc.dtype == bert.dtype == "float32"
    before = made.pretraining_config(ETC, made.config(ROWS["etc"], 0))
    assert before.model == etc


def test_each_goes_on_with_as_many_tokens_a_step(lifts):
    made = lifts(headless=True)
    etc, bert = (
        made.pretraining_config(kind, made.config(row, 5))
        for kind, row in ((ETC, ROWS["etc"]), (BERT, ROWS["bert_512_continued"]))
    )
    sizes = [c.train.batch_size * c.data.long_length for c in (etc, bert)]
    assert sizes == [8 * LONG, 8 * LONG]
    assert etc.objective.cpc_weight > 0 == bert.objective.cpc_weight
    assert etc.data.paths == bert.data.paths
    assert etc.train.seed == bert.train.seed == 0
    # The model has no head that the bias over the vocabulary could be of.
    assert etc.checkpoint.init_from_partial == ("mlm_bias",)
    whole = lifts()
    run = whole.config(ROWS["etc"], 5)
    assert whole.pretraining_config(ETC, run).checkpoint.init_from_partial == ()


@pytest.mark.parametrize("kind", [ETC, BERT])
@pytest.mark.full
def test_a_lift_is_the_model_of_its_rows(tiny_bert, tmp_path, lifts, converted, kind):
    made, out = lifts(), tmp_path / "model"
    [row, *_] = [row for row in ROWS.values() if row.kind is kind]
    model = made.config(row, 0).model
    lifted_bert_models.lift(made.source, kind, model, out)
    params, config = native.load(out)
    assert config == model
    paths = flatten(params)
    arrays = reference.random_arrays(TINY_BERT)
    tokens = paths["encoder/embeddings/token_embedder/embedding"]
    np.testing.assert_array_equal(tokens, arrays[f"bert.{WORDS}"])
    positions = "encoder/embeddings/long_position_embedder/embedding"
    assert (positions in paths) == (kind is BERT)
    lifted_bert_models.lift(made.source, kind, model, out)
    assert len(converted) == 1
    other = Source.open(tiny_bert[1])
    with pytest.raises(ValueError, match="choose another --workdir"):
        lifted_bert_models.lift(other, kind, model, out)


def test_everything_is_made_once(argv, trained, converted, run, capsys):
    def is_bert(config):
        return "bert" in config.checkpoint.init_from

    trained.score_fn = lambda config: 0.3 if is_bert(config) else 0.8
    given = argv("--seeds=1,3", workdir="once")
    code, found = run(lifted_bert.main, *given)
    # Seeds share what is pre-trained, and what is lifted.
    assert code == 0
    assert [(c.objective.name, c.train.seed) for c in trained] == [
        *(("mlm_cpc", 0), ("hotpotqa", 1), ("hotpotqa", 1), ("hotpotqa", 1)),
        *(("mlm_cpc", 0), ("hotpotqa", 1), *[("hotpotqa", 3)] * 4),
    ]
    assert len(converted) == 2
    starts = [c.checkpoint.init_from.rpartition("/")[2] for c in trained]
    assert starts[:6] == [
        *("etc_lifted", "etc_continued", "etc_lifted"),
        *("bert_lifted", "bert_lifted", "bert_continued"),
    ]
    assert {x[3] for x in trained.evaluated} == {"--threshold=0.4"}
    assert "etc - bert_512_continued  50.0" in capsys.readouterr().out
    runs = {(made["row"], made["seed"]): made for made in found["runs"]}
    assert list(runs) == [(name, seed) for seed in (1, 3) for name in ROWS]
    assert runs["etc", 3]["scores"]["joint_f1"] == 80.0
    assert runs["bert_512", 1]["pretraining"] is None
    assert runs["etc", 3]["pretraining"]
    assert found["arguments"]["steps"] == 4
    long, short = (found["inputs"][name] for name in ("etc", "bert"))
    assert long["windows"] == 24 > short["windows"] > 0
    assert long["upper_bound"]["joint_f1"] == 100.0 > short["upper_bound"]["joint_f1"]
    assert run(lifted_bert.main, *given)[0] == 0
    assert len(trained) == 10 and len(converted) == 2


def test_the_upper_bound_is_what_gold_labels_score(lifts):
    made = lifts("--rows=bert_512")
    source, items = made.source, made.items
    task = items.item_set.task
    predictions, gold = {}, []
    for record in read([items.validation]):
        windows = task.features(record, source.tokenizer, type(task.sizes)(SHORT, 430))
        outputs = gold_outputs(windows)
        [[decoded]] = task.decode(outputs, windows, [0.5])
        predictions[record.id] = decoded
        gold.append(official_gold(record))
    scores = task.score(gold, task.official(predictions))
    found = items.upper_bound(source.tokenizer, SHORT)
    assert found["joint_f1"] == pytest.approx(100 * scores.metrics["joint_f1"])


def test_sentences_of_wikihop_are_joined_in_pairs(tmp_path):
    assert in_pairs("A is. B was. C did.") == "A is; B was. C did."
    assert in_pairs("A is.") == "A is."
    amount = {"items": 2, "validation": 1, "contexts": 4, "hops": 2, "words": 300}
    items = write_items(SETS["wikihop"], tmp_path, **amount)
    sizes = invented_wikihop.WikiHopSizes(contexts=4, hops=(2, 2), words=300)
    plain = list(invented_wikihop.records(2, seed=1, sizes=sizes))
    joined = json.loads(items.train.read_text())
    for before, after in zip(plain, joined, strict=True):
        for one, other in zip(before["supports"], after["supports"], strict=True):
            assert other.replace(";", ".") == one
            assert other.count(".") == (one.count(".") + 1) // 2
        assert {**before, "supports": 0} == {**after, "supports": 0}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--bert=nowhere"], "no config.json in nowhere"),
        (["--text", "nowhere/*.txt"], "no file matches '*.txt'"),
        ([f"--short_length={SHORT + 1}"], f"lower --short_length to {SHORT}"),
        (["--contexts=2"], "contexts must be"),
    ],
)
def test_wrong_input_is_printed_before_inputs_are_made(
    argv, monkeypatch, capsys, more, says
):
    def never(*_):
        raise AssertionError("inputs were made")

    monkeypatch.setattr(lifted_bert.Items, "make_caches", never)
    assert lifted_bert.main(argv(*more)) == 2
    assert says in capsys.readouterr().err


def test_a_folder_without_a_vocabulary_is_named(argv, capsys, tmp_path):
    arrays = reference.random_arrays(TINY_BERT)
    reference.write_folder(tmp_path, TINY_BERT, arrays)
    assert lifted_bert.main(argv(f"--bert={tmp_path}")) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_text_is_asked_for_where_a_row_goes_on(tiny_bert, tmp_path, capsys):
    argv = [f"--bert={tiny_bert[0]}", f"--workdir={tmp_path}", *SIZES]
    assert lifted_bert.main(argv) == 2
    assert "rows etc, bert_512_continued go on" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.full
@pytest.mark.parametrize("task", sorted(SETS))
def test_all_rows_are_trained_and_scored(argv, run, capsys, task):
    more = [f"--task={task}", "--seeds=0", "--config.model.dtype=float32"]
    given = argv(*more, headless=True, workdir="real")
    code, found = run(lifted_bert.main, *given)
    assert code == 0
    assert "etc - bert_512_continued" in capsys.readouterr().out
    assert [made["row"] for made in found["runs"]] == list(ROWS)
    for made in found["runs"]:
        assert 0 <= made["scores"][SETS[task].task.metric] <= 100
        assert [step for step, _ in made["curve"]] == [1, 2, 3, 4]
