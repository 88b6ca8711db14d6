"""`Refresher`: the thread that looks at the runs again and again and publishes what it finds."""

from __future__ import annotations

import threading
import time

from epochcast.errors import EpochcastError
from epochcast.watch import Watcher
from epochcast.watch.watcher import FORECASTING
from epochcast.web.feed import Feed

_BETWEEN_BARS, _BETWEEN_TABLES = 0.1, 0.4  # seconds, while the first look goes on
_SHORTEST_REST = 0.05  # between two looks, as a share of what the last one took


class _Stopped(Exception):  # noqa: N818
    """Breaks off a look."""


class Refresher:
    """Refreshes a watcher every `interval` seconds until it is stopped."""

    def __init__(self, watcher: Watcher, feed: Feed, interval: float) -> None:
        self.watcher, self.feed, self.interval = watcher, feed, interval
        self.error: BaseException | None = None  # that ended it
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="epochcast-refresher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Look no more: a look that is under way is broken off, and waited for, as a model may be at work in it."""
        self._stopped.set()
        if self.alive:
            self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            filling: _Filling | None = _Filling(self.watcher, self.feed)
            while not self._stopped.is_set():
                started = time.monotonic()
                self._look(filling)
                filling = None
                took = time.monotonic() - started
                self._stopped.wait(max(self.interval - took, _SHORTEST_REST * took))
        except _Stopped:
            return
        except BaseException as error:
            self.error = error  # the server asks for it and ends
            raise

    def _look(self, filling: _Filling | None) -> None:
        def tell(what: str, done: int, total: int) -> None:
            if self._stopped.is_set():
                raise _Stopped
            if filling is not None:
                filling(what, done, total)

        try:
            self.feed.publish(self.watcher.refresh(tell))
        except (EpochcastError, OSError) as error:  # of a folder that is gone for a while, say
            self.feed.fail(str(error))


class _Filling:
    """Publishes what the first look has found so far, but not so often that it takes longer."""

    def __init__(self, watcher: Watcher, feed: Feed) -> None:
        self.watcher, self.feed = watcher, feed
        self._next_bar = self._next_table = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if what == FORECASTING and now >= self._next_table:
            self.feed.publish(self.watcher.snapshot(), (what, done, total))
            self._next_table = time.monotonic() + _BETWEEN_TABLES
        elif now >= self._next_bar:
            self.feed.tell(what, done, total)
        else:
            return
        self._next_bar = time.monotonic() + _BETWEEN_BARS
