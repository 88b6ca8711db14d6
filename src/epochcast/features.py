"""What the streaming network sees: numbers that keep their precision from 1 down to 1e-4 and below.

The same numpy code serves training, batches and streams, so all engines agree by construction.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epochcast.anchor import LOG_NOISE_LEVELS, Anchor, Belief

Array = NDArray[np.float64]
Moments = tuple[Array, Array, Array]  # mean, variance between the components, and standard deviation

_DIFFERENCE_SCALES = np.array([3.0, 30.0, 300.0, 3000.0])
_FREQUENCIES = np.array([1.0, 4.0, 16.0, 64.0])
_GAIN_SCALES = np.array([3.0, 30.0, 300.0])
_SQUARED_NOISE_LEVELS = LOG_NOISE_LEVELS**2
_LOG_HORIZON = np.log(100.0)

SMALLEST_LOG_SCALE, LARGEST_LOG_SCALE = -15.0, 3.0  # of a component that a network predicts
HIDDEN = -1e9  # added to the attention score of a token that may not be seen
NO_VALUE = 0.5  # stands for the newest value before there is one
TOKEN_FEATURES = 6 + len(_DIFFERENCE_SCALES) + 1 + 2 * len(_FREQUENCIES)
QUERY_FEATURES = 14


OUTLINE_STEPS = np.array([1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 32.0, 50.0, 70.0, 85.0, 100.0])
_OUTLINE_SCALES = np.array([10.0, 100.0])[:, None]


def cutoff_features_of(clusters: int) -> int:
    return clusters + 2 + 2 * len(OUTLINE_STEPS) + len(_OUTLINE_SCALES) * (len(OUTLINE_STEPS) - 1)


def token_features(steps: Array, values: Array, horizon: float) -> Array:
    """[..., 1 + value, TOKEN_FEATURES] of steps and values [..., value]; the first token is the start of the run."""
    difference = np.zeros_like(values)
    np.subtract(values[..., 1:], values[..., :-1], out=difference[..., 1:])
    tokens = np.zeros((*values.shape[:-1], values.shape[-1] + 1, TOKEN_FEATURES))
    tokens[..., 0, 0] = 1.0
    tokens[..., 3] = np.log(horizon) / _LOG_HORIZON
    after = tokens[..., 1:, :]
    after[..., 1] = steps / horizon
    after[..., 2] = np.log(np.maximum(steps, 1e-3)) / _LOG_HORIZON
    after[..., 4] = values
    after[..., 5] = np.maximum.accumulate(values, axis=-1) - values
    after[..., 6:10] = np.arcsinh(difference[..., None] * _DIFFERENCE_SCALES)
    after[..., 10] = np.log(np.abs(difference) + 1e-6) / 4.0
    angles = values[..., None] * (np.pi * _FREQUENCIES)
    after[..., 11::2], after[..., 12::2] = np.sin(angles), np.cos(angles)
    return tokens


def cutoff_features(anchor: Anchor, belief: Belief) -> Array:
    """[..., cutoff_features_of(clusters)]: which clusters fit, what is known of the noise, and the curve's outline.

    The outline is the anchor's mean at a few steps, with its differences at several scales: close to a sufficient
    statistic of what was seen, in numbers that stay sharp when the noise is small.
    """
    steps = np.broadcast_to(OUTLINE_STEPS, (*belief.rotation.shape[:-3], len(OUTLINE_STEPS)))
    outline = moments(anchor.components(belief, steps))
    return outline_features(belief.weights, belief.noise_weights, outline)


def outline_features(weights: Array, noise_weights: Array, outline: Moments) -> Array:
    """The same from weights of clusters and of noise levels [..., one], and the moments [..., outline step]."""
    clusters, count = weights.shape[-1], len(OUTLINE_STEPS)
    mean, _, scale = outline
    features = np.empty((*weights.shape[:-1], cutoff_features_of(clusters)))
    np.sqrt(weights, out=features[..., :clusters])
    level = noise_weights @ LOG_NOISE_LEVELS
    spread = noise_weights @ _SQUARED_NOISE_LEVELS - np.square(level)
    features[..., clusters] = level + 4.0
    features[..., clusters + 1] = 0.5 * np.log(np.maximum(spread, 1e-6))
    means, scales, rises = clusters + 2, clusters + 2 + count, clusters + 2 + 2 * count  # where they start
    features[..., means:scales] = mean
    features[..., scales:rises] = 0.5 * np.log(scale) + 2.0
    rise = _OUTLINE_SCALES * (mean[..., 1:] - mean[..., :-1])[..., None, :]  # [..., scale, rise]
    features[..., rises:] = np.arcsinh(rise).reshape(*rise.shape[:-2], -1)
    return features


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
    log_step, log_queries, log_scale = np.log(step), np.log(queries), np.log(scale)
    columns = np.empty((*mean.shape, QUERY_FEATURES))
    columns[..., 0] = queries / horizon
    columns[..., 1] = log_queries / _LOG_HORIZON
    columns[..., 2] = log_queries - log_step
    columns[..., 3] = step / horizon
    columns[..., 4] = log_step / _LOG_HORIZON
    columns[..., 5] = np.log(horizon) / _LOG_HORIZON
    columns[..., 6] = mean
    columns[..., 7] = gain / scale
    columns[..., 8:11] = np.arcsinh(gain[..., None] * _GAIN_SCALES)
    columns[..., 11] = 0.5 * log_scale + 2.0
    columns[..., 12] = 0.25 * np.log(between + 1e-12) + 2.0
    columns[..., 13] = np.sqrt(between) / scale
    return columns
