"""What the streaming network sees: numbers that keep their precision from 1 down to 1e-4 and below.

The same numpy code serves training, batches and streams, so all engines agree by construction.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epochcast.anchor import LOG_NOISE_LEVELS, Anchor, Belief

Array = NDArray[np.float64]

_DIFFERENCE_SCALES = (3.0, 30.0, 300.0, 3000.0)
_FREQUENCIES = (1.0, 4.0, 16.0, 64.0)
_LOG_HORIZON = np.log(100.0)

SMALLEST_LOG_SCALE, LARGEST_LOG_SCALE = -15.0, 3.0  # of a component that a network predicts
NO_VALUE = 0.5  # stands for the newest value before there is one
TOKEN_FEATURES = 6 + len(_DIFFERENCE_SCALES) + 1 + 2 * len(_FREQUENCIES)
QUERY_FEATURES = 14


OUTLINE_STEPS = np.array([1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 32.0, 50.0, 70.0, 85.0, 100.0])
_OUTLINE_SCALES = (10.0, 100.0)


def cutoff_features_of(clusters: int) -> int:
    return clusters + 2 + 2 * len(OUTLINE_STEPS) + len(_OUTLINE_SCALES) * (len(OUTLINE_STEPS) - 1)


def token_features(steps: Array, values: Array, horizon: float) -> Array:
    """[..., 1 + value, TOKEN_FEATURES] of steps and values [..., value]; the first token is the start of the run."""
    difference = np.diff(values, axis=-1, prepend=values[..., :1])
    behind = np.maximum.accumulate(values, axis=-1) - values
    columns = [
        np.zeros_like(values),
        steps / horizon,
        np.log(np.maximum(steps, 1e-3)) / _LOG_HORIZON,
        np.full_like(values, np.log(horizon) / _LOG_HORIZON),
        values,
        behind,
        *(np.arcsinh(scale * difference) for scale in _DIFFERENCE_SCALES),
        np.log(np.abs(difference) + 1e-6) / 4.0,
    ]
    for frequency in _FREQUENCIES:
        columns += [np.sin(np.pi * frequency * values), np.cos(np.pi * frequency * values)]
    tokens = np.stack(columns, axis=-1)
    start = np.zeros_like(tokens[..., :1, :]) if tokens.shape[-2] else np.zeros((*tokens.shape[:-2], 1, TOKEN_FEATURES))
    start[..., 0] = 1.0
    start[..., 3] = np.log(horizon) / _LOG_HORIZON
    return np.concatenate([start, tokens], axis=-2)


def cutoff_features(anchor: Anchor, belief: Belief) -> Array:
    """[..., cutoff_features_of(clusters)]: which clusters fit, what is known of the noise, and the curve's outline.

    The outline is the anchor's mean at a few steps, with its differences at several scales: close to a sufficient
    statistic of what was seen, in numbers that stay sharp when the noise is small.
    """
    level = belief.noise_weights @ LOG_NOISE_LEVELS
    spread = belief.noise_weights @ LOG_NOISE_LEVELS**2 - level**2
    known = np.stack([level + 4.0, 0.5 * np.log(np.maximum(spread, 1e-6))], axis=-1)
    steps = np.broadcast_to(OUTLINE_STEPS, (*belief.rotation.shape[:-3], len(OUTLINE_STEPS)))
    mean, _, scale = moments(anchor.components(belief, steps))
    rise = np.diff(mean, axis=-1)
    outline = [mean, 0.5 * np.log(scale) + 2.0, *(np.arcsinh(factor * rise) for factor in _OUTLINE_SCALES)]
    return np.concatenate([np.sqrt(belief.weights), known, *outline], axis=-1)


Moments = tuple[Array, Array, Array]


def moments(components: tuple[Array, Array, Array]) -> Moments:
    """Mean, variance between the components, and standard deviation [...] of Gaussians [..., component]."""
    log_weights, means, log_scales = components
    weights = np.exp(log_weights)
    mean = (weights * means).sum(axis=-1)
    between = (weights * np.square(means - mean[..., None])).sum(axis=-1)
    return mean, between, np.sqrt(between + (weights * np.exp(2.0 * log_scales)).sum(axis=-1))


def query_features(cutoff: Array, last: Array, queries: Array, first_answer: Moments, horizon: float) -> Array:
    """[..., query, QUERY_FEATURES]: where the query lies, and the anchor's first answer there.

    `cutoff` and `last` [...] are the newest step (0 before the run) and its value; `queries` is [..., query].
    """
    mean, between, scale = first_answer
    step = np.maximum(cutoff, 0.5)[..., None]
    gain = mean - last[..., None]
    columns = [
        queries / horizon,
        np.log(queries) / _LOG_HORIZON,
        np.log(queries / step),
        step / horizon,
        np.log(step) / _LOG_HORIZON,
        np.full(1, np.log(horizon) / _LOG_HORIZON),
        mean,
        gain / scale,
        np.arcsinh(3.0 * gain),
        np.arcsinh(30.0 * gain),
        np.arcsinh(300.0 * gain),
        0.5 * np.log(scale) + 2.0,
        0.25 * np.log(between + 1e-12) + 2.0,
        np.sqrt(between) / scale,
    ]
    return np.stack([np.broadcast_to(column, mean.shape) for column in columns], axis=-1)
