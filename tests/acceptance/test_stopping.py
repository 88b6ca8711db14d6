"""Stop decisions of the default model on our own networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import epochcast as ec
from epochcast.benchmarks import load
from epochcast.stopping import MIN_SHARE, MIN_STEPS, Stopper
from tests.checkout import in_a_checkout, research

RUNS = Path(ec.__file__).parent / "data" / "runs"


def test_digits_run_that_will_win_is_not_stopped_at_its_second_value() -> None:
    losses = np.loadtxt(RUNS / "digits_mlp.csv", delimiter=",", skiprows=1, usecols=1)[:30]  # 2.26, 2.07, ... 0.17
    options: dict[str, Any] = {"horizon": len(losses), "metric": "log_loss", "best": 0.2}
    eager, usual = Stopper(**options, min_steps=2, min_share=0.0), Stopper(**options)
    verdicts = [(eager.update(step, value), usual.update(step, value)) for step, value in enumerate(losses, start=1)]
    assert verdicts[1][0].stop  # what the default was
    assert min(losses) < 0.2
    assert not any(decision.stop for _, decision in verdicts)


@in_a_checkout
def test_searches_on_digits_have_few_wrong_stops_where_two_values_have_many() -> None:
    script = research("wrong_stops")
    losses = load("digits_bench").sets[1]
    task = script.Task.of(losses, "digits", ec.Forecaster(), 60)
    eager, usual = script.outcomes(task, 20, [(2, 0.0), (MIN_STEPS, MIN_SHARE)])
    assert usual.wrong < 0.05 * usual.stops
    assert eager.wrong > 2 * usual.wrong
    assert usual.speedup > 1.5
