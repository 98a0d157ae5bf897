"""Work in several processes, which leave what they found on disk.

A process only fills the directory of kept runs. Whoever started it then goes through all of the work again, finds the
runs there, and computes what is missing: so the numbers cannot depend on the number of processes, and an error comes
out in the caller's own process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from tensorucb.checks import check_count
from tensorucb.threads import MOST_THREADS, thread_count
from tensorucb.work import Engine, Task


def check_jobs(jobs: Any) -> int:
    """A number of processes."""
    return check_count("jobs", jobs, 1, MOST_THREADS)


def play_ahead(engine: Engine | None, tasks: Sequence[Task], jobs: int, each_step: Callable[[int], None]) -> None:
    """Play runs where the engine says; without one, in ``jobs`` processes."""
    if engine is None:
        in_processes(tasks, jobs, each_step)
    else:
        engine.fill(tasks, jobs, each_step)


def in_processes(tasks: Sequence[Task], jobs: int, each_step: Callable[[int], None]) -> None:
    """Work on the tasks in ``jobs`` processes, as far as that goes; ``each_step(number)`` after a task's every step.

    When a task fails, or its process dies, all of them are stopped and the task is done here, where its error counts.
    The processes are forked, since worlds and policies may hold functions that no other process could be sent.
    """
    if min(jobs, len(tasks)) < 2 or "fork" not in multiprocessing.get_all_start_methods():
        return
    context = multiprocessing.get_context("fork")
    counter = context.Value("q", 0)
    threads = max(1, thread_count() // jobs)
    workers: dict[Connection, Any] = {}
    try:
        for _ in range(min(jobs, len(tasks))):
            ours, theirs = context.Pipe(duplex=False)
            worker = context.Process(target=_work, args=(tasks, counter, theirs, threads), daemon=True)
            _start(worker)
            theirs.close()
            workers[ours] = worker
        failed = _listen(workers, each_step)
    finally:
        for connection, worker in workers.items():
            worker.terminate()
            worker.join()
            connection.close()
    if failed is not None:
        tasks[failed](lambda: None)


def _start(worker: Any) -> None:
    """Fork; a Ctrl-C that comes meanwhile reaches this process alone."""
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with warnings.catch_warnings():
            # Newer Pythons warn of threads: ours draw the progress, and the new process does not need them.
            warnings.simplefilter("ignore", DeprecationWarning)
            worker.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)


def _listen(workers: dict[Connection, Any], each_step: Callable[[int], None]) -> int | None:
    """Pass on steps and warnings until all work is done; returns the number of a task that failed, if one did."""
    busy: dict[Connection, int | None] = dict.fromkeys(workers)
    while busy:
        for connection in wait(list(busy)):
            assert isinstance(connection, Connection)
            try:
                number, event = connection.recv()
            except EOFError:
                # The process is gone: without a task if all is done, else in the middle of one.
                lost = busy.pop(connection)
                if lost is not None:
                    return lost
                continue
            busy[connection] = number
            if isinstance(event, Warning):
                warnings.warn(event, stacklevel=2)
            elif event == "step":
                each_step(number)
    return None


def _work(tasks: Sequence[Task], counter: Any, connection: Connection, threads: int) -> None:
    """Take tasks until there are none; sends (number of the task, or None between two; what happened)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.environ["TENSORUCB_THREADS"] = str(threads)

    def warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        connection.send((number, message if isinstance(message, Warning) else category(message)))

    # Not shown here: the caller's way to show one may need a thread or a lock that was left behind.
    warnings.showwarning = warn
    try:
        while True:
            with counter.get_lock():
                number = counter.value
                counter.value += 1
            if number >= len(tasks):
                connection.close()  # now, so that nobody waits for the rest of the way out
                return
            connection.send((number, "begun"))
            tasks[number](lambda number=number: connection.send((number, "step")))
            connection.send((None, "done"))
    except BaseException:
        # Not reported here: the task is repeated in the process that started us. Nor does anything run on the way out.
        os._exit(1)
