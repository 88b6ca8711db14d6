"""What all tests share."""

from __future__ import annotations

from collections.abc import Generator
from importlib.util import find_spec

import pytest

from epochcast.errors import MissingExtraError


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """A test that needs an extra which is not installed is skipped, so that the suite runs on the core alone."""
    try:
        return (yield)
    except MissingExtraError as error:
        if find_spec(str(error.name)) is not None:
            raise
        pytest.skip(str(error))
