"""Articles of many windows: raw files to windows, to official figures, to a page."""

import ast
import json
import pathlib
import re

import finetuned_run
import jax
import numpy as np
import pytest

from etc_jax.cli import convert, evaluate, predict, prepare
from etc_jax.data.schema import stacked
from etc_jax.data.windows.cache import WindowCache
from etc_jax.formats.structured import StructuredSizes
from etc_jax.objectives.jobs.finetuning import make_job
from etc_jax.objectives.learners import finetuning
from etc_jax.scoring import natural_questions as scoring
from etc_jax.tasks import natural_questions as nq

NAME = "natural_questions"
PREDICTIONS = "predictions.json"
COUNT = 70  # three parts, the last one short
SIZES = StructuredSizes(*finetuned_run.LENGTHS[NAME])


def read_json(path):
    return json.loads(path.read_text())


class Setup:
    """A run, a file of records, and its evaluation."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.config = finetuned_run.config(NAME)
        self.run = finetuned_run.save_run(folder / "run", self.config)
        self.records = finetuned_run.records(NAME, COUNT)
        self.file = finetuned_run.write_lines(folder / "dev.jsonl", self.records)
        self.whole = folder / "whole"
        assert self.evaluate(self.whole) == 0

    def evaluate(self, out, *more, file=None):
        usual = [f"--model={self.run}", f"--out={out}", "--workers=0", "--batch_size=8"]
        return evaluate.main([*usual, *more, file or self.file])


@pytest.fixture(scope="module")
def setup(tmp_path_factory):
    return Setup(tmp_path_factory.mktemp(NAME))


def same(one, other):
    """Whether both evaluations ended with the same bytes."""
    names = (PREDICTIONS, evaluate.SCORES)
    return all((one / n).read_bytes() == (other / n).read_bytes() for n in names)


# --- preparing ------------------------------------------------------------------------


@pytest.fixture
def cache(setup, tmp_path):
    """Makes the window cache of the records with some flags."""

    def cache(*flags, out="c"):
        long, glob = SIZES.long_length, SIZES.global_length
        argv = [f"--task={NAME}", f"--tokenizer={setup.run / 'tokenizer.json'}"]
        argv += [f"--long_length={long}", f"--global_length={glob}", "--workers=0"]
        assert prepare.main([*argv, *flags, f"--out={tmp_path / out}", setup.file]) == 0
        return WindowCache.open(tmp_path / out)

    return cache


def test_a_cache_has_the_windows_that_are_drawn_and_counts_the_others(setup, cache):
    flags = ("--null_share=0.5", "--unanswerable_share=0.25", "--seed=3")
    options = nq.inputs.NaturalQuestionsOptions(
        null_share=0.5, unanswerable_share=0.25, seed=3
    )
    made = cache(*flags)
    kept, left = [], []
    for record in nq.records.read([setup.file]):
        tokenizer = finetuned_run.tokenizer(NAME)
        for window in nq.inputs.features(record, tokenizer, SIZES, options=options):
            if window.unusable is None:
                kept.append(window)
            else:
                left.append(record.id)
    assert len(left) > 20 and len(kept) > COUNT
    assert made.num_windows == len(kept)
    assert made.header["counts"]["records"] == COUNT
    [(reason, found)] = made.header["left_out"].items()
    assert "not drawn" in reason and found["count"] == len(left)
    names = list(dict.fromkeys(left))
    assert found["first"] == names[: len(found["first"])] and len(found["first"]) > 2
    for i, window in enumerate(kept):
        ids = made.window(i)["long_tokens"]
        np.testing.assert_array_equal(ids, window.tokens.long[: len(ids)])


def test_all_options_reach_the_features_and_the_header(setup, cache):
    flags = ("--stride=30", "--question_tokens=20", "--tokens_per_block=16")
    made = cache(*flags)
    options = nq.inputs.NaturalQuestionsOptions(
        stride=30, question_tokens=20, tokens_per_block=16
    )
    assert made.header["options"] == {
        "official_quirks": False,
        "stride": 30,
        "question_tokens": 20,
        "tokens_per_block": 16,
    }
    assert made.input_options == (
        *("question_tokens=20", "stride=30", "tokens_per_block=16"),
    )
    tokenizer = finetuned_run.tokenizer(NAME)
    windows = [
        window
        for record in nq.records.read([setup.file])
        for window in nq.inputs.features(record, tokenizer, SIZES, options=options)
    ]
    assert made.num_windows == len(windows) and made.longest["global"] == 10
    assert cache("--flat", out="flat").longest["global"] == 1
    parallel = cache(*flags, "--workers=1", out="parallel")
    for name in made.arrays:
        np.testing.assert_array_equal(parallel.arrays[name], made.arrays[name])


def test_what_only_draws_windows_does_not_shape_them(cache):
    made = cache("--null_share=0.5", "--seed=3", "--question_tokens=32")
    assert made.input_options == () and made.header["options"].keys() == {
        "official_quirks"
    }
    assert made.header["made_by"]["drawn"] == {"null_share": 0.5, "seed": 3}
    assert "drawn" not in cache(out="all").header["made_by"]


# --- training -------------------------------------------------------------------------


def job_of(train, validation, options, folder, **data):
    data |= {"paths": (str(train.path),), "validation_paths": (str(validation.path),)}
    data["input_options"] = options
    made = finetuned_run.config(NAME, **{f"data__{k}": x for k, x in data.items()})
    return make_job(made, folder)


def test_caches_of_other_options_than_the_config_says_are_refused(cache, tmp_path):
    blocks = cache("--tokens_per_block=16", "--stride=30", out="blocks")
    usual = cache("--null_share=0.5")
    options = ("tokens_per_block=16", "stride=30")
    for train, validation, asked, named in (
        (blocks, usual, (), blocks),
        (blocks, usual, options, usual),
        (usual, blocks, (), blocks),
        (blocks, blocks, options[:1], blocks),
        (blocks, blocks, ("stride=30", "tokens_per_block=17"), blocks),
    ):
        with pytest.raises(ValueError, match="but data.input_options is") as caught:
            job_of(train, validation, asked, tmp_path)
        said = str(caught.value)
        assert said.startswith(f"{named.path} was prepared with ")
        given = re.search('give --config.data.input_options="(.*?)",', said)[1]
        # What is to be added makes the cache fit.
        job_of(named, named, ast.literal_eval(given), tmp_path)
    job_of(blocks, blocks, options, tmp_path)


def test_options_that_say_what_holds_anyway_make_no_difference(cache, tmp_path):
    usual = cache()
    stride = nq.inputs.NaturalQuestionsOptions().stride_for(SIZES.long_length)
    said = cache(f"--stride={stride}", out="said")
    assert said.num_windows == usual.num_windows
    job_of(usual, said, (), tmp_path)
    job_of(usual, usual, (f"stride={stride}", "flat=false"), tmp_path)
    job_of(said, said, ("question_tokens=32", "seed=3"), tmp_path)
    with pytest.raises(ValueError, match="prepared with the options by default, but"):
        job_of(usual, usual, (f"stride={stride + 1}",), tmp_path)


@pytest.mark.parametrize("name", ["long_length", "global_length"])
@pytest.mark.parametrize("more", [-1, 8])
def test_windows_of_other_lengths_than_the_config_says_are_refused(
    cache, tmp_path, name, more
):
    made = cache(f"--{name}={getattr(SIZES, name) + more}", "--stride=40")
    want = getattr(SIZES, name)
    with pytest.raises(ValueError, match="other windows") as caught:
        job_of(made, made, ("stride=40",), tmp_path)
    said = str(caught.value)
    assert f"{made.path} was prepared with --{name}={want + more}, but" in said
    assert f"data.{name} is {want}:" in said and f"again with --{name}={want}" in said
    given = re.search(f"give --config.data.{name}=(.*?),", said)[1]
    # What is to be given makes the cache fit.
    job_of(made, made, ("stride=40",), tmp_path, **{name: int(given)})


@pytest.mark.parametrize("flag", ["flat=true", "tokens_per_block=16"])
def test_global_lengths_may_differ_where_no_paragraph_has_a_token(
    cache, tmp_path, flag
):
    made = cache(f"--{flag.removesuffix('=true')}", "--global_length=12")
    job_of(made, made, (flag,), tmp_path)
    with pytest.raises(ValueError, match="but data.long_length is 150:"):
        job_of(made, made, (flag,), tmp_path, long_length=150)


# --- evaluating -----------------------------------------------------------------------


def window_by_window(setup):
    """{record id: prediction}, with no batch and on one device."""
    task = finetuning.of_config(setup.config)
    params = finetuned_run.random_params(setup.config, seed=finetuned_run.STEP)
    outputs = jax.jit(task.outputs)
    predictions = {}
    for record in nq.records.read([setup.file]):
        summaries = []
        for window in nq.inputs.features(record, finetuned_run.tokenizer(NAME), SIZES):
            inputs = jax.tree.map(np.asarray, stacked([window]))
            got = jax.device_get(outputs(params, inputs))
            summaries += nq.decoding.summarise(got, [window])
        assert len(summaries) > 2
        predictions[record.id] = nq.decoding.pool(summaries)
    return predictions


def test_predictions_are_those_of_a_plain_loop(setup):
    want = window_by_window(setup)
    given = read_json(setup.whole / PREDICTIONS)
    assert given == json.loads(json.dumps(nq.decoding.official(want)))
    several = {p["long_answer"]["start_token"] for p in given["predictions"]}
    assert len(several) > 10
    assert "none" in {p["yes_no_answer"] for p in given["predictions"]}


def test_the_files_are_those_of_the_official_scorer(setup):
    official = scoring.score(setup.records, read_json(setup.whole / PREDICTIONS))
    assert official.problems() == []
    told = read_json(setup.whole / evaluate.SCORES)
    assert told["metrics"] == official.metrics and told["records"] == COUNT
    assert told["options"]["question_tokens"] == 32
    assert 0 < told["metrics"][scoring.AVERAGE_F1] < 1


def test_the_best_thresholds_are_those_at_which_the_best_f1_is_reached(setup):
    told = read_json(setup.whole / evaluate.SCORES)
    predictions = read_json(setup.whole / PREDICTIONS)["predictions"]
    assert told["best_thresholds"].keys() == {
        f"{part}-best-threshold" for part in ("long", "short")
    }
    for part, score in (
        ("long", "long_answer_score"),
        ("short", "short_answers_score"),
    ):
        least = told["best_thresholds"][f"{part}-best-threshold"]
        given = [p for p in predictions if p[score] >= least]
        assert 0 < len(given) < COUNT
        dropped = [p if p in given else without_answer(p) for p in predictions]
        got = scoring.official_metrics(setup.records, {"predictions": dropped})
        best = told["metrics"][f"{part}-best-threshold-f1"]
        assert got[f"{part}-answer-f1"] == pytest.approx(best, abs=1e-12)


def without_answer(prediction):
    none = dict.fromkeys(prediction["long_answer"], -1)
    none |= {"long_answer": none, "short_answers": [], "yes_no_answer": "none"}
    return {k: none.get(k, x) for k, x in prediction.items()}


def test_neither_workers_nor_shards_change_a_byte(setup, tmp_path):
    out = tmp_path / "out"
    assert setup.evaluate(out, "--shard=1/2", "--workers=1") == 0
    assert setup.evaluate(out, "--shard=0/2") == 0
    assert same(out, setup.whole)


def test_what_cannot_be_answered_is_wrong_and_named(setup, tmp_path, capsys):
    answered = [
        r
        for r in setup.records
        if sum(a["yes_no_answer"] == "NONE" for a in r["annotations"]) == 5
        and sum(bool(a["short_answers"]) for a in r["annotations"]) > 1
    ][:6]
    broken = {**answered[0], "example_id": 1, "document_tokens": []}
    lines = [json.dumps(r) for r in answered]
    lines[2:2] = [json.dumps(broken), '{"example_id": ']
    file = tmp_path / "dev.jsonl"
    file.write_text("\n".join(lines))
    assert setup.evaluate(tmp_path / "out", file=str(file)) == 0
    told = read_json(tmp_path / "out" / evaluate.SCORES)
    assert (told["records"], told["unreadable"]) == (8, 2)
    assert told["problems"] == {"no text": 1, "broken line": 1}
    # Of six questions with a gold answer, and two that must be taken to have one.
    plain = scoring.official_metrics(
        answered, read_json(tmp_path / "out" / PREDICTIONS)
    )
    got = told["metrics"]
    for part in ("long", "short"):
        recall = plain[f"{part}-answer-recall"]
        assert got[f"{part}-answer-recall"] == pytest.approx(recall * 6 / 8, abs=1e-12)
        same_name = f"{part}-answer-precision"
        assert got[same_name] == plain[same_name]


def test_options_change_the_windows_and_are_remembered(setup, tmp_path, capsys):
    out = tmp_path / "out"
    assert setup.evaluate(out, "--option=stride=64") == 0
    assert not same(out, setup.whole)
    assert setup.evaluate(out, "--option=stride=64") == 0
    capsys.readouterr()
    assert setup.evaluate(out) == 2
    assert "'stride': 64" in capsys.readouterr().err
    assert setup.evaluate(tmp_path / "x", "--option=window=64") == 2
    assert "no option window; there are: question_tokens" in capsys.readouterr().err


def test_inputs_are_made_as_for_the_training_of_the_run(setup, tmp_path):
    given = tmp_path / "given"
    assert setup.evaluate(given, "--option=stride=64", "--option=flat=true") == 0
    options = ("flat=true", "stride=64")
    made = finetuned_run.config(NAME, data__input_options=options)
    run = finetuned_run.save_run(tmp_path / "run", made)
    exported = tmp_path / "exported"
    assert convert.main([f"--export={run}", f"--out={exported}"]) == 0
    for model in (run, exported):
        out = tmp_path / f"of_{model.name}"
        assert setup.evaluate(out, f"--model={model}") == 0
        assert predicted(out) == predicted(given) != predicted(setup.whole)
        assert read_json(out / evaluate.SCORES)["options"]["stride"] == 64
    # What is asked for counts.
    back = ("--option=stride=null", "--option=flat=false", f"--model={run}")
    assert setup.evaluate(tmp_path / "back", *back) == 0
    assert predicted(tmp_path / "back") == predicted(setup.whole)


def predicted(out):
    return (out / PREDICTIONS).read_bytes()


def test_predictions_are_made_as_for_the_training_of_the_run(setup, tmp_path, capsys):
    made = finetuned_run.config(NAME, data__input_options=("stride=64",))
    run = finetuned_run.save_run(tmp_path / "run", made)
    file = finetuned_run.write(tmp_path / "some.json", setup.records[:4])

    def told(*argv):
        assert predict.main(["--json", "--batch_size=8", *map(str, argv), file]) == 0
        return capsys.readouterr().out

    of_run, usual = told(f"--model={run}"), told(f"--model={setup.run}")
    assert of_run == told(f"--model={setup.run}", "--option=stride=64") != usual
    assert told(f"--model={run}", "--option=stride=null") == usual


# --- predicting -----------------------------------------------------------------------


@pytest.fixture
def asked(setup, tmp_path, capsys):
    """Predictions of four records without annotations, and their page."""
    values = [
        {k: v for k, v in r.items() if k != "annotations"} for r in setup.records[:4]
    ]
    page, file = tmp_path / "page.html", tmp_path / "some.json"
    argv = [f"--model={setup.run}", "--batch_size=8", "--json", f"--html={page}"]
    assert predict.main([*argv, finetuned_run.write(file, values)]) == 0
    lines = capsys.readouterr().out.splitlines()
    return values, [json.loads(line) for line in lines], page.read_text()


def test_answers_are_those_of_the_evaluation(setup, asked):
    official = read_json(setup.whole / PREDICTIONS)["predictions"]
    want = {str(p["example_id"]): p for p in official}
    values, told, _ = asked
    for value, got in zip(values, told, strict=True):
        assert got["question"] == value["question_text"]
        [mine] = nq.decoding.official({got["id"]: got["prediction"]})["predictions"]
        assert mine == want[got["id"]]
        words = [t["token"] for t in value["document_tokens"]]
        shown = [w for w in words if not w.startswith("<")]
        long = mine["long_answer"]
        inside = words[long["start_token"] : long["end_token"]]
        [support] = got["support"]
        assert support["text"] == " ".join(w for w in inside if w in shown)
        assert support["score"] == mine["long_answer_score"]
        assert got["score"] == mine["short_answers_score"]
        if mine["yes_no_answer"] == "none":
            [short] = mine["short_answers"]
            inside = words[short["start_token"] : short["end_token"]]
            assert got["answer"] == " ".join(w for w in inside if w in shown)


def test_the_page_shows_article_answers_and_scores(asked):
    values, told, page = asked
    assert page.count("<article") == 4 and page.count("<script") == 1
    assert page.count('class="passage support scored"') == 4
    for got in told:
        assert f"score {got['score']:.2f}" in page
        assert f"score {got['support'][0]['score']:.2f}" in page
    assert "scores have no scale" in page and "%</span>" not in page
