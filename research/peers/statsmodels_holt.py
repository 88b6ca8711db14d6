"""Holt's linear trend, damped, as a state-space model of statsmodels: maximum likelihood and Gaussian intervals."""

from __future__ import annotations

import warnings

import numpy as np

from epochcast.curve import Array
from peers.engine import GaussianPeer


class HoltDamped(GaussianPeer):
    name = "holt-damped"
    fewest = 4

    def forecast(self, values: Array, count: int) -> Array | None:
        import pandas
        from statsmodels.tsa.exponential_smoothing.ets import ETSModel

        if np.ptp(values) == 0.0:  # its likelihood is infinite
            return np.stack([np.full(count, values[-1]), np.zeros(count)], axis=-1)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # of optimisers that stop early: what they found is taken
            model = ETSModel(pandas.Series(values), error="add", trend="add", damped_trend=True)
            fit = model.fit(disp=False)
            ahead = fit.get_prediction(start=len(values), end=len(values) + count - 1)
            return np.stack([np.asarray(ahead.predicted_mean), np.sqrt(np.asarray(ahead.forecast_variance))], axis=-1)
