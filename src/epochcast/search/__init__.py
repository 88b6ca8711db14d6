"""Freeze-thaw search: which paused run to go on with, or which new configuration to start."""

from epochcast.search.freeze_thaw import FreezeThaw, Step

__all__ = ["FreezeThaw", "Step"]
