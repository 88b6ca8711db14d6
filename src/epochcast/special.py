"""Special functions. The easy ones are written out: importing scipy.special takes longer than all of epochcast.

The normal distribution's are scipy's, imported when they are first needed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def logsumexp(x: Array, axis: int | None = None) -> Array:
    """log(sum(exp(x))) without overflow."""
    top = np.max(x, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.log(np.exp(x - top).sum(axis=axis, keepdims=True)) + top
    return np.asarray(np.squeeze(total, axis=axis))


def log_softmax(logits: Array) -> Array:
    """Log probabilities along the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def softmax(logits: Array) -> Array:
    """Probabilities along the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def expit(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)) without overflow, exact to rounding at both ends."""
    x = np.asarray(x, dtype=np.float64)
    power = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0.0, 1.0, power) / (1.0 + power))


def log_expit(x: ArrayLike) -> Array:
    """log(expit(x)) without underflow."""
    return np.asarray(-np.logaddexp(0.0, -np.asarray(x, dtype=np.float64)))


def logit(p: ArrayLike) -> Array:
    """log(p / (1 - p)): infinite at 0 and 1, NaN outside."""
    p = np.asarray(p, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(p) - np.log1p(-p))


def ndtr(x: ArrayLike) -> Array:
    """The standard normal cdf."""
    from scipy.special import ndtr as exact

    return np.asarray(exact(x))


def ndtri(q: ArrayLike) -> Array:
    """The standard normal quantile."""
    from scipy.special import ndtri as exact

    return np.asarray(exact(q))
