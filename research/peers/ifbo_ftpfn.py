"""FT-PFN, the network of ifBO, with a single run as its context.

Its weights are not in the package, which fetches them as a pickle when a model is made. This wrapper fetches nothing:
it runs where `python -m ifbo.download --path FOLDER/.model` has put them, with FOLDER in the environment as
FTPFN_WEIGHTS.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from epochcast.curve import Array, Curves
from epochcast.distributions import Bars
from epochcast.errors import InputError
from epochcast.question import Question
from peers.engine import PeerEngine

FOLDER = "FTPFN_WEIGHTS"
_VERSION = "0.0.1"


def weights_are_here() -> bool:
    """Whether making the model would read what is on the disk rather than fetch it."""
    folder = os.environ.get(FOLDER)
    return folder is not None and any(Path(folder, ".model").glob("*.tar.gz"))


class FtPfn(PeerEngine):
    """Steps as shares of the horizon, no hyperparameters, the values as they are: normalised, larger is better."""

    name = "ft-pfn"

    def __init__(self, surrogate: Any) -> None:
        self.surrogate = surrogate

    @classmethod
    def load(cls) -> FtPfn:
        """The published network."""
        from ifbo.surrogate import FTPFN

        if not weights_are_here():
            raise InputError(f"the weights of FT-PFN are not on the disk; set {FOLDER} to the folder that holds .model")
        return cls(FTPFN(target_path=Path(os.environ[FOLDER]), version=_VERSION))

    def predict(self, question: Question) -> Bars:
        runs, asked, horizon = question.runs, question.steps / question.horizon, question.horizon
        logits = [self._logits(runs[row : row + 1], asked[row], horizon) for row in range(len(runs))]
        self.answered += len(runs)
        borders = self.surrogate.model.criterion.borders.double().numpy()
        return Bars(borders, np.stack(logits))

    def _logits(self, curve: Curves, asked: Array, horizon: float) -> Array:
        """What the network says of one run, [query, bin]."""
        import torch
        from ifbo.utils import Curve

        length, nothing = int(curve.lengths[0]), torch.zeros(1)
        steps, values = curve.steps[0, :length] / horizon, np.clip(curve.values[0, :length], 0.0, 1.0)
        seen = Curve(nothing, torch.as_tensor(steps).float(), torch.as_tensor(values).float())
        (answer,) = self.surrogate.predict(context=[seen], query=[Curve(nothing, torch.as_tensor(asked).float())])
        return answer.logits[:, 0].double().numpy()
