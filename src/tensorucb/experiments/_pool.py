"""Runs in several processes: who started them gets each result as soon as it is there."""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from tensorucb.threads import thread_count
from tensorucb.work import Task


def in_processes(
    tasks: Sequence[Task], jobs: int, each_step: Callable[[int], None], finished: Callable[[int, Any], None]
) -> None:
    """Work on the tasks in ``jobs`` processes, as far as that goes.

    ``each_step(number)`` is called after a task's every step, ``finished(number, result)`` at its end. When a task
    fails, or its process dies, all of them are stopped and the task is done here, where its error counts. The processes
    are forked, since worlds and policies may hold functions that no other process could be sent.
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
        failed = _listen(workers, each_step, finished)
    finally:
        for connection, worker in workers.items():
            worker.terminate()
            worker.join()
            connection.close()
    if failed is not None:
        finished(failed, tasks[failed](lambda: None))


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


def _listen(
    workers: dict[Connection, Any], each_step: Callable[[int], None], finished: Callable[[int, Any], None]
) -> int | None:
    """Pass on steps, warnings and results until all work is done; returns the number of a task that failed."""
    busy: dict[Connection, int | None] = dict.fromkeys(workers)
    while busy:
        for connection in wait(list(busy)):
            assert isinstance(connection, Connection)
            try:
                number, event, value = connection.recv()
            except EOFError:
                # The process is gone: without a task if all is done, else in the middle of one.
                lost = busy.pop(connection)
                if lost is not None:
                    return lost
                continue
            busy[connection] = number
            if event == "warning":
                warnings.warn(value, stacklevel=2)
            elif event == "step":
                each_step(number)
            elif event == "result":
                finished(number, value)
                busy[connection] = None
    return None


def _work(tasks: Sequence[Task], counter: Any, connection: Connection, threads: int) -> None:
    """Take tasks until there are none; sends (number of the task, what happened, what came of it)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.environ["TENSORUCB_THREADS"] = str(threads)

    def warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        connection.send((number, "warning", message if isinstance(message, Warning) else category(message)))

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
            connection.send((number, "begun", None))
            result = tasks[number](lambda number=number: connection.send((number, "step", None)))
            connection.send((number, "result", result))
    except BaseException:
        # Not reported here: the task is repeated in the process that started us. Nor does anything run on the way out.
        os._exit(1)
