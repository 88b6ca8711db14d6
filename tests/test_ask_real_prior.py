"""The script that asks which ingredients of the prior stand in the way of a collection's forecasts."""

from __future__ import annotations

import numpy as np
import pytest

from epochcast.metric import LOSS
from epochcast.prior import real
from tests.checkout import in_a_checkout, research

STEPS = np.arange(1.0, 31.0)
pytestmark = in_a_checkout


@pytest.fixture(scope="module")
def script():
    pytest.importorskip("torch")
    return research("ask_real_prior")


@pytest.fixture(scope="module")
def objective(script):
    trainer = script.Trainer(script.RECIPES["real"])
    trainer.start_from(script.find("real").weights)
    return trainer.objective


@pytest.fixture(scope="module")
def cell(script):
    steady = real.RealPriorConfig(loss=1.0, paper=0.0, constant=0.0, toggling=0.0, cosine=0.0, drops=0.0)
    draw = real.sample(60, np.random.default_rng(0), STEPS, 30.0, steady)
    return script.Cell(script.Group(STEPS, draw.noisy, LOSS), 6)


def test_step_uphill_raises_the_cell_and_can_be_taken_back(script, objective, cell, monkeypatch) -> None:
    monkeypatch.setattr(script, "BATCHES", 3)
    values, kinds = cell.group.values, np.full(len(cell.group.values), LOSS)

    def scores() -> np.ndarray:
        return cell.score(objective, values, values[None], kinds)

    before = scores()
    low, high = np.quantile(before, script.MIDDLING)
    middling = (before >= low) & (before <= high)
    weights, step = script.uphill(objective, cell, np.random.default_rng(1))
    weights.move(0.2 * step)  # a small one: gains are in proportion
    gained = (scores() - before)[middling].mean()
    assert 0.5 * 0.2 * script.GAIN < gained < 1.5 * 0.2 * script.GAIN
    weights.move(0.0)
    np.testing.assert_array_equal(scores(), before)


def test_ingredient_is_compared_with_curves_that_could_have_had_it(script) -> None:
    first = np.arange(400)
    masks = dict.fromkeys(real.sample(1, np.random.default_rng(0), STEPS, 30.0).ingredients, first < 0)
    masks |= {"ordinary": first < 200, "scheduled": first < 200, "paced": first < 100}
    gains = np.select([masks["paced"], masks["scheduled"]], [-0.01, 0.02], 5.0)  # the last ones have no schedule
    (difference, error, name, count), *others = script.rows_of(script.Answer(gains, masks))
    assert (name, count) == ("paced", 100)
    assert difference == pytest.approx(-0.03)
    assert error == pytest.approx(0.0, abs=1e-12)
    assert not others
