"""What the streaming network sees of real runs: causal, sharp at every scale, never without an answer."""

from __future__ import annotations

import numpy as np
import pytest

from epochcast.features.run import (
    FIRST_UNIT,
    KIND_FEATURE,
    NO_VALUE,
    QUERY_FEATURES,
    SMALLEST_UNIT,
    TOKEN_FEATURES,
    RunFeatures,
    running_mean,
)
from epochcast.metric import LOSS, SHARE, UNTOLD
from epochcast.prior import real


@pytest.fixture(scope="module")
def runs():
    steps = np.arange(1.0, 61.0)
    draw = real.sample(50, np.random.default_rng(0), steps, 60.0)
    return np.broadcast_to(steps, draw.noisy.shape), draw.noisy


def test_running_mean_without_decay_is_the_mean_so_far():
    x = np.array([[1.0, 2.0, 6.0]])
    np.testing.assert_allclose(running_mean(x, 1.0), [[1.0, 1.5, 3.0]])


def test_running_mean_with_decay_weighs_the_newest_most():
    np.testing.assert_allclose(running_mean(np.array([0.0, 1.0]), 0.5), [0.0, 2.0 / 3.0])


def test_features_of_a_longer_run_agree_on_the_cutoffs_they_share(runs):
    steps, values = runs
    whole, part = RunFeatures.of(steps, values, 60.0), RunFeatures.of(steps[:, :20], values[:, :20], 60.0)
    rounding = 1e-9  # that of a value, 1e-16, over the smallest unit, with room to spare
    for name in ("tokens", "step", "gap", "last", "unit", "slopes"):
        np.testing.assert_allclose(getattr(whole, name)[:, :21], getattr(part, name), atol=rounding, err_msg=name)


def test_features_before_the_first_value_say_that_nothing_is_known():
    start = RunFeatures.of(np.zeros((2, 0)), np.zeros((2, 0)), 30.0)
    assert start.tokens.shape == (2, 1, TOKEN_FEATURES)
    assert (start.last == NO_VALUE).all()
    assert (start.unit == FIRST_UNIT).all()


def test_features_of_a_constant_run_have_the_smallest_unit():
    values = np.full((1, 10), 0.7)
    run_features = RunFeatures.of(np.arange(1.0, 11.0)[None], values, 50.0)
    assert run_features.unit[0, -1] == SMALLEST_UNIT
    assert np.isfinite(run_features.tokens).all()


def test_features_tell_movements_of_one_in_a_hundred_thousand_apart():
    steps = np.arange(1.0, 21.0)[None]
    flat, rising = np.full((1, 20), 0.9), 0.9 + 1e-5 * steps
    difference = RunFeatures.of(steps, flat, 50.0).tokens[0, -1] - RunFeatures.of(steps, rising, 50.0).tokens[0, -1]
    assert np.abs(difference.astype(np.float32)).max() > 0.1


def test_features_stay_small_on_a_hundred_kinds_of_runs():
    rng = np.random.default_rng(1)
    for _ in range(100):
        steps, horizon = real.sample_grid(rng)
        draw = real.sample(8, rng, steps, horizon)
        run_features = RunFeatures.of(np.broadcast_to(steps, draw.noisy.shape), draw.noisy, horizon)
        cutoffs = np.arange(len(steps))[None]
        queries = run_features.at(cutoffs).queries(np.broadcast_to(horizon, (1, len(steps), 1)))
        assert queries.shape == (8, len(steps), 1, QUERY_FEATURES)
        assert np.abs(run_features.tokens).max() < 12.0
        assert np.abs(queries).max() < 12.0


def test_features_read_a_value_at_step_zero_as_the_untrained_model():
    steps, values = np.array([[0.0, 1.0]]), np.array([[0.1, 0.4]])
    tokens = RunFeatures.of(steps, values, 10.0).tokens[0]
    assert tokens[1, 1] == 1.0
    assert tokens[2, 1] == 0.0


@pytest.mark.parametrize("first", [1, 7, 12])
def test_tokens_of_new_values_alone_equal_those_of_the_whole_run(first):
    values = np.random.default_rng(4).random((3, 12))
    steps = np.broadcast_to(np.arange(1.0, 13.0), values.shape)
    whole, new = RunFeatures.of(steps, values, 50.0), RunFeatures.of(steps, values, 50.0, first)
    np.testing.assert_allclose(new.tokens, whole.tokens[:, first:], atol=1e-12)
    newest = np.full((3, 1), 12)
    np.testing.assert_allclose(new.at(newest).tokens, whole.at(newest).tokens, atol=1e-12)


@pytest.mark.parametrize("first", [0, 3])
def test_every_token_says_what_is_measured_and_nothing_else_changes(first):
    values = np.random.default_rng(5).random((3, 6))
    steps = np.broadcast_to(np.arange(1.0, 7.0), values.shape)
    told = RunFeatures.of(steps, values, 50.0, first, np.array([LOSS, UNTOLD, SHARE])).tokens
    assert (told[..., KIND_FEATURE] == [[LOSS], [UNTOLD], [SHARE]]).all()
    untold = RunFeatures.of(steps, values, 50.0, first).tokens
    assert (untold[..., KIND_FEATURE] == UNTOLD).all()
    np.testing.assert_array_equal(told[..., :KIND_FEATURE], untold[..., :KIND_FEATURE])
