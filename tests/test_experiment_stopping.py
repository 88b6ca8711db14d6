"""Experiment 3: the replay is what real rules do in a real loop, and its figures mean what they say."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from epochcast.benchmarks import CurveSet, load
from epochcast.cli.commands import app
from epochcast.distributions import Mixture
from epochcast.errors import InputError
from epochcast.experiments.contenders import Contender
from epochcast.experiments.harness import Harness, Store
from epochcast.experiments.stopping.reach_table import ReachTable
from epochcast.experiments.stopping.replay import (
    BASELINE,
    CONFIDENCES,
    Rule,
    Settings,
    evaluate_task,
    rules_of,
)
from epochcast.experiments.stopping.report import average_regret, markdown, summaries, write
from epochcast.experiments.stopping.selection import (
    Limits,
    Pool,
    by_forecast,
    never,
    patience,
    random_orders,
    regret,
    replay,
    speedup,
)
from epochcast.experiments.stopping.study import files_in, run
from epochcast.experiments.task_runs import TaskRuns, tasks_of
from epochcast.forecaster import Forecaster
from epochcast.metric import Metric
from epochcast.question import Engine, Question
from epochcast.stopping import NoStopping, Patience, Reason, Stopper, StoppingRule

HORIZON, RUNS = 12, 30
UP = Metric("score", minimize=False, soft=(0.0, 1.0), transform=False)
DOWN = Metric("cost", minimize=True, soft=(0.0, 1.0), transform=False)


class Drift(Engine):
    """Forecasts that each run goes on from its newest value, drifting upwards by `drift` per step."""

    name = "drift"

    def __init__(self, drift: float = 0.0, scale: float = 0.05) -> None:
        self.drift, self.scale = drift, scale

    def predict(self, question: Question) -> Mixture:
        curves, queries = question.runs, question.steps
        ahead = queries - curves.last_step[:, None]
        means = curves.last_value[:, None] + self.drift * ahead
        scales = np.log(self.scale * np.sqrt(ahead))
        return Mixture.of(np.zeros((*queries.shape, 1)), means[..., None], scales[..., None])


def saturating_runs(count: int = RUNS, seed: int = 0, horizon: int = HORIZON) -> np.ndarray:
    """Rising runs [run, step] with noise, of which the better ones lead early; none leaves [0, 1]."""
    rng = np.random.default_rng(seed)
    end, pace = rng.uniform(0.2, 0.9, (count, 1)), rng.uniform(0.2, 1.0, (count, 1))
    curve = end * (1.0 - np.exp(-pace * np.arange(1.0, horizon + 1.0)))
    return np.clip(curve + 0.02 * rng.standard_normal(curve.shape), 0.0, 1.0)


def with_breakdowns(values: np.ndarray) -> np.ndarray:
    broken = values.copy()
    broken[3, 5:] = np.nan
    broken[8, 0:] = np.nan
    broken[11, -1] = np.inf
    return broken


def task(values: np.ndarray, metric: Metric = UP) -> TaskRuns:
    return TaskRuns("made", "up", -values if metric.minimize else values, metric)


# --- the replay is the real thing -------------------------------------------------------------------------------------


def real_search(rule: StoppingRule, values: np.ndarray, order: np.ndarray, budget: int) -> tuple[list[float], int, int]:
    """A training loop with a rule: the best value after each epoch, runs stopped by the rule, and wrong stops."""
    sign = -1.0 if rule.metric.minimize else 1.0
    best, line, stopped, wrong = -math.inf, [], 0, 0
    for number in order:
        for step, value in enumerate(values[number], start=1):
            if len(line) == budget:
                return line, stopped, wrong
            decision = rule.update(step, value)
            best = max(best, sign * value) if math.isfinite(value) else best
            line.append(best)
            if decision.stop:
                later = values[number, step:]
                later = later[np.logical_and.accumulate(np.isfinite(later))]
                by_rule = decision.reason is not Reason.NON_FINITE
                stopped += by_rule and step < HORIZON
                wrong += by_rule and bool((sign * later > best).any())
                break
        rule.next_run()
    return line + [best] * (budget - len(line)), stopped, wrong


def real_rule(rule: Rule, metric: Metric, engine: Drift) -> StoppingRule:
    if rule.patience is not None:
        return Patience(rule.patience, HORIZON, metric)
    if rule.confidence is None or rule.min_steps is None:
        return NoStopping(HORIZON, metric)
    return Stopper(
        HORIZON,
        metric,
        rule.confidence,
        rule.min_steps,
        min_share=0.0,
        cutoffs=(0.1, 0.2, 0.4, 0.8) if rule.coarse else None,
        stop_leader=rule.stop_leader,
        forecaster=Forecaster.around(engine),
    )


@pytest.mark.parametrize("metric", [UP, DOWN], ids=["up", "down"])
@pytest.mark.parametrize(
    "rule",
    [
        Rule(BASELINE),
        Rule("patience", patience=2),
        Rule("fine", 0.9, 2),
        Rule("fine from 1", 0.95, 1),
        Rule("coarse", 0.9, 2, coarse=True),
        Rule("leaders go on", 0.9, 2, stop_leader=False),
    ],
    ids=lambda rule: rule.name,
)
def test_replay_spends_and_finds_what_the_real_rule_does_in_a_loop(rule: Rule, metric: Metric) -> None:
    engine = Drift(-0.005 if metric.minimize else 0.005)  # in the metric's own space, which has no transform
    runs = task(with_breakdowns(saturating_runs()), metric)
    reach_table = ReachTable.of(Forecaster.around(engine), runs, (0.9, 0.95))
    pool = Pool.of(runs.values, metric.minimize)
    orders = random_orders(len(runs), 4, np.random.default_rng(1))
    budget = 8 * HORIZON
    replayed = replay(pool, rule.limits(pool, reach_table), orders, budget)
    for i, order in enumerate(orders):
        line, stopped, wrong = real_search(real_rule(rule, metric, engine), runs.values, order, budget)
        assert replayed.best[i].tolist() == line
        assert (replayed.stopped[i], replayed.wrong[i]) == (stopped, wrong)
    assert (replayed.stopped.sum() > 0) == (rule.name != BASELINE)


def test_replay_of_the_streaming_network_stops_where_a_real_stopper_does() -> None:
    runs = TaskRuns("made", "loss", 1.2 - saturating_runs(6, seed=2), Metric.named("log_loss"), np.full(6, 1.3))
    forecaster = Forecaster("stream")
    reach_table = ReachTable.of(forecaster, runs, (0.95,))
    pool = Pool.of(runs.values, minimize=True)
    limits = Rule("fine", 0.95, 2, stop_leader=False).limits(pool, reach_table)
    stops = set()
    for number, values in enumerate(runs.values):
        for best in (0.4, 0.6):
            stopper = Stopper(HORIZON, "log_loss", min_steps=2, min_share=0.0, best=best, forecaster=forecaster)
            stopper.update(0, 1.3)
            real = next((step for step, v in enumerate(values, start=1) if stopper.update(step, v).stop), None)
            found = np.flatnonzero(-best >= limits.table[number])
            assert (found[0] + 1 if len(found) else None) == real
            stops.add(real)
    assert len(stops) > 2


def test_value_that_is_not_finite_ends_a_run_and_its_epoch_is_spent() -> None:
    pool = Pool.of(with_breakdowns(saturating_runs()), minimize=False)
    assert pool.lengths[[0, 3, 8, 11]].tolist() == [HORIZON, 6, 1, HORIZON]
    replayed = replay(pool, never(pool), np.array([[8, 3, 0]]), budget=10)
    assert np.isneginf(replayed.best[0, 0])
    assert np.isfinite(replayed.best[0, 1:]).all()
    assert replayed.runs.tolist() == [3]
    assert regret(pool, replayed)[0, 0] == regret(pool, replayed)[0, 1]


def test_replay_that_runs_out_of_runs_keeps_what_it_found() -> None:
    pool = Pool.of(saturating_runs(3), minimize=False)
    replayed = replay(pool, never(pool), np.array([[0, 1, 2]]), budget=100)
    assert regret(pool, replayed)[0, -1] == 0.0
    assert replayed.runs.tolist() == [3]


def test_pool_without_runs_raises_an_error_that_names_the_shape() -> None:
    with pytest.raises(InputError, match=r"\(0, 5\)"):
        Pool.of(np.empty((0, 5)), minimize=False)


# --- what the figures mean --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ([4, 3, 2, 2, 1, 1, 1, 1], 1.6),  # as good after 5 epochs as the baseline after 8
        ([1, 1, 1, 1, 1, 1, 1, 1], 8.0),
        ([4, 4, 4, 3, 3, 2, 2, 1], 1.0),
        ([4, 4, 4, 4, 4, 3, 3, 3], 0.5),  # ends as good as the baseline was after 4
        ([9, 9, 9, 9, 9, 9, 9, 9], 0.125),
    ],
)
def test_speedup_is_the_ratio_of_epochs_to_the_same_regret(other: list[float], expected: float) -> None:
    baseline = np.array([4.0, 4.0, 4.0, 3.0, 3.0, 2.0, 2.0, 1.0])
    assert speedup(baseline, np.array(other, dtype=float)) == expected


def outcome_of(limits: Limits, pool: Pool) -> tuple[float, float]:
    """Speed-up, and the share of stopped runs that would have won."""
    orders = random_orders(len(pool), 40, np.random.default_rng(2))
    ours, baseline = (replay(pool, each, orders, 8 * HORIZON) for each in (limits, never(pool)))
    gain = speedup(regret(pool, baseline).mean(axis=0), regret(pool, ours).mean(axis=0))
    return gain, float(ours.wrong.sum() / ours.stopped.sum())


def test_rule_that_knows_the_future_is_fast_and_never_wrong_and_one_that_despairs_is_neither() -> None:
    pool = Pool.of(saturating_runs(200, seed=5), minimize=False)
    checks = np.arange(2, HORIZON)
    gain, wrong = outcome_of(by_forecast(pool, pool.later[:, checks - 1], checks), pool)
    assert gain > 1.5
    assert wrong == 0.0
    hopeless = np.full((len(pool), len(checks)), -1.0)
    worse_gain, worse_wrong = outcome_of(by_forecast(pool, hopeless, checks), pool)
    assert worse_gain < gain
    assert worse_wrong > 0.02


def test_patience_limits_count_epochs_without_a_gain() -> None:
    pool = Pool.of(np.array([[0.1, 0.2, 0.2, 0.1, 0.3, 0.3]]), minimize=False)
    assert np.isneginf(patience(pool, 2).table[0]).tolist() == [False, False, False, True, False, False]


# --- a task, a study, the command -------------------------------------------------------------------------------------


def collection(tasks: int = 2, runs: int = 12, minimize: bool = True) -> dict[str, Any]:
    """Arrays of the layout that the public collections come in."""
    values = np.concatenate([saturating_runs(runs, seed) for seed in range(tasks)])
    values[1, 6:] = np.nan
    curves = 1.5 - values if minimize else values
    untrained = np.full(len(curves), 1.5)
    return {
        "curves": np.column_stack([untrained, curves]) if minimize else curves,
        "task": np.repeat(np.arange(tasks), runs),
        "task_names": np.array([f"task{i}" for i in range(tasks)]),
        "metric": np.array("val loss" if minimize else "accuracy"),
        "minimize": np.array(minimize),
        **({"y0": untrained} if minimize else {}),
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.savez(tmp_path / "lcbench.npz", **collection())
    np.savez(tmp_path / "nasbench201.npz", **collection(1, minimize=False))
    return tmp_path


STREAM = Contender("stream", "stream")


def test_task_result_holds_every_rule_of_the_paper_as_plain_json() -> None:
    settings = Settings(orders=3, budget=4)
    result = evaluate_task(task(saturating_runs(8)), STREAM, settings)
    rows = json.loads(json.dumps(result["rows"]))
    names = [(row["rule"], row["confidence"]) for row in rows]
    assert {(f"patience {k}", None) for k in (2, 5, 10)} < set(names)
    assert {(name, c) for name in ("fine", "coarse") for c in CONFIDENCES} < set(names)
    assert {(f"fine from {least}", 0.95) for least in (1, 3, 4, 5)} < set(names)
    assert len(names) == len(set(names)) == len(rules_of())
    baseline = rows[0]
    assert (baseline["rule"], baseline["speedup"], baseline["false_stop_rate"]) == (BASELINE, 1.0, None)
    ceiling = rows[names.index(("foresight", None))]
    assert ceiling["speedup"] >= max(row["speedup"] for row in rows if row["rule"].startswith(("fine", "coarse")))
    assert (ceiling["false_stop_share"], ceiling["forecasts"]) == (0.0, 0.0)
    fine = rows[names.index(("fine", 0.95))]
    assert fine["overhead"] > 0.0
    assert fine["forecasts"] > 0.0


def test_false_stops_grow_as_the_confidence_falls() -> None:
    runs = task(saturating_runs(60, seed=7))
    reach_table = ReachTable.of(Forecaster.around(Drift(scale=0.02)), runs, (0.6, 0.9, 0.999))
    pool = Pool.of(runs.values, minimize=False)
    orders = random_orders(60, 20, np.random.default_rng(0))
    shares = []
    for confidence in (0.6, 0.9, 0.999):
        replayed = replay(pool, Rule("fine", confidence, 2).limits(pool, reach_table), orders, 10 * HORIZON)
        shares.append(replayed.wrong.sum() / replayed.runs.sum())
    assert shares[0] > shares[1] > shares[2]


def test_runs_longer_than_a_model_reads_are_checked_at_every_second_step() -> None:
    runs = task(saturating_runs(3, horizon=150))
    reach_table = ReachTable.of(Forecaster("stream"), runs, (0.95,))
    assert reach_table.checks.tolist() == list(range(2, 150, 2))
    assert reach_table.reach.shape == (1, 3, 74)
    assert np.isfinite(reach_table.reach).all()


def test_task_runs_with_unequal_steps_raise_an_error_that_names_the_task() -> None:
    curves = CurveSet.of("uneven", saturating_runs(4), UP, steps=np.arange(1.0, HORIZON + 1.0) ** 2)
    with pytest.raises(InputError, match="task 'uneven'"):
        TaskRuns.of(curves, "uneven")


def test_task_runs_measured_every_few_steps_are_those_of_every_step() -> None:
    values = saturating_runs(4)
    coarse = CurveSet.of("coarse", values, UP, steps=np.arange(1.0, HORIZON + 1.0) * 50.0)
    assert TaskRuns.of(coarse, "coarse").horizon == HORIZON
    np.testing.assert_array_equal(TaskRuns.of(coarse, "coarse").values, values)


def sets_in(data: Path) -> list[CurveSet]:
    return [curves for path in files_in(data) for curves in load(path).sets]


def test_study_started_again_takes_finished_tasks_from_the_store(data: Path, tmp_path: Path) -> None:
    settings = Settings(orders=3, budget=3)
    tasks = tasks_of(sets_in(data))
    path = tmp_path / "cache.jsonl"
    first = run(tasks[:2], "stream", settings, Harness(Store(path)))
    done: list[tuple[int, int]] = []
    again = run(tasks, "stream", settings, Harness(Store(path), progress=lambda *seen: done.append(seen)))
    assert done[0] == (2, 3)
    assert [a.rows for a in again[:2]] == [b.rows for b in first]
    other: list[tuple[int, int]] = []
    run(
        tasks[:1],
        "stream",
        Settings(orders=4, budget=3),
        Harness(Store(path), progress=lambda *seen: other.append(seen)),
    )
    assert other[0] == (0, 1)  # other settings are not the same result


def test_report_averages_tasks_and_names_every_benchmark(data: Path, tmp_path: Path) -> None:
    settings = Settings(orders=3, budget=3)
    results = run(tasks_of(sets_in(data)), "stream", settings)
    found = {(item.benchmark, item.rule, item.confidence): item for item in summaries(results)}
    fine = found["lcbench", "fine", 0.95]
    gains = [
        row.speedup for result in results[:2] for row in result.rows if (row.rule, row.confidence) == ("fine", 0.95)
    ]
    assert (fine.tasks, fine.speedup, fine.least) == (2, pytest.approx(np.mean(gains)), min(gains))
    line, error = average_regret(results[:2], 0)
    assert line == pytest.approx((results[0].regret[0] + results[1].regret[0]) / 2)
    assert (error >= 0.0).all()
    assert "### nasbench201" in markdown(results)
    write(results, tmp_path / "out")
    made = {path.name for path in (tmp_path / "out").iterdir()}
    assert made == {"stopping.md", "stopping-average.png", "stopping-lcbench.png", "stopping-nasbench201.png"}


@pytest.mark.parametrize("model", ["stream", "last-value"])
def test_command_prints_rows_as_json(data: Path, tmp_path: Path, model: str) -> None:
    options = ["--model", model, "--orders", "2", "--confidence", "0.95", "--tasks", "task1", "--json"]
    cache = ["--cache", str(tmp_path / "cache.jsonl"), "--benchmarks", "lcbench"]
    result = CliRunner().invoke(app, ["evaluate", "stopping", "--data", str(data), *options, *cache])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    wanted = {"benchmark", "task", "rule", "confidence", "speedup", "final_regret", "false_stop_rate", "orders"}
    assert all(wanted <= row.keys() for row in rows)
    assert {(row["benchmark"], row["task"], row["orders"]) for row in rows} == {("lcbench", "task1", 2)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--orders", "0"], "orders=0"),
        (["--confidence", "1.5"], "confidence=1.5"),
        (["--tasks", "nothing"], "task 'nothing'"),
        (["--benchmarks", "pd1"], "pd1.npz"),
    ],
)
def test_command_with_a_bad_option_raises_an_error_that_names_it(data: Path, options: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["evaluate", "stopping", "--data", str(data), *options])
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Runs of one search in folders of their own, one of which broke off."""
    folder = tmp_path / "search"
    for number, length in enumerate((12, 12, 12, 5)):
        place = folder / f"version_{number}"
        place.mkdir(parents=True)
        lines = [f"{epoch},{0.9 - 0.6 * epoch**-0.5 - 0.05 * number:.4f}" for epoch in range(1, length + 1)]
        (place / "metrics.csv").write_text("\n".join(["epoch,val_acc", *lines, ""]))
    return folder


@pytest.mark.parametrize(
    ("options", "horizon", "short"), [([], 12, "1 of them end"), (["--horizon", "5", "--metric", "accuracy"], 5, None)]
)
def test_command_replays_logs_with_the_options_of_evaluate_real(
    logs: Path, options: list[str], horizon: int, short: str | None
) -> None:
    common = ["evaluate", "stopping", "--data", str(logs), "--monitor", "val_acc", "--model", "last-value"]
    result = CliRunner().invoke(app, [*common, "--orders", "2", "--confidence", "0.95", "--json", *options])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert {(row["benchmark"], row["task"]) for row in rows} == {("search", "search")}
    plain = next(row for row in rows if row["rule"] == "no stopping")
    assert plain["runs"] >= 4.0
    assert "search: 4 runs of 1 task used" in result.stderr
    assert (short in result.stderr) if short else ("end before" not in result.stderr)
    assert TaskRuns.of(load(logs, monitor="val_acc", horizon=horizon).sets[0], "search").horizon == horizon


def test_command_with_a_horizon_for_a_collection_is_refused(data: Path) -> None:
    result = CliRunner().invoke(app, ["evaluate", "stopping", "--data", str(data), "--horizon", "5"])
    assert isinstance(result.exception, InputError)
    assert "horizon=5 is for a folder of logs" in str(result.exception)
