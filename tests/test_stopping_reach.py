"""The reach of a run: looking a best up in it decides as the exact chance does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from epochcast.distributions import Mixture
from epochcast.errors import InputError
from epochcast.forecast import Forecast
from epochcast.forecaster import Forecaster
from epochcast.metric import Metric
from epochcast.prior import paper
from epochcast.question import Engine, Question
from epochcast.stopping.decision import chance_to_beat
from epochcast.stopping.reach import reach

HORIZON, SEEN = 30, 6
CONFIDENCES = (0.9, 0.95, 0.99, 0.999)


class Bumps(Engine):
    """Forecasts whose most hopeful step is another one for each run, with tails of two scales."""

    name = "bumps"

    def predict(self, question: Question) -> Mixture:
        queries = question.steps
        peak = np.linspace(0.0, question.horizon, len(question))[:, None]
        means = 0.5 + 0.2 * np.exp(-((queries - peak) ** 2) / 20.0)
        scales = 0.02 + 0.002 * np.abs(queries - 15.0)
        shape = (*queries.shape, 2)
        return Mixture.of(
            np.broadcast_to([0.0, -2.0], shape),
            np.stack([means, means - 0.1], axis=-1),
            np.log(np.stack([scales, 4.0 * scales], axis=-1)),
        )


def forecast_of(engine: str, metric: str, runs: int = 24) -> Forecast:
    forecaster = Forecaster.around(Bumps()) if engine == "bumps" else Forecaster(engine)
    values = np.clip(paper.sample(runs, np.random.default_rng(3), HORIZON).noisy[:, :SEEN], 0.01, 0.99)
    return forecaster.forecast(values if metric == "accuracy" else 2.0 - values, HORIZON, metric)


@pytest.mark.parametrize("engine", ["bumps", "stream", "lcpfn"])
@pytest.mark.parametrize("metric", ["accuracy", "log_loss"])
@pytest.mark.parametrize("target", ["any", "final"])
def test_reach_has_exactly_the_chance_that_the_confidence_leaves(engine: str, metric: str, target: Any) -> None:
    forecast = forecast_of(engine, metric)
    for confidence in CONFIDENCES:
        limit = reach(forecast, confidence, target)
        chance = chance_to_beat(forecast, limit, target)
        assert chance == pytest.approx(np.full(len(limit), 1.0 - confidence), abs=2e-6)


@pytest.mark.parametrize("engine", ["bumps", "stream"])
@pytest.mark.parametrize("metric", ["accuracy", "log_loss"])
def test_reach_decides_as_the_exact_chance_against_any_best(engine: str, metric: str) -> None:
    forecast = forecast_of(engine, metric)
    sign = -1.0 if metric == "log_loss" else 1.0
    decided = set()
    for confidence in CONFIDENCES:
        limit = sign * reach(forecast, confidence)
        for best in np.random.default_rng(4).uniform(limit.min() - 0.05, limit.max() + 0.05, 40):
            stops = chance_to_beat(forecast, sign * best, "any") <= 1.0 - confidence
            assert np.array_equal(best >= limit, stops)
            decided |= set(stops.tolist())
    assert decided == {True, False}


def test_reach_at_the_horizon_alone_is_not_that_at_every_step() -> None:
    """The control: a reach that looked at the last step only would fail the tests above."""
    forecast = forecast_of("bumps", "accuracy")
    assert (reach(forecast, 0.95) > reach(forecast, 0.95, "final") + 0.01).mean() > 0.5


def test_reach_of_a_metric_without_transform_is_the_quantile() -> None:
    metric = Metric("score", minimize=False, soft=(0.0, 1.0), transform=False)
    forecast = Forecaster.around(Bumps()).forecast(np.full((4, SEEN), 0.5), HORIZON, metric)
    assert reach(forecast, 0.95) == pytest.approx(forecast.quantile(0.95).max(axis=1), abs=1e-7)


@pytest.mark.parametrize(
    ("confidence", "target", "message"),
    [(1.0, "any", "confidence=1.0"), (0.95, "last", "target='last'")],
)
def test_reach_with_a_bad_argument_raises_an_error_that_names_it(confidence: float, target: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        reach(forecast_of("bumps", "accuracy"), confidence, target)


def test_reach_of_a_single_run_raises_an_error_with_the_way_out() -> None:
    single = Forecaster.around(Bumps()).forecast([0.1, 0.2], HORIZON, "accuracy")
    with pytest.raises(InputError, match="batch of runs"):
        reach(single, 0.95)
