"""The formula that turns raw outputs into a mixture is written twice, for numpy and for torch: both say the same."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs epochcast[train]")

import torch

from epochcast.curve import Curves
from epochcast.features.codec import Codec
from epochcast.features.constants import (
    LARGEST_LOG_SCALE,
    LARGEST_OFFSET,
    SMALLEST_LOG_SCALE,
    SURPRISE,
    SURPRISE_MEAN,
    SURPRISE_SCALE,
)
from epochcast.features.run import RunFeatures
from epochcast.nn.objective import gaussians_log_prob, placed_around
from epochcast.prior import paper
from epochcast.question import Question

RUNS, SEEN, QUERIES, COMPONENTS = 16, 9, 7, 5


def both(raw):
    """The mixture of raw outputs [run, query, output] by numpy, and its three parts by torch."""
    values = paper.sample(RUNS, np.random.default_rng(1), 30).noisy[:, :SEEN]
    steps = np.tile(np.linspace(SEEN + 1.0, 30.0, QUERIES), (RUNS, 1))
    question = Question.of(Curves.of(values), steps, 30)
    codec = Codec(None, 200, frozenset())
    runs = codec.runs(question)
    _, asked = codec.newest(question, runs)
    seen = RunFeatures.of(runs.steps, runs.values, 30.0).at(runs.lengths[:, None])
    last, unit = (torch.from_numpy(array[..., None]) for array in (seen.last, seen.unit))
    parts = placed_around(torch.from_numpy(raw[:, None].astype(np.float64)), last, unit)
    return asked.read(raw[:, None])[:, 0], [part[:, 0] for part in parts]


def raw_outputs(spread, seed=0):
    shape = (RUNS, QUERIES, 3 * COMPONENTS + 1)
    return (spread * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("spread", [0.1, 1.0, 10.0], ids=["small", "usual", "past all limits"])
def test_mixture_of_random_outputs_is_the_same_in_numpy_and_in_torch(spread, seed):
    numpy, (log_weights, means, log_scales) = both(raw_outputs(spread, seed))
    assert numpy.means.shape == (RUNS, QUERIES, COMPONENTS + 1)
    np.testing.assert_allclose(numpy.log_weights, log_weights, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(numpy.means, means, rtol=1e-12)
    np.testing.assert_allclose(numpy.log_scales, log_scales, rtol=1e-12)
    assert np.exp(numpy.log_weights).sum(axis=-1) == pytest.approx(1.0)


def test_outputs_past_all_limits_are_held_there_by_both():
    raw = raw_outputs(100.0)
    numpy, (_, _, log_scales) = both(raw)
    for found in (numpy.log_scales[..., :-1], log_scales.numpy()[..., :-1]):
        assert (found.min(), found.max()) == (SMALLEST_LOG_SCALE, LARGEST_LOG_SCALE)
    raw[..., -1] = 0.0  # the scale of all
    raw[..., COMPONENTS : 2 * COMPONENTS] = 2.0 * LARGEST_OFFSET
    far, (_, means, _) = both(raw)
    raw[..., COMPONENTS : 2 * COMPONENTS] = LARGEST_OFFSET
    at_the_limit, _ = both(raw)
    np.testing.assert_array_equal(far.means, at_the_limit.means)
    np.testing.assert_allclose(far.means, means, rtol=1e-12)


def test_last_component_is_the_surprise_in_both():
    numpy, torchs = both(raw_outputs(1.0))
    wanted = (np.log(SURPRISE), SURPRISE_MEAN, np.log(SURPRISE_SCALE))
    for part, other, value in zip((numpy.log_weights, numpy.means, numpy.log_scales), torchs, wanted, strict=True):
        np.testing.assert_allclose(part[..., -1], value)
        np.testing.assert_allclose(other[..., -1], value)


def test_density_that_is_trained_is_the_one_that_is_forecast():
    numpy, parts = both(raw_outputs(1.0))
    values = np.random.default_rng(2).uniform(0.0, 1.0, (RUNS, QUERIES))
    trained = gaussians_log_prob(*parts, torch.from_numpy(values))
    np.testing.assert_allclose(numpy.log_prob(values), trained, rtol=1e-9, atol=1e-9)
