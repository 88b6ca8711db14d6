"""The pruner of epochcast, which forecasts where a trial will end and prunes it if that cannot win."""

from epochcast.integrations.optuna import EpochcastPruner

__all__ = ["EpochcastPruner"]
