"""Many MCMC settings for the price of the longest: what a shorter chain would have drawn is part of a longer one.

Burn-in, length and thinning only choose which steps of a chain are kept. So settings that share walkers, start and seed
are scored on one chain, and the paper's whole table of settings costs three chains per curve instead of 216.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from epochcast.curve import Curves
from epochcast.distributions import Array, Mixture
from epochcast.errors import ConfigError
from epochcast.sampling.mcmc import POSTERIORS, Chain, ChainDiagnostics, McmcConfig, McmcEngine, PriorName
from epochcast.sampling.posterior import equal_mixture, split


def shared_part(config: McmcConfig) -> tuple[int, str, int]:
    """What settings must have in common to be parts of one chain."""
    return config.nwalkers, config.start, config.seed


@dataclass(frozen=True)
class Part:
    """The forecast of one of the settings."""

    forecast: Mixture  # [curve, query]
    seconds: float  # processor time of its share of the chain's steps, and of its own draws
    diagnostics: ChainDiagnostics  # of the whole chain


class LongChain:
    """One chain on one curve that holds the chains of several settings."""

    def __init__(self, prior: PriorName, configs: Sequence[McmcConfig]) -> None:
        if len({shared_part(config) for config in configs}) != 1:
            raise ConfigError("settings with other walkers, starts or seeds are no parts of one chain")
        self._prior = prior
        self._configs = configs
        # Steps that no setting keeps are not stored either.
        self._stride = math.gcd(*(number for config in configs for number in (config.burn_in, config.thin)))
        self._steps = max(config.burn_in + config.nsamples for config in configs)
        whole = replace(configs[0], nsamples=self._steps, burn_in=0, thin=min(self._stride, self._steps))
        self._engine = McmcEngine(prior, whole)

    def forecasts(self, curve: Curves, queries: Array, horizon: float) -> Iterator[Part]:
        """The forecast of each of the settings, in order, for a single curve and queries [1, query]."""
        (observed,) = split(curve)
        start = time.process_time()
        posterior = POSTERIORS[self._prior](observed, horizon)
        chain = self._engine.sample(posterior)
        seconds = time.process_time() - start
        for config in self._configs:
            start = time.process_time()
            draws = self._part(chain, config).draws(config.components)
            forecast = equal_mixture([posterior.curves(draws, queries[0]).T], [draws[:, -1]])
            share = (config.burn_in + config.nsamples) / self._steps
            yield Part(forecast, seconds * share + time.process_time() - start, chain.diagnostics)

    def _part(self, chain: Chain, config: McmcConfig) -> Chain:
        first, step = config.burn_in // self._stride, config.thin // self._stride
        kept = np.s_[first + step - 1 : first + config.nsamples // self._stride : step]
        return Chain(chain.positions[kept], chain.diagnostics)
