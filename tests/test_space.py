from __future__ import annotations

import pickle
from typing import Any

import pytest

import epochcast as ec
from epochcast.errors import InputError
from epochcast.space import as_space


def test_space_of_names_equals_that_of_a_mapping_in_any_order() -> None:
    space = ec.Space(lr="log", optimizer="category")
    assert space == ec.Space({"optimizer": "category", "lr": "log"}) == ec.Space({"lr": "log"}, optimizer="category")
    assert hash(space) == hash(as_space({"optimizer": "category", "lr": "log"}))
    assert space != ec.Space(lr="log")
    assert pickle.loads(pickle.dumps(space)) == space


def test_scale_of_a_name_is_none_where_it_was_not_told() -> None:
    space = ec.Space({"model.depth": "linear"}, lr="log")
    assert [space.scale_of(name) for name in ("model.depth", "lr", "wd")] == ["linear", "log", None]
    assert ec.Space().scale_of("lr") is None


def test_repr_of_a_space_makes_it_again() -> None:
    for space in (ec.Space(), ec.Space(lr="log"), ec.Space({"a.b": "category"}, lr="log")):
        assert eval(repr(space), {"Space": ec.Space}) == space


def test_space_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        ec.Space(lr="log").scales = ()  # type: ignore[misc]


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        ({"lr": "exp"}, "^the scale of 'lr' is 'exp'; choose from linear, log, category$"),
        ({"lr": None}, "the scale of 'lr' is None"),
        ({"lr": ["log"]}, r"the scale of 'lr' is \['log'\]"),
        ({3: "log"}, "the scale of 3 is 'log'"),
        ("lr", "'lr' is no mapping of names to scales"),
    ],
)
def test_space_of_unknown_scales_is_an_error(scales: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ec.Space(scales)


def test_nothing_is_no_space() -> None:
    assert as_space(None) is None
