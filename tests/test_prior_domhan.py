from __future__ import annotations

import math

import numpy as np
import pytest

from epochcast.prior import domhan

STEPS = np.array([1.0, 2.0, 7.5, 100.0])

# The formulas once more, as they are printed, in plain arithmetic.
PRINTED = {
    "vap": lambda t, a, b, c: math.exp(a + b / t + c * math.log(t)),
    "pow3": lambda t, c, a, alpha: c - a * t**-alpha,
    "pow4": lambda t, c, a, b, alpha: c - (a * t + b) ** -alpha,
    "log_log_linear": lambda t, a, b: math.log(a * math.log(t) + b),
    "hill3": lambda t, theta, eta, kappa: theta * t**eta / (kappa**eta + t**eta),
    "log_power": lambda t, a, b, c: a / (1 + (t / math.exp(b)) ** c),
    "mmf": lambda t, alpha, beta, kappa, delta: alpha - (alpha - beta) / (1 + (kappa * t) ** delta),
    "exp4": lambda t, c, a, b, alpha: c - math.exp(-a * t**alpha + b),
    "janoschek": lambda t, alpha, beta, kappa, delta: alpha - (alpha - beta) * math.exp(-kappa * t**delta),
    "weibull": lambda t, alpha, beta, kappa, delta: alpha - (alpha - beta) * math.exp(-((kappa * t) ** delta)),
    "ilog2": lambda t, c, a: c - a / math.log(t + 1),
}


def default_point(**changes: float) -> np.ndarray:
    """The default point with some parameters replaced; `pow3__alpha=2` stands for the parameter pow3.alpha."""
    point = np.array(domhan.DEFAULT)
    for name, value in changes.items():
        point[domhan.NAMES.index(name.replace("__", "."))] = value
    return point


@pytest.mark.parametrize("basis", domhan.BASES, ids=lambda basis: basis.family.name)
def test_basis_curve_at_its_default_equals_the_printed_formula(basis: domhan.Basis) -> None:
    computed = basis.family.formula(np.log(STEPS), *basis.default)
    expected = [PRINTED[basis.family.name](t, *basis.default) for t in STEPS]
    np.testing.assert_allclose(computed, expected, rtol=1e-12)


def test_table_holds_eleven_basis_curves_and_48_parameters() -> None:
    assert len(domhan.BASES) == 11
    assert len(domhan.NAMES) == len(domhan.DEFAULT) == 11 + 36 + 1
    assert domhan.NAMES[-1] == "log_sigma"


def test_evaluate_of_the_default_point_is_the_mean_of_the_basis_curves() -> None:
    bases = [[PRINTED[basis.family.name](t, *basis.default) for t in STEPS] for basis in domhan.BASES]
    np.testing.assert_allclose(domhan.evaluate(default_point(), STEPS), np.mean(bases, axis=0), rtol=1e-12)


def test_evaluate_of_a_batch_equals_its_rows() -> None:
    points = np.stack([default_point(), default_point(pow3__alpha=2.0), default_point(weight__vap=3.0)])
    rows = [domhan.evaluate(point, STEPS) for point in points]
    np.testing.assert_allclose(domhan.evaluate(points, STEPS), rows, rtol=1e-13)


@pytest.mark.parametrize("horizon", [2.0, 22.0, 100.0, 1414.0])
def test_default_point_at_any_horizon_obeys_the_constraints(horizon: float) -> None:
    assert np.isfinite(domhan.log_density(default_point(), horizon))


@pytest.mark.parametrize(
    "changes",
    [
        {"weight__pow3": -0.01},
        {"pow3__a": -0.5},  # falls
        {"ilog2__a": 0.0},  # flat: the end must be above the start
        {"ilog2__c": -1.0},  # ends below zero
        {"vap__c": 2.0},  # ends above 100
        {"pow4__b": -300.0},  # a t + b below zero at the first step: undefined
        {"log_log_linear__b": -1.0},  # the logarithm of a negative number
        {"mmf__kappa": -0.01},
        {"log_sigma": 0.1},  # sigma above 1
        {"log_sigma": -12.0},  # below the floor
    ],
    ids=str,
)
def test_log_density_outside_the_constraints_is_minus_infinity(changes: dict[str, float]) -> None:
    assert domhan.log_density(default_point(**changes)) == -np.inf


def test_log_density_is_flat_on_parameters_and_on_sigma_itself() -> None:
    base = domhan.log_density(default_point())
    assert domhan.log_density(default_point(weight__mmf=2.0, hill3__kappa=20.0, pow3__alpha=0.5)) == base
    # Flat on sigma means a density on log sigma that grows with sigma.
    halved = domhan.log_density(default_point(log_sigma=math.log(domhan.DEFAULT_SIGMA / 2)))
    assert halved - base == pytest.approx(-math.log(2))
