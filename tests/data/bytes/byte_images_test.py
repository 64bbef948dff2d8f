"""Images as rows of bytes."""

import numpy as np
import pytest

from etc_jax.data.bytes import images as byte_images

IMAGES = np.arange(5 * 2 * 2 * 3).reshape(5, 2, 2, 3).astype(np.uint8)


@pytest.fixture
def images(tmp_path):
    np.save(tmp_path / "x.npy", IMAGES)
    return byte_images.open_images(str(tmp_path / "x.npy"))


def test_an_image_is_the_row_of_its_bytes(images):
    reader = byte_images.ImageReader(images, length=12, batch_size=2, evaluation=True)
    batches = [reader.batch_at(step) for step in range(reader.steps_per_epoch)]
    targets = np.concatenate([b["targets"] for b in batches])
    np.testing.assert_array_equal(targets[:5], IMAGES.reshape(5, 12))
    weights = np.concatenate([b["target_weights"] for b in batches])
    np.testing.assert_array_equal(weights.sum(-1), [12] * 5 + [0])
    np.testing.assert_array_equal(batches[0]["tokens"][1], [0, *range(12, 23)])


def test_an_epoch_has_each_image_once(images):
    reader = byte_images.ImageReader(images, length=12, batch_size=5, seed=1)
    orders = [tuple(reader.batch_at(step)["targets"][:, 0]) for step in range(4)]
    assert all(sorted(order) == [0, 12, 24, 36, 48] for order in orders)
    assert len(set(orders)) > 1


@pytest.mark.parametrize(
    "array", [IMAGES.astype(np.int32), IMAGES[:0], np.zeros(3, np.uint8)]
)
def test_what_is_no_row_of_images_of_bytes_is_refused(array, tmp_path):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(ValueError, match=r"expected uint8 \[images, ...\]"):
        byte_images.open_images(str(tmp_path / "x.npy"))


def test_images_of_another_length_are_refused(images):
    with pytest.raises(ValueError, match="12 bytes, but data.input_length is 13"):
        byte_images.ImageReader(images, length=13, batch_size=1)
