"""A curve whose posterior is known: a straight line with Gaussian coefficients and known noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PRIOR_SD = np.array([0.8, 0.05])
NOISE = 0.1
STEPS = np.arange(1.0, 13.0)
DESIGN = np.stack([np.ones_like(STEPS), STEPS], axis=1)
VALUES = DESIGN @ np.array([0.3, 0.04]) + NOISE * np.random.default_rng(42).standard_normal(len(STEPS))
MOMENTS = ("mean 0", "mean 1", "variance 0", "variance 1", "covariance")


@dataclass(frozen=True)
class Line:
    """Log densities of coefficients [..., 2] under an assumed noise level."""

    noise: float = NOISE

    def log_prior(self, coefficients: np.ndarray) -> np.ndarray:
        return -0.5 * ((coefficients / PRIOR_SD) ** 2).sum(axis=-1)

    def log_likelihood(self, coefficients: np.ndarray) -> np.ndarray:
        residuals = VALUES - coefficients @ DESIGN.T
        normaliser = len(VALUES) * np.log(self.noise * np.sqrt(2 * np.pi))
        return -0.5 * (residuals**2).sum(axis=-1) / self.noise**2 - normaliser

    def log_density(self, coefficients: np.ndarray) -> np.ndarray:
        return self.log_prior(coefficients) + self.log_likelihood(coefficients)


def posterior() -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the coefficients."""
    covariance = np.linalg.inv(DESIGN.T @ DESIGN / NOISE**2 + np.diag(PRIOR_SD**-2))
    return covariance @ DESIGN.T @ VALUES / NOISE**2, covariance


def log_evidence() -> float:
    covariance = DESIGN @ np.diag(PRIOR_SD**2) @ DESIGN.T + NOISE**2 * np.eye(len(VALUES))
    _, log_determinant = np.linalg.slogdet(2 * np.pi * covariance)
    return float(-0.5 * (VALUES @ np.linalg.solve(covariance, VALUES) + log_determinant))


def standardised_moments(coefficients: np.ndarray) -> np.ndarray:
    """Statistics [..., moment] of coefficients [..., 2] whose means are all zero under the true posterior."""
    mean, covariance = posterior()
    deviations = coefficients - mean
    sd = np.sqrt(np.diag(covariance))
    first, second = np.moveaxis(deviations / sd, -1, 0)
    correlation = covariance[0, 1] / sd.prod()
    return np.stack([first, second, first**2 - 1, second**2 - 1, first * second - correlation], axis=-1)
