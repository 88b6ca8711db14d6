"""What the default model makes of a learning rate that it knows."""

from __future__ import annotations

import numpy as np
import pytest

import epochcast as ec

RISING = 1.0 - 0.9 * np.arange(1.0, 31.0) ** -0.4


def end_under(seen: int, words: str) -> float:
    return float(ec.forecast(RISING[:seen], 60, "accuracy", schedule=words).final.median())


def test_less_is_forecast_at_a_rate_that_will_fall():
    ends = {words: end_under(10, words) for words in ("constant", "cosine", "drops,at=30")}
    assert len({round(end, 4) for end in ends.values()}) == 3
    assert ends["constant"] > max(ends["cosine"], ends["drops,at=30"]) + 0.01


def test_run_whose_pace_did_not_fall_with_its_rate_is_expected_to_go_on():
    assert end_under(30, "cosine") == pytest.approx(end_under(30, "constant"), abs=0.005)


def test_run_whose_rate_is_about_to_drop_may_slow_down_with_it_or_go_on():
    """As many steps at a tenth of the rate do as much as 3 at the full one, or as much as ever."""
    slowed, gone_on = 1.0 - 0.9 * np.array([33.0, 60.0]) ** -0.4
    dropping, constant = (
        ec.forecast(RISING, 60, "accuracy", schedule=words).final.interval(0.9) for words in ("drops,at=30", "constant")
    )
    assert dropping[0] < slowed + 0.005
    assert dropping[1] > gone_on
    assert slowed + 0.03 < constant[0] < gone_on < constant[1]


def test_plateau_before_a_drop_is_forecast_to_end_with_it():
    plateau = 0.48 + 0.01 * np.random.default_rng(0).standard_normal(60)
    plateau[:10] = np.linspace(0.2, 0.47, 10)
    dropping, constant = (
        ec.forecast(plateau, 120, "accuracy", schedule=words).final for words in ("drops,at=60", "constant")
    )
    assert dropping.median() > constant.median() + 0.01
    assert dropping.interval(0.95)[1] > 0.55
