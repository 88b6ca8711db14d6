"""Freeze-thaw search: what is asked for next, by any number of workers, interrupted or not."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import epochcast as ec
from epochcast.distributions import Mixture
from epochcast.errors import ConfigError, InputError
from epochcast.question import Engine, Input, Question
from epochcast.search import Step, freeze_thaw
from epochcast.search.trained_run import TrainedRun
from tests.context_model import tiny_context_model
from tests.test_stopping_earlier import NORMAL

HORIZON = 20
SPACE = {"end": (0.1, 0.9), "lr": (1e-4, 1.0, "log")}


class Knowing(Engine):
    """Forecasts that a run comes to what its configuration says, and remembers what it was asked."""

    name = "knowing"
    reads: frozenset[Input] = frozenset({"context", "config"})

    def __init__(self) -> None:
        self.questions: list[Question] = []

    def predict(self, question: Question) -> Mixture:
        self.questions.append(question)
        shape = (*question.steps.shape, 1)
        share = 1.0 - np.exp(-question.steps[..., None] / 5.0)
        ends = [self.end_of(config) for config in question.configs]
        means = np.asarray(NORMAL.forward(np.array(ends)))[:, None, None] * share
        return Mixture(np.zeros(shape), means, np.full(shape, -3.0))

    def end_of(self, config: Any) -> float:
        return float(config["end"])


class Blind(Knowing):
    def end_of(self, config: Any) -> float:
        return 0.5


def value(config: dict[str, Any], step: float) -> float:
    return float(config["end"] * (1.0 - math.exp(-step / 5.0)))


def search_of(engine: Engine | None = None, space: Any = None, **options: Any) -> ec.FreezeThaw:
    forecaster = ec.Forecaster.around(engine or Knowing())
    return ec.FreezeThaw(SPACE if space is None else space, HORIZON, "accuracy", forecaster=forecaster, **options)


def train(search: ec.FreezeThaw, step: Step, until: int | None = None) -> None:
    for epoch in range(int(step.since) + 1, (until or step.until) + 1):
        search.tell(step.run, epoch, value(step.config, epoch))


def play(search: ec.FreezeThaw, steps: int) -> list[Step]:
    found = []
    for _ in range(steps):
        step = search.ask()
        assert step is not None
        found.append(step)
        train(search, step)
    return found


# --- one worker --------------------------------------------------------------------------------------------------


def test_first_runs_are_started_before_any_is_gone_on_with() -> None:
    steps = play(search_of(first=4), 4)
    assert [step.run for step in steps] == [0, 1, 2, 3]
    assert [(step.since, step.until) for step in steps] == [(0.0, 2)] * 4  # two values, from which others learn


def test_run_is_gone_on_with_from_where_it_was_paused() -> None:
    search = search_of(every=3)
    newest: dict[int, int] = {}
    for step in play(search, 60):
        assert step.since == newest.get(step.run, 0)
        assert step.until == min(step.since + 3, HORIZON)
        assert step.config == search.runs[step.run].config
        newest[step.run] = step.until
    assert max(newest.values()) == HORIZON
    assert [run.newest for run in search.runs] == [float(step) for _, step in sorted(newest.items())]


def test_run_is_trained_for_as_long_again_each_time_unless_it_is_said_by_how_much() -> None:
    runs = {options.get("every"): search_of(space=[{"end": 0.5}], first=1, **options) for options in ({}, {"every": 7})}
    untils = {every: [step.until for step in play(search, 3)] for every, search in runs.items()}
    assert untils == {None: [2, 4, 8], 7: [7, 14, 20]}
    long = ec.FreezeThaw([{"end": 0.5}], 500, "accuracy", first=1, forecaster=ec.Forecaster.around(Knowing()))
    assert [step.until for step in play(long, 3)] == [10, 20, 40]


@pytest.mark.parametrize("sure", [0.06, 0.3])
def test_large_gain_at_even_odds_is_preferred_to_a_small_one_that_is_sure(
    sure: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Odds(Knowing):
        """Forecasts a gain for sure of one run, and a larger one at even odds of the other."""

        def predict(self, question: Question) -> Mixture:
            shape = (*question.steps.shape, 2)
            means = np.full(shape, 0.5)
            for row, config in enumerate(question.configs):
                means[row] = (0.5 + sure, 0.5 + sure) if config["end"] == 0.1 else (0.5, 0.8)
            return Mixture(np.full(shape, math.log(0.5)), NORMAL.forward(means), np.full(shape, -6.0))

    monkeypatch.setattr(freeze_thaw, "_UNTRIED", 0.0)
    chosen = []
    for seed in range(5):
        search = search_of(Odds(), [{"end": 0.1}, {"end": 0.2}], first=2, seed=seed)
        for config in ({"end": 0.1}, {"end": 0.2}):
            search._runs.append(TrainedRun(config, [1.0, 2.0], [0.4, 0.5]))
        step = search.ask()
        assert step is not None
        chosen.append(step.run)
    assert chosen == [1 if sure < 0.1 else 0] * 5


@pytest.mark.parametrize("engine", [Knowing, Blind])
def test_steps_go_to_the_runs_that_are_forecast_to_win(engine: type[Knowing], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freeze_thaw, "_UNTRIED", 0.0)
    search = search_of(engine())
    play(search, 40)
    started = [run.config["end"] for run in search.runs[8:]]
    longest = max(search.runs, key=lambda run: run.newest)
    # The space ends at 0.9. One that forecasts the same of all configurations takes what chance brings.
    assert len(started) >= 2
    assert (min(started) > 0.85) == (engine is Knowing)
    assert engine is Blind or (longest.newest > 10 and longest.config["end"] > 0.7)


@pytest.mark.parametrize("sober", [True, False])
def test_chances_of_what_was_never_tried_are_held_against_the_runs_so_far(
    sober: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Promising(Knowing):
        """Promises the best of all configurations that were never tried, and knows the others."""

        def predict(self, question: Question) -> Mixture:
            shape = (*question.steps.shape, 1)
            ends = np.array([config["end"] for config in question.configs])
            means = np.where(question.runs.lengths > 0, ends, 0.99)[:, None, None] + np.zeros(shape)
            return Mixture(np.zeros(shape), means, np.full(shape, -3.0))

    monkeypatch.setattr(freeze_thaw, "_UNTRIED", 0.0)
    if not sober:
        monkeypatch.setattr(ec.FreezeThaw, "_sober", lambda *_: None)
    search = search_of(Promising(), [{"end": 0.1}] * 7 + [{"end": 0.6}] + [{"end": 0.1}] * 40)
    # The order is drawn: start with those that are known.
    for config in [{"end": 0.6}] + [{"end": 0.1}] * 7:
        search._runs.append(TrainedRun(config, [1.0, 2.0], [value(config, 1), value(config, 2)]))
    step = search.ask()
    assert step is not None
    assert (step.run == 0) == sober


@pytest.mark.parametrize("untried", [None, 0.0])
def test_some_steps_go_to_new_configurations_though_they_promise_nothing(
    untried: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Doubting(Knowing):
        """Promises nothing of configurations that were never tried, and knows the others."""

        def predict(self, question: Question) -> Mixture:
            shape = (*question.steps.shape, 1)
            ends = np.array([config["end"] for config in question.configs])
            means = np.where(question.runs.lengths > 0, ends, 0.0)[:, None, None] + np.zeros(shape)
            return Mixture(np.zeros(shape), means, np.full(shape, -3.0))

    if untried is not None:
        monkeypatch.setattr(freeze_thaw, "_UNTRIED", untried)
    search = search_of(Doubting())
    play(search, 24)
    assert (len(search.runs) > 8) == (untried is None)


def test_no_run_is_shown_itself_and_all_others_are_shown() -> None:
    engine = Knowing()
    search = search_of(engine, first=5)
    play(search, 9)
    engine.questions.clear()
    search.ask()
    asked = Counter(config["end"] for question in engine.questions for config in question.configs)
    assert set(asked.values()) == {1}
    for question in engine.questions:
        assert question.context is not None
        ends = {config["end"] for config in question.context.configs if config}
        own = {config["end"] for config in question.configs}
        known = {run.config["end"] for run in search.runs if run.tells}
        assert ends == known - own
        assert question.context.space == ec.Space(end="linear", lr="log")


def test_model_that_reads_no_other_runs_searches_all_the_same() -> None:
    search = ec.FreezeThaw(SPACE, HORIZON, "accuracy", first=3, forecaster=ec.Forecaster("stream"))
    since = [step.since for step in play(search, 8)]
    assert since[:3] == [0.0] * 3
    assert {run.newest for run in search.runs} >= {2.0}


def test_network_that_reads_other_runs_searches_beside_them(tmp_path: Any) -> None:
    search = ec.FreezeThaw(SPACE, HORIZON, "accuracy", first=3, forecaster=ec.Forecaster(tiny_context_model(tmp_path)))
    play(search, 10)
    assert len(search.runs) >= 3


def test_minimised_metric_is_searched_downwards() -> None:
    class Losses(Knowing):
        def predict(self, question: Question) -> Mixture:
            shape = (*question.steps.shape, 1)
            means = np.array([1.0 - config["end"] for config in question.configs])[:, None, None]
            return Mixture(np.zeros(shape), means + np.zeros(shape), np.full(shape, -3.0))

    found = []
    for seed in range(2):
        search = ec.FreezeThaw(SPACE, HORIZON, "loss", seed=seed, forecaster=ec.Forecaster.around(Losses()))
        for _ in range(30):
            step = search.ask()
            assert step is not None
            for epoch in range(int(step.since) + 1, step.until + 1):
                search.tell(step.run, epoch, step.config["end"] + math.exp(-epoch / 5.0))
        assert search.best is not None
        found.append(search.best.config["end"])
    assert max(found) < 0.15


def test_metric_without_a_limit_is_searched() -> None:
    metric = ec.Metric("reward", minimize=False, hard=(-math.inf, math.inf), soft=(0.0, 1.0))
    search = ec.FreezeThaw(SPACE, HORIZON, metric, first=3, forecaster=ec.Forecaster.around(Knowing()))
    assert len(play(search, 20)) == 20


def test_search_that_may_start_no_more_runs_goes_on_with_those_that_it_has() -> None:
    search = search_of(first=8)
    assert search.ask(new=False) is None
    started = {step.run for step in play(search, 3)}
    while (step := search.ask(new=False)) is not None:
        assert step.run in started
        train(search, step)
    assert len(search.runs) == len(started) == 3
    assert all(run.over for run in search.runs)


# --- many workers, and what befalls them --------------------------------------------------------------------------


def test_workers_side_by_side_are_never_given_the_same_run() -> None:
    search = search_of(first=4)
    busy: dict[int, Step] = {}
    rng = np.random.default_rng(0)
    for _ in range(70):
        if len(busy) == 5:
            run = int(rng.choice(list(busy)))
            train(search, busy.pop(run))
        step = search.ask()
        assert step is not None
        assert step.run not in busy
        busy[step.run] = step
    assert max(run.newest for run in search.runs) > 10


def test_run_that_breaks_down_is_never_gone_on_with() -> None:
    search = search_of(first=3)
    play(search, 3)
    best = max(range(3), key=lambda i: search.runs[i].config["end"])
    search.tell(best, 3, math.nan)
    assert search.runs[best].over
    assert best not in {step.run for step in play(search, 25)}
    assert search.best is not None
    assert search.best.value > 0.0


def test_run_that_breaks_down_tells_the_others_that_it_came_to_the_worst() -> None:
    engine = Knowing()
    search = search_of(engine, first=4)
    steps = [search.ask() for _ in range(4)]
    assert None not in steps
    for step in steps[:3]:
        assert step is not None
        train(search, step)
    search.tell(3, 1, math.nan)  # before it has shown anything
    engine.questions.clear()
    search.ask()
    worst = min(min(run.values) for run in search.runs if run.values)
    told: dict[float, Any] = {}
    for question in engine.questions:
        assert question.context is not None
        shown = question.context.runs
        for config, values in zip(question.context.configs, shown.values, strict=True):
            assert config is not None
            told[float(config["end"])] = NORMAL.inverse(values)
    assert told[search.runs[3].config["end"]] == pytest.approx([worst, worst])
    assert told.keys() == {run.config["end"] for run in search.runs[:4]}


def test_run_that_breaks_down_at_once_is_no_best() -> None:
    search = search_of()
    step = search.ask()
    assert step is not None
    search.tell(step.run, 1, math.inf)
    assert search.best is None
    assert play(search, 30)[-1].run != step.run


def test_run_of_a_worker_that_is_gone_is_given_back_where_it_was_told_last() -> None:
    search = search_of(first=1, every=5, space=[{"end": 0.5}])
    step = search.ask()
    assert step is not None
    train(search, step, until=3)
    assert search.ask() is None  # it is being trained
    search.release(step.run)
    again = search.ask()
    assert again == Step(step.run, {"end": 0.5}, 8, 3.0)
    search.tell(step.run, 2, 0.9)  # from a checkpoint before
    search.tell(step.run, 4, 0.3)
    assert search.runs[step.run].values[1] == value({"end": 0.5}, 2)
    search.release()
    assert search.ask() == Step(step.run, {"end": 0.5}, 9, 4.0)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ((7, 1, 0.5), "run=7 was never started"),
        ((-1, 1, 0.5), "run=-1 was never started"),
        ((0, 21, 0.5), "step 21 of run 0 lies past horizon=20"),
        ((0, 1, 87.0), "trailing %"),
        ((0, -1, 0.5), "step"),
        ((0, 1, "x"), "value"),
    ],
)
def test_what_cannot_be_told_is_refused_and_changes_nothing(told: tuple[Any, ...], message: str) -> None:
    search = search_of()
    search.ask()
    before = search.to_json()
    with pytest.raises(InputError, match=message):
        search.tell(*told)
    assert search.to_json() == before


# --- saved and restored -------------------------------------------------------------------------------------------


def half_way(engine: Engine | None = None) -> ec.FreezeThaw:
    search = search_of(engine, first=3, seed=5)
    play(search, 12)
    search.tell(0, 19, math.nan)
    search.ask()
    return search


def test_restored_search_goes_on_as_if_nothing_had_happened() -> None:
    search = half_way()
    again = ec.FreezeThaw.from_json(search.to_json(), ec.Forecaster.around(Knowing()))
    assert again.to_json() == search.to_json()
    for found in (search, again):
        play(found, 8)
    assert again.to_json() == search.to_json()


def test_restored_bandit_and_other_spaces_are_the_same() -> None:
    nested = {"model": {"depth": (1, 8), "act": ["relu", "gelu", None]}, "seed": 7, "step": (0.0, 1.0)}
    for space in ([{"end": i / 10, "name": str(i)} for i in range(8)], nested):
        search = search_of(Blind(), space)
        text = search.to_json()
        again = ec.FreezeThaw.from_json(text, ec.Forecaster.around(Blind()))
        assert [again.ask() for _ in range(8)] == [search.ask() for _ in range(8)]


def test_seeds_differ_and_the_same_one_repeats() -> None:
    plays = [[step.config for step in play(search_of(seed=seed, first=2), 5)] for seed in (0, 0, 1)]
    assert plays[0] == plays[1] != plays[2]


def test_shipped_model_is_loaded_by_its_name() -> None:
    search = ec.FreezeThaw(SPACE, HORIZON, "accuracy", forecaster=ec.Forecaster("stream"))
    assert ec.FreezeThaw.from_json(search.to_json()).forecaster.name == "stream"
    with pytest.raises(ConfigError, match="not with"):
        ec.FreezeThaw.from_json(search.to_json(), ec.Forecaster("lcpfn"))


DAMAGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "of another kind": lambda state: state.update(search="grid"),
    "of a later version": lambda state: state.update(version=2),
    "without runs": lambda state: state.pop("runs"),
    "horizon of text": lambda state: state.update(horizon="x"),
    "asked less than never": lambda state: state.update(asked=-1),
    "run of text": lambda state: state["runs"].append("x"),
    "run whose steps fall": lambda state: state["runs"][1]["steps"].reverse(),
    "run past the horizon": lambda state: state["runs"][1]["steps"].__setitem__(-1, HORIZON + 1),
    "run of impossible values": lambda state: state["runs"][1]["values"].__setitem__(0, 87.0),
    "run of NaN": lambda state: state["runs"][1]["values"].__setitem__(0, math.nan),
    "run trained back": lambda state: state["runs"][1].update(until=1, over=False),
    "run over and trained": lambda state: state["runs"][1].update(until=HORIZON, over=True),
    "run whose end is text": lambda state: state["runs"][1].update(over="yes"),
    "configuration of text": lambda state: state["runs"][1].update(config="x"),
    "space of text": lambda state: state.update(space="x"),
    "domain that is empty": lambda state: state["space"]["domains"][0].__setitem__(1, {"options": []}),
    "domain of nothing": lambda state: state["space"]["domains"][0].__setitem__(1, {}),
    "domain without a name": lambda state: state["space"]["domains"][0].__setitem__(0, []),
    "model without a name": lambda state: state.update(model=3),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_state_that_was_tampered_with_raises_a_config_error(damage: Callable[[dict[str, Any]], Any]) -> None:
    state = json.loads(half_way().to_json())
    damage(state)
    with pytest.raises(ConfigError):
        ec.FreezeThaw.from_json(json.dumps(state), ec.Forecaster.around(Knowing()))


# --- bandits and mistakes -----------------------------------------------------------------------------------------


def test_bandit_starts_each_of_its_runs_once_and_ends_when_all_are_over() -> None:
    space = [{"end": 0.2 + i / 20} for i in range(6)] + [{"end": 0.3}]  # two of them are alike
    search = search_of(space=space, every=5)
    steps = []
    while (step := search.ask()) is not None:
        steps.append(step)
        train(search, step)
    assert sorted(run.config["end"] for run in search.runs) == sorted(config["end"] for config in space)
    assert all(run.over for run in search.runs)
    assert sum(step.until - step.since for step in steps) == 7 * HORIZON
    assert search.best is not None
    assert search.best.config == {"end": 0.45}


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({}, "the space has no entries"),
        ([], "the list of configurations is empty"),
        ([1], "1 in the list of configurations is no mapping"),
        ([{"a": {1}}], "cannot be saved"),
        ("lr", "space='lr' must be a mapping"),
        ({"lr": (1, 2, 3, 4)}, r"lr: \(1, 2, 3, 4\) is no range"),
        ({"lr": (1, 2, "cubic")}, "is no range"),
        ({"lr": (2, 1)}, "lr: a range from 2 to 1 is empty"),
        ({"lr": (0, 1, "log")}, "lr: a logarithmic range cannot begin at 0"),
        ({"lr": (0, math.inf)}, "lr: .*finite"),
        ({"net": {"act": []}}, "net.act: a choice among nothing"),
        ({"net": [[64, 64]]}, r"net: the choice \[64, 64\] is no number"),
        ({"f": print}, "f: .* is no domain that is known"),
    ],
)
def test_space_that_cannot_be_searched_is_refused(space: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        search_of(space=space)


@pytest.mark.parametrize("options", [{"seed": -1}, {"every": 0}, {"first": 0}, {"forecaster": "real"}])
def test_unusable_option_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        ec.FreezeThaw(SPACE, HORIZON, "accuracy", **options)
