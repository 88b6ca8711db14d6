"""What a network is trained on: draws from a prior in, a loss out; and the same network asked for a forecast.

An objective owns all that depends on the layout of the network; the training loop knows only `loss` and `predict`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from epochcast.distributions import Array, Bars, Distribution, Mixture
from epochcast.features.constants import (
    LARGEST_LOG_SCALE,
    LARGEST_OFFSET,
    SMALLEST_LOG_SCALE,
    SURPRISE,
    SURPRISE_MEAN,
    SURPRISE_SCALE,
)
from epochcast.features.run import RunFeatures
from epochcast.nn.batch import BatchSampler, Targets, TrainingBatch, paper_validation
from epochcast.nn.model import ModelConfig, SetModel, StreamModel
from epochcast.prior.paper import Draw
from epochcast.question import NOTHING, Input
from epochcast.rates import Rates, widened

Cutoffs = Literal["batch", "curve"]
Precision = Literal["float32", "bfloat16"]
Sampler = Callable[[int, np.random.Generator], Draw]

_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_STREAM_HIDDEN = ("blocks.", "from_state.", "decode_hidden.")  # weights between hidden states of a streaming network


class Objective(Protocol):
    """A trainable network with its loss."""

    @property
    def network(self) -> nn.Module: ...
    @property
    def reads(self) -> frozenset[Input]:
        """What the network learns to read beside the values of a run."""

    @property
    def sampler(self) -> Callable[[int, np.random.Generator], Any]:
        """Draws what `loss` is given."""

    def is_hidden(self, name: str) -> bool: ...
    def loss(self, draw: Any, rng: np.random.Generator, /) -> Tensor: ...
    def predict(self, values: Array, cutoff: int) -> Distribution: ...
    def validation(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Curves [curve, step] to score forecasts on, and what to take off each value's score (a control variate)."""


def prior_borders(sampler: Sampler, bins: int, rng: np.random.Generator) -> Array:
    """Borders of bins that are equally likely under the prior."""
    values = sampler(100_000, rng).noisy
    return np.quantile(values, np.linspace(0.0, 1.0, bins + 1))


def mixture_log_prob(raw: Tensor, y: Tensor) -> Tensor:
    """log p(y) of a mixture given as raw outputs [..., 3 x component]: logits, means, log-scales."""
    logits, means, log_scales = raw.chunk(3, dim=-1)
    log_scales = log_scales.clamp(min=SMALLEST_LOG_SCALE)
    return gaussians_log_prob(F.log_softmax(logits, dim=-1), means, log_scales, y)


def gaussians_log_prob(log_weights: Tensor, means: Tensor, log_scales: Tensor, y: Tensor) -> Tensor:
    z = (y[..., None] - means) * torch.exp(-log_scales)
    return torch.logsumexp(log_weights - 0.5 * z**2 - log_scales, dim=-1) - _LOG_ROOT_TWO_PI


def bin_masses(noiseless: Tensor, sigma: Tensor, borders: Tensor) -> Tensor:
    """Probability of each bin under N(noiseless, sigma^2): the whole target at once instead of one noisy draw."""
    inner = torch.special.ndtr((borders[1:-1] - noiseless[..., None]) / sigma[..., None])
    edges = F.pad(F.pad(inner, (1, 0), value=0.0), (0, 1), value=1.0)
    return edges.diff(dim=-1)


def tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))


class SetObjective:
    """The paper's: contexts of random length, every later step a query."""

    reads: frozenset[Input] = NOTHING

    def __init__(
        self, config: ModelConfig, sampler: Sampler, borders: Array, horizon: int, targets: Targets, cutoffs: Cutoffs
    ) -> None:
        self.network = SetModel(config)
        self.sampler = sampler
        self.borders = borders
        self.horizon = horizon
        self.targets = targets
        self.cutoffs = cutoffs
        self._borders = tensor(borders)
        self._steps = torch.arange(1, horizon + 1) / horizon

    def is_hidden(self, name: str) -> bool:
        """Whether a weight matrix lies between hidden states (Muon's share) rather than in an embedding or a head."""
        return name.startswith(("blocks.", "decode_hidden."))

    def loss(self, draw: Draw, rng: np.random.Generator) -> Tensor:
        device = next(self.network.parameters()).device
        seen = self._draw_cutoffs(len(draw.noisy), rng)
        observed = torch.arange(self.horizon) < seen[:, None]
        values = tensor(draw.noisy)
        steps = self._steps.expand_as(values)
        states = self.network.encode(steps.to(device), values.to(device), observed.to(device))
        raw = self.network.decode(states[~observed.to(device)])  # [query, output]
        cross_entropy = self._cross_entropy(raw, draw, ~observed)
        weight = (1.0 / (self.horizon - seen))[:, None].expand_as(observed)[~observed]  # every curve counts alike
        return (cross_entropy * weight.to(device)).sum() / len(values)

    def _draw_cutoffs(self, size: int, rng: np.random.Generator) -> Tensor:
        if self.cutoffs == "batch":
            return torch.full((size,), int(rng.integers(self.horizon)))
        # Stratified over the batch: the same law with less noise.
        strata = (rng.permutation(size) + rng.random(size)) / size
        return torch.from_numpy((strata * self.horizon).astype(np.int64))

    def _cross_entropy(self, raw: Tensor, draw: Draw, queried: Tensor) -> Tensor:
        device = raw.device
        if self.targets == "noisy":
            return self._negative_log_prob(raw, tensor(draw.noisy)[queried].to(device))
        noiseless = tensor(draw.noiseless)[queried].to(device)
        sigma = tensor(draw.sigma)[:, None].expand_as(queried)[queried].to(device)
        if self.targets == "exact" and self.network.config.head == "bars":
            masses = bin_masses(noiseless, sigma, self._borders.to(device))
            return -(masses * F.log_softmax(raw, dim=-1)).sum(dim=-1)
        noise = tensor(draw.noisy)[queried].to(device) - noiseless
        mirrored = self._negative_log_prob(raw, noiseless - noise)
        return 0.5 * (self._negative_log_prob(raw, noiseless + noise) + mirrored)

    def _negative_log_prob(self, raw: Tensor, y: Tensor) -> Tensor:
        if self.network.config.head == "mixture":
            return -mixture_log_prob(raw, y)
        index = torch.bucketize(y, self._borders.to(y.device)[1:-1])
        return F.cross_entropy(raw, index, reduction="none")

    @torch.no_grad()
    def predict(self, values: Array, cutoff: int) -> Distribution:
        device = next(self.network.parameters()).device
        context = tensor(values[:, :cutoff]).to(device)
        steps = self._steps.to(device).expand(len(values), -1)
        raw = self.network(steps[:, :cutoff], context, torch.ones_like(context).bool(), steps[:, cutoff:])
        return distribution(raw.double().cpu().numpy(), self.network.config.head, self.borders)

    def validation(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        return paper_validation(size, rng, self.horizon)


def distribution(raw: Array, head: str, borders: Array) -> Distribution:
    """The distribution that raw outputs of a set network stand for."""
    if head == "bars":
        return Bars(borders, raw)
    logits, means, log_scales = np.split(raw, 3, axis=-1)
    return Mixture.of(logits, means, np.maximum(log_scales, SMALLEST_LOG_SCALE))


class StreamObjective:
    """All cutoffs of every run, a few later steps queried at each, stratified over what is left."""

    def __init__(
        self, config: ModelConfig, sampler: BatchSampler, queries: int, precision: Precision = "float32"
    ) -> None:
        self.network = StreamModel(config)
        self.sampler = sampler
        self.queries = queries
        self.precision = precision
        self.reads = sampler.reads if config.rates else sampler.reads - {"schedule"}

    def is_hidden(self, name: str) -> bool:
        """Whether a weight matrix lies between hidden states (Muon's share) rather than in an embedding or a head."""
        return name.startswith(_STREAM_HIDDEN)

    def loss(self, batch: TrainingBatch, rng: np.random.Generator) -> Tensor:
        count = len(batch.steps)
        cutoffs = np.arange(count)
        queries = cutoffs[:, None] + _stratified(count - cutoffs, self.queries, rng)  # [cutoff, query] of later values
        return -self.log_prob(batch, cutoffs, queries).mean()

    def log_prob(self, batch: TrainingBatch, cutoffs: NDArray[np.int64], queries: NDArray[np.int64]) -> Tensor:
        """Log-density [draw, run, cutoff, query] of later values, by their index [cutoff, query]."""
        steps = np.broadcast_to(batch.steps, batch.values.shape)
        rates = batch.rates if self.network.config.rates else None
        whole = RunFeatures.of(steps, batch.values, batch.horizon, kinds=batch.kinds, rates=rates)
        asked = batch.steps[queries][None]
        log_weights, means, log_scales = self._answer(
            whole, cutoffs[None], asked, rates and rates[queries], coarse=self.precision == "bfloat16"
        )
        targets = tensor(batch.targets[..., queries]).to(means.device)
        return torch.stack([gaussians_log_prob(log_weights, means, log_scales, y) for y in targets])

    def _answer(
        self,
        whole: RunFeatures,
        cutoffs: NDArray[np.int64],
        queries: Array,
        rates: Rates | None = None,
        coarse: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log-weights, means and log-scales [run, cutoff, query, component] of queried steps [1, cutoff, query].

        `coarse` products are for the layers over what was seen alone: answers need their digits.
        """
        config, device = self.network.config, next(self.network.parameters()).device
        seen = whole.at(cutoffs)
        with torch.autocast(device.type, torch.bfloat16, enabled=coarse):
            states, _ = self.network.encode(self._inputs(whole.tokens, config.token_features))
        raw = self.network.decode(
            states.float()[:, cutoffs[0]],
            self._inputs(seen.tokens, config.token_features),
            self._inputs(seen.queries(queries, rates), config.query_features),
        )
        last, unit = (tensor(array[..., None]).to(device) for array in (seen.last, seen.unit))
        return placed_around(raw, last, unit)

    def _inputs(self, features: Array, count: int) -> Tensor:
        return torch.from_numpy(widened(features, count)).to(next(self.network.parameters()).device)

    @torch.no_grad()
    def predict(self, values: Array, cutoff: int) -> Distribution:
        horizon = values.shape[1]
        steps = np.broadcast_to(np.arange(1.0, cutoff + 1.0), (len(values), cutoff))
        queries = np.arange(cutoff + 1.0, horizon + 1.0)[None, None]
        answer = self._answer(RunFeatures.of(steps, values[:, :cutoff], float(horizon)), np.array([[cutoff]]), queries)
        return Mixture(*(part[:, 0].double().cpu().numpy() for part in answer))

    def validation(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        return self.sampler.validation(size, rng)


def _stratified(left: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """`count` indices below each of `left` [cutoff], one from each of as many equal parts: [cutoff, count]."""
    share = (np.arange(count) + rng.random((len(left), count))) / count
    return np.minimum((share * left[:, None]).astype(np.int64), left[:, None] - 1)


def placed_around(raw: Tensor, last: Tensor, unit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-weights, means and log-scales of raw outputs [..., 3 x component + 1] around the newest value.

    The last component is fixed: whatever was seen, anything can happen with a small probability.
    """
    count = (raw.shape[-1] - 1) // 3
    logits, offsets, stretch, scale = raw.split([count, count, count, 1], dim=-1)
    log_unit = torch.log(unit)[..., None] + scale
    means = last[..., None] + torch.exp(log_unit) * torch.sinh(offsets.clamp(-LARGEST_OFFSET, LARGEST_OFFSET))
    log_scales = (log_unit + stretch).clamp(SMALLEST_LOG_SCALE, LARGEST_LOG_SCALE)
    log_weights = F.log_softmax(logits, dim=-1) + math.log1p(-SURPRISE)
    return (
        F.pad(log_weights, (0, 1), value=math.log(SURPRISE)),
        F.pad(means, (0, 1), value=SURPRISE_MEAN),
        F.pad(log_scales, (0, 1), value=math.log(SURPRISE_SCALE)),
    )
