"""Domains of a search: plain ones, and those of other packages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from epochcast.search.domain import Choice, Range, domain_of, from_plain, to_plain

SHARES = np.linspace(0.0, np.nextafter(1.0, 0.0), 401).tolist()


def values(domain: Any) -> list[Any]:
    return [domain_of(domain).at(share) for share in SHARES]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((0.0, 1.0), Range(0.0, 1.0)),
        ((1e-4, 1.0, "log"), Range(1e-4, 1.0, log=True)),
        ((1, 8), Range(1, 8, whole=True)),
        ((1, 8.0), Range(1, 8)),
        ((16, 512, "log"), Range(16, 512, log=True, whole=True)),
        ([0.1, 0.2], Choice((0.1, 0.2))),
        (range(3), Choice((0, 1, 2))),
        ("adam", Choice(("adam",))),
        (None, Choice((None,))),
        (True, Choice((True,))),
    ],
    ids=str,
)
def test_plain_domains(given: Any, expected: Any) -> None:
    assert domain_of(given) == expected
    assert from_plain(to_plain(expected)) == expected


def test_whole_numbers_are_drawn_evenly_and_reach_both_ends() -> None:
    found = values((1, 4))
    assert {type(number) for number in found} == {int}
    assert [found.count(number) for number in (1, 2, 3, 4)] == pytest.approx([100] * 4, abs=2)
    assert set(values((2, 16, "log"))) == set(range(2, 17))
    assert set(values((5, 5))) == {5}


def test_logarithmic_numbers_are_drawn_evenly_by_their_logarithms() -> None:
    logs = np.log10(values((1e-4, 1.0, "log")))
    np.testing.assert_allclose(logs, np.linspace(-4, 0, 401), atol=1e-9)


def test_choices_are_drawn_evenly() -> None:
    found = values(["a", "b", None, 3])
    assert [found.count(option) for option in ("a", "b", None, 3)] == pytest.approx([100] * 4, abs=2)


def test_scales() -> None:
    scales = [domain_of(given).scale for given in ((0, 1), (1, 2, "log"), ["a", "b"], [True, False], [16, 32])]
    assert scales == ["linear", "log", "category", "category", None]


def test_optuna() -> None:
    optuna = pytest.importorskip("optuna")
    kinds = optuna.distributions
    assert domain_of(kinds.FloatDistribution(0.0, 1.0)) == Range(0.0, 1.0)
    assert domain_of(kinds.FloatDistribution(1e-4, 1.0, log=True)) == Range(1e-4, 1.0, log=True)
    assert set(values(kinds.FloatDistribution(0.0, 1.0, step=0.25))) == {0.0, 0.25, 0.5, 0.75, 1.0}
    assert set(values(kinds.IntDistribution(1, 9, step=4))) == {1, 5, 9}
    assert domain_of(kinds.IntDistribution(1, 64, log=True)) == Range(1, 64, log=True, whole=True)
    assert domain_of(kinds.CategoricalDistribution(["a", 1, None])) == Choice(("a", 1, None))


def test_ray_tune() -> None:
    pytest.importorskip("ray.tune")
    from ray import tune

    assert domain_of(tune.uniform(0.0, 1.0)) == Range(0.0, 1.0)
    assert domain_of(tune.loguniform(1e-4, 1.0)) == Range(1e-4, 1.0, log=True)
    assert domain_of(tune.randint(1, 9)) == Range(1, 8, whole=True)  # Ray's end before their upper bound
    assert domain_of(tune.lograndint(1, 9)) == Range(1, 8, log=True, whole=True)
    assert set(values(tune.quniform(0.0, 1.0, 0.5))) == {0.0, 0.5, 1.0}
    assert set(values(tune.qrandint(2, 8, 2))) == {2, 4, 6, 8}
    assert domain_of(tune.choice(["a", "b"])) == Choice(("a", "b"))
    for given in (tune.randn(0, 1), tune.sample_from(lambda spec: 1)):
        with pytest.raises(ValueError, match="is no domain that is known"):
            domain_of(given)


def test_syne_tune() -> None:
    pytest.importorskip("syne_tune")
    from syne_tune import config_space as kinds

    assert domain_of(kinds.uniform(0.0, 1.0)) == Range(0.0, 1.0)
    assert domain_of(kinds.loguniform(1e-4, 1.0)) == Range(1e-4, 1.0, log=True)
    assert domain_of(kinds.randint(1, 8)) == Range(1, 8, whole=True)
    assert domain_of(kinds.lograndint(1, 8)) == Range(1, 8, log=True, whole=True)
    assert domain_of(kinds.choice(["a", "b"])) == Choice(("a", "b"))
    assert domain_of(kinds.ordinal([1, 2, 4])) == Choice((1, 2, 4))
    assert sorted(set(values(kinds.finrange(0.1, 0.3, 3)))) == pytest.approx([0.1, 0.2, 0.3])


def test_config_space() -> None:
    kinds = pytest.importorskip("ConfigSpace")
    space = kinds.ConfigurationSpace(
        {"lr": kinds.Float("lr", (1e-4, 1.0), log=True), "depth": (1, 8), "act": ["relu", "gelu"], "seed": 3}
    )
    found = {name: domain_of(space[name]) for name in space}
    assert found["lr"] == Range(1e-4, 1.0, log=True)
    assert found["depth"] == Range(1, 8, whole=True)
    assert set(found["act"].options) == {"relu", "gelu"}
    assert found["seed"] == Choice((3,))
