from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from epochcast.baselines import EmpiricalGp, LastValue, PowerLaw
from epochcast.benchmarks import CurveSet, digits_bench
from epochcast.curve import Curves
from epochcast.distributions import Mixture
from epochcast.engines import load_engine
from epochcast.forecaster import Forecaster
from epochcast.metric import Metric
from epochcast.question import Engine, Question

NAMES = ("last-value", "power-law", "empirical-gp")
ACCURACY = Metric("accuracy", False, (0.0, 1.0), (0.0, 1.0))


@pytest.fixture(scope="module")
def engines() -> dict[str, Engine]:
    return {name: load_engine(name) for name in NAMES}


def predict(engine: Engine, values: list[float], steps: list[float] | None = None, horizon: float = 50.0) -> Mixture:
    curves = Curves.of(values, steps)
    last = float(curves.last_step[0])
    answer = engine.predict(Question.of(curves, np.linspace(last + 1.0, horizon, 8)[None], horizon))
    assert isinstance(answer, Mixture)
    return answer


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("values", "steps"),
    [
        ([0.4], None),
        ([0.4, 0.5], None),
        ([0.5] * 10, None),
        ([0.0] * 10, None),
        ([1.0, 1.0, 1.0, 1.0, 1.0], None),
        ([0.1, 0.9, 0.1, 0.9, 0.1, 0.9], None),
        ([0.1, 0.3, 0.4, 0.45, 0.47], [0.0, 1.0, 2.5, 11.0, 30.0]),
        ([0.2, 0.3, 0.4, 0.5, 0.55], [0.001, 0.002, 0.003, 0.004, 0.005]),
    ],
)
def test_baseline_on_any_curve_gives_a_finite_normalised_forecast(
    engines: dict[str, Engine], name: str, values: list[float], steps: list[float] | None
) -> None:
    answer = predict(engines[name], values, steps)
    np.testing.assert_allclose(np.exp(answer.log_weights).sum(axis=-1), 1.0, atol=1e-9)
    quantiles = np.array([answer.icdf(level)[0] for level in (0.05, 0.5, 0.95)])
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles, axis=0) > 0.0).all()
    assert np.isfinite(answer.log_prob(0.9)).all()


@pytest.mark.parametrize("name", NAMES)
def test_baseline_without_values_answers_from_anywhere(engines: dict[str, Engine], name: str) -> None:
    nothing = Curves(np.zeros((1, 0)), np.zeros((1, 0)), np.zeros(1, dtype=np.int64))
    answer = engines[name].predict(Question.of(nothing, np.array([[10.0, 50.0]]), 50.0))
    low, high = answer.icdf(0.05), answer.icdf(0.95)
    assert (high - low > 0.1).all()


@pytest.mark.parametrize("name", NAMES)
def test_baseline_on_a_ragged_batch_equals_single_curves(engines: dict[str, Engine], name: str) -> None:
    rows = [[0.1, 0.2, 0.25, 0.3, 0.33, 0.35], [0.5], [0.3, 0.31, 0.33, 0.32]]
    queries = np.tile(np.array([10.0, 30.0, 50.0]), (3, 1))
    batch = engines[name].predict(Question.of(Curves.of(rows), queries, 50.0))
    for index, row in enumerate(rows):
        single = engines[name].predict(Question.of(Curves.of(row), queries[:1], 50.0))
        np.testing.assert_allclose(batch.log_prob(0.4)[index], single.log_prob(0.4)[0], rtol=1e-9)


def test_last_value_is_the_median_and_spreads_like_a_random_walk() -> None:
    curves = Curves.of([0.1, 0.2, 0.28, 0.31])
    answer = LastValue().predict(Question.of(curves, np.array([[5.0, 8.0, 20.0]]), 20.0))
    np.testing.assert_allclose(answer.icdf(0.5), 0.31, atol=1e-9)
    spread = (answer.icdf(0.7) - answer.icdf(0.3))[0]
    np.testing.assert_allclose(spread[1] / spread[0], 2.0, rtol=0.15)  # sqrt(4), but for the tail of fixed width
    assert spread[2] > spread[1]


def test_last_value_is_surer_of_a_calm_run_than_of_a_wild_one() -> None:
    calm, wild = (predict(LastValue(), values) for values in ([0.5, 0.501, 0.5, 0.501], [0.2, 0.8, 0.3, 0.7]))
    assert (calm.icdf(0.8) - calm.icdf(0.2) < 0.2 * (wild.icdf(0.8) - wild.icdf(0.2))).all()


@pytest.mark.parametrize(("level", "slope", "exponent"), [(0.9, -0.6, 0.5), (0.7, -0.5, 1.5), (0.2, 0.6, 1.0)])
def test_power_law_continues_a_curve_of_its_own_kind(level: float, slope: float, exponent: float) -> None:
    rng = np.random.default_rng(0)
    steps = np.arange(1.0, 101.0)
    truth = level + slope * steps**-exponent
    noisy = truth + 0.003 * rng.standard_normal(100)
    answer = PowerLaw().predict(Question.of(Curves.of(noisy[:40]), steps[None, 40:], 100.0))
    np.testing.assert_allclose(answer.icdf(0.5)[0], truth[40:], atol=0.01)


def test_power_law_beats_the_last_value_on_power_laws_and_loses_on_random_walks() -> None:
    rng = np.random.default_rng(1)
    steps = np.arange(1.0, 51.0)
    laws = 0.8 - 0.6 * steps ** -rng.uniform(0.4, 1.0, (40, 1)) + 0.005 * rng.standard_normal((40, 50))
    walks = 0.5 + np.cumsum(0.01 * rng.standard_normal((40, 50)), axis=1)

    def errors(values: np.ndarray) -> list[float]:
        seen, queries = Curves.of(values[:, :20]), np.tile(steps[20:], (40, 1))
        medians = [engine.predict(Question.of(seen, queries, 50.0)).icdf(0.5) for engine in (PowerLaw(), LastValue())]
        return [float(((median - values[:, 20:]) ** 2).mean()) for median in medians]

    law, last = errors(laws)
    assert law < 0.5 * last
    law, last = errors(walks)
    assert law > last


def test_power_law_of_a_seed_is_the_same_twice() -> None:
    values = [0.1, 0.3, 0.38, 0.45, 0.43, 0.5]
    first, again, other = (predict(PowerLaw(seed), values).means for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def past(count: int, rng: np.random.Generator) -> CurveSet:
    """Curves that rise from a random start to a random level, at one rate."""
    steps = np.arange(1.0, 51.0)
    start, end = rng.uniform(0.1, 0.3, (count, 1)), rng.uniform(0.5, 0.9, (count, 1))
    values = end - (end - start) * np.exp(-steps / 10.0) + 0.005 * rng.standard_normal((count, 50))
    return CurveSet.of("past", np.clip(values, 0.0, 1.0), ACCURACY)


def test_empirical_gp_forecasts_curves_like_the_past_better_than_the_last_value() -> None:
    others = past(200, np.random.default_rng(0)).context()
    new = past(40, np.random.default_rng(1))
    question = new.question(10, np.tile(np.arange(11.0, 51.0), (40, 1)), others)
    errors = [
        float(((engine.predict(question).icdf(0.5) - new.normalised[:, 10:]) ** 2).mean())
        for engine in (EmpiricalGp(), LastValue())
    ]
    assert errors[0] < 0.05 * errors[1]


def test_empirical_gp_covers_curves_like_the_past() -> None:
    others = past(300, np.random.default_rng(0)).context()
    new = past(200, np.random.default_rng(1))
    answer = EmpiricalGp().predict(new.question(10, np.full((200, 1), 40.0), others))
    rank = answer.cdf(new.normalised[:, 39:40])
    assert 0.8 <= float(np.mean(np.abs(rank - 0.5) <= 0.45)) <= 1.0


def test_empirical_gp_serves_another_horizon_by_shares() -> None:
    engine, others = EmpiricalGp(), past(200, np.random.default_rng(0)).context()
    seen = past(1, np.random.default_rng(1)).prefixes(10)
    short = engine.predict(Question.of(seen, np.array([[50.0]]), 50.0, context=others))
    slower = Curves(seen.steps * 7.0, seen.values, seen.lengths)
    long = engine.predict(Question.of(slower, np.array([[350.0]]), 350.0, context=others))
    np.testing.assert_allclose(short.icdf(0.5), long.icdf(0.5), rtol=1e-9)


@pytest.mark.parametrize("finished", [0, 3])
def test_empirical_gp_of_too_few_finished_curves_is_that_of_the_curves_that_ship(finished: int) -> None:
    others = past(100, np.random.default_rng(0))
    values = others.values.copy()
    values[finished:, 20:] = np.nan  # still under way
    few = CurveSet.of("few", values, ACCURACY, horizons=50.0).context()
    question = past(5, np.random.default_rng(1)).question(10, np.full((5, 1), 50.0))
    alone, among_few, among_many = (
        EmpiricalGp().predict(replace(question, context=context)).means for context in (None, few, others.context())
    )
    np.testing.assert_array_equal(among_few, alone)
    assert np.abs(among_many - alone).max() > 0.01


def test_empirical_gp_asked_about_other_runs_forgets_the_context_before() -> None:
    first, second = (past(50, np.random.default_rng(seed)).context() for seed in (0, 5))
    question = past(5, np.random.default_rng(1)).question(10, np.full((5, 1), 50.0))
    engine = EmpiricalGp()
    engine.predict(replace(question, context=first))
    again = engine.predict(replace(question, context=second)).means
    np.testing.assert_array_equal(again, EmpiricalGp().predict(replace(question, context=second)).means)


@pytest.mark.parametrize("name", NAMES)
def test_baseline_serves_a_forecaster_in_a_metric_of_its_own(name: str) -> None:
    forecast = Forecaster(name).forecast([2.3, 1.5, 1.2, 1.0, 0.95], 30, "log_loss")
    low, high = forecast.final.interval(0.9)
    assert 0.0 <= low < forecast.final.median() < high


def test_last_value_covers_the_curves_that_ship() -> None:
    curves = digits_bench().sample(200)
    counts = curves.seen_at(0.4)
    rows = np.flatnonzero((counts > 0) & (curves.lengths == curves.horizons))
    part = curves[rows]
    answer = LastValue().predict(Question.of(part.prefixes(counts[rows]), part.horizons[:, None], 100.0))
    final = part.normalised[np.arange(len(part)), part.lengths - 1][:, None]
    inside = float(np.mean(np.abs(answer.cdf(final) - 0.5) <= 0.45))
    assert 0.8 <= inside <= 0.99
