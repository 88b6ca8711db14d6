"""`Entrant`: a search that can take part, by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from epochcast.errors import EpochcastError, InputError, MissingExtraError
from epochcast.experiments.code import digest
from epochcast.experiments.contenders import Contender
from epochcast.experiments.harness import fingerprint
from epochcast.experiments.search.freezing import Freezing
from epochcast.experiments.search.promoting import Promoting
from epochcast.experiments.search.rule import InOrder, Never, Rule
from epochcast.experiments.search.search import Search
from epochcast.experiments.search.stopper_rule import StopperRule
from epochcast.experiments.task_runs import TaskRuns

BASELINE, PROMOTING = "random", "promoting"
_HERE = "epochcast.experiments.search"


@dataclass(frozen=True)
class Start:
    """What a search begins with."""

    runs: TaskRuns
    order: Sequence[int]  # in which the runs come, as far as the search does not choose
    number: int  # of the order: the seed of all that the search itself draws
    model: Contender


@dataclass(frozen=True)
class Entrant:
    """A search by name."""

    name: str
    about: str
    make: Callable[[Start], Search]
    code: tuple[str, ...]  # modules whose change may change what it does
    asks: bool = False  # whether it asks the model
    chooses: bool = False  # whether it chooses among the configurations
    package: str | None = None  # without which it cannot be made
    extra: str | None = None  # that brings the package

    def fingerprint(self, model: Contender) -> str:
        """Changes with the code of the search and, where it asks one, with the model."""
        known: dict[str, Any] = {"search": self.name, "code": digest(*self.code)}
        return fingerprint({**known, "model": model.fingerprint} if self.asks else known)

    def obstacle(self, runs: TaskRuns) -> EpochcastError | None:
        """Why it cannot take part, if it cannot."""
        if self.package is not None and find_spec(self.package) is None:
            return MissingExtraError(self.package, self.extra)
        if self.chooses and runs.configs is None:
            reason = f"{self.name} chooses among configurations, and {runs.benchmark} has none; leave one of them out"
            return InputError(reason)
        return None


# --- how each is made -------------------------------------------------------------------------------------------------


def _in_order(start: Start, rule: Rule) -> Search:
    return InOrder(start.order, start.runs.horizon, rule)


def _random(start: Start) -> Search:
    return _in_order(start, Never())


def _pruned(start: Start, pruner: Any) -> Search:
    from epochcast.experiments.search.optuna_rule import OptunaRule

    return _in_order(start, OptunaRule(start.runs, pruner, f"order {start.number}"))


def _median(start: Start) -> Search:
    from optuna.pruners import MedianPruner

    return _pruned(start, MedianPruner())


def _percentile(start: Start) -> Search:
    from optuna.pruners import PercentilePruner

    return _pruned(start, PercentilePruner(25.0))


def _halving(start: Start) -> Search:
    from optuna.pruners import SuccessiveHalvingPruner

    return _pruned(start, SuccessiveHalvingPruner())


def _hyperband(start: Start) -> Search:
    from optuna.pruners import HyperbandPruner

    return _pruned(start, HyperbandPruner(max_resource=start.runs.horizon))


def _ours_in_optuna(start: Start) -> Search:
    from epochcast.integrations.optuna import EpochcastPruner

    return _pruned(start, EpochcastPruner(start.runs.horizon, start.runs.metric, forecaster=start.model.forecaster()))


def _asha(start: Start) -> Search:
    from epochcast.experiments.search.asha_rule import AshaRule

    return _in_order(start, AshaRule(start.runs, start.number))


def _promoting(start: Start) -> Search:
    return Promoting(start.order, start.runs.horizon, minimize=start.runs.metric.minimize)


def _stopper(start: Start) -> Search:
    return _in_order(start, StopperRule(start.runs, start.model.forecaster(), context=True))


def _stopper_alone(start: Start) -> Search:
    return _in_order(start, StopperRule(start.runs, start.model.forecaster(), context=False))


def _freeze_thaw(start: Start) -> Search:
    return Freezing(start.runs, start.order, start.model.forecaster(), start.number)


# --- who they are -----------------------------------------------------------------------------------------------------

_STOPPER = ("epochcast.stopping", f"{_HERE}.stopper_rule")
_PRUNER = ("optuna.pruners", f"{_HERE}.optuna_rule")
_OPTUNA: dict[str, Any] = {"package": "optuna", "extra": "optuna"}
_SYNE_TUNE: dict[str, Any] = {"package": "syne_tune", "extra": "syne-tune"}
_ASHA = ("syne_tune.optimizer.schedulers.asha", f"{_HERE}.asha_rule")

ENTRANTS = {
    entrant.name: entrant
    for entrant in (
        Entrant(BASELINE, "every run in full", _random, (f"{_HERE}.rule",)),
        Entrant("median", "Optuna's MedianPruner", _median, _PRUNER, **_OPTUNA),
        Entrant("percentile", "Optuna's PercentilePruner(25)", _percentile, _PRUNER, **_OPTUNA),
        Entrant("halving", "Optuna's SuccessiveHalvingPruner", _halving, _PRUNER, **_OPTUNA),
        Entrant("hyperband", "Optuna's HyperbandPruner", _hyperband, _PRUNER, **_OPTUNA),
        Entrant("asha", "Syne Tune's ASHA, which stops runs", _asha, _ASHA, **_SYNE_TUNE),
        Entrant(PROMOTING, "ASHA that pauses and promotes runs", _promoting, (f"{_HERE}.promoting",)),
        Entrant(
            "pruner",
            "EpochcastPruner in Optuna",
            _ours_in_optuna,
            ("epochcast.integrations", "epochcast.stopping", *_PRUNER),
            asks=True,
            **_OPTUNA,
        ),
        Entrant("stopper", "Stopper", _stopper, _STOPPER, asks=True),
        Entrant("stopper-alone", "Stopper, each run by itself", _stopper_alone, _STOPPER, asks=True),
        Entrant(
            "freeze-thaw",
            "FreezeThaw",
            _freeze_thaw,
            ("epochcast.search", f"{_HERE}.freezing"),
            asks=True,
            chooses=True,
        ),
    )
}


def entrants(names: Sequence[str]) -> list[Entrant]:
    """Entrants by name, all if none is named; the baseline always takes part, and comes first."""
    for name in names:
        if name not in ENTRANTS:
            raise InputError(f"search {name!r} is unknown; choose from {', '.join(ENTRANTS)}")
    return [entrant for name, entrant in ENTRANTS.items() if not names or name in names or name == BASELINE]
