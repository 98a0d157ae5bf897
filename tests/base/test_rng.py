import numpy as np
import pytest

from tensorucb.errors import InputError
from tensorucb.rng import as_generator, stream_key


def test_a_seed_repeats_and_a_generator_passes_through():
    assert as_generator(7).integers(1 << 60) == as_generator(np.int64(7)).integers(1 << 60)
    generator = np.random.default_rng(1)
    assert as_generator(generator) is generator


def test_keys_differ_and_repeat():
    a, b = as_generator(3), as_generator(3)
    first, second = stream_key(a), stream_key(a)
    assert first != second
    assert (stream_key(b), stream_key(b)) == (first, second)
    assert isinstance(first, np.uint64)


@pytest.mark.parametrize("bad", [-1, 1.5, "0", True, [1]])
def test_bad_seeds_are_refused(bad):
    with pytest.raises(InputError, match="rng must be"):
        as_generator(bad)
