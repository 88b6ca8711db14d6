"""A power law c - a t^-alpha, fitted by least squares, with a bootstrap of its residuals.

For a given exponent the fit is linear, so all exponents of a grid are tried at once for every curve and every
resampled curve. The forecast mixes the fits of the resampled curves, each with the spread of its residuals.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epochcast.baselines.last_value import LastValue
from epochcast.baselines.tails import SMALLEST_SCALE
from epochcast.curve import Curves
from epochcast.distributions import Array, Mixture
from epochcast.question import Engine, Question

_EXPONENTS = np.geomspace(0.05, 4.0, 24)
_FEWEST = 4  # values that three parameters and a spread need; shorter runs are left to the last value
_RESAMPLED = 24
_CHUNK = 100  # curves fitted at once
_RIDGE = 1e-6  # keeps the slope finite where the steps seen hardly differ in t^-alpha
_WIDER = 3.0  # half of the components are so much wider: residuals of the past underrate the misfit ahead
_ANYWHERE, _ANYWHERE_SHARE = 0.3, 0.01


class PowerLaw(Engine):
    """An engine: least squares and a residual bootstrap."""

    name = "power-law"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def predict(self, question: Question) -> Mixture:
        curves, queries = question.runs, question.steps
        answer = _padded(LastValue().predict(question), _RESAMPLED + 1)
        log_weights, means, log_scales = answer
        enough = np.flatnonzero(curves.lengths >= _FEWEST)
        rng = np.random.default_rng(self.seed)
        # Value by value, and the same for all curves: a batch, however long, equals its curves alone.
        draws = rng.random((curves.values.shape[1], _RESAMPLED)).T  # [resample, value]
        for start in range(0, len(enough), _CHUNK):
            rows = enough[start : start + _CHUNK]
            fitted, scales = _bootstrap(curves, rows, queries[rows], draws)
            means[rows, :, :-1], log_scales[rows, :, :-1] = fitted, np.log(scales)[:, None, :]
            means[rows, :, -1], log_scales[rows, :, -1] = fitted.mean(axis=-1), np.log(_ANYWHERE)
            log_weights[rows, :, :-1] = np.log((1.0 - _ANYWHERE_SHARE) / _RESAMPLED)
            log_weights[rows, :, -1] = np.log(_ANYWHERE_SHARE)
        return Mixture(log_weights, means, log_scales)


def _padded(mixture: Mixture, components: int) -> tuple[Array, Array, Array]:
    """Weights, means and scales of a mixture, with components of no weight added."""
    missing = components - mixture.means.shape[-1]
    width = ((0, 0), (0, 0), (0, missing))
    log_weights = np.pad(mixture.log_weights, width, constant_values=-np.inf)
    return log_weights, np.pad(mixture.means, width), np.pad(mixture.log_scales, width)


def _bootstrap(curves: Curves, rows: NDArray[np.intp], queries: Array, draws: Array) -> tuple[Array, Array]:
    """Fitted values [curve, query, resample] and residual spreads [curve, resample] of resampled curves."""
    width = int(curves.lengths[rows].max())
    lengths = curves.lengths[rows]
    seen = np.arange(width) < lengths[:, None]
    steps = np.where(seen, curves.steps[rows, :width], 1.0)
    values = np.where(seen, curves.values[rows, :width], 0.0)
    # In units of the newest step, so that t^-alpha stays of order one; a value at step 0 counts as right after it.
    unit = curves.last_step[rows][:, None]
    times, ahead = (np.maximum(t / unit, 1e-3) for t in (steps, queries))
    fit = _fit(times, seen, values[:, None, :])
    residuals = np.where(seen, values - fit.at(times)[:, 0], 0.0)
    # Residuals shrink by fitting; with three parameters taken from n values this restores their size on average.
    residuals *= np.sqrt(lengths / np.maximum(lengths - 3, 1))[:, None]
    picked = (draws[None, :, :width] * lengths[:, None, None]).astype(np.intp)  # [curve, resample, value]
    noise = np.take_along_axis(np.broadcast_to(residuals[:, None], picked.shape), picked, axis=2)
    resampled = np.where(seen[:, None], fit.at(times) + noise, 0.0)
    spread = np.sqrt((residuals**2).sum(axis=1) / lengths)[:, None] * np.where(np.arange(_RESAMPLED) % 2, _WIDER, 1.0)
    fitted = np.clip(_fit(times, seen, resampled).at(ahead), 0.0, 1.0)
    return np.swapaxes(fitted, 1, 2), np.maximum(spread, SMALLEST_SCALE)


class _Fits:
    """Least-squares power laws [curve, resample], each with the best exponent of the grid."""

    def __init__(self, exponents: Array, levels: Array, slopes: Array) -> None:
        self.exponents, self.levels, self.slopes = exponents, levels, slopes

    def at(self, times: Array) -> Array:
        """Values [curve, resample, time] at times [curve, time]."""
        powers = np.exp(-self.exponents[..., None] * np.log(times)[:, None])
        return np.asarray(self.levels[..., None] + self.slopes[..., None] * powers)


def _fit(times: Array, seen: NDArray[np.bool_], values: Array) -> _Fits:
    """Fits of values [curve, resample, time]."""
    weights = seen / seen.sum(axis=1, keepdims=True)  # [curve, time]
    powers = np.exp(-_EXPONENTS[:, None] * np.log(times)[:, None])  # [curve, exponent, time]
    mean_power = np.einsum("cet,ct->ce", powers, weights)
    centered = (powers - mean_power[..., None]) * weights[:, None]  # [curve, exponent, time]
    variance = np.einsum("cet,cet->ce", centered, powers)
    level = np.einsum("crt,ct->cr", values, weights)
    covariance = np.einsum("cet,crt->cre", centered, values, optimize=True)
    slopes = covariance / (variance + _RIDGE * (1.0 + mean_power**2))[:, None]
    explained = slopes * (2.0 * covariance - slopes * variance[:, None])
    best = np.argmax(explained, axis=-1)[..., None]  # [curve, resample, 1]
    slope = np.take_along_axis(slopes, best, axis=-1)[..., 0]
    center = np.take_along_axis(np.broadcast_to(mean_power[:, None], slopes.shape), best, axis=-1)[..., 0]
    return _Fits(_EXPONENTS[best[..., 0]], level - slope * center, slope)
