"""A Gaussian process with BoTorch's exponential decay kernel: the model of one curve in freeze-thaw optimisation."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from epochcast.curve import Array
from epochcast.distributions import Mixture
from epochcast.question import Question
from peers.engine import GaussianAnswers, PeerEngine

_ITERATIONS = 50  # of the optimiser: a batch goes on until its slowest run has settled, at many times the cost


class DecayGp(PeerEngine):
    """Hyperparameters are fitted to each run; runs of the same length are fitted as one batch."""

    name = "decay-gp"
    fewest = 2

    def predict(self, question: Question) -> Mixture:
        answers, lengths = GaussianAnswers(question), question.runs.lengths
        for length in np.unique(lengths[lengths >= self.fewest]):
            rows = np.flatnonzero(lengths == length)
            answers.put(rows, *_fitted(question[rows]))
            self.answered += len(rows)
        return answers.mixture()


def _fitted(question: Question) -> tuple[Array, Array]:
    """Means and standard deviations [curve, query] of runs of one length."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Standardize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    runs, length = question.runs, int(question.runs.lengths[0])
    seen, values, asked = (
        torch.as_tensor(array, dtype=torch.float64)[..., None]  # [curve, step, 1]
        for array in (
            runs.steps[:, :length] / question.horizon,
            runs.values[:, :length],
            question.steps / question.horizon,
        )
    )
    batch = torch.Size([len(runs)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scaling, of optimisers that stop early, of jitter
        model = SingleTaskGP(
            seen, values, covar_module=_kernel(batch), outcome_transform=Standardize(m=1, batch_shape=batch)
        )
        likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(likelihood, optimizer_kwargs={"options": {"maxiter": _ITERATIONS}})
        with torch.no_grad():
            answer = model.posterior(asked, observation_noise=True)
            return answer.mean[..., 0].numpy(), answer.variance[..., 0].sqrt().numpy()


def _kernel(batch: Any) -> Any:
    from botorch.models.kernels import ExponentialDecayKernel
    from gpytorch.kernels import ScaleKernel

    return ScaleKernel(ExponentialDecayKernel(batch_shape=batch), batch_shape=batch)
