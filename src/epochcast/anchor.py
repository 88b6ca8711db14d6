"""A closed-form first answer: the mixture of Gaussian processes closest to a prior.

Curves of a prior are sorted into clusters, and each cluster is summed up by its mean and its leading principal
functions. With a grid of noise levels this is a mixture of Bayesian linear regressions, whose posterior is exact and
costs a few small matrix products. The streaming network starts from this answer and learns what it gets wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from epochcast.curve import Curves
from epochcast.special import logsumexp

Array = NDArray[np.float64]

LOG_NOISE_LEVELS = np.arange(-10.0, -0.4, 0.25)  # a coarser grid loses 0.02 nats once the noise is well known
_NOISE_VARIANCES = np.exp(2.0 * LOG_NOISE_LEVELS)
_HALF_PRECISIONS = (0.5 / _NOISE_VARIANCES)[:, None]
_SMALLEST_WEIGHT = 1e-10

Part = TypeVar("Part")


@dataclass(frozen=True)
class Belief:
    """The posterior at a cutoff, one Gaussian per cluster; leading axes are curves (and cutoffs)."""

    weights: Array  # [..., cluster]
    coefficients: Array  # [..., cluster, function]
    rotation: Array  # [..., cluster, function, function], may have fewer leading axes
    spread: Array  # [..., cluster, function]: variances along the rotated functions
    noise: Array  # [..., cluster]: mean noise variance
    noise_weights: Array  # [..., noise level]

    def _map(self, change: Callable[[Array], Array]) -> Belief:
        """The same belief with its axes changed; the rotation, which curves may share, stays."""
        changed = (change(getattr(self, f.name)) for f in fields(self) if f.name != "rotation")
        weights, coefficients, spread, noise, noise_weights = changed
        return Belief(weights, coefficients, self.rotation, spread, noise, noise_weights)

    def curves_first(self) -> Belief:
        """Axes [..., curve] -> [curve, ...]."""
        return self._map(_curves_first)

    def only_curve(self) -> Belief:
        """Without the last axis, which holds one curve."""
        return self._map(lambda array: array[..., 0])

    @classmethod
    def joined(cls, parts: Sequence[Belief], order: NDArray[np.intp]) -> Belief:
        """Beliefs of several groups of curves, each with one rotation, put into the order of the curves."""
        rotations = [np.broadcast_to(part.rotation, (len(part.weights), *part.rotation.shape)) for part in parts]
        columns = [[getattr(part, f.name) for part in parts] for f in fields(cls) if f.name != "rotation"]
        weights, coefficients, spread, noise, noise_weights = (np.concatenate(column)[order] for column in columns)
        return cls(weights, coefficients, np.concatenate(rotations)[order], spread, noise, noise_weights)

    def at(self, cutoffs: NDArray[np.int64]) -> Belief:
        """The beliefs at some cutoffs, for beliefs over [curve, cutoff]."""
        return replace(self._map(lambda array: array[:, cutoffs]), rotation=self.rotation[cutoffs])


@dataclass(frozen=True)
class GridAnswer:
    """What is believed of curves, and the moments of their values at every step 1..horizon."""

    weights: Array  # [curve, cluster]
    noise_weights: Array  # [curve, noise level]
    moments: Array  # [3, curve, step]: mean, variance between the clusters, standard deviation

    @classmethod
    def joined(cls, parts: Sequence[GridAnswer], order: NDArray[np.intp]) -> GridAnswer:
        """Answers for several groups of curves, put into the order of the curves."""
        return cls(
            np.concatenate([part.weights for part in parts])[order],
            np.concatenate([part.noise_weights for part in parts])[order],
            np.concatenate([part.moments for part in parts], axis=1)[:, order],
        )

    def moments_at(self, steps: NDArray[np.intp]) -> tuple[Array, Array, Array]:
        """The moments [curve, query] at whole steps [curve or 1, query]."""
        columns = np.minimum(steps, self.moments.shape[2]) - 1
        if len(columns) == 1 or not (columns[1:] != columns[0]).any():
            mean, between, scale = self.moments.take(columns[0], axis=2)
        else:
            mean, between, scale = self.moments[:, np.arange(len(columns))[:, None], columns]
        return mean, between, scale


@dataclass(frozen=True)
class Factors:
    """A factorised Gram matrix of the functions at the steps that were seen, and what depends on it alone."""

    rotation: Array  # [..., cluster, function, function]: its eigenvectors
    shrink: Array  # [..., cluster, noise level, function]: 1 / (eigenvalue + noise variance)
    log_prior: Array  # [..., cluster, noise level]: with the log-determinants and what the count of values adds

    @classmethod
    def of(cls, gram: Array, count: Array, log_prior: Array) -> Factors:
        """From Gram matrices [..., cluster, function, function] of `count` [...] values each."""
        eigenvalues, rotation = np.linalg.eigh(gram)
        eigenvalues = np.maximum(eigenvalues, 0.0)[..., None, :]
        variances = _NOISE_VARIANCES[:, None]
        complexity = 0.5 * np.log1p(eigenvalues / variances).sum(axis=-1) + count[..., None, None] * LOG_NOISE_LEVELS
        return cls(rotation, 1.0 / (eigenvalues + variances), log_prior - complexity)

    def at(self, index: Any) -> Factors:
        return Factors(self.rotation[index], self.shrink[index], self.log_prior[index])


@dataclass(frozen=True)
class Anchor:
    """Clusters of curves over steps 1..horizon: their shares, means and scaled principal functions."""

    shares: Array  # [cluster]
    means: Array  # [cluster, step]
    functions: Array  # [cluster, step, function]

    @classmethod
    def fit(cls, curves: Array, clusters: int, functions: int, rng: np.random.Generator) -> Anchor:
        """Sort noiseless curves [curve, step] into clusters of similar shape."""
        from scipy.cluster.vq import kmeans2  # needed in training only, and slow to import

        mean, basis = _principal(curves, 8)
        scores = np.linalg.lstsq(basis, (curves - mean).T, rcond=None)[0].T
        _, label = kmeans2(np.arcsinh(2.0 * scores), clusters, minit="++", iter=30, seed=rng)
        members = [curves[label == k] for k in range(clusters)]
        members = [group for group in members if len(group) > 10 * functions]
        parts = [_principal(group, functions) for group in members]
        shares = np.array([len(group) for group in members], dtype=np.float64)
        return cls(shares / shares.sum(), np.stack([m for m, _ in parts]), np.stack([b for _, b in parts]))

    @property
    def horizon(self) -> int:
        return int(self.means.shape[1])

    @property
    def clusters(self) -> int:
        return len(self.shares)

    # --- the regular grid: factorised once for all cutoffs -------------------------------------------------------

    @cached_property
    def _grid(self) -> Factors:
        """Factors at cutoffs 0..horizon of curves seen at steps 1, 2, 3, ..."""
        gram = np.einsum("kti,ktj->tkij", self.functions, self.functions).cumsum(axis=0)
        return Factors.of(
            np.concatenate([np.zeros_like(gram[:1]), gram]), np.arange(self.horizon + 1.0), self._log_prior
        )

    @cached_property
    def _variance_parts(self) -> dict[int, Array]:
        """By cutoff, filled when a cutoff is first asked for: see `_variance_parts_at`."""
        return {}

    def _variance_parts_at(self, cutoff: int) -> Array:
        """[cluster, step, function]: variances at every step per unit of variance along the rotated functions."""
        if cutoff not in self._variance_parts:
            self._variance_parts[cutoff] = np.square(self.functions @ self._grid.rotation[cutoff])
        return self._variance_parts[cutoff]

    @cached_property
    def _log_prior(self) -> Array:
        """[cluster, noise level]"""
        level = -0.5 * (LOG_NOISE_LEVELS + 4.0) ** 2  # log sigma ~ N(-4, 1)
        return np.asarray(np.log(self.shares)[:, None] + level - logsumexp(level))

    # --- posteriors ----------------------------------------------------------------------------------------------

    def beliefs(self, values: Array) -> Belief:
        """Posteriors at every cutoff 0..n of complete curves [curve, n] on steps 1..n: axes [curve, cutoff, ...]."""
        count = values.shape[1]
        residual = values.T[:, None, :] - self.means.T[:count, :, None]  # [step, cluster, curve]
        projections = np.zeros((count + 1, *self.functions[:, 0].shape, len(values)))
        squares = np.zeros((count + 1, self.clusters, len(values)))
        functions = self.functions[:, :count].transpose(1, 0, 2)
        np.cumsum(residual[:, :, None] * functions[..., None], axis=0, out=projections[1:])
        np.cumsum(residual**2, axis=0, out=squares[1:])
        factors = self._grid.at(slice(count + 1))
        return self._posterior(projections, squares, factors).curves_first()

    def belief(self, curves: Curves) -> Belief:
        """The posterior of each curve at its own cutoff: axes [curve, ...]."""
        if not on_grid(curves):
            return self._belief_off_grid(curves)
        parts, order = self._by_cutoff(curves, lambda values: self._belief_on_grid(values).curves_first())
        return parts[0] if len(parts) == 1 else Belief.joined(parts, order)

    def answer_on_grid(self, curves: Curves) -> GridAnswer:
        """The answer for curves seen at steps 1, 2, 3, ... without a gap."""
        parts, order = self._by_cutoff(curves, self._answer_on_grid)
        return parts[0] if len(parts) == 1 else GridAnswer.joined(parts, order)

    def _by_cutoff(self, curves: Curves, answer: Callable[[Array], Part]) -> tuple[list[Part], NDArray[np.intp]]:
        """Answers for groups of curves [curve, n] with the same cutoff, and the order that puts them together."""
        lengths = curves.lengths
        if (lengths == curves.values.shape[1]).all():
            return [answer(curves.values)], np.arange(len(curves))
        cutoffs = np.unique(lengths)
        order = [np.flatnonzero(lengths == cutoff) for cutoff in cutoffs]
        parts = [answer(curves.values[rows, :n]) for rows, n in zip(order, cutoffs, strict=True)]
        return parts, np.argsort(np.concatenate(order))

    def _belief_on_grid(self, values: Array) -> Belief:
        """Curves [curve, n] that were all seen at steps 1..n: one factorisation serves them all; axes [..., curve]."""
        count = values.shape[1]
        residual = values.T - self.means[:, :count, None]  # [cluster, step, curve]
        projections = self.functions[:, :count].swapaxes(1, 2) @ residual
        squares = np.square(residual).sum(axis=1)
        return self._posterior(projections, squares, self._grid.at(count))

    def _answer_on_grid(self, values: Array) -> GridAnswer:
        """The same curves: whatever depends on their cutoff alone is worked out once."""
        belief = self._belief_on_grid(values)
        weights = belief.weights[:, None]  # [cluster, 1, curve]
        means = self.functions @ belief.coefficients  # [cluster, step, curve]
        means += self.means[..., None]
        variances = self._variance_parts_at(values.shape[1]) @ belief.spread
        variances += belief.noise[:, None]
        moments = np.empty((3, means.shape[2], means.shape[1]))
        mean = (weights * means).sum(axis=0)
        means -= mean
        between = (weights * np.square(means, out=means)).sum(axis=0)
        variances *= weights
        moments[0], moments[1] = mean.T, between.T
        moments[2] = np.sqrt(between + variances.sum(axis=0)).T
        return GridAnswer(belief.weights.T, belief.noise_weights.T, moments)

    def _belief_off_grid(self, curves: Curves) -> Belief:
        """Curves seen at any steps: a factorisation each."""
        functions, means = self._at(curves.steps)  # [curve, value, cluster, ...]
        functions = functions * curves.seen[..., None, None]
        residual = np.where(curves.seen[..., None], curves.values[..., None] - means, 0.0)
        squares = np.square(residual).sum(axis=1)
        projections = np.einsum("bnk,bnkr->bkr", residual, functions)
        by_cluster = np.swapaxes(functions, 1, 2)  # [curve, cluster, value, function]
        gram = np.swapaxes(by_cluster, -1, -2) @ by_cluster
        factors = Factors.of(gram, curves.lengths.astype(np.float64), self._log_prior)
        return self._posterior(projections[..., None], squares[..., None], factors).only_curve()

    def _posterior(self, projections: Array, squares: Array, factors: Factors) -> Belief:
        """Weights, coefficients and variances from sufficient statistics; all noise levels at once.

        Curves that share a factorisation are columns of the same matrix products: projections
        [..., cluster, function, curve], squares [..., cluster, curve].
        """
        rotated = factors.rotation.swapaxes(-1, -2) @ projections
        log_evidence = factors.shrink @ np.square(rotated)  # [..., cluster, level, curve]
        log_evidence -= squares[..., None, :]
        log_evidence *= _HALF_PRECISIONS
        log_evidence += factors.log_prior[..., None]
        log_evidence -= log_evidence.max(axis=(-3, -2), keepdims=True)
        joint = np.exp(log_evidence, out=log_evidence)
        joint += _SMALLEST_WEIGHT
        joint /= joint.sum(axis=(-3, -2), keepdims=True)
        weights = joint.sum(axis=-2)  # [..., cluster, curve]
        noise_weights = joint.sum(axis=-3)
        by_function = factors.shrink.swapaxes(-1, -2)
        shrunk = by_function @ joint
        joint *= _NOISE_VARIANCES[:, None]
        return Belief(
            weights=weights,
            coefficients=factors.rotation @ (rotated * shrunk / weights[..., None, :]),
            rotation=factors.rotation,
            spread=by_function @ joint / weights[..., None, :],
            noise=joint.sum(axis=-2) / weights,
            noise_weights=noise_weights,
        )

    def components(self, belief: Belief, queries: Array) -> tuple[Array, Array, Array]:
        """Log-weights, means and log-scales [..., query, cluster] of the value at queried steps [..., query]."""
        functions, means = self._at(queries)  # [..., query, cluster, (function)]
        by_cluster = np.moveaxis(functions, -2, -3)  # [..., cluster, query, function]
        centre = (by_cluster @ belief.coefficients[..., None])[..., 0]
        variance = (np.square(by_cluster @ belief.rotation) @ belief.spread[..., None])[..., 0]
        log_scales = 0.5 * np.log(variance + belief.noise[..., None])
        log_weights = np.broadcast_to(np.log(belief.weights)[..., None, :], (*centre.shape[:-2], *means.shape[-2:]))
        return log_weights, means + np.swapaxes(centre, -1, -2), np.swapaxes(log_scales, -1, -2)

    def _at(self, steps: Array) -> tuple[Array, Array]:
        """Functions [..., cluster, function] and means [..., cluster] at any steps, linear between the grid's."""
        position = np.clip(steps, 1.0, self.horizon) - 1.0
        left = position.astype(np.intp)
        functions, means = self.functions.transpose(1, 0, 2), self.means.T
        share = position - left
        if not share.any():
            return functions[left], means[left]
        right = np.minimum(left + 1, self.horizon - 1)
        mix = share[..., None]
        return (
            functions[left] * (1.0 - mix[..., None]) + functions[right] * mix[..., None],
            means[left] * (1.0 - mix) + means[right] * mix,
        )


def _principal(curves: Array, count: int) -> tuple[Array, Array]:
    """The mean [step] and the leading principal functions [step, count], scaled by their standard deviations."""
    variances, vectors = np.linalg.eigh(np.cov(curves.T))
    leading = slice(None, -count - 1, -1)
    return curves.mean(axis=0), vectors[:, leading] * np.sqrt(np.maximum(variances[leading], 1e-14))


def _curves_first(array: Array) -> Array:
    """Axes [..., curve] -> [curve, ...]."""
    return array.transpose(-1, *range(array.ndim - 1))


def on_grid(curves: Curves) -> bool:
    """Whether every curve was seen at steps 1, 2, 3, ... without a gap."""
    counted = curves.steps == np.arange(1.0, curves.steps.shape[1] + 1.0)
    return bool((counted | ~curves.seen).all())
