"""BoTorch's latent Kronecker Gaussian process: all runs of a task at once, over configurations x steps.

It is fitted to the runs in view together with those that are asked about, as far as these were seen: so each of them
helps the others, which the networks do not allow. The kernels are BoTorch's defaults; values are standardised.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from epochcast.curve import Array
from epochcast.distributions import Mixture
from epochcast.features.configuration import columns_of
from epochcast.question import Context, Question
from peers.engine import GaussianAnswers, PeerEngine

_ITERATIONS = 100  # of the optimiser
_MISSING = 0.5  # of a column that runs from 0 to 1


class LatentKronecker(PeerEngine):
    """Hyperparameters are fitted to each task and cutoff."""

    name = "latent-kronecker-gp"

    def predict(self, question: Question) -> Mixture:
        answers, context = GaussianAnswers(question), question.context
        if context is None:
            raise ValueError("it learns from other runs; there are none")
        steps = np.unique(np.concatenate([context.runs.steps[context.runs.seen], question.steps.ravel()]))
        seen = [_on(steps, part.steps, part.values, part.seen) for part in (context.runs, question.runs)]
        mean, sd = _fitted(_columns(question, context), steps / question.horizon, np.concatenate(seen))
        place = np.searchsorted(steps, question.steps)
        rows = np.arange(len(question))
        asked = len(context) + rows[:, None], place
        answers.put(rows, mean[asked], sd[asked])
        self.answered += len(question)
        return answers.mixture()


def _columns(question: Question, context: Context) -> Array:
    """Configurations [run, column], those of the context first; what is not known lies in the middle."""
    own = question.configs or (None,) * len(question)
    others = context.configs or (None,) * len(context)
    configs: list[Mapping[str, Any] | None] = [*others, *own]
    values = columns_of(configs, context.space, learned_from=len(context)).values
    if not values.shape[1]:  # as it needs something to tell runs apart by
        values = np.random.default_rng(0).random((len(configs), 1))
    return np.nan_to_num(values, nan=_MISSING)


def _on(steps: Array, own: Array, values: Array, seen: Array) -> Array:
    """Values [run, step] on the steps of all runs, NaN where there are none."""
    table = np.full((len(own), len(steps)), np.nan)
    for row, there in enumerate(seen.astype(bool)):
        table[row, np.searchsorted(steps, own[row, there])] = values[row, there]
    return table


def _fitted(columns: Array, steps: Array, values: Array) -> tuple[Array, Array]:
    """Means and standard deviations [run, step] of values that may come."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models.latent_kronecker_gp import LatentKroneckerGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    middle, scale = np.nanmean(values), np.nanstd(values) + 1e-9
    x, t, y = (torch.as_tensor(part) for part in (columns, steps[:, None], (values - middle) / scale))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scaling, of optimisers that stop early, of jitter
        model = LatentKroneckerGP(x, t, y, outcome_transform=None)
        likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(likelihood, optimizer_kwargs={"options": {"maxiter": _ITERATIONS}})
        with torch.no_grad():
            answer = model.posterior(x, t)
            mean = answer.mean.reshape(y.shape)
            variance = answer.variance.reshape(y.shape) + model.likelihood.noise
    return middle + scale * mean.numpy(), scale * np.sqrt(variance.numpy())
