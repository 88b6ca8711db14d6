"""`RunQueries`: answers what is asked of single runs, one question at a time, and remembers the newest answers."""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from epochcast.forecaster import Forecaster
from epochcast.watch import Row, RunDetails, Snapshot
from epochcast.watch.lines import Line
from epochcast.watch.run_details import MOST_POINTS, fan_of, first_reach
from epochcast.web.feed import Feed
from epochcast.web.payload import name_of, rounded

_MOST_REMEMBERED = 64
Answer = dict[str, Any]


class RunQueries:
    """Asks a model of its own, one question at a time: a model that remembers what it has read is for one thread."""

    def __init__(self, feed: Feed, forecaster: Forecaster) -> None:
        self._feed, self.forecaster = feed, copy.deepcopy(forecaster)
        self._busy = threading.Lock()
        self._answers: OrderedDict[tuple[str, str], tuple[Row, Answer]] = OrderedDict()

    def details(self, key: str) -> Answer | None:
        """All there is to say of a run; None where there is no such run."""
        return self._answer("details", key, lambda row, of: details_answer(row, of, self.forecaster))

    def fan(self, key: str) -> Answer | None:
        """What was seen of a run and what may come; None where there is no such run."""
        return self._answer("fan", key, lambda row, snapshot: fan_answer(row, snapshot, self.forecaster))

    def reach(self, key: str, value: float) -> Answer | None:
        """When a run will first reach a value."""
        found = self._feed.find(key)
        if found is None:
            return None
        with self._busy:
            return rounded_answer(first_reach(*found, self.forecaster, value))

    def _answer(self, what: str, key: str, make: Callable[[Row, Snapshot], Answer]) -> Answer | None:
        found = self._feed.find(key)
        if found is None:
            return None
        row, snapshot = found
        with self._busy:
            known = self._answers.get((what, key))
            if known is not None and known[0] == row and known[0].series is row.series:
                return known[1]
            answer = make(row, snapshot)
            self._answers[what, key] = (row, answer)
            self._answers.move_to_end((what, key))
            while len(self._answers) > _MOST_REMEMBERED:
                self._answers.popitem(last=False)
            return answer


def details_answer(row: Row, snapshot: Snapshot, forecaster: Forecaster) -> Answer:
    """All there is to say of a run under the name that the table gives it, but for where its log lies."""
    answer = {**RunDetails.of(row, snapshot, forecaster).to_dict(), "run": name_of(row, snapshot)}
    del answer["path"]
    return rounded_answer(answer)


def fan_answer(row: Row, snapshot: Snapshot, forecaster: Forecaster) -> Answer:
    """What was seen of a run and what may come."""
    line = Line.of(row.series).thinned(MOST_POINTS)
    fan = fan_of(row, snapshot.horizon, snapshot.metric, forecaster)
    seen = {"steps": line.steps.tolist(), "values": line.values.tolist()}
    return rounded_answer({"seen": seen, "fan": None if fan is None else fan.to_dict()})


def rounded_answer(answer: Answer) -> Answer:
    """The same in numbers that JSON has."""
    plain: Answer = rounded(answer)
    return plain
