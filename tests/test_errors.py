"""The exception tree: what callers may catch, and what survives a process border."""

from __future__ import annotations

import pickle

import pytest

from epochcast import errors
from epochcast.errors import EpochcastError, MissingExtraError, StrongContradictionWarning

RAISED_ON_PURPOSE = [
    thing
    for thing in vars(errors).values()
    if isinstance(thing, type) and issubclass(thing, Exception) and not issubclass(thing, Warning)
]


@pytest.mark.parametrize("error", RAISED_ON_PURPOSE, ids=lambda error: error.__name__)
def test_error_of_any_kind_is_an_epochcast_error_and_a_value_error(error: type[Exception]) -> None:
    assert issubclass(error, EpochcastError)
    assert issubclass(error, ValueError)
    assert error.__doc__


def test_contradiction_warning_is_a_warning_that_users_may_filter() -> None:
    assert issubclass(StrongContradictionWarning, UserWarning)


def test_missing_extra_names_the_package_and_the_command() -> None:
    error = MissingExtraError("emcee", "mcmc")

    assert isinstance(error, ImportError)
    assert error.name == "emcee"
    assert "pip install 'epochcast[mcmc]'" in str(error)


def test_package_that_no_extra_brings_is_installed_by_its_own_name() -> None:
    assert str(MissingExtraError("xgboost", None)) == "xgboost is not installed; run: pip install xgboost"


def test_missing_extra_pickled_comes_back_whole() -> None:
    error = pickle.loads(pickle.dumps(MissingExtraError("emcee", "mcmc")))

    assert isinstance(error, MissingExtraError)
    assert (error.name, error.extra) == ("emcee", "mcmc")
    assert "epochcast[mcmc]" in str(error)
