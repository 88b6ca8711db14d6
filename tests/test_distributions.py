"""One law for all distributions: density, cdf, quantiles, moments and samples must belong together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from epochcast.distributions import Bars, Distribution, Mixture, joined
from epochcast.errors import InputError
from epochcast.special import softmax

PROPERTY = settings(max_examples=200, deadline=None, derandomize=True)
INF = np.inf
LEVELS = np.array([1e-6, 1e-4, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1 - 1e-4, 1 - 1e-6])
BORDERS = np.linspace(0.0, 1.0, 21)
UNEVEN = np.array([-0.3, 0.1, 0.11, 0.5, 0.5001, 0.9, 0.95, 1.7])


def one_hot(position: int, rest: float) -> np.ndarray:
    logits = np.full(20, rest)
    logits[position] = 0.0
    return logits


CASES: dict[str, Distribution] = {
    "bars-uniform": Bars(BORDERS, np.zeros(20)),
    "bars-random": Bars(BORDERS, np.random.default_rng(0).normal(0, 2, 20)),
    "bars-uneven": Bars(UNEVEN, np.random.default_rng(1).normal(0, 2, 7)),
    "bars-far-from-zero": Bars(BORDERS + 1e5, np.zeros(20)),
    "bars-one-hot-first": Bars(BORDERS, one_hot(0, -60.0)),
    "bars-one-hot-inner": Bars(BORDERS, one_hot(7, -60.0)),
    "bars-one-hot-last": Bars(BORDERS, one_hot(19, -60.0)),
    "bars-one-hot-exact": Bars(BORDERS, one_hot(7, -INF)),
    "bars-empty-bins-between": Bars(BORDERS, np.where(np.arange(20) % 5 == 2, 0.0, -INF)),
    "mixture-of-one": Mixture.of([0.0], [0.3], [-2.0]),
    "mixture-overlapping": Mixture.of([0.0, 1.0, -1.0], [0.3, 0.35, 0.5], [-2.0, -3.0, -1.0]),
    "mixture-narrow": Mixture.of([0.0], [0.9], [-15.0]),
    "mixture-narrow-and-far-apart": Mixture.of([0.0, 0.1], [0.0, 1.0], [-15.0, -15.0]),
    "mixture-narrow-on-wide": Mixture.of([0.0, 0.0], [0.7, 0.2], [-15.0, 0.0]),
    "mixture-rare-component": Mixture.of([0.0, -12.0], [0.5, 5.0], [-4.0, -4.0]),
    "mixture-empty-component": Mixture.of([0.0, -INF], [0.5, 5.0], [-4.0, -4.0]),
}
each_case = pytest.mark.parametrize("distribution", CASES.values(), ids=CASES.keys())
each_kind = pytest.mark.parametrize("name", ["bars-random", "mixture-overlapping"])


def pieces(distribution: Distribution) -> np.ndarray:
    """Points between which the density is smooth; all but a mass below 1e-15 lies between the first and the last."""
    steps = np.arange(-9.0, 10.0)
    if isinstance(distribution, Mixture):
        grid = distribution.means[:, None] + np.exp(distribution.log_scales)[:, None] * steps
        return np.unique(grid)
    assert isinstance(distribution, Bars)
    borders = distribution.borders
    left, right = borders[1] - borders[0], borders[-1] - borders[-2]
    lower, upper = borders[1] + 1.5 * left * steps[:9], borders[-2] - 1.5 * right * steps[:9]
    return np.unique(np.concatenate([lower, borders[1:-1], upper]))


def expectation(distribution: Distribution, function: Callable[[np.ndarray], np.ndarray]) -> float:
    """Integral of function x density, by Gauss-Legendre quadrature on each smooth piece."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    points = pieces(distribution)
    half = np.diff(points)[:, None] / 2
    y = (points[:-1] + points[1:])[:, None] / 2 + half * nodes  # [piece, node]
    return float((function(y) * np.exp(distribution.log_prob(y)) * half * weights).sum())


# Each law over each case -------------------------------------------------------------------------------------------


@each_case
def test_density_integrates_to_one(distribution: Distribution) -> None:
    assert expectation(distribution, np.ones_like) == pytest.approx(1.0, abs=1e-6)


@each_case
def test_mean_and_variance_equal_their_integrals(distribution: Distribution) -> None:
    mean = float(distribution.mean())
    variance = expectation(distribution, lambda y: (y - mean) ** 2)

    assert expectation(distribution, lambda y: y - mean) == pytest.approx(0.0, abs=1e-6 * np.sqrt(variance))
    assert distribution.variance() == pytest.approx(variance, rel=1e-6)


@each_case
def test_cdf_of_quantiles_gives_the_levels_back(distribution: Distribution) -> None:
    levels = distribution.cdf(distribution.icdf(LEVELS))

    np.testing.assert_allclose(levels, LEVELS, atol=1e-6)
    # In the tails an absolute tolerance would pass anything, so that each tail is measured by its own size.
    np.testing.assert_allclose(levels[:2], LEVELS[:2], rtol=1e-4)
    np.testing.assert_allclose(1 - levels[-2:], 1 - LEVELS[-2:], rtol=1e-4)


@each_case
def test_quantiles_of_rising_levels_rise_strictly(distribution: Distribution) -> None:
    assert (np.diff(distribution.icdf(LEVELS)) > 0).all()


@each_case
def test_density_is_the_derivative_of_the_cdf(distribution: Distribution) -> None:
    y = distribution.icdf(np.linspace(0.0205, 0.9795, 41))
    step = 1e-5 * np.exp(-distribution.log_prob(y))
    if isinstance(distribution, Bars):  # the density jumps at the borders
        away = np.abs(y[:, None] - distribution.borders).min(axis=1) > step
        y, step = y[away], step[away]
    slope = (distribution.cdf(y + step) - distribution.cdf(y - step)) / (2 * step)

    assert len(y) > 10
    np.testing.assert_allclose(np.log(slope), distribution.log_prob(y), atol=1e-4)


@each_case
def test_samples_follow_the_cdf_and_the_moments(distribution: Distribution) -> None:
    draws = distribution.sample(20_000, np.random.default_rng(5))
    mean, deviation = float(distribution.mean()), float(np.sqrt(distribution.variance()))

    def passes(sample: np.ndarray) -> bool:
        return float(stats.kstest(distribution.cdf(sample), "uniform").pvalue) > 2e-5

    assert passes(draws)
    assert draws.mean() == pytest.approx(mean, abs=5 * deviation / np.sqrt(len(draws)))
    fourth = expectation(distribution, lambda y: (y - mean) ** 4)
    assert draws.var() == pytest.approx(deviation**2, abs=5 * np.sqrt(fourth / len(draws)))
    # The negative control: the same draws moved by a tenth of their spread.
    spread = float(np.diff(distribution.icdf([0.25, 0.75]))[0])
    assert not passes(draws + 0.1 * spread)


@each_case
@pytest.mark.parametrize("far", [1e200, INF])
def test_cdf_far_outside_is_zero_and_one(distribution: Distribution, far: float) -> None:
    np.testing.assert_allclose(distribution.cdf([-far, far]), [0.0, 1.0], atol=1e-15)


@each_case
def test_log_density_far_outside_is_finite_where_the_tails_have_mass(distribution: Distribution) -> None:
    tails_have_mass = not isinstance(distribution, Bars) or np.isfinite(distribution.logits[[0, -1]]).all()
    log_densities = distribution.log_prob([-1e200, 1e200])

    assert (np.isfinite(log_densities) if tails_have_mass else np.isneginf(log_densities)).all()
    assert (log_densities < -1e100).all()


@each_case
def test_density_and_cdf_at_nan_are_nan(distribution: Distribution) -> None:
    assert np.isnan(distribution.log_prob(np.nan))
    assert np.isnan(distribution.cdf(np.nan))


# Random parameters -------------------------------------------------------------------------------------------------


@st.composite
def mixtures(draw: st.DrawFn) -> Mixture:
    size = draw(st.integers(1, 6))
    ranges = ((-20.0, 20.0), (-2.0, 3.0), (-15.0, 2.0))
    return Mixture.of(*(draw(arrays(float, size, elements=st.floats(low, high))) for low, high in ranges))


@st.composite
def bars(draw: st.DrawFn) -> Bars:
    size = draw(st.integers(3, 30))
    widths = np.exp(draw(arrays(float, size, elements=st.floats(-10.0, 0.0))))
    borders = np.concatenate([[0.0], np.cumsum(widths)]) + draw(st.floats(-2.0, 2.0))
    return Bars(borders, draw(arrays(float, size, elements=st.floats(-30.0, 30.0))))


@PROPERTY
@given(st.one_of(mixtures(), bars()))
def test_quantiles_of_random_distributions_are_exact_and_ordered(distribution: Distribution) -> None:
    quantiles = distribution.icdf(LEVELS)

    np.testing.assert_allclose(distribution.cdf(quantiles), LEVELS, rtol=1e-5)
    assert (np.diff(quantiles) > 0).all()


@PROPERTY
@given(st.one_of(mixtures(), bars()))
def test_density_of_random_distributions_integrates_to_one_with_the_stated_moments(distribution: Distribution) -> None:
    mean = float(distribution.mean())
    variance = expectation(distribution, lambda y: (y - mean) ** 2)

    assert expectation(distribution, np.ones_like) == pytest.approx(1.0, abs=1e-6)
    assert expectation(distribution, lambda y: y - mean) == pytest.approx(0.0, abs=1e-6)
    assert distribution.variance() == pytest.approx(variance, rel=1e-6, abs=1e-12)


@PROPERTY
@given(st.one_of(mixtures(), bars()), arrays(float, 20, elements=st.floats(-10, 10)))
def test_cdf_of_random_distributions_never_falls_and_stays_in_the_unit_interval(
    distribution: Distribution, y: np.ndarray
) -> None:
    levels = distribution.cdf(np.sort(y))

    assert (np.diff(levels) >= -1e-15).all()
    assert (levels >= 0.0).all()
    assert (levels <= 1.0).all()


@pytest.mark.parametrize(
    "distribution",
    [Bars(BORDERS, np.zeros(20)), Mixture.of([0.0, 0.0], [0.2, 0.8], [-2.0, -2.0])],
    ids=["bars", "mixture"],
)
@pytest.mark.parametrize("level", [2.0**-20, 2.0**-50])
def test_quantiles_of_a_symmetric_distribution_are_as_exact_at_the_top_as_at_the_bottom(
    distribution: Distribution, level: float
) -> None:
    bottom, top = distribution.icdf([level, 1.0 - level])

    assert bottom + top == pytest.approx(1.0, abs=1e-9)


# Bars: bins, borders, tails ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bars-uniform", "bars-random", "bars-uneven"])
def test_bars_at_their_borders_have_the_mass_of_the_bins_before(name: str) -> None:
    distribution = CASES[name]
    assert isinstance(distribution, Bars)
    mass = np.exp(distribution.logits) / np.exp(distribution.logits).sum()
    inner = distribution.borders[1:-1]

    np.testing.assert_allclose(distribution.cdf(inner), np.cumsum(mass)[:-1], atol=1e-14)
    np.testing.assert_allclose(distribution.cdf(np.nextafter(inner, -INF)), np.cumsum(mass)[:-1], atol=1e-12)
    # A border belongs to the bin on its right.
    widths = np.diff(distribution.borders)
    np.testing.assert_allclose(np.exp(distribution.log_prob(inner[:-1])), (mass / widths)[1:-1], rtol=1e-12)


def test_bars_hold_half_of_each_tails_mass_inside_its_bin() -> None:
    distribution = CASES["bars-uneven"]
    assert isinstance(distribution, Bars)
    mass = np.exp(distribution.logits) / np.exp(distribution.logits).sum()

    assert distribution.cdf(UNEVEN[0]) == pytest.approx(mass[0] / 2, rel=1e-12)
    assert 1 - distribution.cdf(UNEVEN[-1]) == pytest.approx(mass[-1] / 2, rel=1e-12)


@pytest.mark.parametrize("rest", [-60.0, -INF])
def test_bars_with_one_hot_logits_are_flat_inside_that_bin(rest: float) -> None:
    distribution = Bars(BORDERS, one_hot(7, rest))

    np.testing.assert_allclose(distribution.icdf(LEVELS), BORDERS[7] + LEVELS * 0.05, rtol=1e-12)
    assert distribution.mean() == pytest.approx(0.375)
    assert distribution.variance() == pytest.approx(0.05**2 / 12)


def test_bars_read_their_logits_once_however_many_quantiles_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forecast of a batch asks for its quantiles one by one; each used to go through all bins of all steps."""
    read = []
    monkeypatch.setattr("epochcast.distributions.softmax", lambda logits: read.append(logits) or softmax(logits))
    bars = Bars(np.linspace(0.0, 1.0, 11), np.random.default_rng(0).normal(size=(3, 10)))
    for level in (0.05, 0.5, 0.95):
        bars.cdf(bars.icdf(level))
    bars.mean(), bars.variance()
    assert len(read) == 1


def test_bars_never_put_a_quantile_into_bins_without_mass() -> None:
    # Among many draws the masses of some add up to a little less than one.
    logits = np.random.default_rng(8).normal(size=(500, 20))
    logits[:, 15:] = -INF

    assert (Bars(BORDERS, logits).icdf(1 - 1e-16) <= BORDERS[15] + 1e-12).all()


def test_bars_with_uniform_logits_are_uniform_between_the_tails() -> None:
    y = np.linspace(0.05, 0.95, 19)

    np.testing.assert_allclose(CASES["bars-uniform"].cdf(y), y, atol=1e-14)
    np.testing.assert_allclose(CASES["bars-uniform"].log_prob(y[:-1]), 0.0, atol=1e-14)


# Mixtures against scipy --------------------------------------------------------------------------------------------


def test_mixture_equals_the_weighted_sum_of_its_components() -> None:
    weights, means, scales = np.array([0.2, 0.5, 0.3]), np.array([0.1, 0.5, 0.9]), np.array([0.2, 0.05, 0.01])
    mixture = Mixture.of(np.log(weights) + 3.0, means, np.log(scales))
    y = np.linspace(-0.5, 1.5, 101)
    components = stats.norm(means, scales)

    np.testing.assert_allclose(mixture.log_prob(y), np.log(components.pdf(y[:, None]) @ weights), rtol=1e-12)
    np.testing.assert_allclose(mixture.cdf(y), components.cdf(y[:, None]) @ weights, atol=1e-15)


def test_mixture_of_one_component_has_the_quantiles_of_the_normal_law() -> None:
    mixture = Mixture.of([0.0], [0.3], [-2.0])

    np.testing.assert_allclose(mixture.icdf(LEVELS), stats.norm(0.3, np.exp(-2.0)).ppf(LEVELS), rtol=1e-12)


def test_mixture_of_many_components_with_scales_far_apart_has_exact_quantiles() -> None:
    rng = np.random.default_rng(3)
    parameters = rng.normal(0, 1, (2000, 20)), rng.uniform(-2, 3, (2000, 20)), rng.uniform(-15, 2, (2000, 20))
    mixture = Mixture.of(*parameters)  # plain Newton steps crawl on these
    levels = np.array([1e-6, 0.05, 0.5, 0.95, 1 - 1e-6])[:, None]

    np.testing.assert_allclose(mixture.cdf(mixture.icdf(levels)), np.broadcast_to(levels, (5, 2000)), rtol=1e-6)


# Batches -----------------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(11)
BATCHES: dict[str, Distribution] = {
    "bars": Bars(BORDERS, RNG.normal(0, 2, (3, 4, 20))),
    "mixture": Mixture.of(RNG.normal(0, 2, (3, 4, 5)), RNG.random((3, 4, 5)), RNG.normal(-4, 2, (3, 4, 5))),
}
each_batch = pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES.keys())


@each_batch
def test_batch_equals_its_single_distributions(batch: Distribution) -> None:
    y, q = np.random.default_rng(12).random((2, 3, 4))
    answers = {"log_prob": batch.log_prob(y), "cdf": batch.cdf(y), "icdf": batch.icdf(q)}
    answers |= {"mean": batch.mean(), "variance": batch.variance()}
    arguments = {"log_prob": y, "cdf": y, "icdf": q}

    for name, answer in answers.items():
        assert answer.shape == batch.shape == (3, 4)
        for place in np.ndindex(3, 4):
            argument = [arguments[name][place]] if name in arguments else []
            single = getattr(batch[place], name)(*argument)
            assert single.shape == ()
            np.testing.assert_allclose(answer[place], single, rtol=1e-9, atol=1e-12)


@each_batch
def test_batch_broadcasts_levels_and_values_against_its_shape(batch: Distribution) -> None:
    quantiles = batch.icdf(LEVELS[:, None, None])

    assert quantiles.shape == (len(LEVELS), 3, 4)
    np.testing.assert_array_equal(quantiles[5], batch.icdf(0.5))
    np.testing.assert_array_equal(batch.cdf(np.full((7, 3, 4), 0.4))[3], batch.cdf(0.4))
    np.testing.assert_array_equal(batch.log_prob(np.full((7, 3, 4), 0.4))[3], batch.log_prob(0.4))


@each_batch
def test_samples_of_a_batch_are_independent_of_each_other(batch: Distribution) -> None:
    draws = batch.sample(4000, np.random.default_rng(13))
    ranks = stats.rankdata(draws, axis=0).reshape(4000, -1)
    correlations = np.corrcoef(ranks, rowvar=False)[np.triu_indices(12, 1)]

    assert draws.shape == (4000, 3, 4)
    assert np.abs(correlations).max() < 5 / np.sqrt(4000)
    assert np.array_equal(draws, batch.sample(4000, np.random.default_rng(13)))


@each_batch
@pytest.mark.parametrize(
    "index",
    [1, (1, 2), (slice(None), 2), (..., 0), ..., None, np.array([2, 0]), np.arange(12).reshape(3, 4) % 2 == 0],
    ids=["row", "cell", "column", "ellipsis-column", "ellipsis", "new-axis", "rows", "mask"],
)
def test_index_of_a_batch_selects_distributions_never_bins_or_components(batch: Distribution, index: Any) -> None:
    np.testing.assert_allclose(batch[index].cdf(0.5), batch.cdf(0.5)[index], rtol=1e-12)
    assert batch[index].shape == batch.mean()[index].shape


@each_batch
def test_index_with_more_axes_than_the_batch_raises(batch: Distribution) -> None:
    with pytest.raises(IndexError):
        batch[0, 0, 0]


@each_kind
def test_distribution_leaves_the_callers_arrays_alone(name: str) -> None:
    distribution = CASES[name]
    for array in vars(distribution).values():
        array.setflags(write=False)
    y, q = np.array([0.5]), np.array([0.5])
    y.setflags(write=False)
    q.setflags(write=False)

    distribution.log_prob(y), distribution.cdf(y), distribution.icdf(q)
    distribution.mean(), distribution.variance(), distribution.sample(3, np.random.default_rng(0))


# Bad input ---------------------------------------------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 1.1, np.nan])
def test_quantile_at_a_level_outside_the_open_unit_interval_raises(name: str, level: float) -> None:
    with pytest.raises(InputError, match=f"quantile level {level} is not inside"):
        CASES[name].icdf([0.5, level])


@pytest.mark.parametrize(
    ("build", "fragment"),
    [
        (lambda: Bars(np.linspace(0, 1, 4), np.zeros(4)), "4 borders do not fit 4 bins"),
        (lambda: Bars(np.linspace(0, 1, 3), np.zeros(2)), "at least 3"),
        (lambda: Bars(np.array([0.0, 1.0, 1.0, 2.0]), np.zeros(3)), "rise strictly"),
        (lambda: Bars(np.array([0.0, 1.0, np.nan, 2.0]), np.zeros(3)), "rise strictly"),
        (lambda: Mixture.of(np.zeros(3), np.zeros(2), np.zeros(3)), "differ in shape"),
    ],
    ids=["too-many-bins", "too-few-bins", "equal-borders", "nan-border", "shapes"],
)
def test_distribution_that_cannot_exist_raises(build: Callable[[], Any], fragment: str) -> None:
    with pytest.raises(InputError) as caught:
        build()
    assert fragment in str(caught.value)


def test_mixtures_of_different_widths_are_joined_without_a_change() -> None:
    rng = np.random.default_rng(0)

    def drawn(count: int, components: int) -> Mixture:
        shape = (count, 3, components)
        return Mixture.of(rng.normal(size=shape), rng.normal(size=shape), 0.3 * rng.normal(size=shape))

    narrow, wide = drawn(2, 4), drawn(5, 9)
    both = joined([narrow, wide])
    assert both.shape == (7, 3)
    y = rng.normal(size=(7, 3))
    for rows, part in ((slice(0, 2), narrow), (slice(2, 7), wide)):
        np.testing.assert_allclose(both[rows].log_prob(y[rows]), part.log_prob(y[rows]), rtol=1e-12)
        np.testing.assert_allclose(both[rows].icdf(0.3), part.icdf(0.3), rtol=1e-9)
        np.testing.assert_allclose(both[rows].variance(), part.variance(), rtol=1e-12)
    assert both.sample(1_000, rng).shape == (1_000, 7, 3)


@pytest.mark.parametrize("place", [0.3679, 0.36790704081025521])
def test_quantiles_of_a_mixture_with_a_narrow_component_take_few_steps(monkeypatch, place):
    """As networks see a run that stays; bisection takes up to 42 steps to find the component and to settle in it."""
    means, scales = np.array([0.3678, 0.3685, place, 0.5]), np.array([6e-3, 1e-3, 3e-7, 0.4])
    mixture = Mixture.of(np.log([1e-3, 2e-2, 0.978, 1e-3]), means, np.log(scales))
    asked = []
    newton_step = Mixture._newton_step
    monkeypatch.setattr(Mixture, "_newton_step", lambda *given: asked.append(1) or newton_step(*given))
    for level in (0.001, 0.02, 0.25, 0.5, 0.75, 0.98, 0.999):
        asked.clear()
        assert mixture.cdf(mixture.icdf(level)) == pytest.approx(level, rel=1e-6)
        assert len(asked) <= 25


def test_quantiles_of_a_mixture_whose_components_lie_next_to_each_other_are_exact():
    """A step from one to the other is next to nothing, which says nothing of how far the quantile is."""
    mixture = Mixture.of(np.zeros(3), np.array([8.67e-19, 2.0, 0.0]), np.full(3, -1.0))
    levels = np.linspace(0.01, 0.99, 99)
    np.testing.assert_allclose(mixture.cdf(mixture.icdf(levels)), levels, rtol=1e-9)
