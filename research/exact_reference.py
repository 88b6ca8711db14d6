"""The exact posterior's scores on stored prior curves: how far an engine is from the best possible, in seconds.

`exact` needs seconds per curve; its log-likelihoods of the first curves of a seed are stored beside this file, so that
any engine can be held against them without sampling anything.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epochcast.distributions import Array
from epochcast.errors import InputError
from epochcast.experiments.prior import scores as prior
from epochcast.experiments.prior.comparison import HORIZON, Comparison
from epochcast.prior import paper
from epochcast.question import Engine

FILE = Path(__file__).with_suffix(".json")
_DIGITS = 4


@dataclass(frozen=True)
class Reference:
    """Scores of the exact posterior on the first curves of a seed."""

    seed: int
    cutoffs: list[int]
    curves: int
    checksum: int  # of the curves' values
    settings: dict[str, Any]  # of the sampler
    log_likelihood: list[list[float]]  # [curve][cutoff], mean over the unseen steps
    disagreement: list[list[float]]  # [curve][cutoff], of two runs of the sampler, nats

    @classmethod
    def of(cls, comparison: Comparison, label: str = "exact") -> Reference:
        """The first curves of a comparison that `exact` has scored at every cutoff."""
        scored = [comparison.at(label, cutoff) for cutoff in comparison.plan.cutoffs]
        known = np.all([own.known for own in scored], axis=0)
        count = len(known) if known.all() else int(np.argmin(known))
        if count == 0:
            raise InputError(f"{label} has not scored the first curve at every cutoff; compute more of the comparison")

        def rounded(columns: list[Array]) -> list[list[float]]:
            return np.round(np.stack(columns, axis=1)[:count], _DIGITS).tolist()  # type: ignore[no-any-return]

        return cls(
            seed=comparison.plan.seed,
            cutoffs=list(comparison.plan.cutoffs),
            curves=count,
            checksum=checksum(comparison.draw.noisy[:count]),
            settings=scored[0].contender.settings,
            log_likelihood=rounded([own.log_likelihood for own in scored]),
            disagreement=rounded([own.diagnostics["disagreement"] for own in scored]),
        )

    @classmethod
    def load(cls) -> Reference:
        """The reference that is stored."""
        return cls.from_json(FILE.read_text(encoding="utf-8"))

    @classmethod
    def from_json(cls, text: str) -> Reference:
        data: Mapping[str, Any] = json.loads(text)
        return cls(**data)

    def to_json(self) -> str:
        """Text with a line per curve, so that changes can be read."""
        data = asdict(self)
        rows = {name: data.pop(name) for name in ("log_likelihood", "disagreement")}
        parts = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in data.items()]
        for name, lists in rows.items():
            lines = ",\n  ".join(json.dumps(row) for row in lists)
            parts.append(f"{json.dumps(name)}: [\n  {lines}\n ]")
        return "{\n " + ",\n ".join(parts) + "\n}\n"

    def draw(self) -> paper.Draw:
        """The curves; an error if the prior no longer draws them."""
        draw = prior.draw_curves(self.curves, self.seed)
        if checksum(draw.noisy) != self.checksum:
            raise InputError(f"seed {self.seed} no longer draws the curves of {FILE.name}; make the reference anew")
        return draw

    def gaps(self, engine: Engine) -> Array:
        """Nats [curve, cutoff] that an engine's mean log-likelihood lies above the exact posterior's."""
        draw = self.draw()
        scores = [
            prior.score(engine, draw, cutoff / HORIZON, np.random.default_rng(0)).log_likelihood
            for cutoff in self.cutoffs
        ]
        return np.asarray(np.stack(scores, axis=1) - np.array(self.log_likelihood))


def checksum(values: Array) -> int:
    """Of values rounded so far that no two processors differ."""
    return zlib.crc32(np.round(values * 1e6).astype(np.int64).tobytes())
