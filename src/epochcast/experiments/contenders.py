"""Who takes part in an experiment: an engine by name with its settings, as plain data that a worker can be sent."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from typing import Any

from epochcast.engines import BASELINES, load_engine, model_and_words
from epochcast.errors import ConfigError
from epochcast.experiments.code import digest
from epochcast.experiments.store import fingerprint
from epochcast.forecaster import Forecaster
from epochcast.question import Engine
from epochcast.runtime.weights import find
from epochcast.sampling.exact import ExactConfig, ExactEngine
from epochcast.sampling.mcmc import M1, M2, M3, McmcConfig, McmcEngine, PriorName

# The paper's table of settings.
GRID = {
    "nsamples": (100, 250, 500, 1000, 2000, 4000),
    "nwalkers": (26, 50, 100),
    "burn_in": (0, 50, 100, 500),
    "thin": (1, 10, 100),
}
LENGTHS = (1000, 2000, 4000, 10_000, 20_000, 40_000, 100_000)
STARTS = ("lse", "map", "default")
PRESETS = {"M1": M1, "M2": M2, "M3": M3}
_MCMC: dict[str, PriorName] = {"mcmc-pp": "pp", "mcmc-op": "op"}


@dataclass(frozen=True)
class Contender:
    """An engine and its settings; the label is what tables show."""

    label: str
    engine: str  # as in `load_engine`
    schedule: str = ""  # words that tell it how the learning rate of all runs goes
    settings: dict[str, Any] = field(default_factory=dict)  # of a sampler's configuration; JSON types

    @property
    def sampled(self) -> bool:
        """Whether it works on one curve at a time, for seconds."""
        return self.engine == "exact" or self.engine in _MCMC

    @property
    def chain(self) -> tuple[PriorName, McmcConfig] | None:
        """Prior and settings of an MCMC engine, None for any other."""
        return (_MCMC[self.engine], McmcConfig(**self.settings)) if self.engine in _MCMC else None

    @property
    def fingerprint(self) -> str:
        """Changes with the settings, for a network with its weights, and for a baseline with its code."""
        known: dict[str, Any] = {"engine": self.engine, "settings": self.settings, "schedule": self.schedule}
        if self.engine in BASELINES:
            known["code"] = digest("epochcast.baselines")
        elif not self.sampled:
            files = find(self.engine)
            known["weights"] = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (files.graph, files.weights)]
        return fingerprint(known)

    def build(self) -> Engine:
        """The engine, made once per process: a network's session and a sampler's draws of the prior are reused."""
        return _build(self.engine, json.dumps(self.settings, sort_keys=True))

    def forecaster(self) -> Forecaster:
        """The engine with its schedule, for whoever asks in a metric's own space."""
        return Forecaster.around(self.build(), self.schedule or None)


@cache
def _build(name: str, settings: str) -> Engine:
    if name in _MCMC:
        return McmcEngine(_MCMC[name], McmcConfig(**json.loads(settings)))
    if name == "exact":
        return ExactEngine(ExactConfig(**json.loads(settings)))
    return load_engine(name)


def contenders(engines: Sequence[str], chains: Sequence[str] = ("M1",)) -> list[Contender]:
    """Contenders by the names of their engines; each MCMC engine takes part once per chain (see `expanded`)."""
    if not engines:
        raise ConfigError("no engine is named; name a model, a baseline, mcmc-pp, mcmc-op or exact")
    found: list[Contender] = []
    for name in dict.fromkeys(engines):
        if name in _MCMC:
            found += [
                Contender(f"{name} {chain}", name, settings=asdict(chain_config(chain))) for chain in expanded(chains)
            ]
        elif name == "exact":
            found.append(Contender(name, name, settings=asdict(ExactConfig())))
        elif name in BASELINES:
            found.append(Contender(name, name))
        else:
            model, words = model_and_words(name)
            found.append(Contender("@".join(filter(None, (find(model).name, words))), model, words))
    return found


def chain_config(text: str) -> McmcConfig:
    """M1, M2 or M3, or settings apart from M1's: `nsamples=4000:burn_in=100:thin=100`, `M2:start=map`."""
    config, known = M1, {field.name: field.type for field in fields(McmcConfig)}
    for part in text.split(":"):
        name, _, value = part.partition("=")
        if part in PRESETS:
            config = PRESETS[part]
        elif name in known and value:
            changed: dict[str, Any] = {name: value if name == "start" else _whole(part, value)}
            config = replace(config, **changed)
        else:
            names = ", ".join([*PRESETS, *(f"{name}=..." for name in known)])
            raise ConfigError(f"{part!r} of the chain {text!r} is unknown; choose from {names}")
    return config


def _whole(part: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ConfigError(f"{part!r} must be a whole number") from None


def expanded(chains: Sequence[str]) -> list[str]:
    """Texts of `chain_config`, where `grid` stands for the paper's table of settings, `length` for long chains.

    The study of length follows the paper's appendix: chains of up to 100,000 steps from three starting points.
    """
    texts: list[str] = []
    for chain in chains:
        if chain == "grid":
            rows = itertools.product(*GRID.values())
            texts += [":".join(f"{name}={value}" for name, value in zip(GRID, row, strict=True)) for row in rows]
        elif chain == "length":
            texts += [f"M2:start={start}:nsamples={steps}" for start in STARTS for steps in LENGTHS]
        else:
            texts.append(chain)
    return list(dict.fromkeys(texts))
