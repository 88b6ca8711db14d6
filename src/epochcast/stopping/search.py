"""The state of a search: the run under way, the runs before it and the best value they reached.

Every stopping rule is a `Search` that judges one run after another; a rule of your own overrides `_judge`.
"""

from __future__ import annotations

import json
import logging
import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from epochcast.curve import Curves, clip_to_hard_bounds, whole_horizon
from epochcast.errors import ConfigError, InputError
from epochcast.metric import LARGEST_VALUE, Metric, as_metric
from epochcast.stopping.decision import TARGETS, Decision, Reason, Target

if TYPE_CHECKING:
    from typing import Self

NonFinite = Literal["stop", "ignore"]
_VERSION = 1  # of the saved state
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


@dataclass(frozen=True)
class RunRecord:
    """A run that is over."""

    values: int  # how many were seen
    last_step: float
    best: float | None  # the best value seen; None when no value was finite
    final: float | None  # of a finished run its outcome, else imputed; None when the run broke down
    stopped: bool
    reason: Reason  # of the last decision

    @property
    def finished(self) -> bool:
        """Whether the run reached its last step."""
        return self.reason is Reason.FINISHED


class Search(ABC):
    """One run after another, judged by a rule that subclasses define.

    `best` is a value known before the search; later it is the best value of all earlier runs. `target` says what
    counts of a run: its best value ("any") or its last ("final"). `dry_run` decides and logs, but never stops.
    `non_finite` says what NaN or an infinite value does: "stop" the run, or "ignore" that value.
    """

    rule: ClassVar[str]  # the name under which the state is saved
    _settings: ClassVar[tuple[str, ...]] = ("horizon", "metric", "best", "target", "dry_run", "non_finite")

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
        if target not in TARGETS:
            raise InputError(f"target={target!r} is unknown; choose 'any' or 'final'")
        if non_finite not in ("stop", "ignore"):
            raise InputError(f"non_finite={non_finite!r} is unknown; choose 'stop' or 'ignore'")
        self.horizon = whole_horizon(horizon)
        self.metric = as_metric(metric)
        self.best = None if best is None else self._finite(best, "best")
        self.target: Target = target
        self.dry_run = bool(dry_run)
        self.non_finite: NonFinite = non_finite
        self._runs: list[RunRecord] = []
        self._start_run()

    def _start_run(self) -> None:
        """Forget the run under way."""
        self._steps: list[float] = []
        self._values: list[float] = []
        self._last: Decision | None = None

    @property
    def runs(self) -> list[RunRecord]:
        """The runs that are over, oldest first."""
        return list(self._runs)

    # --- the run under way ---------------------------------------------------------------------------------------

    def update(self, step: float, value: float) -> Decision:
        """Take in the newest value of the run and say whether to stop it.

        A step that was reported before changes nothing: the first value is kept and its decision stands.
        """
        step, value = _number(step, "step"), _number(value, "value")
        if not 0.0 <= step < math.inf:
            raise InputError(f"step={step} must be finite and not negative")
        if self._last is not None and step <= self._last.step:
            _warn(f"step {step:g} does not come after step {self._last.step:g}; its value {value:g} is not used")
            return self._last
        if step > self.horizon:
            _warn(f"step {step:g} lies past horizon={self.horizon}; its value {value:g} is not used: raise the horizon")
            decision = self._decision(step, Reason.FINISHED)
        else:
            decision = self._decide(step, value)
        changed = self._last is None or self._last.reason is not decision.reason
        _log.log(logging.INFO if changed else logging.DEBUG, "%s at step %g: %s", self.metric.name, step, decision)
        self._last = decision
        return decision

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
        number = _number(value, what)
        if not math.isfinite(number):
            raise InputError(f"{what}={number} must be finite")
        low, high = self.metric.hard
        if low <= number <= high and abs(number) <= LARGEST_VALUE:
            return number
        # Within rounding of a bound it is clipped; else this raises the error that all values outside get.
        return float(clip_to_hard_bounds(Curves.of([number], [step]), self.metric).values[0, 0])

    # --- runs that are over --------------------------------------------------------------------------------------

    def next_run(self) -> RunRecord | None:
        """End the run under way and make ready for the next; without a run under way nothing happens."""
        if self._last is None:
            return None
        record = RunRecord(
            values=len(self._values),
            last_step=self._last.step,
            best=self._best_of(self._values),
            final=self._final(self._last.reason),
            stopped=self._last.stop,
            reason=self._last.reason,
        )
        self._runs.append(record)
        self.best = self._best_of([value for value in (self.best, record.best) if value is not None])
        _log.info(
            "run %d ended at step %g (%s); the best so far is %s",
            len(self._runs),
            record.last_step,
            record.reason.value,
            self.best,
        )
        self._start_run()
        return record

    def _final(self, reason: Reason) -> float | None:
        if not self._values or reason is Reason.NON_FINITE:
            return None
        if reason is not Reason.FINISHED:
            return self._imputed()
        return self._values[-1] if self.target == "final" else self._best_of(self._values)

    def _imputed(self) -> float | None:
        """Stands for the final value of a run that did not get there; without a forecast, what it reached."""
        return self._best_of(self._values)

    def _best_of(self, values: list[float]) -> float | None:
        if not values:
            return None
        return min(values) if self.metric.minimize else max(values)

    # --- state ---------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The whole state as text, from which `from_json` goes on as if nothing had happened."""
        settings = {name: getattr(self, name) for name in self._settings}
        settings["metric"] = _metric_to_dict(self.metric)
        state = {
            "rule": self.rule,
            "version": _VERSION,
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

    @classmethod
    def from_json(cls, text: str) -> Self:
        """A rule from what `to_json` returned."""
        return cls._restored(state_of(text, cls.rule))

    @classmethod
    def _restored(cls, state: dict[str, Any], **extras: Any) -> Self:
        try:
            settings = dict(state["settings"])
            if settings.keys() != set(cls._settings):
                raise ConfigError(f"the saved settings are {sorted(settings)}, not {sorted(cls._settings)}")
            search = cls(**{**settings, "metric": _metric_from_dict(settings["metric"])}, **extras)
            search._runs = [RunRecord(**{**run, "reason": Reason(run["reason"])}) for run in state["runs"]]
            search._steps = [_number(step, "step") for step in state["steps"]]
            search._values = [search._finite(value, "value") for value in state["values"]]
            search._last = None if state["last"] is None else Decision.from_dict(state["last"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ConfigError(f"the saved state of a {cls.rule} cannot be used: {error}") from error
        return search


def state_of(text: str, rule: str) -> dict[str, Any]:
    """Saved state, checked to be one of this rule and version."""
    try:
        state = json.loads(text)
    except (TypeError, json.JSONDecodeError) as error:
        raise ConfigError(f"the saved state is not JSON: {error}") from None
    if not isinstance(state, dict) or state.get("rule") != rule or state.get("version") != _VERSION:
        raise ConfigError(f"this is not the saved state of a {rule} (version {_VERSION})")
    return state


def _metric_to_dict(metric: Metric) -> dict[str, Any]:
    # JSON knows no infinity: None stands for it.
    return {**asdict(metric), "hard": [bound if math.isfinite(bound) else None for bound in metric.hard]}


def _metric_from_dict(data: dict[str, Any]) -> Metric:
    low, high = data["hard"]
    hard = (-math.inf if low is None else low, math.inf if high is None else high)
    return Metric(**{**data, "hard": hard, "soft": None if data["soft"] is None else tuple(data["soft"])})


def _number(item: Any, what: str) -> float:
    """A float from any kind of number; text and truth values are mistakes that should be seen."""
    if not isinstance(item, (str, bytes, bool)):
        try:
            return float(item)
        except (TypeError, ValueError, OverflowError):
            pass  # the message below names the item
    raise InputError(f"{what}={item!r} is not a number")


def _warn(message: str) -> None:
    warnings.warn(message, StepWarning, stacklevel=3)
