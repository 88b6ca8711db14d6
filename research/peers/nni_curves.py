"""NNI's curve-fitting assessor: twelve parametric curves, weighed by a few steps of MCMC; a point for each step."""

from __future__ import annotations

import copy
import warnings

import numpy as np

from epochcast.curve import Array
from peers.engine import PointPeer

_SEED = 0


class CurveFitting(PointPeer):
    name = "nni"
    fewest = 6  # its start_step by default

    def forecast(self, values: Array, count: int) -> Array | None:
        from nni.algorithms.hpo.curvefitting_assessor import model_factory

        model = model_factory.CurveModel(len(values) + count)
        # Parameters of curves that cannot be fitted stay in a table of its module: each run starts from a fresh one.
        untouched = copy.deepcopy(model_factory.model_para)
        state = np.random.get_state()  # noqa: NPY002  # it draws from numpy's global generator
        np.random.seed(_SEED)  # noqa: NPY002
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                if model.predict(values.tolist()) is None:
                    return None  # too few of its curves agree
                return _combined(model, np.arange(len(values) + 1, len(values) + count + 1))
        finally:
            np.random.set_state(state)  # noqa: NPY002
            model_factory.model_para.update(untouched)


def _combined(model: object, positions: Array) -> Array:
    """What its `predict` answers for the target position, at other positions [position, 1]."""
    answers = [[model.f_comb(position, sample) for sample in model.weight_samples] for position in positions]
    return np.mean(answers, axis=1)[:, None]
