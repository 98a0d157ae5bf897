import numpy as np

# private: the random numbers of all kernels, against their definition in plain integers
from tensorucb._kernels import GOLDEN, kernel, mix64, stream, telling_of_compilation, unit

MASK = (1 << 64) - 1


@kernel
def draws(key, item, count):
    out = np.empty(count, np.uint64)
    state = stream(key, item)
    for i in range(count):
        out[i] = mix64(state)
        state += GOLDEN
    return out


@kernel
def to_unit(values):
    out = np.empty(values.size)
    for i in range(values.size):
        out[i] = unit(values[i])
    return out


def reference_mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def test_stream_equals_its_definition_in_plain_integers():
    key, item = 123456789, 42
    state = reference_mix((key + (item + 1) * 0x9E3779B97F4A7C15) & MASK)
    expected = []
    for _ in range(5):
        expected.append(reference_mix(state))
        state = (state + 0x9E3779B97F4A7C15) & MASK
    assert draws(np.uint64(key), item, 5).tolist() == expected


def test_splitmix64_reference_output():
    # The generator's published first outputs for seed 1234567.
    state = 1234567
    out = []
    for _ in range(3):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        out.append(reference_mix(state))
    assert out == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_units_look_uniform_within_and_across_streams():
    within = to_unit(draws(np.uint64(1), 0, 100_000))
    across = to_unit(np.array([draws(np.uint64(1), i, 1)[0] for i in range(20_000)], np.uint64))
    for sample in (within, across):
        assert sample.min() >= 0
        assert sample.max() < 1
        counts = np.histogram(sample, bins=50, range=(0, 1))[0]
        expected = sample.size / 50
        # chi-square with 49 degrees of freedom: 100 is far beyond its 99.99 % point of about 93
        assert ((counts - expected) ** 2 / expected).sum() < 100


def test_who_asks_is_told_while_a_kernel_is_compiled_and_not_when_it_is_found(monkeypatch, tmp_path):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    told = []
    with telling_of_compilation(told.append):
        for _ in range(2):
            assert kernel(draws.function)(np.uint64(1), 0, 3).size == 3
    # Once for itself and for each kernel that it calls, and at the end.
    assert told[0] is True
    assert told.index(False) == len(told) - 1
