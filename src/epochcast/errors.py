"""The exception tree. Every mistake in what a user hands us is an `EpochcastError`, which is also a `ValueError`."""

from __future__ import annotations


class EpochcastError(ValueError):
    """Base of all errors that epochcast raises on purpose."""


class InputError(EpochcastError):
    """A value, curve, metric, file or argument that cannot be used; the message names it, its limit and the way out."""


class ConfigError(EpochcastError):
    """A configuration with an unknown key, a wrong type or settings that contradict each other."""


class WeightsError(EpochcastError):
    """A model file that is missing, damaged, or not what the registry says it is."""


class TrainingError(EpochcastError):
    """Training that cannot go on, such as a loss that is no longer finite."""


class MissingExtraError(EpochcastError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it, if one does."""

    def __init__(self, package: str, extra: str | None) -> None:
        wanted = package if extra is None else f"'epochcast[{extra}]'"
        super().__init__(f"{package} is not installed; run: pip install {wanted}")
        self.name = package  # as in every ImportError
        self.extra = extra

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str | None, str | None]]:
        # Errors cross process borders by pickle, which would call the class with the message alone.
        return type(self), (self.name, self.extra)


class StrongContradictionWarning(UserWarning):
    """The curve moves strongly against the direction that its metric declares."""
