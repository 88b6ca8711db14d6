"""Engines by name: the networks that ship, a file of your own, samplers and baselines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from epochcast.checks import shown
from epochcast.errors import InputError
from epochcast.question import Engine

SAMPLERS = ("mcmc-pp", "mcmc-op", "exact")
BASELINES = ("last-value", "power-law", "empirical-gp")


def load_engine(name: str | Path, threads: int = 1) -> Engine:
    """A shipped network, your own .onnx file, a sampler (mcmc-pp, mcmc-op, exact) or a baseline (last-value, power-law,
    empirical-gp)."""
    name = model_name(name)
    if name == "exact":
        from epochcast.sampling.exact import ExactEngine

        return ExactEngine()
    if name in SAMPLERS:
        from epochcast.sampling.mcmc import McmcEngine

        return McmcEngine("pp" if name == "mcmc-pp" else "op")
    if name in BASELINES:
        from epochcast.baselines import EmpiricalGp, LastValue, PowerLaw

        by_name: dict[str, type[Engine]] = {engine.name: engine for engine in (LastValue, PowerLaw, EmpiricalGp)}
        return by_name[str(name)]()
    from epochcast.runtime.networks import load_network

    return load_network(name, threads)


def model_name(item: Any) -> str | Path:
    """What names a model; anything else is a mistake."""
    if not isinstance(item, (str, Path)):
        raise InputError(f"model={shown(item)} must be a name, such as 'real', or the path of an .onnx file")
    return item


def model_and_words(name: str) -> tuple[str, str]:
    """`real@cosine`, as the command line writes it: the model, and the words for its schedule, which may be none."""
    model, at, words = name.rpartition("@")
    return (model, words) if at and not os.path.exists(name) else (name, "")
