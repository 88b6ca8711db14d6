"""The state of a search: the run under way, the runs before it and the best value they reached.

Every stopping rule is a `Search` that judges one run after another; a rule of your own overrides `_judge`.
"""

from __future__ import annotations

import json
import logging
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from epochcast.checks import choice, finite, flag, horizon_of, not_negative, number
from epochcast.curve import Curves, clip_to_hard_bounds
from epochcast.errors import ConfigError
from epochcast.metric import LARGEST_VALUE, Metric, as_metric
from epochcast.stopping.decision import TARGETS, Decision, Reason, Target
from epochcast.stopping.record import RunRecord
from epochcast.stopping.state import (
    VERSION,
    decision_of,
    fields,
    listed,
    metric_of,
    metric_to_dict,
    parsed,
    record_of,
    seen_of,
)

if TYPE_CHECKING:
    from typing import Self

NonFinite = Literal["stop", "ignore"]
_NO_NEWS = (Reason.NOT_DUE, Reason.WARM_UP)  # nothing was judged
_log = logging.getLogger("epochcast")


class StepWarning(UserWarning):
    """A value that was not used: its step was reported before, or lies past the horizon."""


class StoppingRule(Protocol):
    """What a training loop or an integration needs of a rule."""

    horizon: int
    metric: Metric
    best: float | None  # the best value of earlier runs

    @property
    def runs(self) -> list[RunRecord]: ...
    def update(self, step: float, value: float) -> Decision: ...
    def next_run(self) -> RunRecord | None: ...
    def to_json(self) -> str: ...


class Search(ABC):
    """One run after another, judged by a rule that subclasses define.

    `best` is a value known before the search; later it is the best value of all earlier runs. `target` says what
    counts of a run: its best value ("any") or its last ("final"). `dry_run` decides and logs, but never stops.
    `non_finite` says what NaN or an infinite value does: "stop" the run, or "ignore" that value.
    """

    rule: ClassVar[str]  # the name under which the state is saved
    news_level = logging.INFO  # at which new verdicts are logged
    _settings: ClassVar[tuple[str, ...]] = ("horizon", "metric", "best", "target", "dry_run", "non_finite")
    _unknown_to_version_1: ClassVar[dict[str, Any]] = {}  # settings that came later, and what stood in their place

    def __init__(
        self,
        horizon: int,
        metric: Metric | str,
        *,
        best: float | None = None,
        target: Target = "any",
        dry_run: bool = False,
        non_finite: NonFinite = "stop",
    ) -> None:
        choice(target, "target", TARGETS)
        choice(non_finite, "non_finite", ("stop", "ignore"))
        self.horizon = horizon_of(horizon)
        self.metric = as_metric(metric)
        self.best = None if best is None else self._finite(best, "best")
        self.target: Target = target
        self.dry_run = flag(dry_run, "dry_run")
        self.non_finite: NonFinite = non_finite
        self._runs: list[RunRecord] = []
        self._start_run()

    def _start_run(self) -> None:
        """Forget the run under way."""
        self._steps: list[float] = []
        self._values: list[float] = []
        self._last: Decision | None = None
        self._logged: Reason | None = None  # the newest that was worth telling

    @property
    def runs(self) -> list[RunRecord]:
        """The runs that are over, oldest first."""
        return list(self._runs)

    # --- the run under way ---------------------------------------------------------------------------------------

    def update(self, step: float, value: float) -> Decision:
        """Take in the newest value of the run and say whether to stop it.

        A step that was reported before changes nothing: the first value is kept and its decision stands.

        Args:
            step: Where it was measured, from 1 on; 0 is before training.
            value: The newest value of the metric.

        Returns:
            Whether to stop, and why.

        Raises:
            InputError: If step or value cannot be used.
        """
        step, value = not_negative(step, "step"), number(value, "value")
        if self._last is not None and step <= self._last.step:
            _warn(f"step {step:g} does not come after step {self._last.step:g}; its value {value:g} is not used")
            return self._last
        if step > self.horizon:
            _warn(f"step {step:g} lies past horizon={self.horizon}; its value {value:g} is not used: raise the horizon")
            decision = self._decision(step, Reason.FINISHED)
        else:
            decision = self._decide(step, value)
        self._log_news(decision)
        self._last = decision
        return decision

    def _log_news(self, decision: Decision) -> None:
        """A new verdict is news; the same one again, or that nothing was judged, is for those who debug."""
        level = logging.DEBUG
        if decision.reason not in _NO_NEWS and decision.reason is not self._logged:
            level, self._logged = self.news_level, decision.reason
        _log.log(level, "%s at step %g: %s", self.metric.name, decision.step, decision)

    def _decide(self, step: float, value: float) -> Decision:
        finite = math.isfinite(value)
        if not finite and self.non_finite == "stop":
            return self._decision(step, Reason.NON_FINITE)
        if finite and (not self._steps or step > self._steps[-1]):  # else kept from an update that failed half-way
            self._values.append(self._finite(value, "value", step))
            self._steps.append(step)
        if step == self.horizon:
            return self._decision(step, Reason.FINISHED)
        return self._judge(step) if finite else self._decision(step, Reason.IGNORED)

    @abstractmethod
    def _judge(self, step: float) -> Decision:
        """The rule's decision on the run under way, whose newest value was taken in at `step`."""

    def _decision(self, step: float, reason: Reason, **known: Any) -> Decision:
        """A decision as the rule words it; what is not known is None."""
        fields = {"probability": None, "best": self.best, "final": None, **known}
        stop = reason.stops and not self.dry_run
        return Decision(stop=stop, reason=reason, step=step, horizon=self.horizon, target=self.target, **fields)

    def _finite(self, value: float, what: str, step: float = 1.0) -> float:
        """A finite value inside the metric's hard bounds."""
        found = finite(value, what)
        low, high = self.metric.hard
        if low <= found <= high and abs(found) <= LARGEST_VALUE:
            return found
        # Within rounding of a bound it is clipped; else this raises the error that all values outside get.
        return float(clip_to_hard_bounds(Curves.of([found], [step]), self.metric).values[0, 0])

    # --- runs that are over --------------------------------------------------------------------------------------

    def next_run(self, config: Mapping[str, Any] | None = None) -> RunRecord | None:
        """End the run under way and make ready for the next.

        Args:
            config: The configuration of the run to come, for rules that make use of one.

        Returns:
            What is kept of the run that is over; None, and nothing ends, without a run under way.

        Raises:
            InputError: If `config` is no mapping.
        """
        if self._last is None:
            return None
        best, final = self.metric.best_of(self._values), self._final(self._last.reason)
        counts = [final] if self.target == "final" else [best, final]
        record = RunRecord(
            values=len(self._values),
            last_step=self._last.step,
            best=best,
            final=final,
            stopped=self._last.stop,
            reason=self._last.reason,
            outcome=self.metric.best_of(counts),
        )
        self._runs.append(record)
        self.best = self.metric.best_of((self.best, best))
        so_far = "no run has a finite value yet" if self.best is None else f"the best so far is {self.best:.4g}"
        ended = (len(self._runs), record.last_step, record.reason.value, so_far)
        _log.log(self.news_level, "run %d ended at step %g (%s); %s", *ended)
        self._start_run()
        return record

    def _final(self, reason: Reason) -> float | None:
        if not self._values or reason is Reason.NON_FINITE:
            return None
        return self._values[-1] if reason is Reason.FINISHED else self._imputed()

    def _imputed(self) -> float | None:
        """Stands for the last value of a run that did not get there; without a forecast, its newest."""
        return self._values[-1]

    # --- state ---------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The whole state as text, from which `from_json` goes on as if nothing had happened.

        Returns:
            JSON, with the name and the sha256 of the model.
        """
        settings = {name: getattr(self, name) for name in self._settings}
        settings["metric"] = metric_to_dict(self.metric)
        state = {
            "rule": self.rule,
            "version": VERSION,
            "settings": settings,
            "runs": [{**vars(run), "reason": run.reason.value} for run in self._runs],
            "steps": self._steps,
            "values": self._values,
            "last": None if self._last is None else self._last.to_dict(),
            **self._extra_state(),
        }
        return json.dumps(state, allow_nan=False)

    def _extra_state(self) -> dict[str, Any]:
        """What a subclass saves beside its settings."""
        return {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_json, (self.to_json(),)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """A rule from its saved state, which goes on as if nothing had happened.

        Args:
            text: What `to_json` returned.

        Returns:
            The rule.

        Raises:
            ConfigError: If the text is not the state of such a rule.
        """
        return cls._restored(parsed(text, cls.rule))

    @classmethod
    def _restored(cls, state: dict[str, Any], **extras: Any) -> Self:
        try:
            later = cls._unknown_to_version_1 if state["version"] == 1 else {}
            settings = {**later, **fields(state.get("settings"), {*cls._settings} - {*later}, "settings")}
            search = cls(**{**settings, "metric": metric_of(settings["metric"])}, **extras)
            search._restore(state)
        except (KeyError, TypeError, AttributeError, ValueError) as error:  # a rule of your own may raise any
            raise ConfigError(f"the saved state of a {cls.rule} cannot be used: {error}") from error
        return search

    def _restore(self, state: dict[str, Any]) -> None:
        """Take up the runs of a saved state."""
        runs, last = listed(state.get("runs"), "runs"), state["last"]
        self._runs = [record_of(run, state["version"], self.target) for run in runs]
        self._last = None if last is None else decision_of(last, self.horizon, self.target)
        if self._last is not None and self._last.reason not in _NO_NEWS:
            self._logged = self._last.reason
        over = self._last is not None and self._last.reason is Reason.FINISHED
        self._steps, values = seen_of(state, self.horizon, over)
        self._values = [self._finite(value, "value") for value in values]


def _warn(message: str) -> None:
    warnings.warn(message, StepWarning, stacklevel=3)
