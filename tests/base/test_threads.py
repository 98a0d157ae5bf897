import sys
import threading

import pytest

from tensorucb.errors import InputError
from tensorucb.threads import map_chunks, single_threaded_blas, thread_count


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_chunks_come_back_in_order_and_empty_ones_are_left_out(threads):
    assert map_chunks(lambda a, b: (a, b), [0, 3, 3, 7, 10], threads) == [(0, 3), (3, 7), (7, 10)]


def test_two_threads_really_run_side_by_side():
    barrier = threading.Barrier(2, timeout=10)
    assert len(map_chunks(lambda a, b: barrier.wait(), [0, 1, 2], 2)) == 2


def test_an_error_in_a_chunk_reaches_the_caller():
    with pytest.raises(ZeroDivisionError):
        map_chunks(lambda a, b: 1 // a, [0, 1, 2], 2)


def test_thread_count(monkeypatch):
    assert thread_count(3) == 3
    monkeypatch.setenv("TENSORUCB_THREADS", "5")
    assert thread_count() == 5
    monkeypatch.setenv("TENSORUCB_THREADS", "many")
    with pytest.raises(InputError, match="TENSORUCB_THREADS"):
        thread_count()
    monkeypatch.delenv("TENSORUCB_THREADS")
    assert thread_count() >= 1
    for bad in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="threads must be"):
            thread_count(bad)


def test_blas_is_pinned_inside_the_block_only():
    import numpy  # noqa: F401  (loads a BLAS)
    from threadpoolctl import threadpool_info

    def blas_threads():
        return [entry["num_threads"] for entry in threadpool_info() if entry["user_api"] == "blas"]

    before = blas_threads()
    with single_threaded_blas():
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


def test_blas_is_looked_for_again_only_after_an_import(monkeypatch):
    import threadpoolctl

    with single_threaded_blas():
        pass
    searches = []
    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", lambda: searches.append(1) or _Found())
    for _ in range(2):
        with single_threaded_blas():
            pass
    assert not searches
    monkeypatch.setitem(sys.modules, "a module that was imported", sys)
    for _ in range(2):
        with single_threaded_blas():
            pass
    assert len(searches) == 1


class _Found:
    lib_controllers = ()

    def select(self, user_api):
        return self


def test_blas_stays_pinned_until_the_last_of_several_threads_is_done():
    import numpy  # noqa: F401  (loads a BLAS)
    from threadpoolctl import threadpool_info

    def blas_threads():
        return [entry["num_threads"] for entry in threadpool_info() if entry["user_api"] == "blas"]

    before, seen, both = blas_threads(), [], threading.Barrier(2, timeout=10)
    left = threading.Event()

    def first():
        with single_threaded_blas():
            both.wait()
        left.set()

    def second():
        with single_threaded_blas():
            both.wait()
            assert left.wait(10)
            seen.extend(blas_threads())

    threads = [threading.Thread(target=work) for work in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {1}
    assert blas_threads() == before
