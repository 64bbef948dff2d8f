"""ContractNLI's release: hypotheses after the contracts, choices, what is wrong."""

import collections
import json

import pytest
from golden_data import require_shared
from multihop_samples import write_json
from text_sets import contract_nli_file

from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.datasets.task import find_task

TASK = find_task("contract_nli")


def test_each_contract_is_asked_about_each_hypothesis():
    path = require_shared("data/invented_samples/contract_nli/train.json")
    value = json.loads(path.read_text())
    records = list(TASK.read([path]))
    hypotheses = [label["hypothesis"] for label in value["labels"].values()]
    assert [x.prefix for x in records] == hypotheses * len(value["documents"])
    assert [x.input for x in records[:: len(hypotheses)]] == [
        document["text"] for document in value["documents"]
    ]
    wanted = {"Entailment": 2, "Contradiction": 2, "Not mentioned": 2}
    assert collections.Counter(x.target for x in records) == wanted


def changed(folder, change):
    value = json.loads(contract_nli_file(folder).read_text())
    change(value)
    return write_json(folder, value)


@pytest.mark.parametrize("annotation_sets", [[], None])
def test_a_contract_without_choices_is_answered_alone(annotation_sets, tmp_path):
    def change(value):
        del value["documents"][0]["annotation_sets"]
        if annotation_sets is not None:
            value["documents"][0]["annotation_sets"] = annotation_sets

    records = list(TASK.read([changed(tmp_path, change)]))
    assert len(records) == 2 and all(TASK.gold(x) is None for x in records)


def test_an_unknown_choice_is_named(tmp_path):
    def change(value):
        [one] = value["documents"][0]["annotation_sets"]
        one["annotations"]["nda-1"]["choice"] = "entailment"

    problems = Problems()
    [record] = TASK.read([changed(tmp_path, change)], problems)
    assert record.id == "7:nda-4" and problems.counts == {"wrong type": 1}
    [message] = problems.messages["wrong type"]
    assert "annotations.nda-1.choice' is str 'entailment', expected one of" in message


def test_a_file_without_hypotheses_is_named(tmp_path):
    path = changed(tmp_path, lambda value: value.pop("labels"))
    with pytest.raises(BadRecordError, match="records.json has 0 members 'labels'"):
        list(TASK.read([path]))
