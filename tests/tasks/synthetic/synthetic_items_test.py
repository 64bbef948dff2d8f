"""What invented items of all data sets have in common."""

import pytest

from etc_jax.base import registry


@pytest.mark.parametrize("name", list(registry.names("invented_items")))
def test_a_record_depends_on_seed_and_number_alone(name):
    maker = registry.lookup("invented_items", name)

    def records(count, **of):
        return list(maker.records(count, sizes=maker.sizes(), **of))

    whole = records(20, seed=3)
    assert records(5, seed=3, start=15) == whole[15:]
    other = records(20, seed=4)
    assert not any(item in whole for item in other)
    assert all(whole.count(item) == 1 for item in whole)
