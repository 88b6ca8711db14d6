"""Runs to train on, and priors of one's own."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from epochcast.errors import ConfigError
from epochcast.features.codec import LONGEST
from epochcast.features.run import KIND_FEATURE
from epochcast.metric import LOSS, SHARE, UNTOLD
from epochcast.nn.batch import PaperSampler, sampler_of
from epochcast.prior.real import grid
from epochcast.runtime.networks import MOST_VALUES

OWN = """
import numpy as np

def sampler(size, rng, steps, horizon):
    rate = rng.uniform(1.0, 5.0, (size, 1))
    return 1.0 - np.exp(-rate * steps / horizon) + 0.01 * rng.standard_normal((size, len(steps)))

def wrong_shape(size, rng, steps, horizon):
    return np.zeros((size, 3))

def not_finite(size, rng, steps, horizon):
    return np.full((size, len(steps)), np.nan)
"""


@pytest.fixture
def own_prior(tmp_path, monkeypatch):
    (tmp_path / "own_prior_of_a_test.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield "own_prior_of_a_test"
    sys.modules.pop("own_prior_of_a_test", None)


def test_real_batches_mirror_their_noise_and_fit_their_plan():
    sampler = sampler_of("real")
    with_start = 0
    for seed in range(50):
        batch = sampler(8, np.random.default_rng(seed))
        assert batch.values.shape[1] == len(batch.steps)
        assert batch.targets.shape == (2, *batch.values.shape)
        assert batch.steps[-1] <= batch.horizon
        with_start += batch.steps[0] == 0.0
    assert 5 < with_start < 40


def test_kind_of_most_real_runs_is_told_and_of_all_others_never(own_prior):
    kinds = np.concatenate([sampler_of("real")(8, np.random.default_rng(seed)).kinds for seed in range(50)])
    told = kinds != UNTOLD
    assert 0.6 < told.mean() < 0.9
    assert {LOSS, SHARE} == set(kinds[told])
    for prior in ("paper", f"{own_prior}:sampler"):
        assert sampler_of(prior)(8, np.random.default_rng(0)).kinds is None


def _trainer(recipe, **changes):
    train = pytest.importorskip("epochcast.nn.trainer", reason="needs epochcast[train]", exc_type=ImportError)
    return train.Trainer(train.with_changes(train.RECIPES[recipe], **changes))


def test_model_that_was_never_told_a_kind_does_not_care(own_prior):
    trainer = _trainer("real", prior=f"{own_prior}:sampler", curves=16 * 3, batch=16)
    trainer.run()
    for name in ("embed", "from_cutoff"):
        assert not getattr(trainer.objective.network, name).weight[KIND_FEATURE].any()


def test_paper_batches_mirror_their_noise_and_leave_gaps_at_times():
    sampler = PaperSampler(50)
    with_gaps = 0
    for seed in range(100):
        batch = sampler(4, np.random.default_rng(seed))
        assert batch.values.shape == (4, len(batch.steps))
        assert batch.targets.shape == (2, 4, len(batch.steps))
        assert batch.steps[0] >= 1.0
        assert batch.steps[-1] <= batch.horizon == 50.0
        assert (np.diff(batch.steps) > 0.0).all()
        with_gaps += len(batch.steps) < 50
    assert 5 < with_gaps < 30


def test_paper_batches_share_one_noiseless_curve_between_values_and_targets():
    batch = PaperSampler(100, quiet=1.0)(8, np.random.default_rng(1))  # hardly any noise
    np.testing.assert_allclose(batch.targets.mean(axis=0), batch.values, atol=0.01)
    noisy = PaperSampler(100, "noisy")(8, np.random.default_rng(1))
    np.testing.assert_array_equal(noisy.targets[0], noisy.values)


def test_shorter_runs_come_in_larger_batches():
    sampler = sampler_of("real")
    sizes = [sampler(16, np.random.default_rng(seed)).values.shape for seed in range(100)]
    assert all(runs * steps < 2.5 * 16 * 100 for runs, steps in sizes)
    assert max(runs for runs, _ in sizes) > 16


def test_own_prior_trains_a_model_of_its_own(own_prior):
    trainer = _trainer("real", prior=f"{own_prior}:sampler", curves=16 * 8, batch=16)
    losses = []
    trainer.run(report=lambda t: losses.append(t.loss))
    assert np.isfinite(losses).all()
    assert np.mean(losses[-3:]) < np.mean(losses[:3])  # plans differ from step to step


@pytest.mark.parametrize("name", ["nowhere_at_all:sampler", "unknown", "json:no_such_function"])
def test_own_prior_that_cannot_be_found_is_named(name):
    with pytest.raises(ConfigError, match=name.split(":")[0]):
        sampler_of(name)


@pytest.mark.parametrize("function", ["wrong_shape", "not_finite"])
def test_own_prior_that_returns_nonsense_is_refused(own_prior, function):
    with pytest.raises(ConfigError, match=function):
        sampler_of(f"{own_prior}:{function}")(4, np.random.default_rng(0))


def test_prior_of_real_curves_with_the_papers_network_is_refused():
    with pytest.raises(ConfigError, match="recipe real"):
        _trainer("lcpfn", prior="real")


def test_networks_read_as_many_values_and_steps_as_the_prior_draws():
    """Inference keeps its own copies of these limits: it must not import the prior."""
    assert grid.MOST_STEPS == MOST_VALUES
    assert grid.LONGEST == LONGEST
