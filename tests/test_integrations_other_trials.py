"""The trials of a search as context of each other: in `Trials`, in Optuna, Ray Tune and Syne Tune."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import epochcast as ec
from epochcast.integrations.other_trials import OtherTrials
from epochcast.integrations.trials import Trials
from epochcast.others import MOST_RUNS
from tests.test_stopping_earlier import HORIZON, NORMAL, Recorder, curve

ACCURACY = ec.Metric.named("accuracy")


def trials_of(engine: Recorder, **options: Any) -> Trials:
    return Trials(HORIZON, "accuracy", forecaster=ec.Forecaster.around(engine), **{"dry_run": True, **options})


def report(trials: Trials, trial: str, values: list[float], first: int = 1, config: Any = None) -> None:
    for step, value in enumerate(values, start=first):
        trials.check(trial, "acc", "epoch", {"acc": value, "epoch": step}, config)


def last_context(engine: Recorder) -> Any:
    context = engine.questions[-1].context
    assert context is not None
    return context


def test_running_trials_are_the_context_of_each_other_and_never_of_themselves() -> None:
    engine = Recorder()
    trials = trials_of(engine)
    report(trials, "a", curve(0.8)[:7], config={"lr": 0.1})
    assert set(engine.contexts) == {0}
    report(trials, "b", curve(0.7)[:5], config={"lr": 0.3, "model": {"depth": 2}})
    context = last_context(engine)
    assert context.runs.lengths.tolist() == [7]
    np.testing.assert_allclose(context.runs.values[0], NORMAL.forward(curve(0.8)[:7]))
    assert context.configs == ({"lr": 0.1},)
    assert engine.questions[-1].configs == ({"lr": 0.3, "model.depth": 2.0},)
    report(trials, "a", curve(0.8)[7:9], first=8)
    assert last_context(engine).runs.lengths.tolist() == [5]


def test_trials_that_were_stopped_or_finished_stay_in_the_context() -> None:
    engine = Recorder()
    trials = trials_of(engine, dry_run=False, best=0.99, min_steps=3)
    report(trials, "a", curve(0.3)[:3])
    assert trials.decisions["a"].stop
    report(trials, "b", curve(0.999, scale=0.5))
    assert trials.decisions["b"].reason is ec.Reason.FINISHED
    report(trials, "c", curve(0.5)[:3])
    assert last_context(engine).runs.lengths.tolist() == [3, HORIZON]


def test_context_stays_the_same_object_while_no_other_trial_grows() -> None:
    engine = Recorder()
    trials = trials_of(engine)
    report(trials, "a", curve(0.8))
    engine.questions.clear()
    report(trials, "b", curve(0.5))
    assert len(engine.questions) > 5
    assert len({id(question.context) for question in engine.questions}) == 1


@pytest.mark.parametrize("options", [{"context": False}, {}], ids=["off", "unread"])
def test_no_context_where_it_is_not_wanted_or_not_read(options: dict[str, Any]) -> None:
    engine = Recorder()
    if not options:
        engine.reads = frozenset()
    trials = trials_of(engine, **options)
    for name in "abc":
        report(trials, name, curve(0.8))
    assert set(engine.contexts) == {0}


def test_context_changes_what_is_decided() -> None:
    found = {}
    for context in (True, False):
        trials = trials_of(Recorder(), dry_run=False, context=context)
        for name, end in (("a", 0.8), ("b", 0.3), ("c", 0.3), ("d", 0.5)):
            report(trials, name, curve(end))
        found[context] = trials.decisions["d"].reason
    assert found == {True: ec.Reason.UNLIKELY, False: ec.Reason.FINISHED}


def test_pickled_trials_go_on_with_the_others() -> None:
    trials = trials_of(Recorder())
    report(trials, "a", curve(0.8)[:6], config={"lr": 0.1})
    report(trials, "b", curve(0.6)[:5])
    again = pickle.loads(pickle.dumps(trials))
    for found in (trials, again):
        report(found, "b", curve(0.6)[5:8], first=6)
    assert again.decisions == trials.decisions
    engine = again._options["forecaster"].engine
    assert last_context(engine).configs == ({"lr": 0.1},)


# --- which trials ------------------------------------------------------------------------------------------------


def test_of_many_trials_the_newest_and_the_best_are_taken() -> None:
    others = OtherTrials(HORIZON, ACCURACY)
    ends = np.random.default_rng(0).permutation(150) / 200.0
    for i, end in enumerate(ends):
        others.add(str(i), [(1.0, 0.0), (2.0, float(end))], {"i": i})
    found = others.beside("149")
    assert found is not None
    chosen = [int(config["i"]) for config in found.seen.configs if config]
    assert len(chosen) == MOST_RUNS
    assert chosen == sorted([*range(117, 149), *np.argsort(-ends[:117])[:32].tolist()])


def test_values_that_tell_nothing_are_left_out() -> None:
    others = OtherTrials(HORIZON, ACCURACY)
    others.add("nothing", [])
    others.add("one", [(0.0, 0.1), (1.0, 0.2)])
    others.add("broken", [(1.0, float("nan")), (2.0, 0.5)])
    assert others.beside("x") is None
    others.add("seen", [(1.0, 0.2), (2.0, float("nan")), (3.0, 0.4), (3.0, 0.9), (HORIZON + 1.0, 0.5)])
    found = others.beside("x")
    assert found is not None
    assert found.seen.curves.values.tolist() == [[0.2, 0.4]]
    assert others.beside("seen") is None


def test_scales_reach_the_model() -> None:
    others = OtherTrials(HORIZON, ACCURACY)
    others.add("a", [(1.0, 0.2), (2.0, 0.3)], {"lr": 0.1})
    before = others.beside("x")
    others.know_scales({"lr": "log"})
    after = others.beside("x")
    assert before is not None and after is not None  # noqa: PT018
    assert (before.space, after.space) == (None, ec.Space(lr="log"))


# --- Optuna ------------------------------------------------------------------------------------------------------

optuna = pytest.importorskip("optuna")

from epochcast.integrations.optuna import IMPUTED_FINAL, EpochcastPruner, pruned  # noqa: E402


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def pruner_of(engine: Recorder, **options: Any) -> EpochcastPruner:
    return EpochcastPruner(HORIZON, "accuracy", forecaster=ec.Forecaster.around(engine), **options)


def objective(trial: Any) -> float:
    """A curve that ends where `end` says."""
    end = trial.suggest_float("end", 0.0, 1.0)
    trial.suggest_float("lr", 1e-4, 1.0, log=True)
    trial.suggest_categorical("optimizer", ["adam", "sgd"])
    trial.suggest_categorical("batch", [16, 32, 64])
    for step, value in enumerate(curve(end)):
        trial.report(value, step)
        if trial.should_prune():
            return pruned(trial)
    return curve(end)[-1]


def search(pruner: Any, ends: list[float], **options: Any) -> Any:
    study = optuna.create_study(direction="maximize", pruner=pruner, **options)
    for end in ends:
        study.enqueue_trial({"end": end, "lr": 0.01, "optimizer": "sgd", "batch": 32})
    study.optimize(objective, n_trials=len(ends))
    return study


def test_pruner_knows_the_trials_of_the_study_their_parameters_and_scales() -> None:
    engine = Recorder()
    study = search(pruner_of(engine, dry_run=True), [0.8, 0.5])
    context = last_context(engine)
    assert context.runs.lengths.tolist() == [HORIZON]
    assert context.runs.steps[0, 0] == 1.0  # counted from 0, as the trial that is judged
    assert context.configs == ({"end": 0.8, "lr": 0.01, "optimizer": "sgd", "batch": 32},)
    assert context.space == ec.Space(end="linear", lr="log", optimizer="category")
    assert engine.questions[-1].configs[0]["end"] == 0.5
    assert len(study.trials) == 2


def test_pruner_reads_trials_of_other_processes_and_running_ones_from_the_storage() -> None:
    engine = Recorder()
    study = search(None, [0.8])  # another process
    running = study.ask()
    for step, value in enumerate(curve(0.6)[:5]):
        running.report(value, step)
    study.pruner = pruner_of(engine, dry_run=True)
    trial = study.ask()
    for step, value in enumerate(curve(0.7)[:6]):
        trial.report(value, step)
        trial.should_prune()
    assert last_context(engine).runs.lengths.tolist() == [HORIZON, 5]
    running.report(0.5, 5)
    trial.report(0.6, 6)
    trial.should_prune()
    assert last_context(engine).runs.lengths.tolist() == [HORIZON, 6]


def test_pruner_reads_a_trial_that_is_over_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    before = OtherTrials.replace

    def replace(self: OtherTrials, trial: str, *rest: Any) -> None:
        read.append(trial.rpartition("/")[2])
        before(self, trial, *rest)

    monkeypatch.setattr(OtherTrials, "replace", replace)
    search(pruner_of(Recorder(), dry_run=True), [0.8, 0.6, 0.7])
    # Each of its values once as long as it runs, and once more when it is over.
    assert read.count("0") == read.count("1") == HORIZON + 1


def test_pruner_without_context_asks_about_each_trial_alone() -> None:
    engine = Recorder()
    search(pruner_of(engine, dry_run=True, context=False), [0.8, 0.5, 0.6])
    assert set(engine.contexts) == {0}


def test_pruned_trial_is_pruned_unless_the_forecast_stands_for_its_end() -> None:
    plain, imputed = (search(pruner_of(Recorder(), imputed=imputed), [0.9, 0.3, 0.3, 0.5]) for imputed in (False, True))
    states = [[trial.state.name for trial in study.trials] for study in (plain, imputed)]
    assert states[0][-1] == "PRUNED"
    assert states[1] == ["COMPLETE"] * 4
    last = imputed.trials[-1]
    assert last.value == last.user_attrs[IMPUTED_FINAL] != plain.trials[-1].value
    assert len(last.intermediate_values) == len(plain.trials[-1].intermediate_values) < HORIZON


def test_imputed_value_is_nothing_that_others_have_to_beat() -> None:
    study = optuna.create_study(direction="maximize", pruner=pruner_of(Recorder(), dry_run=True))
    study.add_trial(optuna.trial.create_trial(value=0.99, user_attrs={"epochcast:imputed": True, IMPUTED_FINAL: 0.99}))
    study.add_trial(optuna.trial.create_trial(value=0.4))
    trial = study.ask()
    for step, value in enumerate(curve(0.3)):
        trial.report(value, step)
        trial.should_prune()
    (known,) = study.pruner._studies.values()
    assert known._best == 0.4


def test_pruned_by_another_pruner_is_pruned() -> None:
    study = optuna.create_study()
    with pytest.raises(optuna.TrialPruned):
        pruned(study.ask())


def test_locked_storage_is_logged_and_the_search_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    engine = Recorder()
    study = search(None, [0.9])
    study.pruner = pruner_of(engine, dry_run=True)
    trial = study.ask()
    whole, locked = study._storage.get_all_trials, [True]

    def get_all_trials(*args: Any, **options: Any) -> Any:
        if locked[0]:
            raise optuna.exceptions.StorageInternalError("database is locked")
        return whole(*args, **options)

    study._storage.get_all_trials = get_all_trials
    with caplog.at_level(logging.WARNING, "epochcast"):
        for step, value in enumerate(curve(0.5)[:6]):
            trial.report(value, step)
            assert not trial.should_prune()
    assert "database is locked" in caplog.text
    locked[0] = False
    study._thread_local.cached_all_trials = None
    trial.report(0.5, 6)
    trial.should_prune()
    assert engine.contexts[-1] == 1


# --- Ray Tune and Syne Tune --------------------------------------------------------------------------------------


def test_ray_trials_have_the_configurations_that_tune_reports() -> None:
    pytest.importorskip("ray.tune")
    from ray import tune

    from epochcast.integrations.ray_tune import EpochcastStopper

    engine = Recorder()
    space = {
        "lr": tune.loguniform(1e-4, 1.0),
        "net": {"depth": tune.randint(1, 4), "act": tune.grid_search(["relu", "gelu"])},
        "free": tune.sample_from(lambda spec: 1),
    }
    stopper = EpochcastStopper("acc", "accuracy", horizon=HORIZON, space=space, forecaster=ec.Forecaster.around(engine))
    for trial, lr in (("a", 0.1), ("b", 0.2)):
        for step, value in enumerate(curve(0.7)[:5], start=1):
            stopper(trial, {"acc": value, "training_iteration": step, "config": {"lr": lr, "layers": [1, 2]}})
    assert last_context(engine).configs == ({"lr": 0.1, "layers": [1, 2]},)
    assert last_context(engine).space == ec.Space({"lr": "log", "net.depth": "linear", "net.act": "category"})
    assert engine.questions[-1].configs == ({"lr": 0.2},)


def test_syne_tune_trials_have_their_configurations() -> None:
    pytest.importorskip("syne_tune")
    from datetime import datetime

    from syne_tune.backend.trial_status import Trial
    from syne_tune.config_space import uniform
    from syne_tune.optimizer.baselines import RandomSearch

    from epochcast.integrations.syne_tune import EpochcastScheduler

    engine = Recorder()
    inside = RandomSearch({"x": uniform(0, 1)}, metrics=["acc"], do_minimize=False)
    options: Any = {"horizon": HORIZON, "forecaster": ec.Forecaster.around(engine)}
    scheduler = EpochcastScheduler(inside, "accuracy", **options)
    for number in range(2):
        trial = Trial(number, {"x": 0.5 + number}, datetime(2024, 1, 1))
        scheduler.on_trial_add(trial)
        for step, value in enumerate(curve(0.7)[:5], start=1):
            scheduler.on_trial_result(trial, {"acc": value, "epoch": step})
    assert last_context(engine).configs == ({"x": 0.5},)
    assert last_context(engine).space == ec.Space(x="linear")
    assert engine.questions[-1].configs == ({"x": 1.5},)
