"""A project's lock: readers share, a writer is alone, and a waiting writer is not kept waiting for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from awr.surfaces.http.locks import ReadWriteLock
from tests.support.service import eventually

SECONDS = 10.0


def waiting_writers(lock: ReadWriteLock) -> int:
    return lock._waiting_writers


def test_readers_hold_it_together() -> None:
    lock, together = ReadWriteLock(), threading.Barrier(3)

    def read() -> None:
        with lock.reading():
            together.wait(SECONDS)

    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(read) for _ in range(3)]:
            done.result(SECONDS)


@pytest.mark.parametrize("kind", ["reading", "writing"])
def test_nobody_enters_while_a_writer_is_inside(kind: str) -> None:
    lock, inside, order = ReadWriteLock(), threading.Event(), []

    def second() -> None:
        inside.set()
        with getattr(lock, kind)():
            order.append("second")

    with ThreadPoolExecutor() as pool:
        with lock.writing():
            done = pool.submit(second)
            assert inside.wait(SECONDS)
            order.append("writer")
        done.result(SECONDS)
    assert order == ["writer", "second"]


def test_a_waiting_writer_goes_before_new_readers() -> None:
    lock, order = ReadWriteLock(), []

    def enter(kind: Callable[[], object], name: str) -> None:
        with kind():  # type: ignore[attr-defined]
            order.append(name)

    with ThreadPoolExecutor() as pool:
        with lock.reading():
            writer = pool.submit(enter, lock.writing, "writer")
            eventually(lambda: waiting_writers(lock) == 1)
            reader = pool.submit(enter, lock.reading, "reader")
        writer.result(SECONDS)
        reader.result(SECONDS)
    assert order == ["writer", "reader"]


@pytest.mark.parametrize("kind", ["reading", "writing"])
def test_a_failure_inside_gives_it_back(kind: str) -> None:
    lock = ReadWriteLock()
    with pytest.raises(ZeroDivisionError), getattr(lock, kind)():
        raise ZeroDivisionError
    with lock.writing():
        pass


def test_many_threads_never_see_half_of_a_write() -> None:
    lock, seen = ReadWriteLock(), [0, 0]
    torn = []

    def write() -> None:
        for _ in range(200):
            with lock.writing():
                seen[0] += 1
                seen[1] += 1

    def read() -> None:
        for _ in range(200):
            with lock.reading():
                if seen[0] != seen[1]:
                    torn.append(tuple(seen))

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(task) for task in (write, read) * 4]:
            done.result(60)
    assert (torn, seen) == ([], [800, 800])
