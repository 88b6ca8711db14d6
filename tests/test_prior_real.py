"""The prior of real curves: its rates, what each ingredient does, and that a curve does not depend on its grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from scipy import stats

from epochcast import metric
from epochcast.errors import ConfigError, InputError
from epochcast.metric import Metric
from epochcast.normalize import Normalizer
from epochcast.prior import paper, real
from epochcast.prior.real import noise, run, setbacks, trend
from epochcast.prior.real.config import draw_ingredients, parent
from epochcast.prior.real.grid import MOST_STEPS, Grid
from epochcast.prior.real.ingredient import EVERY, Group, Ingredient, Table, Temper
from epochcast.prior.real.measure import loss_level
from epochcast.prior.real.schedule import Outline, Schedule, constant, warmup
from epochcast.prior.real.source import Source
from epochcast.prior.real.table import PAPER_KINDS, SCHEDULES, TABLE, TOKEN_SCHEDULES, WHOLE
from tests.checkout import RESEARCH, ROOT, in_a_checkout, research

DATA = ROOT.parent / "shared" / "data"

STEPS = np.arange(1.0, 101.0)
SMALLEST_P = 1e-5
RATES = dict(real.RealPriorConfig())
BARE = real.RealPriorConfig.bare()
SETBACKS = [name for name, ingredient in TABLE.items() if ingredient.temper is Temper.SETBACK]
FORMS = {form.name: form.law for form in TABLE.among(SCHEDULES)}
UNTRAINED_LOSS = 0.36787944117144233  # appendix A: what the normalisation makes of a loss at its untrained value


def source(size: int, seed: int) -> Source:
    return Source(np.random.default_rng(seed), size)


def draw(size: int, seed: int = 1, config: real.RealPriorConfig | None = None, steps=STEPS, horizon=100.0):
    return real.sample(size, np.random.default_rng(seed), steps, horizon, config)


@pytest.fixture(scope="module")
def many() -> real.RealDraw:
    return draw(6_000)


# The table of rates --------------------------------------------------------------------------------------------------


def appears_at_rate(name: str, rate: float, has: dict[str, np.ndarray]) -> bool:
    """Whether the share of an ingredient among the curves that may have it agrees with a rate."""
    candidates = has[parent(name)] if parent(name) else np.ones(len(has[name]), dtype=bool)
    p = stats.binomtest(int(has[name].sum()), int(candidates.sum()), rate).pvalue
    return float(p) > SMALLEST_P


@pytest.fixture(scope="module")
def ingredients() -> dict[str, np.ndarray]:
    """Of runs over epochs and over iterations, half and half, all on steps that grow geometrically."""
    halves = [
        draw_ingredients(source(600_000, 7 + long), real.RealPriorConfig(), geometric=True, iterations=bool(long))
        for long in range(2)
    ]
    return {name: np.concatenate([half[name] for half in halves]) for name in halves[0]}


@pytest.mark.parametrize("name", RATES)
def test_ingredient_appears_at_its_rate_and_a_wrong_rate_is_rejected(name: str, ingredients) -> None:
    assert appears_at_rate(name, RATES[name], ingredients)
    assert not appears_at_rate(name, RATES[name] * 1.3 if RATES[name] < 0.5 else RATES[name] - 0.15, ingredients)


@pytest.mark.parametrize("name", RATES)
def test_ingredient_without_its_parent_never_appears(name: str, ingredients) -> None:
    if parent(name) is not None:
        assert not (ingredients[name] & ~ingredients[parent(name)]).any()


def test_ingredients_of_an_exclusive_group_never_meet(ingredients) -> None:
    for group in (WHOLE, PAPER_KINDS, SCHEDULES, TOKEN_SCHEDULES):
        assert np.sum([ingredients[member.name] for member in TABLE.among(group)], axis=0).max() == 1


@pytest.mark.parametrize("name", [*SETBACKS, "smooth"])
def test_tame_runs_have_few_setbacks_and_more_of_them_are_smooth(name: str, ingredients) -> None:
    candidates = ingredients[parent(name)]
    tame, other = (
        ingredients[name][candidates & temper].mean() for temper in (ingredients["tame"], ~ingredients["tame"])
    )
    often, seldom = (tame, other) if name == "smooth" else (other, tame)
    assert seldom < 0.2 * often
    assert often + seldom == pytest.approx(2.0 * RATES[name], rel=0.1)  # half of the runs are tame


def test_ingredient_that_all_curves_have_is_had_by_tame_ones_too() -> None:
    has = draw_ingredients(source(5_000, 8), BARE.but(tame=0.5, dips=1.0, smooth=1.0))
    assert has["dips"].all()
    assert has["smooth"].all()
    assert appears_at_rate("tame", 0.5, has)


def test_draw_reports_the_ingredients_that_its_rates_ask_for(many: real.RealDraw) -> None:
    elsewhere = ("amounts", "text", "warped_long", "noise_grows_long")
    on_these_steps = {name: rate for name, rate in RATES.items() if name not in elsewhere}
    assert all(appears_at_rate(name, rate, many.ingredients) for name, rate in on_these_steps.items())
    for name in elsewhere:  # steps 1, 2, 3, ... count epochs
        assert not many.ingredients[name].any()


def test_config_with_a_rate_that_is_no_probability_names_it() -> None:
    with pytest.raises(ConfigError, match=r"dips=1\.5"):
        real.RealPriorConfig(dips=1.5)
    with pytest.raises(ConfigError, match=r"paper=-0\.1"):
        real.RealPriorConfig(paper=-0.1)


def test_config_with_an_exclusive_group_above_one_names_the_sum() -> None:
    with pytest.raises(ConfigError, match=r"cosine.*sum to 1\.3"):
        BARE.but(cosine=0.8, drops=0.5)


def of_two(of: str = EVERY) -> Table:
    rows = (Ingredient("late", 0.5, of, ""), Ingredient("early", 0.5, EVERY, ""))
    return Table(rows, (Group("either", any_of=("late", "early")),))


def test_table_with_a_misspelt_parent_fails_when_it_is_made() -> None:
    with pytest.raises(ConfigError, match=r"'late' of the table needs 'earyl'"):
        of_two("earyl")


def test_table_whose_ingredients_need_each_other_fails_when_it_is_made() -> None:
    with pytest.raises(ConfigError, match="need each other"):
        Table((Ingredient("a", 0.5, "b", ""), Ingredient("b", 0.5, "a", "")), ())


def test_table_in_another_order_draws_the_same() -> None:
    rows = [Ingredient(name, 0.5, of, "") for name, of in (("c", "b"), ("a", EVERY), ("b", "a"), ("d", "any"))]
    groups = [Group("any", any_of=("a", "b"))]
    rates = {row.name: row.rate for row in rows}
    first, second = (Table(order, groups).draw(source(500, 3), rates, {}) for order in (rows, rows[::-1]))
    for name in rates:
        np.testing.assert_array_equal(first[name], second[name])
    assert not (first["c"] & ~first["a"]).any()


def test_config_with_an_unknown_ingredient_names_it() -> None:
    with pytest.raises(ConfigError, match="'dipz' is no ingredient"):
        real.RealPriorConfig(dipz=0.1)


def test_source_of_some_rows_draws_for_these_and_knows_which_they_are() -> None:
    some = source(10, 4)[np.array([2, 5, 7])]
    assert some.uniform().shape == (3, 1)
    assert some.white(20).shape == (3, 20)
    assert some.rows.tolist() == [2, 5, 7]
    assert some[np.array([True, False, True])].rows.tolist() == [2, 7]


# The curves ----------------------------------------------------------------------------------------------------------


GRIDS = {
    "horizon 2": (np.array([1.0, 2.0]), 2.0),
    "horizon 7": (np.arange(1.0, 8.0), 7.0),
    "horizon 100": (STEPS, 100.0),
    "horizon 1000": (np.arange(10.0, 1001.0, 10.0), 1000.0),
    "geometric": (np.geomspace(0.02, 36.0, 17), 36.0),
    "irregular": (np.array([0.5, 3.0, 3.5, 40.0, 900.0, 999.0]), 1000.0),
    "one step": (np.array([5.0]), 50.0),
}


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_curves_on_any_grid_are_finite_and_bounded(grid) -> None:
    steps, horizon = grid
    curves = draw(2_000, steps=steps, horizon=horizon)
    bounded = curves.kinds != metric.UNTOLD

    for array in (curves.noisy, curves.noiseless, curves.white_sd):
        assert array.shape == (2_000, len(steps))
        assert np.isfinite(array).all()
    assert (curves.white_sd >= 0.0).all()
    assert ((curves.noiseless >= 0.0) & (curves.noiseless <= 1.0)).all()
    assert ((curves.noisy[bounded] >= 0.0) & (curves.noisy[bounded] <= 1.0)).all()
    assert ((curves.untrained >= 0.0) & (curves.untrained <= 1.0)).all()


def test_noise_of_the_papers_curves_leaves_the_unit_interval_unless_a_metric_is_told(many: real.RealDraw) -> None:
    told = many.kinds != metric.UNTOLD
    own, as_metric = (many.noisy[many.ingredients["paper"] & chosen] for chosen in (~told, told))
    assert ((own < 0.0) | (own > 1.0)).any()
    assert ((as_metric >= 0.0) & (as_metric <= 1.0)).all()
    assert (as_metric[:, 1:] == 1.0).mean() < 0.002  # its noise has room: it is not just cut off


def test_sample_with_the_same_seed_is_equal_and_with_another_is_not() -> None:
    first, again, other = draw(700, seed=3), draw(700, seed=3), draw(700, seed=4)
    assert np.array_equal(first.noisy, again.noisy)
    assert np.array_equal(first.untrained, again.untrained)
    assert not np.array_equal(first.noisy, other.noisy)


def test_sample_of_no_curves_is_empty() -> None:
    assert draw(0).noisy.shape == (0, 100)


@pytest.mark.parametrize(
    ("size", "steps", "horizon", "problem"),
    [
        (-1, STEPS, 100.0, "size=-1"),
        (1, STEPS, 1.0, r"horizon=1\.0"),
        (1, STEPS, np.inf, "horizon=inf"),
        (1, STEPS, 99.0, "horizon=99"),
        (1, [0.0, 1.0], 10.0, r"from 0\.0"),
        (1, [2.0, 2.0], 10.0, "must rise"),
        (1, [], 10.0, "at least one step"),
        (1, [[1.0, 2.0]], 10.0, "shape"),
        (1, [1.0, np.nan], 10.0, "must rise"),
    ],
)
def test_sample_of_impossible_curves_is_an_error_that_names_them(size, steps, horizon, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        real.sample(size, np.random.default_rng(0), steps, horizon)


# What is measured ----------------------------------------------------------------------------------------------------


def test_loss_level_equals_the_normalisation_of_a_log_loss() -> None:
    error = np.array([0.0, 0.3, 1.0, 4.0, 1e3])
    normalizer = Normalizer.of(Metric.named("log_loss", untrained=2.5))
    np.testing.assert_allclose(loss_level(error), normalizer.forward(2.5 * error), rtol=1e-12)


def test_untrained_loss_is_where_the_normalisation_puts_it() -> None:
    assert draw(50, config=BARE.but(loss=1.0)).untrained == pytest.approx(UNTRAINED_LOSS)


def test_first_as_reference_starts_every_loss_at_the_untrained_level() -> None:
    curves = draw(300, config=BARE.but(loss=1.0, first_as_reference=1.0))
    assert curves.noisy[:, 0] == pytest.approx(UNTRAINED_LOSS)
    assert (curves.untrained < UNTRAINED_LOSS + 1e-9).mean() > 0.9  # the first step is mostly a gain
    assert draw(300, config=BARE.but(loss=1.0)).noisy[:, 0] != pytest.approx(UNTRAINED_LOSS)


def test_first_as_reference_starts_the_papers_losses_at_the_untrained_level_and_keeps_their_order() -> None:
    by_first, as_drawn = (
        draw(300, config=BARE.but(paper=1.0, paper_loss=1.0, first_as_reference=rate)) for rate in (1.0, 0.0)
    )
    at_first = np.isclose(by_first.noisy[:, 0], UNTRAINED_LOSS)
    assert at_first.mean() > 0.95  # the others had come so far below their start that they are measured anew
    moves, drawn_moves = (np.diff(values.noiseless[:, 1:]) for values in (by_first, as_drawn))
    finite = (as_drawn.noiseless[:, 1:-1] > 0.01) & at_first[:, None]  # losses below it are as good as infinite
    assert np.array_equal(moves[finite] > 0.0, drawn_moves[finite] > 0.0)
    assert as_drawn.noisy[:, 0] != pytest.approx(UNTRAINED_LOSS)


def test_quantised_values_are_counts_of_examples() -> None:
    curves = draw(300, config=BARE.but(quantised=1.0))
    counts = curves.noisy * curves.examples[:, None]
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-6)
    assert not np.allclose(curves.noiseless * curves.examples[:, None], np.round(counts), atol=1e-6)


def test_accuracies_are_the_noisier_the_fewer_examples_they_count() -> None:
    curves = draw(12_000, config=BARE.but(quantised=1.0))
    sd = np.median(curves.white_sd[:, 50:], axis=1)
    few, many = curves.examples < 200, curves.examples > 10_000
    assert np.median(sd[few]) > 1.3 * np.median(sd[many])


def test_kinds_are_those_of_the_metric_and_told_of_some_of_the_papers_curves(many: real.RealDraw) -> None:
    made_of = many.ingredients
    assert (many.kinds[made_of["loss"]] == metric.LOSS).all()
    shares = (made_of["accuracy"] & ~made_of["unbounded"]) | made_of["toggling"]
    assert (many.kinds[shares] == metric.SHARE).all()
    assert set(many.kinds[made_of["unbounded"]]) == {metric.UNTOLD}
    untold = made_of["paper"] & ~made_of["paper_accuracy"] & ~made_of["paper_loss"]
    assert set(many.kinds[untold]) == {metric.UNTOLD}
    assert set(many.kinds[made_of["paper_accuracy"]]) == {metric.SHARE}
    assert set(many.kinds[made_of["paper_loss"]]) == {metric.LOSS}
    still = many.kinds[made_of["constant"]]
    assert {metric.LOSS, metric.SHARE} == set(still)


def test_observe_with_fresh_normals_follows_the_white_noise(many: real.RealDraw) -> None:
    rng = np.random.default_rng(8)
    z = rng.standard_normal((2, *many.noisy.shape))
    values = many.observe(z)
    inside = (many.noiseless > 0.2) & (many.noiseless < 0.8) & (many.white_sd > 1e-9) & (many.examples == 0)[:, None]

    def is_white(sd: np.ndarray) -> bool:
        residual = ((many.noisy - many.noiseless)[inside] / sd[inside])[:20_000]
        return float(stats.kstest(residual, "norm").pvalue) > SMALLEST_P

    assert values.shape == z.shape
    settled = inside & (np.abs(many.white_sd) < 0.05)
    np.testing.assert_allclose(values[0][settled], (many.noiseless + many.white_sd * z[0])[settled], rtol=1e-9)
    assert is_white(many.white_sd)
    assert not is_white(1.1 * many.white_sd)


def test_observe_with_zeros_is_the_noiseless_curve_up_to_rounding(many: real.RealDraw) -> None:
    gap = np.abs(many.observe(np.zeros_like(many.noisy)) - many.noiseless)
    assert gap[many.examples == 0].max() == 0.0
    assert (gap[many.examples > 0] <= 0.5 / many.examples[many.examples > 0, None] + 1e-12).all()


def test_noise_scales_reach_from_a_tenth_to_a_millionth(many: real.RealDraw) -> None:
    moving = many.white_sd.max(axis=1) > 0.0
    low, high = np.quantile(np.median(many.white_sd[moving], axis=1), [0.05, 0.99])
    assert low < 1e-6
    assert high > 0.05


# A curve does not depend on its grid ---------------------------------------------------------------------------------


def grid_statistics(values: np.ndarray) -> dict[str, np.ndarray]:
    """What a coarse grid shows of a curve."""
    jumps = np.diff(values, axis=1)
    return {
        "first": values[:, 0],
        "last": values[:, -1],
        "late gain": values[:, -1] - values[:, -3],
        "largest fall": jumps.min(axis=1),
        "roughness": np.log(np.median(np.abs(np.diff(jumps, axis=1)), axis=1) + 1e-9),
        "drawdown": values.max(axis=1) - values[:, -1],
    }


def law_is_the_same(left: np.ndarray, right: np.ndarray) -> bool:
    pairs = zip(grid_statistics(left).values(), grid_statistics(right).values(), strict=True)
    return all(float(stats.ks_2samp(a, b).pvalue) > SMALLEST_P for a, b in pairs)


def test_coarse_grid_has_the_law_of_the_thinned_fine_grid_and_a_wrong_horizon_has_not() -> None:
    # The first value may be the unit of a loss, or that of the untrained model: thinning changes it by right.
    config = real.RealPriorConfig(first_as_reference=0.0, counted_start=0.0)
    coarse = np.array([5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 80.0, 90.0, 100.0])
    thinned = draw(5_000, seed=5, config=config).noisy[:, np.searchsorted(STEPS, coarse)]

    assert law_is_the_same(thinned, draw(5_000, seed=6, config=config, steps=coarse).noisy)
    assert not law_is_the_same(thinned, draw(5_000, seed=6, config=config, steps=coarse, horizon=400.0).noisy)
    assert not law_is_the_same(thinned, draw(5_000, seed=6, config=config, steps=coarse / 5, horizon=100.0).noisy)


def test_correlated_noise_on_an_irregular_grid_is_stationary_and_forgets_with_distance() -> None:
    steps = np.array([0.1, 1.0, 1.5, 2.0, 40.0, 41.0, 95.0])
    path = noise.correlated(Grid.of(steps, 100.0), source(20_000, 9))
    correlation = np.corrcoef(path.T)
    assert path.std(axis=0) == pytest.approx(1.0, abs=0.03)
    assert correlation[2, 3] == pytest.approx(correlation[1, 2], abs=0.03)  # both half a step apart
    assert correlation[1, 2] > correlation[4, 5] > correlation[0, 6] + 0.3


def paper_statistics(values: np.ndarray) -> list[np.ndarray]:
    return [values[:, 0], values[:, 9], values[:, -1], values[:, -1] - values[:, 0], np.diff(values).std(axis=1)]


def test_paper_curves_follow_the_papers_prior_and_ordinary_runs_do_not() -> None:
    expected = paper_statistics(paper.sample(4_000, np.random.default_rng(10)).noisy)

    def agrees(config: real.RealPriorConfig) -> bool:
        own = paper_statistics(draw(4_000, seed=11, config=config).noisy)
        return all(stats.ks_2samp(a, b).pvalue > SMALLEST_P for a, b in zip(own, expected, strict=True))

    assert agrees(BARE.but(paper=1.0))
    assert not agrees(BARE)


# Schedules -----------------------------------------------------------------------------------------------------------


FINE = Grid.of(np.linspace(0.01, 100.0, 10_000), 100.0)


def outlines(size: int) -> Outline:
    rng = np.random.default_rng(12)
    end = rng.choice([60.0, 100.0, 250.0], (size, 1))
    start = end * rng.choice([0.0, 0.4], (size, 1))
    return Outline(start, end, rng.choice([0.0, 0.1], (size, 1)))


def clock_is_the_integral(schedule: Schedule) -> bool:
    left = np.cumsum(schedule.rate, axis=1) * 0.01
    return bool(np.allclose(schedule.clock, left, atol=0.15))


@pytest.mark.parametrize("name", FORMS)
def test_schedule_has_rates_of_at_most_one_and_a_clock_that_is_their_integral(name: str) -> None:
    schedule = FORMS[name](FINE, outlines(40), source(40, 13))
    assert schedule.rate.min() >= 0.0
    assert schedule.rate.max() <= 1.0
    assert clock_is_the_integral(schedule)
    assert not clock_is_the_integral(replace(schedule, rate=schedule.rate**1.2))


@pytest.mark.parametrize("cycles", range(2, 9))
def test_restarts_that_end_at_the_horizon_end_there_at_zero(cycles: int) -> None:
    steps = np.arange(1.0, 50.0 * cycles + 1.0)
    ends = Outline(np.zeros((50, 1)), np.full((50, 1), steps[-1]), np.zeros((50, 1)))
    rate = FORMS["restarts"](Grid.of(steps, steps[-1]), ends, source(50, 27)).rate
    assert rate[:, -1] == pytest.approx(0.0, abs=1e-12)
    assert rate.max() > 0.9


@pytest.mark.parametrize("name", ["cosine", "polynomial"])
def test_schedule_that_ends_at_the_horizon_ends_there_at_its_rest(name: str) -> None:
    ends = Outline(np.zeros((3, 1)), np.full((3, 1), 100.0), np.array([[0.0], [0.01], [0.3]]))
    rate = FORMS[name](FINE, ends, source(3, 14)).rate
    assert rate[:, -1] == pytest.approx([0.0, 0.01, 0.3])
    assert (np.diff(rate) <= 0.0).all()


def test_drops_are_often_at_round_shares_of_the_run_and_not_all_of_them() -> None:
    runs = 4_000
    outline = Outline(*(np.full((runs, 1), x) for x in (0.0, 100.0, 0.0)))
    turn = FORMS["drops"](Grid.of(STEPS, 100.0), outline, source(runs, 37)).turn
    assert 0.4 < np.isin((turn * 60.0).round(6), np.arange(6_001.0)).mean() < 0.6  # round shares are whole sixtieths


def test_warmup_of_a_constant_rate_has_the_clock_of_a_ramp() -> None:
    ones = np.ones((20, len(FINE.steps)))
    steady = Schedule(ones, ones, ones * FINE.steps, np.full(20, np.inf))
    warm = warmup(FINE, steady, source(20, 15))
    assert (warm.rate[:, 0] < 0.1).all()
    assert clock_is_the_integral(warm)


# What each ingredient does -------------------------------------------------------------------------------------------


def roughness(values: np.ndarray) -> np.ndarray:
    return np.median(np.abs(np.diff(values, n=2, axis=1)), axis=1)


def roughness_decay(values: np.ndarray) -> np.ndarray:
    return np.log10(roughness(values[:, -20:]) + 1e-9) - np.log10(roughness(values[:, :40]) + 1e-9)


def gain_of_the_last_half(values: np.ndarray) -> np.ndarray:
    return (values[:, -1] - values[:, 49]) / (np.ptp(values, axis=1) + 1e-9)


def pick_up(values: np.ndarray) -> np.ndarray:
    """The most by which a gain is larger than the one before it, after the first steps."""
    return np.diff(values[:, 3:], n=2, axis=1).max(axis=1)


def late_pick_up(values: np.ndarray) -> np.ndarray:
    """By how much the largest gain of ten steps late in the run beats the one half way."""
    gains = values[:, 10:] - values[:, :-10]
    return (gains[:, 40:].max(axis=1) - gains[:, 35]) / np.ptp(values[:, 20:], axis=1)


def bends(values: np.ndarray) -> np.ndarray:
    """How far a curve is from the cubic that fits it best over the logarithm of its last nine tenths."""
    place = np.log(STEPS[9:])
    basis = np.linalg.qr(np.vander(place, 6))[0]
    own = values[:, 9:]
    return np.log10(np.abs(own - own @ basis @ basis.T).max(axis=1) / (np.ptp(own, axis=1) + 1e-9) + 1e-9)


def drawdown(values: np.ndarray) -> np.ndarray:
    return (np.maximum.accumulate(values, axis=1) - values).max(axis=1)


def recovered(values: np.ndarray) -> np.ndarray:
    return drawdown(values) - (values.max(axis=1) - values[:, -1])


def smooth_run_length(values: np.ndarray) -> np.ndarray:
    """Correlation of neighbouring differences, low for white noise."""
    jumps = np.diff(values[:, 50:], axis=1)
    return (jumps[:, 1:] * jumps[:, :-1]).mean(axis=1) / ((jumps**2).mean(axis=1) + 1e-18)


SMOOTH = BARE.but(smooth=1.0)
COSINE = SMOOTH.but(cosine=1.0, ends_at_horizon=1.0)
LOSS = SMOOTH.but(loss=1.0)
TOKENS = LOSS.but(text_epochs=1.0)

# ingredient, what it is added to, a statistic, and whether it makes that larger (+1) or smaller (-1)
EFFECTS: list[tuple[str, real.RealPriorConfig, Callable[[np.ndarray], np.ndarray], int]] = [
    ("paper_quiet", BARE.but(paper=1.0), roughness, -1),
    ("constant", BARE, lambda v: np.ptp(v, axis=1), -1),
    ("toggling", BARE, lambda v: np.array([len(np.unique(row)) for row in v]), -1),
    ("barely_moving", LOSS, lambda v: np.ptp(v, axis=1), -1),
    ("barely_moving_accuracy", SMOOTH, lambda v: np.ptp(v, axis=1), -1),
    ("gap", COSINE, gain_of_the_last_half, +1),
    ("gap_accuracy", COSINE, gain_of_the_last_half, +1),
    ("gap_noise", COSINE.but(gap=1.0), lambda v: roughness(v[:, :40]), +1),
    ("wild", LOSS, lambda v: v[:, -40:].min(axis=1), -1),
    ("noise_follows_schedule", COSINE.but(smooth=0.0), roughness_decay, -1),
    ("paced", COSINE, lambda v: gain_of_the_last_half(v), -1),
    ("warmup", COSINE.but(paced=1.0), lambda v: v[:, 0], -1),
    ("hold", COSINE.but(gap=1.0, gap_noise=1.0), gain_of_the_last_half, +1),
    ("rest", COSINE.but(smooth=0.0, noise_follows_schedule=1.0), roughness_decay, +1),
    ("drops", SMOOTH.but(ends_at_horizon=1.0, gap=1.0), pick_up, +1),
    ("restarts", SMOOTH.but(ends_at_horizon=1.0, gap=1.0), recovered, +1),
    ("hold_decay", SMOOTH.but(ends_at_horizon=1.0, gap=1.0), pick_up, +1),
    ("gap_drops", SMOOTH.but(ends_at_horizon=1.0, drops=1.0), pick_up, +1),
    ("gap_tokens", TOKENS.but(tokens_hold_decay=1.0, ends_at_horizon=1.0), late_pick_up, +1),
    ("warped", LOSS.but(paper_trend=1.0), bends, +1),
    ("strayed", LOSS.but(paper_trend=1.0), bends, +1),
    ("warped_tokens", TOKENS, bends, +1),
    ("text_epochs", LOSS, lambda v: (v[:, -1] - v[:, 19]) / np.ptp(v, axis=1), -1),
    ("stays", SMOOTH, lambda v: v[:, -1] - v[:, -30], -1),
    ("memorising", LOSS, lambda v: v.max(axis=1) - v[:, -1], +1),
    ("exploding", LOSS, lambda v: v[:, -1], -1),
    ("paper_trend", LOSS, gain_of_the_last_half, -1),
    ("slow_start", SMOOTH, lambda v: np.abs(np.diff(v)).argmax(axis=1), +1),
    ("slow_accuracy", SMOOTH, lambda v: np.abs(np.diff(v)).argmax(axis=1), +1),
    ("worsening", LOSS, lambda v: v[:, -1] - v[:, 0], -1),
    ("too_slow", LOSS, lambda v: np.ptp(v, axis=1), -1),
    ("too_slow_accuracy", SMOOTH, lambda v: np.ptp(v, axis=1), -1),
    ("counted_start", SMOOTH, lambda v: v[:, 0], -1),
    ("delay", SMOOTH, lambda v: v[:, 3] - v[:, 0], -1),
    ("late_accuracy", SMOOTH, lambda v: v[:, 3] - v[:, 0], -1),
    ("stall", SMOOTH, pick_up, +1),
    ("bad_start", LOSS, lambda v: v[:, 0], -1),
    ("far_start", LOSS, lambda v: v[:, -1], +1),
    ("second_wind", SMOOTH, pick_up, +1),
    ("solved", LOSS, lambda v: v[:, -1], +1),
    ("overfitting", LOSS, lambda v: v.max(axis=1) - v[:, -1], +1),
    ("wandering", SMOOTH, drawdown, +1),
    ("unstable", LOSS, drawdown, +1),
    ("unstable_accuracy", SMOOTH, drawdown, +1),
    ("double_descent", SMOOTH, recovered, +1),
    ("spikes", SMOOTH, recovered, +1),
    ("collapse", LOSS, lambda v: v[:, -1], -1),
    ("collapse_accuracy", SMOOTH, lambda v: v[:, -1], -1),
    ("tame", BARE, roughness, -1),
    ("smooth", BARE, roughness, -1),
    ("noise_decays", BARE, roughness_decay, -1),
    ("noise_grows", BARE, roughness_decay, +1),
    ("late_bloom", LOSS.but(paper_trend=1.0), gain_of_the_last_half, +1),
    ("noise_follows_error", BARE, roughness, -1),
    ("correlated", BARE, smooth_run_length, +1),
    ("heavy_tailed", BARE, lambda v: stats.kurtosis(np.diff(v[:, 50:]), axis=1), +1),
    ("dips", SMOOTH, lambda v: -np.diff(v, axis=1).min(axis=1), +1),
]


@pytest.mark.parametrize(("name", "base", "statistic", "sign"), EFFECTS, ids=[effect[0] for effect in EFFECTS])
def test_ingredient_moves_its_statistic_the_right_way(name, base, statistic, sign) -> None:
    without, again = (np.nan_to_num(statistic(draw(1_000, seed=seed, config=base).noisy)) for seed in (16, 17))
    with_it = np.nan_to_num(statistic(draw(1_000, seed=18, config=base.but(**{name: 1.0})).noisy))

    def larger(left: np.ndarray, right: np.ndarray) -> bool:
        return float(stats.mannwhitneyu(left, right, alternative="greater").pvalue) < 1e-4

    assert larger(sign * with_it, sign * without)
    assert not larger(sign * again, sign * without)  # two draws without it do not differ


def test_far_start_is_mended_within_some_steps_and_leaves_the_curve_small() -> None:
    error, trained = np.full((500, 4), 0.8), np.array([0.0, 1.0, 50.0, 100.0])
    excess = np.full((500, 1), 20.0)
    values = trend.far_start(error, trained, excess, 100.0, source(500, 34))
    assert values[:, 0] == pytest.approx(1.0 - 0.2 / 20.0)  # as far off as the untrained model, less what was learned
    assert (np.diff(values, axis=1) <= 0.0).all()
    assert values[:, 2:] == pytest.approx(0.8 / 20.0, abs=1e-6)


def test_far_start_shows_before_any_training() -> None:
    """A first evaluation that counts as a step but comes before training finds the untrained model."""
    config = LOSS.but(far_start=1.0, counted_start=1.0, first_as_reference=0.0)
    made = draw(300, seed=35, config=config)
    assert made.noiseless[:, 0] == pytest.approx(made.untrained, abs=1e-4)
    assert (made.noiseless[:, 9] > made.untrained).all()


def test_accuracies_come_closer_to_perfect_than_losses() -> None:
    loss = np.arange(5_000) % 2 == 0
    final = trend.final_error(loss, source(5_000, 30))[:, 0]
    assert ((final >= 0.0) & (final <= 1.0)).all()
    assert np.median(final[~loss]) < np.median(final[loss]) - 0.03


def test_gap_closes_last_where_high_rates_are_all_alike() -> None:
    """As in NAS-Bench-201: at half of the rate most of a gap is still open, at a tenth hardly any."""
    felt = np.repeat([[1.0, 0.5, 0.1, 0.0]], 5_000, axis=0)
    noisy, loss = np.ones(5_000, dtype=bool), np.arange(5_000) % 2 == 0
    gap = trend.gap(felt, np.zeros((5_000, 1)), noisy, loss, source(5_000, 29))
    assert np.median(gap[loss, 0]) < 0.5 * np.median(gap[~loss, 0])
    assert (np.diff(gap, axis=1) <= 0.0).all()
    assert (gap[:, -1] == 0.0).all()
    half, tenth = (gap[:, k] / gap[:, 0] for k in (1, 2))
    assert 0.1 < (half > 0.65).mean() < 0.5  # more open than any power of 0.6 or more would leave it
    assert (tenth[half > 0.65] < 0.3).mean() > 0.5


def test_overfitting_at_turn_never_begins_before_the_first_drop() -> None:
    base = SMOOTH.but(loss=1.0, drops=1.0, ends_at_horizon=1.0, overfitting=1.0)

    def falls_early(config: real.RealPriorConfig) -> bool:
        early = draw(500, seed=19, config=config).noiseless[:, :9]  # the first drop is at 10 % or later
        return bool((drawdown(early) > 0.01).any())

    assert not falls_early(base.but(overfitting_at_turn=1.0))
    assert falls_early(base)


def test_run_that_still_has_much_to_learn_loses_less_of_what_it_gained() -> None:
    def lost(error: float) -> np.ndarray:
        """The share of what was gained that the same setbacks take from runs that stand at this error."""
        grid = Grid.of(STEPS, 100.0)
        config = BARE.but(loss=1.0, overfitting=1.0)
        has = draw_ingredients(source(200, 31), config)
        errors = np.full((200, len(STEPS)), error)
        plan = constant(grid, 200)
        run._add_events(grid, errors, plan, np.ones((200, 1)), has, source(200, 33))
        return (errors[:, -1] - error) / (1.0 - error)

    learned = lost(0.2)
    assert (learned > 0.0).all()
    assert lost(0.8) == pytest.approx(learned * (0.2 / 0.8) ** 2)


def test_wild_run_is_worse_than_untrained_at_a_high_rate_and_settles_with_it() -> None:
    config = LOSS.but(cosine=1.0, ends_at_horizon=1.0, wild=1.0)
    values = draw(1_000, seed=32, config=config).noiseless
    assert (values[:, 5:20].min(axis=1) < UNTRAINED_LOSS).mean() > 0.3
    assert (np.ptp(values[:, -3:], axis=1) < 0.05).mean() > 0.95


def test_run_that_gets_worse_from_the_start_hardly_ever_takes_off() -> None:
    """Of LCBench's 70 such runs none did: there is nothing to overfit before something is learned."""
    values = draw(20_000, seed=23).noisy
    lost = values[:, 0] - values[:, 19]
    worse = ((np.diff(values[:, :20]) <= 0.0).mean(axis=1) > 0.85) & (lost > 1e-5)
    took_off = values.max(axis=1) - values[:, 0] > 5.0 * lost
    assert worse.sum() > 100
    assert took_off[worse].mean() < 0.1


def test_run_that_is_too_slow_gains_steadily_and_often_in_proportion_to_its_clock() -> None:
    values = draw(500, seed=24, config=BARE.but(too_slow_accuracy=1.0)).noiseless
    slowest = np.ptp(values, axis=1) < 0.005
    shares = (values[:, 49] - values[:, 0]) / (values[:, -1] - values[:, 0])
    assert slowest.sum() > 100
    assert shares[slowest].max() < 0.8
    assert 0.4 < (np.abs(shares[slowest] - 49 / 99) < 0.01).mean() < 0.8


def test_run_on_a_cosine_schedule_is_noisy_and_low_until_the_schedule_ends() -> None:
    """The shape of NAS-Bench-201: a plateau of noise, then a smooth rise to the end."""
    config = COSINE.but(smooth=0.0, gap=1.0, gap_noise=1.0, noise_follows_schedule=1.0, paced=1.0)
    values = draw(1_000, seed=20, config=config).noisy
    assert np.median(roughness_decay(values)) < -1.0
    assert np.median(values[:, -1] - values[:, 49]) > 0.03
    assert np.median(values[:, -1] - values[:, -3]) < 0.01


def test_run_with_learning_rate_drops_may_rise_from_0485_to_0624() -> None:
    """A plateau at 0.485 half-way that ends at 0.624 lies inside the central 95 % of what such accuracies become."""
    steps = np.arange(1.0, 121.0)
    values = draw(30_000, seed=21, steps=steps, horizon=120.0, config=real.RealPriorConfig(loss=0.0)).noisy
    plateau = np.abs(values[:, 50:60].mean(axis=1) - values[:, 40:50].mean(axis=1)) < 0.02
    alike = plateau & (np.abs(values[:, 59] - 0.485) < 0.05)
    gain = (values[:, -1] - values[:, 59])[alike]
    low, high = np.quantile(gain, [0.025, 0.975])
    assert alike.sum() > 300
    assert low < 0.624 - 0.485 < high


def test_changes_of_a_wandering_run_add_up_and_are_those_of_any_grid() -> None:
    """Over k steps the logarithm of the error moves sqrt(k) times as far as over one, whatever steps are looked at."""

    def moves(steps: np.ndarray, lag: int) -> np.ndarray:
        grid = Grid.of(steps, 100.0)
        walk = np.log1p(setbacks.wandering(grid, np.ones((4_000, len(steps))), source(4_000, 24)))
        return walk[:, lag:] - walk[:, :-lag]

    fine, coarse = np.arange(1.0, 101.0), np.arange(5.0, 101.0, 5.0)
    one = moves(fine, 1).std()
    assert moves(fine, 5).std() == pytest.approx(np.sqrt(5.0) * one, rel=0.1)
    assert moves(coarse, 1).std() == pytest.approx(np.sqrt(5.0) * one, rel=0.1)


def test_a_wandering_run_comes_to_rest_with_its_learning_rate() -> None:
    values = draw(1_000, config=COSINE.but(wandering=1.0)).noisy
    moved = np.abs(np.diff(values, n=2, axis=1))
    assert np.median(moved[:, -3:]) < 0.1 * np.median(moved[:, 40:60])


def test_run_whose_start_is_counted_begins_with_the_untrained_value_on_any_grid() -> None:
    for steps in (STEPS, STEPS[9::10]):
        runs = draw(200, config=LOSS.but(counted_start=1.0), steps=steps)
        assert runs.noiseless[:, 0] == pytest.approx(UNTRAINED_LOSS, abs=1e-3)
        assert (runs.noiseless[:, 1] > UNTRAINED_LOSS + 1e-3).mean() > 0.9


def test_decay_falls_from_one_and_never_rises() -> None:
    size = 500
    clock = np.repeat(np.geomspace(1e-6, 1e6, 200)[None], size, axis=0)
    slow = np.arange(size) % 2 == 0
    pace = np.where(np.arange(size) % 5 == 0, 0.1, 1.0)[:, None]
    second = np.arange(size) % 3 == 0
    left = trend.decay(clock, 100.0, pace, second, slow, source(size, 22))
    for part in (left, trend.second_wind(left, clock, 100.0, source(size, 23))):
        assert (np.diff(part) <= 1e-12).all()
        assert ((part >= 0.0) & (part <= 1.0)).all()
        assert part[slow, 0].min() > 0.99


def test_run_that_is_too_slow_may_learn_what_is_easy_first_and_goes_on_steadily() -> None:
    size, pace = 500, 0.01
    clock = np.repeat(np.arange(1.0, 101.0)[None], size, axis=0)
    never, always = np.zeros(size, dtype=bool), np.ones(size, dtype=bool)
    alone, with_easy = (
        1.0 - trend.decay(clock, 100.0, np.full((size, 1), pace), second, never, source(size, 35))
        for second in (never, always)
    )
    early_share = [np.median(gained[:, 19] / gained[:, 99]) for gained in (alone, with_easy)]
    assert early_share[0] == pytest.approx(0.2, abs=0.05)  # in proportion to the clock
    assert early_share[1] > early_share[0] + 0.05
    assert with_easy[:, 99].max() < 0.15  # there is no time for the rest


def test_decay_of_the_papers_curves_begins_at_one_and_is_theirs_from_step_1_on() -> None:
    clock = np.repeat([[0.0, 0.5, 1.0, 10.0, 100.0]], 300, axis=0)
    left = trend.paper_decay(clock, 100.0, source(len(clock), 34))
    parameters = trend.paper_parameters(300, 100.0, np.random.default_rng(34), rising=True)
    assert left[:, 2:] == pytest.approx(1.0 - paper.evaluate(parameters, clock[0, 2:]))
    assert left[:, 1] == pytest.approx(0.5 + 0.5 * left[:, 2])
    assert (left[:, 0] == 1.0).all()


def test_papers_curves_that_are_to_rise_never_fall_and_others_may() -> None:
    rising, any_of_them = (
        drawdown(paper.evaluate(trend.paper_parameters(1_000, 100.0, np.random.default_rng(36), rising=rising), STEPS))
        for rising in (True, False)
    )
    assert (rising < 1e-3).mean() > 0.995  # only some of the steps are checked
    assert rising.max() < 0.01
    assert 0.05 < (any_of_them > 0.01).mean() < 0.5


def test_log_uniform_covers_its_range_evenly_in_the_logarithm() -> None:
    draws = source(5_000, 23).log_uniform(1e-3, 10.0)[:, 0]
    assert stats.kstest(np.log10(draws), stats.uniform(-3.0, 4.0).cdf).pvalue > SMALLEST_P
    assert stats.kstest(draws, stats.uniform(0.0, 10.0).cdf).pvalue < SMALLEST_P


# Amounts of data -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "geometric"),
    [
        (np.geomspace(16.0, 1000.0, 13), True),
        (np.append(np.geomspace(16.0, 500.0, 11), 1000.0), True),  # the rest of the data makes a longer last step
        (STEPS, False),
        (np.arange(1.0, 7.0), False),
        (np.append(1e-3, STEPS), False),
        (np.array([1.0, 2.0, 4.0]), False),  # too few to tell
    ],
)
def test_grid_of_steps_that_grow_by_a_factor_is_geometric(steps: np.ndarray, geometric: bool) -> None:
    assert Grid.of(steps, 1000.0).is_geometric is geometric


def test_curves_against_the_amount_of_data_have_no_schedule_and_do_not_overfit() -> None:
    steps = np.geomspace(16.0, 1000.0, 13)
    against = draw(4_000, config=real.RealPriorConfig().but(amounts=1.0), steps=steps, horizon=1000.0).ingredients
    trained = draw(4_000, config=real.RealPriorConfig().but(amounts=0.0), steps=steps, horizon=1000.0).ingredients
    for name in ("scheduled", "held", "overfitting", "spikes", "lost", "wandering", "unstable", "tokens"):
        assert not (against[name] & against["ordinary"]).any()
        assert trained[name].any()


# Random plans --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plans() -> list[tuple[np.ndarray, float]]:
    rng = np.random.default_rng(24)
    return [real.sample_grid(rng) for _ in range(3_000)]


def test_sample_grid_draws_steps_that_a_run_can_have(plans) -> None:
    for steps, horizon in plans:
        assert 1 <= len(steps) <= MOST_STEPS
        Grid.of(steps, horizon)  # raises unless they rise inside (0, horizon]


def test_sample_grid_draws_all_horizons_with_most_between_20_and_200(plans) -> None:
    horizons = np.array([horizon for _, horizon in plans])
    in_epochs = horizons[horizons < 1000.0]
    assert horizons.min() == 2.0
    assert in_epochs.max() > 900.0
    assert 0.75 < ((in_epochs >= 20.0) & (in_epochs <= 200.0)).mean() < 0.95
    assert 0.17 < (horizons == 1000.0).mean() < 0.27  # counted in iterations


def test_sample_grid_draws_mostly_regular_steps_that_reach_the_horizon(plans) -> None:
    regular = np.array([len(steps) < 3 or np.ptp(np.diff(steps)) < 1e-9 for steps, _ in plans])
    reach = np.array([steps[-1] / horizon for steps, horizon in plans])
    every = np.array([steps[0] for (steps, _), even in zip(plans, regular, strict=True) if even])
    assert 0.60 < regular.mean() < 0.80
    assert (reach > 0.9).mean() > 0.9
    assert 0.1 < (every > 1.0).mean() < 0.7  # evaluated every k steps


def test_sample_grid_begins_some_plans_when_training_has_hardly_begun(plans) -> None:
    begun = np.array([steps[0] / horizon for steps, horizon in plans])
    first_of_many = np.array([steps[0] < 0.51 * np.diff(steps).min() for steps, _ in plans if len(steps) > 1])
    assert 0.05 < (begun < 1e-3).mean() < 0.15
    assert 0.1 < first_of_many.mean() < 0.2


def test_sample_grid_with_the_same_seed_is_equal() -> None:
    first, again = (real.sample_grid(np.random.default_rng(25)) for _ in range(2))
    assert np.array_equal(first[0], again[0])
    assert first[1] == again[1]


# The development curves ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def comparison() -> ModuleType:
    return research("compare_real_prior")


@in_a_checkout
@pytest.mark.parametrize(("gain", "still"), [(5e-9, True), (1e-6, False)], ids=["rounding", "a gain"])
def test_curves_that_stand_still_end_where_still_prior_curves_do(comparison: ModuleType, gain, still) -> None:
    values = np.full((3, 20), 0.5)
    values[:, -1] += gain
    found = comparison.fates(
        *comparison.gains_after(comparison.regular(values, metric.SHARE), np.full((200, 20), 0.5), 0.4)
    )
    assert (found["end in the central 90 % of their nearest prior curves"] == still).all()
    assert (found["gain 3 recent movements"] != still).all()


@in_a_checkout
def test_setbacks_of_smooth_and_of_rough_curves_are_counted_apart(comparison: ModuleType) -> None:
    smooth = np.linspace(0.0, 1.0, 20) ** 0.5
    turning = np.where(np.arange(20) > 10, smooth[10] - 0.05 * np.arange(20), smooth)
    rough = smooth + 0.3 * (-1.0) ** np.arange(20)
    found = comparison.setbacks([comparison.regular(np.stack([smooth, turning, rough]), metric.LOSS)])
    assert found["smooth, seen 40%"] == 0.5
    assert found["rough, seen 40%"] == 0.0
    assert found["by 0.1, seen 40%"] == pytest.approx(1 / 3)  # the one that turns
    assert np.isnan(comparison.setbacks([comparison.regular(smooth[None], metric.LOSS)])["rough, seen 40%"])


@in_a_checkout
def test_weighing_finds_the_rate_that_curves_were_drawn_with(comparison: ModuleType) -> None:
    pytest.importorskip("sklearn")
    weigh, rng = research("weigh_real_prior"), np.random.default_rng(30)
    config = real.RealPriorConfig().but(loss=0.0, collapse_accuracy=0.3)
    curves = comparison.prior_curves(comparison.regular(np.zeros((1, 50)), metric.SHARE), 1_000, rng, config)
    sample = weigh.beside_prior([comparison.regular(curves, metric.SHARE)], 3_000, rng)
    odds, told_apart = weigh.density_ratio(sample, rng)
    drawn, asked = weigh.shares(sample, np.ones_like(odds)), weigh.shares(sample, odds)
    assert drawn["collapse_accuracy"] == pytest.approx(RATES["collapse_accuracy"], abs=0.006)
    assert asked["collapse_accuracy"] > 3.0 * drawn["collapse_accuracy"]  # 0.3 were drawn; smoothed odds ask for less
    assert asked["overfitting"] == pytest.approx(drawn["overfitting"], abs=0.08)
    assert 0.55 < told_apart < 0.8


@pytest.mark.skipif(not DATA.is_dir(), reason="the development curves are not here")
@pytest.mark.parametrize("name", ["taskset", "nasbench201", "nasbench_nlp", "deepobs_accuracy", "deepobs_loss", "lcdb"])
def test_prior_covers_a_collection_of_real_curves_and_the_papers_does_not(name: str, comparison: ModuleType) -> None:
    rng = np.random.default_rng(26)
    groups = comparison.COLLECTIONS[name](comparison.read(DATA / f"{name}.npz"), rng)
    seen = comparison.of_groups(groups, comparison.summary)

    def covered(config: real.RealPriorConfig) -> float:
        drawn = comparison.of_groups(comparison.prior_groups(groups, 1_000, rng, config), comparison.summary)
        return float(np.mean([comparison.inside(seen[s], drawn[s]) for s in seen]))

    assert covered(real.RealPriorConfig()) > 0.95
    assert covered(BARE.but(paper=1.0)) < 0.93


@in_a_checkout
def test_documented_rates_are_those_of_the_table() -> None:
    lines = (ROOT / "docs" / "research" / "real-prior.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.split("|")] for line in lines if line.startswith("| `")]
    assert {row[1].strip("`"): float(row[2]) for row in cells} == RATES


@in_a_checkout
def test_every_ingredient_is_drawn_in_a_picture() -> None:
    script = (RESEARCH / "draw_real_prior.py").read_text(encoding="utf-8")
    says_only_what_is_measured = {"paper_accuracy", "paper_loss"}
    assert {name for name in RATES if f'"{name}"' not in script} == says_only_what_is_measured
