"""A prior of one's own: returns of a reinforcement-learning agent, which idles, takes off, and sometimes forgets.

Train a model on it and use it (about ten minutes on one core):

    cd examples
    epochcast train --prior own_prior:sampler --curves 24000 --out models --name agent
    epochcast forecast run.csv --monitor return --metric unit --horizon 200 --model models/agent.onnx
"""

from __future__ import annotations

import numpy as np


def sampler(size: int, rng: np.random.Generator, steps: np.ndarray, horizon: float) -> np.ndarray:
    """`size` curves [curve, step] at `steps` of runs planned for `horizon` steps; larger is better, about [0, 1]."""
    column = (size, 1)
    progress = steps / horizon  # [step]
    take_off = rng.uniform(0.0, 0.8, column)
    width = np.exp(rng.uniform(np.log(0.01), np.log(0.3), column))
    floor, ceiling = rng.uniform(0.0, 0.2, column), rng.uniform(0.2, 1.0, column)
    learned = 1.0 / (1.0 + np.exp(-np.clip((progress - take_off) / width, -50.0, 50.0)))
    forgets = (rng.random(column) < 0.15) & (progress > rng.uniform(0.3, 1.0, column))
    mean = floor + (ceiling - floor) * learned * np.where(forgets, rng.uniform(0.0, 0.8, column), 1.0)
    noise = np.exp(rng.normal(-3.5, 0.8, column)) * (0.2 + learned)  # an agent that does something varies more
    return mean + noise * rng.standard_normal(mean.shape)
