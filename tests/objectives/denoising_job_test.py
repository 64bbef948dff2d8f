"""Denoising through the training loop: batches of text, resume, bad input."""

import numpy as np
import pytest
import tiny_text
from config_changes import changed
from denoising_runs import END, FIRST, INPUT, ROWS, SENTINELS, check_batches, values_of
from toy_text import reconstructed
from training_runs import lines

from etc_jax.base import registry
from etc_jax.data.text import denoised
from etc_jax.training import errors
from etc_jax.training.run import train_and_evaluate

pytest.importorskip("nupunkt")
KINDS = ("spans", "infilling", "gap_sentences")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("denoising")
    tiny_text.write_rows(folder / "rows.jsonl")
    return folder


def config_of(home, **changes):
    values = values_of(home, "bart")
    values.model.update(
        embed_dim=16,
        num_heads=2,
        mlp_dim=16,
        num_layers=1,
        num_decoder_layers=1,
        max_length=INPUT,
        pad_id=0,
    )
    values.objective.share = 0.2
    values.data.update(packing="concatenated", min_sentences=1)
    values.train.update(num_steps=6, log_every_steps=1, eval_every_steps=3)
    values.checkpoint.every_steps = 3
    return changed(values, changes)


def job_of(home, folder, **changes):
    config = config_of(home, **changes)
    return registry.lookup("objective", "denoising")(config, folder)


def sides(batch):
    for row in range(ROWS):
        yield tuple(
            batch[f"{side}_tokens"][row][batch[f"{side}_example_ids"][row] > 0]
            for side in ("input", "target")
        )


@pytest.mark.parametrize("kind", KINDS)
def test_batches_fit_their_model_and_are_functions_of_the_step(home, tmp_path, kind):
    job = job_of(home, tmp_path, objective__kind=kind)
    batch = check_batches(job)
    for read, written in sides(batch):
        assert read[-1] == written[-1] == END and len(written) > 1
    # Another epoch has other gaps of the same texts.
    epoch = int(np.ceil(job.steps_per_epoch))
    later = [job.train_batch(i, np.arange(ROWS)) for i in range(epoch, 2 * epoch)]
    if kind == "spans":
        assert any(
            not np.array_equal(x["input_tokens"], batch["input_tokens"]) for x in later
        )


def test_texts_come_back_from_both_sides(home, tmp_path):
    job = job_of(home, tmp_path, objective__begin_token=True)
    sentinels = range(FIRST, FIRST + SENTINELS)
    whole = job_of(
        home,
        tmp_path,
        objective__begin_token=True,
        objective__kind="infilling",
        objective__permute_sentences=False,
        data__target_length=INPUT,
    )
    rows = np.arange(ROWS)
    plain = list(sides(whole.train_batch(1, rows)))
    for (read, written), (_, text) in zip(
        sides(job.train_batch(1, rows)), plain, strict=True
    ):
        assert read[0] == written[0] == text[0]
        found = denoised.Corrupted(read[1:-1], written[1:-1])
        back = reconstructed(found, sentinels)
        # The same texts in the same order, whatever is missing from them.
        np.testing.assert_array_equal(back, text[1:-1])


# Other runs of encoder-decoders are in `seq2seq_job_test`.
@pytest.mark.full
@pytest.mark.usefixtures("one_device")
def test_a_run_learns(home, tmp_path):
    config = config_of(home)
    assert train_and_evaluate(config, tmp_path / "run").exit_code == errors.DONE
    first, last = lines(tmp_path / "run", "eval")
    assert last["loss"] < first["loss"]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"objective__share": 0.0}, "objective.share: is 0.0; expected a number in"),
        ({"objective__kind": "words"}, "objective.kind: is 'words'"),
        ({"objective__mean_span_length": 0.5}, "mean_span_length: is 0.5; expected"),
        ({"objective__mixed_span_lengths": ()}, r"mixed_span_lengths: are \(\)"),
        ({"objective__global_tokens": 1}, "global_tokens: is 1, but rows of this"),
    ],
)
def test_a_config_that_cannot_be_is_refused(home, changes, message):
    with pytest.raises(ValueError, match=message):
        config_of(home, **changes)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"model__vocab_size": FIRST + 1}, r"may have 4 spans, but there are 1 sent"),
        (
            {"model__eos_id": 2},
            "data.tokenizer ends a text with .* set model.eos_id=102",
        ),
    ],
)
def test_a_vocabulary_that_does_not_go_with_it_is_refused(
    home, tmp_path, changes, message
):
    with pytest.raises(ValueError, match=message):
        job_of(home, tmp_path, **changes)
