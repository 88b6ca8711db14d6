"""Replayed rules and searches decide as they do in a real search: Optuna's, Syne Tune's and our own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import epochcast as ec
from epochcast.errors import InputError
from epochcast.experiments.contenders import contenders
from epochcast.experiments.search.entrant import ENTRANTS, Start
from epochcast.experiments.search.freezing import Freezing
from epochcast.experiments.search.rule import InOrder
from epochcast.experiments.search.search import Search
from epochcast.experiments.search.stopper_rule import StopperRule
from epochcast.experiments.task_runs import TaskRuns
from epochcast.metric import Metric
from tests.test_search import Knowing
from tests.test_stopping_earlier import Recorder

HORIZON, RUNS, SEED = 18, 30, 3
ACCURACY, LOSS = Metric.named("accuracy"), Metric.named("log_loss")


def order() -> list[int]:
    found: list[int] = np.random.default_rng(SEED + 1).permutation(RUNS).tolist()
    return found


AT_ONCE, LATE = order()[1:3]  # runs that break down, among the first, which no pruner of Optuna ends


def made_up(metric: Metric, broken: bool = False) -> TaskRuns:
    """Noisy runs whose ends follow from their configuration; some break down."""
    rng = np.random.default_rng(SEED)
    ends, pace = rng.uniform(0.2, 0.9, RUNS), rng.uniform(0.2, 0.9, RUNS)
    values = ends[:, None] * (1.0 - np.exp(-pace[:, None] * np.arange(1.0, HORIZON + 1.0)))
    values = np.clip(values + 0.02 * rng.standard_normal(values.shape), 0.01, 0.99)
    if broken:
        values[LATE, 5:] = np.nan
        values[AT_ONCE] = np.nan
    configs = tuple({"end": float(end), "width": float(2 ** rng.integers(3, 8))} for end in ends)
    return TaskRuns("made", "up", -np.log(values) if metric.minimize else values, metric, None, configs)


def lengths(search: Search, runs: TaskRuns) -> list[int]:
    """How far each run is trained when a search is left to itself."""
    steps = np.zeros(len(runs), dtype=int)
    while (run := search.ask()) is not None:
        steps[run] += 1
        search.tell(run, int(steps[run]), float(runs.values[run, steps[run] - 1]))
    return [int(step) for step in steps]


def started(name: str, runs: TaskRuns, number: int = 0, model: str = "last-value") -> Search:
    return ENTRANTS[name].make(Start(runs, order(), number, contenders([model])[0]))


# --- Optuna -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def quiet() -> Iterator[Any]:
    optuna = pytest.importorskip("optuna")
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    yield optuna
    optuna.logging.set_verbosity(before)


def ours(runs: TaskRuns) -> Any:
    from epochcast.integrations.optuna import EpochcastPruner

    forecaster = contenders(["last-value"])[0].forecaster()
    return EpochcastPruner(HORIZON, runs.metric, forecaster=forecaster)


PRUNERS: dict[str, Callable[[Any, TaskRuns], Any]] = {
    "median": lambda optuna, _: optuna.pruners.MedianPruner(),
    "percentile": lambda optuna, _: optuna.pruners.PercentilePruner(25.0),
    "halving": lambda optuna, _: optuna.pruners.SuccessiveHalvingPruner(),
    "hyperband": lambda optuna, _: optuna.pruners.HyperbandPruner(max_resource=HORIZON),
    "pruner": lambda _, runs: ours(runs),
}


def lengths_in_a_real_study(optuna: Any, pruner: Any, runs: TaskRuns, name: str) -> list[int]:
    """How far each trial comes in `study.optimize`."""
    steps, waiting = [0] * len(runs), iter(order())

    def objective(trial: Any) -> float:
        run = next(waiting)
        for step, value in enumerate(runs.values[run]):
            steps[run] = step + 1
            trial.report(value, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return float(runs.values[run].min() if runs.metric.minimize else runs.values[run].max())

    direction = "minimize" if runs.metric.minimize else "maximize"
    study = optuna.create_study(study_name=name, direction=direction, pruner=pruner)
    study.optimize(objective, n_trials=len(runs))
    return steps


@pytest.mark.parametrize("metric", [ACCURACY, LOSS], ids=["up", "down"])
@pytest.mark.parametrize("name", PRUNERS)
def test_replayed_pruner_decides_as_in_a_real_study(quiet: Any, name: str, metric: Metric) -> None:
    runs = made_up(metric)
    real = lengths_in_a_real_study(quiet, PRUNERS[name](quiet, runs), runs, "order 0")
    assert lengths(started(name, runs), runs) == real
    assert min(real) < HORIZON
    # Control: another pruner decides otherwise.
    other = quiet.pruners.ThresholdPruner(upper=0.0) if name == "median" else quiet.pruners.MedianPruner()
    assert lengths_in_a_real_study(quiet, other, runs, "order 0") != real


def test_hyperband_draws_other_brackets_in_another_order(quiet: Any) -> None:
    runs = made_up(ACCURACY)
    assert lengths(started("hyperband", runs), runs) == lengths(started("hyperband", runs), runs)
    assert len({tuple(lengths(started("hyperband", runs, number), runs)) for number in range(4)}) > 1


def test_trials_of_a_replay_have_the_recorded_configurations(quiet: Any) -> None:
    from epochcast.experiments.search.optuna_rule import OptunaRule

    runs = made_up(ACCURACY, broken=True)
    rule = OptunaRule(runs, quiet.pruners.MedianPruner(), "made up")
    lengths(InOrder(order(), HORIZON, rule), runs)
    trials = rule._study.trials
    assert runs.configs is not None
    assert [trial.params for trial in trials] == [runs.configs[run] for run in order()]
    states = {run: trial.state.name for run, trial in zip(order(), trials, strict=True)}
    assert (states[AT_ONCE], states[LATE]) == ("FAIL", "FAIL")
    complete = [run for run in order() if states[run] == "COMPLETE"]
    assert rule._study.best_value == max(float(runs.values[run].max()) for run in complete)
    assert 0 < len(complete) < RUNS - 2


def test_beginning_a_study_changes_no_log_level_and_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    optuna = pytest.importorskip("optuna")
    before = optuna.logging.get_verbosity()
    started("median", made_up(ACCURACY))
    assert optuna.logging.get_verbosity() == before
    assert capfd.readouterr().err == ""


# --- Syne Tune --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", [ACCURACY, LOSS], ids=["up", "down"])
def test_replayed_asha_keeps_a_third_of_the_runs_at_each_rung(metric: Metric) -> None:
    pytest.importorskip("syne_tune")
    runs = made_up(metric)
    found = lengths(started("asha", runs), runs)
    assert set(found) <= {1, 3, 9, HORIZON}  # where it decides, and the end
    assert found[order()[0]] == HORIZON  # the first has nobody to be held against
    wanted = [HORIZON]  # after the first step, by hand: among the best third of those before it and itself
    first = metric.sign * runs.values[order(), 0]
    for place in range(1, RUNS):
        rank = int((first[: place + 1] > first[place]).sum()) / (place + 1)
        wanted.append(1 if rank > 1 / 3 else 2)
    assert [min(found[run], 2) for run in order()[1:]] == wanted[1:]


def test_replayed_asha_goes_on_after_a_run_that_broke_down() -> None:
    pytest.importorskip("syne_tune")
    runs = made_up(ACCURACY, broken=True)
    found = lengths(started("asha", runs), runs)
    assert (found[AT_ONCE], found[LATE]) in ((1, 1), (1, 3), (1, 6))
    assert min(found) == 1


# --- our own ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["stopper", "stopper-alone"])
def test_replayed_stopper_decides_as_in_a_loop(name: str) -> None:
    runs = made_up(ACCURACY, broken=True)
    stopper = ec.Stopper(HORIZON, ACCURACY, forecaster=contenders(["last-value"])[0].forecaster())
    wanted = [0] * RUNS
    for run in order():
        stopper.next_run()
        for step, value in enumerate(runs.values[run], start=1):
            wanted[run] = step
            if stopper.update(step, value).stop:
                break
    assert lengths(started(name, runs), runs) == wanted
    assert len(set(wanted)) > 2


@pytest.mark.parametrize("context", [True, False])
def test_stopper_shows_the_model_the_runs_before_with_their_configurations(context: bool) -> None:
    engine, runs = Recorder(), made_up(ACCURACY)
    rule = StopperRule(runs, ec.Forecaster.around(engine), context=context)
    lengths(InOrder(order()[:6], HORIZON, rule), runs)
    assert (max(engine.contexts) == 5) == context
    shown = [question.configs[0] for question in engine.questions if question.configs]
    assert runs.configs is not None
    assert all(config in runs.configs for config in shown)
    assert shown


def test_freeze_thaw_finds_the_best_of_the_recorded_configurations() -> None:
    runs = made_up(ACCURACY)
    assert runs.configs is not None
    search = Freezing(runs, order(), ec.Forecaster.around(Knowing()), seed=0)
    steps = np.zeros(RUNS, dtype=int)
    for _ in range(8 * HORIZON):
        run = search.ask()
        assert run is not None
        steps[run] += 1
        assert not search.tell(run, int(steps[run]), float(runs.values[run, steps[run] - 1]))
    best = int(np.argmax([config["end"] for config in runs.configs]))
    assert steps[best] == HORIZON
    assert steps.sum() == 8 * HORIZON
    assert (np.sort(steps)[: RUNS // 2] <= 2).all()  # half of the runs were hardly begun


def test_freeze_thaw_tells_runs_of_one_configuration_apart_and_leaves_none_out() -> None:
    values = np.tile(np.linspace(0.1, 0.6, 4), (3, 1)) + np.array([[0.0], [0.1], [0.2]])
    runs = TaskRuns("made", "twins", values, ACCURACY, None, ({"end": 0.5},) * 3)
    assert lengths(Freezing(runs, [2, 0, 1], ec.Forecaster.around(Knowing()), seed=0), runs) == [4, 4, 4]


def test_freeze_thaw_never_goes_on_with_a_run_that_broke_down() -> None:
    runs = made_up(ACCURACY, broken=True)
    found = lengths(Freezing(runs, order(), ec.Forecaster.around(Knowing()), seed=0), runs)
    assert (found[LATE], found[AT_ONCE]) == (6, 1)
    assert sorted(set(found)) == [1, 6, HORIZON]


def test_freeze_thaw_without_configurations_is_refused() -> None:
    bare = TaskRuns("bare", "bare", made_up(ACCURACY).values, ACCURACY)
    with pytest.raises(InputError, match="bare has no configurations"):
        Freezing(bare, order(), ec.Forecaster.around(Knowing()), seed=0)
