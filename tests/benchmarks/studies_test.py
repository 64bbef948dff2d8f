"""What holds for all studies of learning: their rows, their runs, their errors."""

import importlib

import pytest

from benchmarks.__main__ import MODULES
from etc_jax.tasks.synthetic import imdb as invented_reviews
from etc_jax.tasks.synthetic.maker import write_records

# ml_collections loads config files in a way that Python announces to give up.
pytestmark = pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")

# What each study is given here, beside a folder.
ARGV = {
    "long_texts": (
        *("--task=imdb", "--bert=BERT", "--train=HERE/some.jsonl"),
        *("--validation=HERE/some.jsonl", "--long_length=512", "--short_length=64"),
    ),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies")
    reviews = invented_reviews.records(12, seed=1)
    write_records(folder / "some.jsonl", list(reviews), lines=True)
    return folder


@pytest.fixture
def argv(here, tiny_bert):
    """The command line of a study; what it makes up is made up once."""

    def make(name, *more):
        places = {"HERE": here, "BERT": tiny_bert}
        given = [*ARGV[name], *more]
        for word, path in places.items():
            given = [x.replace(word, str(path)) for x in given]
        return [f"--workdir={here / name}", *given]

    return make


def module_of(name):
    return importlib.import_module(MODULES[name])


@pytest.mark.parametrize("name", ARGV)
def test_a_field_that_is_not_there_is_refused(argv, trained, converted, name, capsys):
    given = [*argv(name), "--config.model.embed_dims=8"]
    assert module_of(name).main(given) == 2
    error = capsys.readouterr().err
    assert f"benchmarks {name}: " in error and "did you mean 'embed_dim'?" in error
    assert not trained


@pytest.mark.parametrize("name", ARGV)
def test_an_unknown_row_is_refused(argv, name, capsys):
    with pytest.raises(SystemExit):
        module_of(name).main([*argv(name), "--rows=rows"])
    assert "['rows'] is not among " in capsys.readouterr().err
