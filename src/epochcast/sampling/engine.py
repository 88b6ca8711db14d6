"""An engine that samples the posterior of one curve after the other, and says how far its draws can be trusted."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Generic, Protocol, TypeVar

from epochcast.distributions import Array, Mixture
from epochcast.question import Engine, Question
from epochcast.sampling.posterior import Observed, check_queries, equal_mixture, split


class Diagnostics(Protocol):
    """What a sampler says of its work on one curve."""

    @property
    def converged(self) -> bool: ...


RecordT = TypeVar("RecordT", bound=Diagnostics)


class SamplingEngine(Engine, Generic[RecordT]):
    """Forecasts as equally likely draws; `diagnostics` holds one record per curve of the latest forecast."""

    samples = True  # seconds per run
    diagnostics: tuple[RecordT, ...] = ()

    def predict(self, question: Question) -> Mixture:
        """The posterior predictive [curve, query] of normalised curves."""
        curves, queries, horizon = question.runs, question.steps, question.horizon
        check_queries(curves, queries, horizon)
        drawn = [self._draws(observed, own, horizon) for observed, own in zip(split(curves), queries, strict=True)]
        self.diagnostics = tuple(record for _, _, record in drawn)
        doubtful = [record for record in self.diagnostics if not record.converged]
        if doubtful:
            sentence, category = self._doubts(doubtful)
            warnings.warn(sentence, category, stacklevel=2)
        return equal_mixture([means for means, _, _ in drawn], [log_scales for _, log_scales, _ in drawn])

    @abstractmethod
    def _draws(self, observed: Observed, queries: Array, horizon: float) -> tuple[Array, Array, RecordT]:
        """Means [query, draw] and log scales [draw] of one curve, and the record."""

    @abstractmethod
    def _doubts(self, doubtful: list[RecordT]) -> tuple[str, type[Warning]]:
        """What to say of curves that have not converged."""
