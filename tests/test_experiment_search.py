"""Replayed searches: what is counted, who wins, and the command around it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from epochcast.benchmarks import CurveSet
from epochcast.errors import InputError, MissingExtraError
from epochcast.experiments.code import digest
from epochcast.experiments.contenders import contenders
from epochcast.experiments.harness import Harness, Store
from epochcast.experiments.search import entrant as entrant_module
from epochcast.experiments.search.entrant import ENTRANTS, entrants
from epochcast.experiments.search.promoting import Promoting
from epochcast.experiments.search.replay import Outcome, replay
from epochcast.experiments.search.report import markdown, write
from epochcast.experiments.search.result import TaskResult
from epochcast.experiments.search.row import rows_of
from epochcast.experiments.search.rule import Ending, InOrder, Never, Rule
from epochcast.experiments.search.search import Search
from epochcast.experiments.search.study import Settings, left_out, run
from epochcast.experiments.search.summary import mean_rank, mean_regret, summaries
from epochcast.experiments.stopping.selection import Pool, never, random_orders, regret
from epochcast.experiments.stopping.selection import replay as replay_orders
from epochcast.experiments.task_runs import TaskRuns, tasks_of
from epochcast.metric import Metric
from tests.command_line import command

UP = Metric("score", minimize=False, soft=(0.0, 1.0), transform=False)
DOWN = Metric("cost", minimize=True, soft=(0.0, 1.0), transform=False)
HORIZON, RUNS = 9, 40
FAST = "random,promoting,stopper-alone"  # searches that need no other package


def made_up(count: int = RUNS, seed: int = 0, task: str = "up", horizon: int = HORIZON) -> TaskRuns:
    """Rising runs with noise, whose ends follow from their configuration."""
    rng = np.random.default_rng(seed)
    rate = rng.uniform(0.0, 1.0, count)
    end, pace = 0.9 - 0.8 * np.abs(rate - 0.6), rng.uniform(0.3, 1.0, count)
    curve = end[:, None] * (1.0 - np.exp(-pace[:, None] * np.arange(1.0, horizon + 1.0)))
    values = np.clip(curve + 0.01 * rng.standard_normal(curve.shape), 0.0, 1.0)
    return TaskRuns("made", task, values, UP, None, tuple({"rate": float(item)} for item in rate))


def table(values: list[list[float]], metric: Metric = UP) -> TaskRuns:
    return TaskRuns("made", "table", np.array(values), metric)


def in_order(runs: TaskRuns, order: list[int], rule: Rule | None = None) -> Search:
    return InOrder(order, runs.horizon, rule or Never())


class StopsAfter(Rule):
    """Stops every run after so many steps, and remembers how runs have ended."""

    def __init__(self, steps: int) -> None:
        self.steps, self.endings = steps, list[tuple[int, Ending]]()

    def begin(self, run: int) -> None:
        self.run = run

    def stops(self, step: int, value: float) -> bool:
        return step == self.steps

    def end(self, ending: Ending) -> None:
        self.endings.append((self.run, ending))


class Knows(Rule):
    """Stops a run at once if it will not beat the best; with `wrongly`, if it will."""

    def __init__(self, runs: TaskRuns, wrongly: bool = False) -> None:
        self._tops, self._best, self._wrongly = runs.values.max(axis=1), -math.inf, wrongly

    def begin(self, run: int) -> None:
        self._run = run

    def stops(self, step: int, value: float) -> bool:
        return bool((self._tops[self._run] > self._best) == self._wrongly)

    def end(self, ending: Ending) -> None:
        if ending is Ending.FINISHED:
            self._best = max(self._best, self._tops[self._run])


# --- one replay -------------------------------------------------------------------------------------------------------


def test_regret_of_the_best_order_is_that_by_hand() -> None:
    runs = table([[0.5, 0.9, 0.7], [0.2, 0.4, 0.3], [0.3, 0.6, 0.8]])
    best_first = replay(runs, in_order(runs, [0, 2, 1]), 9)
    worst_first = replay(runs, in_order(runs, [1, 2, 0]), 9)
    result = TaskResult.of(runs, 9, {"best first": [best_first], "worst first": [worst_first]})
    every = np.arange(1, 10)
    assert result.regret("best first", every)[0] == pytest.approx([0.4] + [0.0] * 8)
    # .2 .4 .4 | .4 .6 .8 | .8 .9 .9
    wanted = [0.7, 0.5, 0.5, 0.5, 0.3, 0.1, 0.1, 0.0, 0.0]
    assert result.regret("worst first", every)[0] == pytest.approx(wanted)
    assert result.scale == pytest.approx(0.9 - 0.8)
    assert (best_first.runs, best_first.spent, best_first.stopped) == (3, 9, 0)


def test_losses_are_searched_downwards() -> None:
    runs = table([[0.5, 0.3], [0.4, 0.2]], DOWN)
    outcome = replay(runs, in_order(runs, [0, 1]), 4)
    assert (outcome.epochs, outcome.best) == ([1, 2, 4], [-0.5, -0.3, -0.2])
    result = TaskResult.of(runs, 4, {"random": [outcome]})
    assert result.regret("random", np.arange(1, 5))[0] == pytest.approx([0.3, 0.1, 0.1, 0.0])


def test_stop_is_wrong_if_the_run_would_have_beaten_the_best_so_far() -> None:
    runs = table([[0.5, 0.6, 0.6], [0.4, 0.5, 0.7], [0.3, 0.4, 0.5], [0.8, 0.2, 0.1]])
    rule = StopsAfter(2)
    outcome = replay(runs, in_order(runs, [0, 1, 2, 3], rule), 100)
    # The first would not have improved on its own .6, the second would have come to .7, the last had its best before.
    assert (outcome.stopped, outcome.wrong, outcome.spent) == (4, 1, 8)
    assert [ending for _, ending in rule.endings] == [Ending.STOPPED] * 4
    assert replay(runs, in_order(runs, [0, 1], StopsAfter(3)), 100).stopped == 0  # saves nothing and is none


def test_run_that_breaks_down_ends_and_its_epoch_is_spent() -> None:
    runs = table([[0.5, np.nan, np.nan], [np.nan, np.nan, np.nan], [0.1, 0.2, 0.3]])
    rule = StopsAfter(99)
    outcome = replay(runs, in_order(runs, [1, 0, 2], rule), 100)
    assert rule.endings == [(1, Ending.BROKEN), (0, Ending.BROKEN), (2, Ending.FINISHED)]
    assert (outcome.spent, outcome.stopped, outcome.runs) == (1 + 2 + 3, 0, 3)
    assert outcome.at(np.array([1, 2, 6])).tolist() == [0.5, 0.5, 0.5]  # what came first counts before it, too


def test_search_that_found_nothing_has_the_regret_of_the_worst_run() -> None:
    runs = table([[np.nan, np.nan], [0.1, 0.2], [0.3, 0.8]])
    outcome = replay(runs, in_order(runs, [0]), 1)
    result = TaskResult.of(runs, 1, {"random": [outcome]})
    assert result.regret("random").max() == pytest.approx(0.8 - 0.2)


def test_budget_ends_a_search_in_the_middle_of_a_run() -> None:
    runs = table([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    outcome = replay(runs, in_order(runs, [0, 1]), 4)
    assert (outcome.spent, outcome.best[-1]) == (4, 0.4)


def test_search_without_stopping_is_that_of_the_stopping_experiment() -> None:
    runs = made_up()
    orders = random_orders(len(runs), 3, np.random.default_rng(1))
    pool, budget = Pool.of(runs.values, minimize=False), 5 * HORIZON
    lines = regret(pool, replay_orders(pool, never(pool), orders, budget))
    outcomes = [replay(runs, in_order(runs, order.tolist()), budget) for order in orders]
    result = TaskResult.of(runs, budget, {"random": outcomes})
    np.testing.assert_allclose(result.regret("random", np.arange(1, budget + 1)), lines)


# --- promoting successive halving -------------------------------------------------------------------------------------


def trained(search: Search, runs: TaskRuns, epochs: int) -> list[int]:
    """Which run is trained in each epoch."""
    steps, found = np.zeros(len(runs), dtype=int), []
    for _ in range(epochs):
        number = search.ask()
        if number is None:
            break
        found.append(number)
        steps[number] += 1
        assert not search.tell(number, int(steps[number]), float(runs.values[number, steps[number] - 1]))
    return found


def test_promotions_are_those_by_hand() -> None:
    level = [0.5, 0.7, 0.6, 0.9, 0.1, 0.8, 0.2, 0.3, 0.4]
    runs = table([[value] * 9 for value in level])
    # Rungs at 1, 3 and 9: the best of every three at a rung goes on to the next, from the highest rung if it can.
    first = [0, 1, 2, 1, 1]  # 1 leads 0 and 2
    second = [3, 3, 3]  # leads four, of which one may go on: that is 3, ahead of 1
    third = [4, 5, 5, 5]  # of six runs two may go on: 3 and 5; with three at the second rung 3 goes to the end
    assert trained(Promoting(range(9), 9, minimize=False), runs, 18) == [*first, *second, *third, *[3] * 6]


def test_promotion_of_losses_takes_the_smallest() -> None:
    runs = table([[0.5] * 3, [0.7] * 3, [0.2] * 3], DOWN)
    assert trained(Promoting(range(3), 3, minimize=True), runs, 9) == [0, 1, 2, 2, 2]


def test_promoting_passes_over_runs_that_broke_down() -> None:
    runs = table([[np.nan] * 3, [0.7] * 3, [0.2] * 3, [0.1] * 3])
    assert trained(Promoting(range(4), 3, minimize=False), runs, 9) == [0, 1, 2, 3, 1, 1]


# --- what is made of it -----------------------------------------------------------------------------------------------


def knowing(wrongly: bool) -> TaskResult:
    """Searches without stopping and with a rule that knows what will come."""
    runs, budget = made_up(), 8 * HORIZON
    orders = random_orders(len(runs), 6, np.random.default_rng(0)).tolist()
    plain = [replay(runs, in_order(runs, order), budget) for order in orders]
    knows = [replay(runs, in_order(runs, order, Knows(runs, wrongly)), budget) for order in orders]
    return TaskResult.of(runs, budget, {"random": plain, "stopper": knows})


@pytest.mark.parametrize("wrongly", [False, True])
def test_rule_that_knows_what_will_come_is_ahead_unless_it_uses_it_wrongly(wrongly: bool) -> None:
    result = knowing(wrongly)
    plain, knows = rows_of([result])
    assert (plain.speedup, plain.ahead, plain.wrong_share) == (1.0, 0.0, None)
    assert (knows.speedup > 1.5 and knows.speedup_error < 1.0) == (not wrongly)
    assert (knows.ahead > 2.0 * knows.ahead_error) == (not wrongly)
    assert (knows.rank_at_end < plain.rank_at_end) == (not wrongly)
    assert (knows.wrong_share == 0.0) == (not wrongly)
    assert plain.rank_at_end + knows.rank_at_end == pytest.approx(3.0)


def test_ranks_of_searches_that_are_level_are_shared() -> None:
    outcomes = [Outcome([1], [value], 10, 1, 0, 0, 0.0) for value in (0.5, 0.7, 0.7)]
    searches = dict(zip(("random", "median", "asha"), ([outcome] for outcome in outcomes), strict=True))
    result = TaskResult("made", "t", 5, 10, 0.9, 0.4, 0.1, searches)
    assert result.ranks[:, 0, 0].tolist() == [3.0, 1.5, 1.5]


def test_summary_averages_tasks_in_units_of_a_run_in_the_middle() -> None:
    def flat(best: float) -> list[Outcome]:
        return [Outcome([1], [best - 0.1 * order], 10, 2, 4, 1, 0.2) for order in (0, 1)]

    small = TaskResult("made", "small", 5, 10, 1.0, 0.5, 0.0, {"random": flat(0.5), "promoting": flat(0.9)})
    large = TaskResult("made", "large", 5, 10, 1.0, 0.0, -9.0, {"random": flat(0.0), "promoting": flat(1.0)})
    plain, promoting = summaries([small, large])
    assert plain.final_regret.mean == pytest.approx((0.55 / 0.5 + 1.05 / 1.0) / 2)
    assert plain.ahead.mean == 0.0
    assert promoting.ahead.mean == pytest.approx((0.4 / 0.5 + 1.0) / 2)
    assert promoting.ahead.error == pytest.approx(0.0)  # the orders are paired
    assert promoting.final_regret.error > 0.01
    assert (plain.halved, promoting.halved) == (0.0, 0.0)  # of promoting's own regret nothing is half
    assert (promoting.wrong_share, promoting.overhead) == (0.25, pytest.approx(0.02))
    assert mean_regret([small, large], "random")[0][-1] == pytest.approx(plain.final_regret.mean)
    assert mean_rank([small, large], "promoting")[0][-1] == 1.0


# --- whole collections ------------------------------------------------------------------------------------------------

QUICK = Settings(tuple(FAST.split(",")), "last-value", orders=2, budget=3)


def test_study_started_again_takes_from_the_store_what_does_not_change(tmp_path: Path) -> None:
    tasks, path = [made_up(task="a"), made_up(seed=1, task="b")], tmp_path / "cache.jsonl"
    first = run(tasks[:1], QUICK, Harness(Store(path)))
    done: list[tuple[int, int]] = []
    more = Settings(QUICK.searches, "last-value", orders=3, budget=3)
    again = run(tasks, more, Harness(Store(path), progress=lambda *seen: done.append(seen)))
    assert done[0] == (3 * 2, 3 * 3 * 2)  # two of three orders of one of two tasks
    for search in first[0].searches:
        assert again[0].outcomes[search][:2] == first[0].outcomes[search]
    other: list[tuple[int, int]] = []
    changed = Settings(QUICK.searches, "power-law", orders=2, budget=3)
    run(tasks[:1], changed, Harness(Store(path), progress=lambda *seen: other.append(seen)))
    assert other[0] == (4, 6)  # only the stopper asks the model


def test_same_orders_are_given_to_all_searches() -> None:
    result = run([made_up()], QUICK)[0]
    for outcomes in zip(*result.outcomes.values(), strict=True):
        assert len({outcome.best[0] for outcome in outcomes}) == 1  # all begin with the same run


def test_report_has_tables_and_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    results = run([made_up(task="a"), made_up(seed=1, task="b")], QUICK)
    text = markdown(results)
    assert "| made | promoting: ASHA that pauses and promotes runs | 2 |" in text
    assert text.count("| a |") == 2
    write(results, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"search.md", "search-regret.png", "search-rank.png"}


def test_search_that_chooses_is_left_out_where_nothing_is_known_of_configurations() -> None:
    bare = TaskRuns("bare", "bare", made_up().values, UP)
    assert [line for line in left_out([bare], Settings()) if "freeze-thaw" in line] == [
        "bare: freeze-thaw is left out: freeze-thaw chooses among configurations, and bare has none; leave one of them "
        "out"
    ]
    assert not [line for line in left_out([made_up()], Settings()) if "freeze-thaw" in line]
    with pytest.raises(InputError, match="bare has none"):
        run([bare], Settings(("freeze-thaw",), "last-value"))


def test_search_whose_package_is_missing_is_left_out_or_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entrant_module, "find_spec", lambda name: None)
    told = left_out([made_up()], Settings())
    assert sum("optuna is not installed" in line for line in told) == 5
    assert sum("pip install 'epochcast[syne-tune]'" in line for line in told) == 1
    with pytest.raises(MissingExtraError, match="epochcast\\[optuna\\]"):
        run([made_up()], Settings(("median",), "last-value"))


def test_names_choose_searches_and_the_baseline_comes_first() -> None:
    assert [entrant.name for entrant in entrants(["promoting", "median"])] == ["random", "median", "promoting"]
    assert [entrant.name for entrant in entrants([])] == list(ENTRANTS)


def test_fingerprint_changes_with_the_model_only_where_it_is_asked() -> None:
    one, other = contenders(["last-value", "power-law"])
    assert ENTRANTS["promoting"].fingerprint(one) == ENTRANTS["promoting"].fingerprint(other)
    assert ENTRANTS["stopper"].fingerprint(one) != ENTRANTS["stopper"].fingerprint(other)


def test_digest_changes_with_the_code_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "made_up_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("x = 1\n")
    before = digest("made_up_package"), digest("made_up_package.part")
    digest.cache_clear()
    assert (digest("made_up_package"), digest("made_up_package.part")) == before
    (package / "part.py").write_text("x = 2\n")
    digest.cache_clear()
    assert digest("made_up_package") != before[0]
    assert digest("made_up_package.part") != before[1]
    with pytest.raises(ModuleNotFoundError):
        digest("made_up_package.nothing")


# --- recorded runs ----------------------------------------------------------------------------------------------------


def test_runs_with_steps_of_their_own_that_agree_are_replayed() -> None:
    values = np.full((3, 6), np.nan)
    values[0, :4], values[1, :4], values[2] = 0.1, 0.2, 0.3
    steps = np.where(np.isnan(values), np.nan, np.arange(1.0, 7.0))
    curves = CurveSet.of(
        "sweeps", values, UP, steps=steps, horizons=[4, 4, 6], task=[0, 0, 1], task_names=["short", "long", "none"]
    )
    assert [(runs.task, runs.horizon) for runs in tasks_of([curves])] == [("short", 4), ("long", 6)]
    steps[1, :4] *= 0.5
    uneven = CurveSet.of("sweeps", values[:2], UP, steps=steps[:2], horizons=[4, 4])
    with pytest.raises(InputError, match="measured at the same steps"):
        tasks_of([uneven])


def test_configurations_of_runs_leave_out_what_is_missing() -> None:
    config = [[0.1, np.nan], [0.2, 3.0]]
    curves = CurveSet.of("made", [[0.1, 0.2], [0.3, 0.4]], UP, config=config, config_names=["lr", "depth"])
    (runs,) = tasks_of([curves])
    assert runs.configs == ({"lr": 0.1}, {"lr": 0.2, "depth": 3.0})
    assert runs.digest != TaskRuns(runs.benchmark, runs.task, runs.values, UP).digest


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A collection of two tasks with configurations."""
    parts = [made_up(task="a"), made_up(seed=1, task="b")]
    path = tmp_path / "made.npz"
    np.savez(
        path,
        curves=np.concatenate([part.values for part in parts]),
        task=np.repeat([0, 1], RUNS),
        task_names=np.array(["a", "b"]),
        metric=np.array("accuracy"),
        minimize=np.array(False),
        config=np.array([[config["rate"]] for part in parts for config in part.configs or ()]),
        config_names=np.array(["rate"]),
    )
    return path


SMALL = ("--orders", "2", "--budget", "3", "--model", "last-value")


def test_command_prints_rows_as_json(data: Path, tmp_path: Path) -> None:
    result = command(
        *("evaluate", "search", "--data", str(data), "--searches", f"{FAST},freeze-thaw", *SMALL, "--json"),
        *("--cache", str(tmp_path / "cache.jsonl"), "--tasks", "b"),
    )
    rows = result.answer
    assert {(row["benchmark"], row["task"], row["orders"]) for row in rows} == {("made", "b", 2)}
    assert [row["search"] for row in rows] == ["random", "promoting", "stopper-alone", "freeze-thaw"]
    assert sum(row["rank_at_end"] for row in rows) == pytest.approx(1 + 2 + 3 + 4)
    assert rows[0]["wrong_share"] is None
    assert "made: 40 runs of 1 task used" in result.err


def test_command_prints_a_table_and_writes_pictures(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    result = command("evaluate", "search", "--data", str(data), "--searches", FAST, *SMALL, "--out", str(out))
    assert (result.code, len(result.out.splitlines())) == (0, 2 + 3)
    assert result.out.splitlines()[0] in (out / "search.md").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--searches", "tpe"], "search 'tpe' is unknown; choose from random, median"),
        (["--budget", "0"], "budget=0 must be a whole number, 1 to"),
        (["--orders", "0"], "orders=0"),
        (["--tasks", "nothing"], "task 'nothing' is in none of made"),
        (["--model", "nothing"], "nothing"),
    ],
)
def test_command_with_a_bad_option_ends_with_one_line(data: Path, options: list[str], message: str) -> None:
    assert message in command("evaluate", "search", "--data", str(data), *options).refusal


def test_command_refuses_freeze_thaw_without_configurations(data: Path, tmp_path: Path) -> None:
    with np.load(data) as arrays:
        bare = {name: array for name, array in arrays.items() if not name.startswith("config")}
    np.savez(tmp_path / "bare.npz", **bare)
    options = ("--data", str(tmp_path / "bare.npz"), *SMALL)
    told = command("evaluate", "search", *options, "--searches", "freeze-thaw").refusal
    assert "freeze-thaw chooses among configurations, and bare has none" in told
    rows = json.loads(command("evaluate", "search", *options, "--searches", FAST, "--json").out)
    assert len(rows) == 2 * 3
