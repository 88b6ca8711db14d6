"""Which peers there are, and at which version their scores were taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

from peers.botorch_decay import DecayGp
from peers.engine import PeerEngine
from peers.ifbo_ftpfn import FtPfn, weights_are_here
from peers.nni_curves import CurveFitting
from peers.statsforecast_models import AutoEts, AutoTheta
from peers.statsmodels_holt import HoltDamped


@dataclass(frozen=True)
class Peer:
    """A library to compare with; its scores stay valid as long as version and revision do."""

    name: str  # of the engine
    package: str
    version: str
    build: Callable[[], PeerEngine]
    curves: int | None = None  # of each collection, at most: the slow ones see the first few
    revision: int = 1  # of the wrapper: to be raised when its forecasts change
    ready: Callable[[], bool] = lambda: True  # whether it has what it needs besides the package

    @property
    def installed(self) -> str | None:
        """The version that is installed."""
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return None

    @property
    def runs_here(self) -> bool:
        return self.installed == self.version and self.ready()


PEERS = (
    Peer("auto-ets", "statsforecast", "2.0.1", AutoEts),
    Peer("auto-theta", "statsforecast", "2.0.1", AutoTheta),
    Peer("holt-damped", "statsmodels", "0.15.0", HoltDamped),
    Peer("decay-gp", "botorch", "0.18.1", DecayGp, curves=40),
    Peer("nni", "nni", "3.0", CurveFitting, curves=10),
    Peer("ft-pfn", "ifbo", "0.4.1", FtPfn.load, ready=weights_are_here),
)


def peer(name: str) -> Peer:
    """A peer by its name."""
    return next(item for item in PEERS if item.name == name)
