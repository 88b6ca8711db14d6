"""What the callbacks of all frameworks share: a stopping rule that is fed from logs and never harms the training."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from epochcast.checks import cut, name_of
from epochcast.errors import ConfigError, EpochcastError, InputError
from epochcast.forecaster import Forecaster
from epochcast.metric import LOSS, Metric, as_metric, metric_names
from epochcast.naming import metric_by_name
from epochcast.schedule import Schedule, ScheduleLike
from epochcast.stopping import Decision, Stopper, StoppingRule
from epochcast.stopping.decision import Target
from epochcast.stopping.search import NonFinite

if TYPE_CHECKING:
    from typing import Self, Unpack

Seen = Iterable[tuple[float, float]]  # (step, value) of a run
_SHORTEST = 2  # steps of a run that leaves anything to forecast
MOST_RATES = 1_000  # learning rates that tell a schedule
_MOST_CHECKS = 10  # of a run, unless `check_every` says otherwise: a forecast takes milliseconds, a round may too
_log = logging.getLogger("epochcast")


class StopperOptions(TypedDict, total=False):
    """Options that are handed on to `epochcast.Stopper`."""

    confidence: float
    min_steps: int
    min_share: float
    check_every: int
    best: float | None
    cutoffs: Sequence[float] | None
    target: Target
    goal: float | None
    dry_run: bool
    non_finite: NonFinite
    schedule: ScheduleLike | None
    forecaster: Forecaster | None
    context: bool


class StopperCallback:
    """Stops a training once its forecast leaves it too small a chance to beat the best of the runs before it.

    A callback that is used again carries the best value from run to run, as a shared `stopper` does. Every decision is
    logged under "epochcast"; `decision` is the newest. After the first check nothing that happens here ends somebody's
    training but a decision to stop.

    Args:
        monitor: The name under which the framework logs the metric.
        metric: What it measures; may be left out where the name says it.
        horizon: The last step of a run; by default the framework tells it.
        stopper: One stopper for the callbacks of many runs, which carries the best value from run to run.
        **options: Those of [`Stopper`][epochcast.Stopper], such as `confidence`, `best` and `dry_run`; a run is checked
            about ten times unless `check_every` is given.

    Raises:
        ConfigError: If a stopper and its options are both given, or no horizon where the framework tells none.
        InputError: If an option cannot be used; at the first check, if the metric is not logged or its direction
            contradicts the framework.
    """

    knows_horizon: ClassVar[bool] = True  # whether the framework tells its callbacks when training will end

    def __init__(
        self,
        monitor: str,
        metric: Metric | str | None = None,
        *,
        horizon: int | None = None,
        stopper: StoppingRule | None = None,
        **options: Unpack[StopperOptions],
    ) -> None:
        super().__init__()  # the framework's own
        if stopper is not None and (metric, horizon, options) != (None, None, {}):
            raise ConfigError(f"a stopper has its own metric, horizon and {', '.join(options) or 'options'}; drop them")
        if stopper is None:
            # An unusable option is refused now rather than in the middle of a training.
            check_options(horizon, metric or metric_by_name(monitor), options)
            if horizon is None and not self.knows_horizon:
                raise ConfigError("give horizon=, the number of rounds: this framework does not tell it to callbacks")
        self.monitor = name_of(monitor, "monitor")
        self.metric = metric
        self.horizon = horizon
        self.options = options
        self.stopper = stopper
        self.decision: Decision | None = None
        self.running = False
        self._end: int | None = None  # the last step of the run under way
        self._rates: list[float] | None = None  # learning rates of equal parts of it, if the framework tells them
        self._own: Stopper | None = None  # the stopper, where none was given
        self._checked = False  # whether the run under way was checked before
        self._seen: list[tuple[float, float]] = []  # of the run under way
        self._restored: list[tuple[float, float]] | None = None  # of a run that was interrupted
        self._restored_end: int | None = None
        self._best: float | None = None  # what the run under way has to beat

    # --- one run -------------------------------------------------------------------------------------------------

    def begin(self, end: int | None, seen: Seen = (), rates: Sequence[float] | None = None) -> None:
        """Start a run that lasts to step `end` and of which (step, value) pairs were seen before an interruption.

        `rates` are the learning rates of equal parts of the run, where the framework knows them beforehand.
        """
        self._end = end if self.horizon is None else self.horizon
        if self._restored is None:
            self._rates = list(rates) if rates is not None and self._end == end else None
        elif self._end != self._restored_end:
            self._rates = None  # the run was planned anew; a scheduler that goes on does not tell its past
        self._seen = list(seen) if self._restored is None else self._restored
        self._restored, self._checked = None, False
        if self.stopper is not None:
            self._end = self._end or self.stopper.horizon
            with harmless("closing the run before"):
                self.stopper.next_run()
            if self._end != self.stopper.horizon:
                _log.warning("training ends at step %d, the forecasts at %d", self._end, self.stopper.horizon)
        if self._end is None:
            raise ConfigError("training has no end of its own; give horizon=, the step up to which to forecast")
        self.running = self._end >= _SHORTEST
        if self.running and self.stopper is None and self.horizon is None:
            check_options(self._end, None, self.options)  # only now is it known that a schedule contradicts the horizon

    def check(self, step: float, logs: Mapping[str, Any], minimize: bool | None = None) -> bool:
        """Whether to stop after the newest logs; `minimize` is what the framework knows of the metric's direction."""
        if not self.running:
            return False
        if self.monitor not in logs:
            if not self._checked:
                raise InputError(
                    f"{self.monitor!r} is not logged; these names are: {', '.join(sorted(logs)) or 'none'}"
                )
            return False
        stopper = self._ready(minimize)
        with harmless(f"judging {self.monitor} at step {step:g}"):
            value = float(logs[self.monitor])
            self._seen.append((step, value))
            self.decision = stopper.update(step, value)
            return self.decision.stop
        return False

    def end(self) -> None:
        """Close the run, so that the next one is held against it too."""
        if self.running and not self._checked:
            _log.warning("training is over, and no value of %s came: nothing was forecast", self.monitor)
        elif self.running and self.stopper is not None:
            with harmless("closing the run"):
                self.stopper.next_run()
        self.running = False

    def _ready(self, minimize: bool | None) -> StoppingRule:
        """The stopper of the run under way; at the first check it learns what was seen before an interruption."""
        if self.stopper is None:
            assert self._end is not None
            options: StopperOptions = {**self.options}
            if options.get("cutoffs") is None:
                options.setdefault("check_every", max(1, self._end // _MOST_CHECKS))
            self.stopper = self._own = Stopper(self._end, metric_of(self.monitor, self.metric, minimize), **options)
        if not self._checked:
            metric_of(self.monitor, self.stopper.metric, minimize)
            self._checked = True
            with harmless("telling the learning rates"):
                self._tell()
            self._resume(self.stopper)
        return self.stopper

    def _tell(self) -> None:
        """What the framework knows of the learning rate, unless the user has said it or brought a stopper.

        Only of losses: those of accuracies are not always the better for it (docs/research/schedules.md).
        """
        if self._own is None or self._own.metric.kind != LOSS or {"schedule", "forecaster"} & self.options.keys():
            return
        self._own.set_schedule(None)
        if self._rates is not None:
            self._own.set_schedule(Schedule.spaced(self._rates))

    def _resume(self, stopper: StoppingRule) -> None:
        if stopper.best is None:
            stopper.best = self._best
        self._best = stopper.best
        for step, value in self._seen:
            with harmless(f"restoring {self.monitor} at step {step:g}"):
                self.decision = stopper.update(step, value)

    # --- state ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The run under way in plain JSON types: what it showed, what it has to beat, and its learning rates.

        Returns:
            What `load_state_dict` takes.
        """
        seen = [list(pair) for pair in self._seen]
        return {"seen": seen, "best": self._best, "rates": self._rates, "end": self._end}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on, in the next training, with the run whose state this is.

        Args:
            state_dict: What `state_dict` returned.
        """
        self._restored = [(float(step), float(value)) for step, value in state_dict["seen"]]
        self._best = state_dict["best"]
        self._rates, self._restored_end = state_dict.get("rates"), state_dict.get("end")

    def __sklearn_clone__(self) -> Self:
        """A clone, as every fit of a scikit-learn search makes one, shares the stopper."""
        clone = type(self).__new__(type(self))
        clone.__dict__.update(self.__dict__)
        return clone


def metric_of(monitor: str, given: Metric | str | None = None, minimize: bool | None = None) -> Metric:
    """The metric of a logged name: the one given, one known by that name, or what the framework says of it.

    `minimize` is the framework's word on the direction, None where it has none.
    """
    metric = metric_by_name(monitor) if given is None else as_metric(given)
    if metric is None and minimize:
        metric = as_metric("loss")
    if metric is None:
        raise ConfigError(
            f"what {cut(monitor)!r} measures is not known from its name; give metric=, one of "
            f"{', '.join(metric_names())} or a Metric with its direction and bounds"
        )
    if minimize is not None and minimize != metric.minimize:
        raise ConfigError(
            f"{monitor!r} is {_aim(minimize)} by the framework, but metric {metric.name!r} is {_aim(metric.minimize)}; "
            "give the metric= that it is"
        )
    return replace(metric, name=monitor)


def _aim(minimize: bool) -> str:
    return "minimised" if minimize else "maximised"


def check_options(horizon: int | None, metric: Metric | str | None, options: StopperOptions) -> None:
    """Raise if no stopper can have these options, as far as horizon and metric are known."""
    known: StopperOptions = {**options}
    if horizon is None:  # what is told of the learning rate can be held against it later
        words = known.pop("schedule", None)
        if words is not None:
            Schedule.of(words)
        given = known.get("forecaster")
        if isinstance(given, Forecaster) and given.schedule is not None:
            del known["forecaster"]
    Stopper(_SHORTEST if horizon is None else horizon, metric or Metric.unit(), **known)


@contextmanager
def harmless(doing: str) -> Iterator[None]:
    """Turn any failure into a warning in the log: a callback must not end somebody's training."""
    try:
        yield
    except Exception as error:
        _log.warning("%s failed, training goes on: %s", doing, error, exc_info=not isinstance(error, EpochcastError))


def newest(evaluations: Mapping[str, Mapping[str, Sequence[Any]]]) -> dict[str, Any]:
    """The newest value of each metric on each data set, as `data-metric`: boosters keep all of them."""
    return {f"{data}-{name}": values[-1] for data, log in evaluations.items() for name, values in log.items() if values}
