"""The paper's prior against its published laws and against a second sampler, written naively, curve by curve."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from epochcast.errors import InputError
from epochcast.prior import paper
from epochcast.prior.families import PAPER_FAMILIES, Family, Normal, Uniform

PROPERTY = settings(max_examples=200, deadline=None, derandomize=True)
DRAWS = 10_000
SMALLEST_P = 2e-5

# Table 1 of the paper, second arguments of N as standard deviations, with the authors' correction of the noise.
TABLE_1 = {
    "weight.pow3": stats.uniform(0, 1),
    "weight.janoschek": stats.uniform(0, 1),
    "weight.ilog2": stats.uniform(0, 1),
    "pow3.c": stats.uniform(0, 1.25),
    "pow3.a": stats.uniform(-0.6, 1.2),
    "pow3.log_alpha": stats.norm(0, 2),
    "janoschek.alpha": stats.uniform(0, 1),
    "janoschek.beta": stats.uniform(0, 2),
    "janoschek.log_kappa": stats.norm(-2, 1),
    "janoschek.log_delta": stats.norm(0, 0.5),
    "ilog2.c": stats.uniform(0, 1),
    "ilog2.a": stats.uniform(-0.5, 1),
    "log_sigma": stats.norm(-4, 1),
}
PRINTED_NOISE = stats.norm(-8 / 2, math.sqrt(2) / 2)  # log sigma^2 ~ N(-8, 2), the erratum


def curve(p: dict[str, float], t: float) -> float:
    """The noiseless value at one step, as the paper writes it."""
    pow3 = p["pow3.c"] - p["pow3.a"] * t ** -math.exp(p["pow3.log_alpha"])
    growth = math.exp(-math.exp(p["janoschek.log_kappa"]) * t ** math.exp(p["janoschek.log_delta"]))
    janoschek = p["janoschek.alpha"] - (p["janoschek.alpha"] - p["janoschek.beta"]) * growth
    ilog2 = p["ilog2.c"] - p["ilog2.a"] / math.log(t + 1)
    return p["weight.pow3"] * pow3 + p["weight.janoschek"] * janoschek + p["weight.ilog2"] * ilog2


@dataclass(frozen=True)
class Reference:
    """Curves of the naive sampler, and how many candidates it took to find them."""

    statistics: dict[str, np.ndarray]
    acceptance: float


def naive_reference(size: int, seed: int) -> Reference:
    """Rejection sampling in plain Python: one candidate, one step at a time."""
    tables = {name: law.rvs(8 * size, random_state=seed + i).tolist() for i, (name, law) in enumerate(TABLE_1.items())}
    accepted: list[list[float]] = []
    tried = 0
    while len(accepted) < size:
        p = {name: column[tried] for name, column in tables.items()}
        tried += 1
        if curve(p, 1) < curve(p, 100) and all(0 <= curve(p, t) <= 1 for t in range(1, 101)):
            accepted.append([*p.values(), math.exp(p["log_sigma"]), curve(p, 1), curve(p, 10), curve(p, 100)])
    columns = np.array(accepted).T
    names = [*TABLE_1, "sigma", "f(1)", "f(10)", "f(100)"]
    return Reference(dict(zip(names, columns, strict=True)), size / tried)


STATISTICS: dict[str, Callable[[paper.Draw], np.ndarray]] = {
    **{name: lambda draw, i=i: draw.parameters[:, i] for i, name in enumerate(paper.NAMES)},
    "sigma": lambda draw: draw.sigma,
    "f(1)": lambda draw: draw.noiseless[:, 0],
    "f(10)": lambda draw: draw.noiseless[:, 9],
    "f(100)": lambda draw: draw.noiseless[:, 99],
}


def agree(left: np.ndarray, right: np.ndarray) -> bool:
    return float(stats.ks_2samp(left, right).pvalue) > SMALLEST_P


@pytest.fixture(scope="module")
def draw() -> paper.Draw:
    return paper.sample(DRAWS, np.random.default_rng(20))


@pytest.fixture(scope="module")
def reference() -> Reference:
    return naive_reference(DRAWS // 2, seed=30)


@pytest.fixture(scope="module")
def raw() -> np.ndarray:
    """Parameters straight from their laws, before any curve is rejected."""
    rng = np.random.default_rng(40)
    return paper.draw_parameters(2 * DRAWS, rng).T


# The laws of the parameters ----------------------------------------------------------------------------------------


def test_prior_has_the_parameters_of_the_papers_table() -> None:
    assert tuple(TABLE_1) == paper.NAMES


def follows(sample: np.ndarray, name: str) -> bool:
    return float(stats.kstest(sample, TABLE_1[name].cdf).pvalue) > SMALLEST_P


@pytest.mark.parametrize("name", TABLE_1)
def test_law_of_each_parameter_follows_the_papers_table(name: str) -> None:
    law = paper.LAWS[name]
    sample = law.sample(DRAWS, np.random.default_rng(50))
    inside = TABLE_1[name].ppf(np.linspace(0.01, 0.99, 99))

    assert follows(sample, name)
    np.testing.assert_allclose(law.cdf(inside), TABLE_1[name].cdf(inside), atol=1e-12)
    np.testing.assert_allclose(law.log_density(inside), TABLE_1[name].logpdf(inside), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("pow3.log_alpha", Normal(0.0, 4.0)),
        ("janoschek.log_delta", Normal(0.0, 0.25)),
        ("log_sigma", Normal(-4.0, math.sqrt(2) / 2)),
        ("log_sigma", Normal(-8.0, 1.0)),
        ("pow3.c", Uniform(0.0, 1.2)),
        ("ilog2.a", Uniform(0.0, 0.5)),
    ],
    ids=["variance-as-sd", "variance-of-delta-as-sd", "printed-noise", "log-variance-as-log-sigma", "range", "sign"],
)
def test_law_that_is_wrong_is_rejected_by_the_same_check(name: str, wrong: Normal | Uniform) -> None:
    assert not follows(wrong.sample(DRAWS, np.random.default_rng(50)), name)


def test_uniform_law_outside_its_range_has_no_density_and_a_flat_cdf() -> None:
    law = Uniform(0.0, 2.0)
    x = np.array([-1.0, 0.0, 2.0, 3.0, np.nan])

    assert law.log_density(x).tolist() == [-np.inf] * 5
    assert law.cdf(x[:4]).tolist() == [0.0, 0.0, 1.0, 1.0]


# The curves --------------------------------------------------------------------------------------------------------


@PROPERTY
@given(st.integers(0, 2**32), st.integers(1, 300))
def test_curve_of_random_parameters_equals_the_papers_formula(seed: int, step: int) -> None:
    rng = np.random.default_rng(seed)
    p = {name: float(law.sample(1, rng)[0]) for name, law in paper.LAWS.items()}
    value = paper.evaluate(np.array(list(p.values())), np.array([float(step)]))

    assert value.shape == (1,)
    assert value[0] == pytest.approx(curve(p, step), rel=1e-10, abs=1e-10)


def test_curves_of_a_batch_of_parameters_equal_their_single_curves(draw: paper.Draw) -> None:
    steps = np.array([1.0, 2.5, 100.0, 1000.0])
    parameters = draw.parameters[:12].reshape(3, 4, -1)
    together = paper.evaluate(parameters, steps)

    assert together.shape == (3, 4, 4)
    for place in np.ndindex(3, 4):
        np.testing.assert_allclose(together[place], paper.evaluate(parameters[place], steps), rtol=1e-14)


@pytest.mark.parametrize("extreme", [-1e3, -50.0, 50.0, 1e3])
@pytest.mark.parametrize("family", PAPER_FAMILIES, ids=lambda family: family.name)
def test_family_at_extreme_parameters_has_finite_curves(family: Family, extreme: float) -> None:
    parameters = np.full((len(family.laws), 1), extreme)

    assert np.isfinite(family.formula(np.log(np.arange(1.0, 101.0)), *parameters)).all()


# Draws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [2, 3, 50, 100, 300])
def test_draw_obeys_the_constraints_at_each_horizon(horizon: int) -> None:
    draw = paper.sample(300, np.random.default_rng(60), horizon)

    assert draw.noiseless.shape == draw.noisy.shape == (300, horizon)
    assert (draw.noiseless >= 0.0).all()
    assert (draw.noiseless <= 1.0).all()
    assert (draw.noiseless[:, 0] < draw.noiseless[:, -1]).all()


def test_draw_of_ten_thousand_obeys_the_constraints_and_its_own_parameters(draw: paper.Draw) -> None:
    assert ((draw.noiseless >= 0.0) & (draw.noiseless <= 1.0)).all()
    assert (draw.noiseless[:, 0] < draw.noiseless[:, -1]).all()
    np.testing.assert_allclose(
        draw.noiseless, paper.evaluate(draw.parameters, np.arange(1.0, 101.0)), rtol=0.0, atol=1e-14
    )
    np.testing.assert_array_equal(draw.sigma, np.exp(draw.parameters[:, -1]))


@pytest.mark.parametrize("name", STATISTICS)
def test_draw_agrees_with_the_naive_sampler(draw: paper.Draw, reference: Reference, name: str) -> None:
    assert agree(STATISTICS[name](draw), reference.statistics[name])


def test_draw_with_the_printed_noise_disagrees_with_the_naive_sampler(reference: Reference) -> None:
    wrong = PRINTED_NOISE.rvs(DRAWS, random_state=70)

    assert not agree(wrong, reference.statistics["log_sigma"])
    assert not agree(np.exp(wrong), reference.statistics["sigma"])


@pytest.mark.parametrize("name", ["pow3.c", "janoschek.beta", "f(1)", "f(100)"])
def test_draw_without_rejection_disagrees_with_the_naive_sampler(
    raw: np.ndarray, reference: Reference, name: str
) -> None:
    steps = np.arange(1.0, 101.0)
    unchecked = paper.Draw(raw, paper.evaluate(raw, steps), np.exp(raw[:, -1]), np.empty((0, 0)))

    assert not agree(STATISTICS[name](unchecked), reference.statistics[name])


def test_acceptance_is_0_206_for_both_samplers(raw: np.ndarray, reference: Reference) -> None:
    acceptance = np.isfinite(paper.log_density(raw)).mean()

    assert acceptance == pytest.approx(0.206, abs=0.01)
    assert acceptance == pytest.approx(paper.ACCEPTANCE, abs=0.01)
    assert reference.acceptance == pytest.approx(0.206, abs=0.01)


def test_noise_of_a_draw_is_white_and_may_leave_the_unit_interval(draw: paper.Draw) -> None:
    z = (draw.noisy - draw.noiseless) / draw.sigma[:, None]

    def is_standard_normal(sample: np.ndarray) -> bool:
        return float(stats.kstest(sample, "norm").pvalue) > SMALLEST_P

    assert is_standard_normal(z[:, 0])
    assert is_standard_normal(z[:, 99])
    assert is_standard_normal(z[:500].ravel())
    assert not is_standard_normal(1.1 * z[:500].ravel())
    for lag in (1, 7):
        assert abs((z[:, lag:] * z[:, :-lag]).mean()) < 5 / math.sqrt(z[:, lag:].size)
    assert ((draw.noisy < 0.0) | (draw.noisy > 1.0)).any()


def test_oracle_log_likelihood_is_2_581_and_reached_by_the_true_curve(draw: paper.Draw) -> None:
    scores = stats.norm.logpdf(draw.noisy, draw.noiseless, draw.sigma[:, None]).mean(axis=1)

    assert abs(paper.ORACLE_LOG_LIKELIHOOD - 2.581) < 5e-4
    # Sigma is independent of whether a curve is accepted, so its law is that of table 1.
    assert scores.mean() == pytest.approx(paper.ORACLE_LOG_LIKELIHOOD, abs=5 * scores.std() / math.sqrt(DRAWS))


def test_draw_of_the_same_seed_is_the_same_and_of_another_differs() -> None:
    first, again, other = (paper.sample(50, np.random.default_rng(seed)) for seed in (1, 1, 2))

    np.testing.assert_array_equal(first.noisy, again.noisy)
    assert not np.array_equal(first.noisy, other.noisy)


def test_draw_larger_than_a_round_of_candidates_has_no_repeated_curves(draw: paper.Draw) -> None:
    assert len(np.unique(draw.parameters, axis=0)) == DRAWS


def test_draw_of_no_curves_is_empty() -> None:
    assert paper.sample(0, np.random.default_rng(0)).noisy.shape == (0, 100)


@pytest.mark.parametrize(
    ("size", "horizon", "fragment"), [(-1, 100, "size=-1"), (5, 1, "horizon=1"), (5, 0, "horizon=0")]
)
def test_draw_of_impossible_size_raises(size: int, horizon: int, fragment: str) -> None:
    with pytest.raises(InputError, match=fragment):
        paper.sample(size, np.random.default_rng(0), horizon)


# Density -----------------------------------------------------------------------------------------------------------


def test_log_density_of_draws_is_the_sum_over_the_papers_table(draw: paper.Draw) -> None:
    parameters = draw.parameters[:200]
    expected = sum(law.logpdf(parameters[:, i]) for i, law in enumerate(TABLE_1.values()))

    np.testing.assert_allclose(paper.log_density(parameters), expected, rtol=1e-12)
    np.testing.assert_allclose(paper.log_density(parameters[0]), expected[0], rtol=1e-12)


@pytest.mark.parametrize("name", [name for name, law in paper.LAWS.items() if isinstance(law, Uniform)])
@pytest.mark.parametrize("side", ["low", "high"])
def test_log_density_outside_the_box_is_minus_infinity(draw: paper.Draw, name: str, side: str) -> None:
    outside = draw.parameters[:5].copy()
    law = paper.LAWS[name]
    assert isinstance(law, Uniform)
    outside[:, paper.NAMES.index(name)] = law.low - 1e-9 if side == "low" else law.high + 1e-9

    assert np.isneginf(paper.log_density(outside)).all()


def test_log_density_is_minus_infinity_exactly_where_the_naive_constraints_fail(raw: np.ndarray) -> None:
    some = raw[:300]
    valid = []
    for values in some:
        p = dict(zip(paper.NAMES, values.tolist(), strict=True))
        valid.append(curve(p, 1) < curve(p, 100) and all(0 <= curve(p, t) <= 1 for t in range(1, 101)))

    assert np.isfinite(paper.log_density(some)).tolist() == valid


@pytest.mark.parametrize("value", [np.nan, 1e100, -1e100])
def test_log_density_of_absurd_parameters_is_never_a_likely_number(draw: paper.Draw, value: float) -> None:
    for i in range(len(paper.NAMES)):
        parameters = draw.parameters[0].copy()
        parameters[i] = value
        assert paper.log_density(parameters) < -1e100
