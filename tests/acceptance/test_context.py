"""What other runs must be worth to the model that ships. Written before the weights that they judge."""

from __future__ import annotations

import numpy as np
import pytest

import epochcast as ec

STEPS = np.arange(1, 51)
WINNER = 0.95 - 0.6 * np.exp(-STEPS / 6)

pytestmark = pytest.mark.skipif(
    "context" not in ec.Forecaster().engine.reads, reason="the default model reads no other runs"
)


@pytest.mark.parametrize(
    ("seen", "least"),
    [
        pytest.param(2, 0.25, marks=pytest.mark.xfail(strict=True, reason="23 %")),
        pytest.param(4, 0.50, marks=pytest.mark.xfail(strict=True, reason="39 %")),
    ],
)
def test_twin_of_the_winner_that_is_ahead_at_every_step_has_a_chance(seen: int, least: float) -> None:
    twin = WINNER + 0.04
    forecast = ec.forecast(twin[:seen], 50, "accuracy", context=[WINNER])
    chance = float(np.max(forecast.prob_better(WINNER.max())))
    behind = ec.forecast((WINNER - 0.04)[:seen], 50, "accuracy", context=[WINNER])
    assert float(np.max(behind.prob_better(WINNER.max()))) < chance  # a control: one that is behind has less
    assert chance >= least


def task(count: int, seed: int) -> tuple[list[ec.Run], list[dict[str, float]], np.ndarray]:
    """Runs whose learning rate decides where they end."""
    rng = np.random.default_rng(seed)
    rates = 10.0 ** rng.uniform(-4, -1, count)
    ends = 0.9 - 0.08 * (np.log10(rates) + 2.5) ** 2
    curves = ends[:, None] - 0.5 * np.exp(-STEPS / 5) + 0.004 * rng.standard_normal((count, 50))
    configs = [{"lr": float(rate), "seed": int(i)} for i, rate in enumerate(rates)]
    return [ec.Run(curve, config=config) for curve, config in zip(curves, configs, strict=True)], configs, curves


def error_before_the_first_epoch(permuted: bool) -> float:
    runs, configs, curves = task(30, 1)
    known = configs[:24] if not permuted else [configs[i] for i in np.random.default_rng(0).permutation(24)]
    context = [ec.Run(run.values, config=config) for run, config in zip(runs[:24], known, strict=True)]
    medians = [
        ec.forecast([], 50, "accuracy", context=context, config=config).final.median() for config in configs[24:]
    ]
    return float(np.sqrt(np.mean((np.array(medians) - curves[24:, -1]) ** 2)))


def test_configurations_tell_the_end_before_the_first_epoch_and_permuted_ones_do_not() -> None:
    assert error_before_the_first_epoch(permuted=False) < 0.5 * error_before_the_first_epoch(permuted=True)


def test_context_sharpens_the_forecast_of_a_run_like_the_others() -> None:
    runs, _, curves = task(12, 2)
    alone = ec.forecast(curves[11, :3], 50, "accuracy").final
    beside = ec.forecast(curves[11, :3], 50, "accuracy", context=runs[:11], config=runs[11].config).final
    width = [high - low for low, high in (alone.interval(0.9), beside.interval(0.9))]
    assert width[1] < 0.7 * width[0]
    low, high = beside.interval(0.98)
    assert low <= curves[11, -1] <= high


def losses(count: int) -> list[np.ndarray]:
    ends = np.random.default_rng(3).uniform(0.3, 1.0, count)
    return [end + 2.0 * np.exp(-STEPS / 5) for end in ends]


def test_batch_of_runs_of_which_one_exploded_is_answered_as_each_by_itself() -> None:
    others = losses(8)
    runs = [others[0][:5], np.array([2.0, 1.5, 1e5, 1e5]), others[0][:9]]
    batch = ec.forecast(runs, 50, "loss", context=others[1:])
    assert "forecast without them" in batch.notes[0]
    for i, run in enumerate(runs):  # after the batch, whose context is kept
        single = ec.forecast(run, 50, "loss", context=others[1:])
        np.testing.assert_allclose(batch[i].median(), single.median(), rtol=1e-5)
        np.testing.assert_allclose(batch[i].log_prob(1.0), single.log_prob(1.0), rtol=1e-4, atol=1e-4)


def test_search_with_exploded_runs_goes_on() -> None:
    search = ec.FreezeThaw([{"lr": 0.1 * i} for i in range(12)], 50, "loss")
    others = losses(12)
    for _ in range(40):
        step = search.ask()
        for epoch in range(int(step.since) + 1, step.until + 1):
            search.tell(step.run, epoch, 1e6 if step.run == 3 else float(others[step.run][epoch - 1]))
    assert len(search.runs) > 8
