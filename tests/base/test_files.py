import io
import os
import random
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays, scalar_dtypes

from tensorucb.errors import FileFormatError, InputError
from tensorucb.files import atomic_write, pack_state, read_state, unpack_state, write_state


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(
        st.text("abcdefgh_", min_size=1, max_size=6),
        scalar_dtypes().flatmap(lambda dtype: arrays(dtype, array_shapes(min_dims=0, max_dims=3, max_side=4))),
        max_size=3,
    ),
    st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none(), max_size=3),
)
def test_round_trip(content, setting):
    got_settings, got = unpack_state(pack_state("thing", setting, content), "thing")
    assert got_settings == setting
    assert got.keys() == content.keys()
    for name, array in content.items():
        assert got[name].dtype == array.dtype
        assert got[name].tobytes() == np.asarray(array).tobytes()
        assert got[name].shape == np.shape(array)


def test_mutations_give_an_identical_load_or_one_clear_error():
    data = pack_state("thing", {"a": 1}, {"x": np.arange(50.0), "y": np.eye(3, dtype=np.float32)})
    rng = random.Random(0)
    for _ in range(1500):
        damaged = bytearray(data)
        kind = rng.randrange(3)
        if kind == 0:
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del damaged[rng.randrange(len(damaged)) :]
        else:
            at = rng.randrange(len(damaged))
            damaged[at : at + rng.randrange(1, 20)] = rng.randbytes(rng.randrange(0, 20))
        try:
            setting, got = unpack_state(bytes(damaged), "thing")
        except FileFormatError:
            continue
        assert setting == {"a": 1}
        assert got["x"].tobytes() == np.arange(50.0).tobytes()
        assert got["y"].tobytes() == np.eye(3, dtype=np.float32).tobytes()
        assert got.keys() == {"x", "y"}


def _archive(*members, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members:
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def _header(shape, descr="<f8"):
    """The beginning of an array's file, whatever follows it."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"shape": shape, "fortran_order": False, "descr": descr})
    return buffer.getvalue()


BOMBS = {
    "compressed": lambda: _archive(("x", _header((2**25,)) + bytes(2**25)), compression=zipfile.ZIP_DEFLATED),
    "a shape without its bytes": lambda: _archive(("x", _header((2**36,)))),
    "many arrays without bytes": lambda: _archive(*((f"x{i}", _header((2**32,))) for i in range(50))),
    "a huge item": lambda: _archive(("x", _header((1,), f"<U{2**29 - 1}"))),
    "items of no bytes": lambda: _archive(("x", _header((2**40,), "<U0"))),
    "dimensions past any": lambda: _archive(("x", _header((2**62, 2**62, 2**62)))),
    "negative dimensions": lambda: _archive(("x", _header((-1, -1)) + bytes(8))),
    "an empty array of a huge shape": lambda: _archive(("x", _header((0, 2**70)))),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_file_that_would_grow_is_one_clear_error_and_takes_no_memory(bomb):
    data = BOMBS[bomb]()
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match="not a readable tensorucb file"):
            unpack_state(data, "thing")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * len(data) + 2**20


def test_another_kind_and_a_missing_file_are_named(tmp_path):
    write_state(tmp_path / "a.npz", "learner", {}, {})
    with pytest.raises(FileFormatError, match="holds a 'learner', not a 'policy'"):
        read_state(tmp_path / "a.npz", "policy")
    with pytest.raises(FileFormatError, match="cannot read"):
        read_state(tmp_path / "absent.npz", "policy")


def test_objects_are_refused():
    with pytest.raises(FileFormatError, match="Python objects"):
        pack_state("thing", {}, {"x": np.array([object()])})


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "state.npz"
    path.write_bytes(b"old")

    def write_and_fail():
        with atomic_write(path) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_and_fail()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["state.npz"]


def test_a_written_file_has_ordinary_permissions(tmp_path):
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    write_state(tmp_path / "state.npz", "thing", {}, {})
    assert (tmp_path / "state.npz").stat().st_mode == plain.stat().st_mode


@pytest.mark.parametrize("path", [None, 7, b"a\0b", "a\0b", "\ud800", "", ["a"]])
def test_a_bad_path_is_refused_by_name(path):
    with pytest.raises(InputError, match="path must be a path"):
        read_state(path, "test")


def test_a_directory_is_no_file(tmp_path):
    with pytest.raises(FileFormatError, match="cannot read"):
        read_state(tmp_path, "test")
