"""The default model on runs of kinds that its first priors did not know: what it must be unsure of, and what not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import epochcast as ec
from epochcast.engines import load_engine
from epochcast.experiments.real.scores import SHARES, score
from tests.checkout import research

DATA = Path(__file__).parents[3] / "shared" / "data"
NEEDS_DATA = pytest.mark.skipif(not (DATA / "kinds").is_dir(), reason="the development curves are not here")


def language_model(steps: np.ndarray) -> np.ndarray:
    """A validation loss against training steps, averaged over so many tokens that it shows no noise."""
    return 2.9 + 5.0 * (1.0 + steps / 100.0) ** -0.9 + 0.9 * (1.0 + steps / 2_000.0) ** -0.4


@pytest.fixture(scope="module")
def held() -> tuple[np.ndarray, np.ndarray]:
    """Steps and losses of a run whose rate is held, seen for 80 %."""
    steps = np.arange(500.0, 40_001.0, 500.0)
    return steps, language_model(steps)


def test_loss_without_noise_may_fall_by_more_than_its_trend_when_a_held_rate_decays(held) -> None:
    steps, losses = held
    forecast = ec.Forecaster().forecast(losses, steps=steps, horizon=50_000, metric="loss", untrained=10.8)
    low, high = forecast.final.interval(0.9)
    trend = language_model(np.array([50_000.0]))[0]
    assert low < trend - 0.08  # the decay of such runs gives 0.05 to 0.2
    assert low < trend < high


def test_told_a_decay_to_come_the_median_falls_and_told_a_constant_rate_it_follows_the_trend(held) -> None:
    steps, losses = held
    ends = {}
    for words in ("wsd,hold=0.8,decay=sqrt,warmup=300", "constant,warmup=300"):
        told = ec.Forecaster(schedule=words)
        forecast = told.forecast(losses, steps=steps, horizon=50_000, metric="loss", untrained=10.8)
        ends[words[:3]] = float(forecast.final.median())
    trend = language_model(np.array([50_000.0]))[0]
    assert ends["con"] == pytest.approx(trend, abs=0.03)
    assert ends["wsd"] < ends["con"] - 0.03


def test_two_losses_leave_the_end_open() -> None:
    low, high = ec.Forecaster().forecast([1.0, 0.9], horizon=40, metric="loss").final.interval(0.9)
    assert low < 0.5
    assert high > 0.9  # it may as well stay where it is


def cells(names: tuple[str, ...], folder: Path) -> dict[str, list[float]]:
    """The share of the values inside 90 % intervals at each cutoff, on the half that weights were chosen by."""
    engine = load_engine("default")
    found = {}
    for name in names:
        (curves,) = research("halves").load_half(folder / f"{name}.npz", "choose")
        own = curves.sample(400).thinned()
        found[name] = [float(score(engine, own, share).inside90.mean()) for share in SHARES]
    return found


@pytest.mark.slow
@NEEDS_DATA
def test_intervals_of_language_models_hold_what_they_say_from_a_tenth_to_four_tenths_of_the_run() -> None:
    held = cells(("lm_lr_scheduling_val",), DATA / "kinds")["lm_lr_scheduling_val"]
    assert min(held[:3]) >= 0.78


@pytest.mark.slow
@NEEDS_DATA
def test_intervals_of_people_s_own_projects_hold_more_than_three_quarters() -> None:
    held = cells(("families_lightning", "families_misc", "vision_yolo_valloss"), DATA / "kinds")
    assert min(min(own) for own in held.values()) >= 0.75
