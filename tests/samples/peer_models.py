"""Small random models of transformers, and folders of them."""

import pathlib
import shutil

import pytest


def random_model(kind: str, spread: float, **sizes):
    """A model of a class of transformers, such as "BertModel".

    Args:
      kind: the class.
      spread: standard deviation of all parameters, norms and biases too.
      **sizes: of its config.
    """
    torch = pytest.importorskip("torch")
    made = getattr(pytest.importorskip("transformers"), kind)
    torch.manual_seed(0)
    model = made(made.config_class(**sizes)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, spread)
    return model


def saved(model, folder: pathlib.Path, tokenizer: pathlib.Path) -> pathlib.Path:
    """The folder of a model with the files of a tokenizer."""
    model.save_pretrained(folder)
    for path in tokenizer.iterdir():
        if path.name != "config.json":
            shutil.copy(path, folder)
    return folder
