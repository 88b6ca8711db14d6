from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from epochcast.benchmarks import CurveSet, digits_bench, read_npz
from epochcast.errors import InputError
from epochcast.metric import Metric
from epochcast.naming import metric_from
from epochcast.normalize import Normalizer

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"
ACCURACY = Metric("accuracy", False, (0.0, 1.0), (0.0, 1.0))
LOSS = Metric("log_loss", True, (0.0, math.inf))


def two_tasks() -> CurveSet:
    values = [[0.1, 0.5, 0.7, 0.8], [0.2, 0.3, math.nan, math.nan], [3.0, 1.0, 0.5, 0.25]]
    return CurveSet.of(
        "mine",
        values,
        [ACCURACY, LOSS],
        task=[0, 0, 1],
        task_names=["easy", "hard"],
        untrained=[0.1, 0.1, 4.0],
        config=[[1.0], [2.0], [3.0]],
        config_names=["lr"],
    )


def test_set_from_arrays_keeps_lengths_horizons_and_diverged_runs() -> None:
    curves = two_tasks()
    assert curves.lengths.tolist() == [4, 2, 4]
    assert curves.horizons.tolist() == [4.0, 4.0, 4.0]  # the diverged run was planned as long as its task's others
    assert np.isnan(curves.values[1, 2:]).all()


def test_set_cuts_a_curve_at_the_first_value_that_is_not_finite() -> None:
    curves = CurveSet.of("mine", [[1.0, math.inf, 2.0], [1.0, math.nan, 2.0], [1.0, 2.0, 3.0]], LOSS)
    assert curves.lengths.tolist() == [1, 1, 3]


def test_set_copies_its_arrays_and_makes_them_read_only() -> None:
    mine = np.array([[0.1, 0.2]])
    curves = CurveSet.of("mine", mine, ACCURACY)
    mine[0, 0] = 0.9
    assert curves.values[0, 0] == 0.1
    with pytest.raises(ValueError, match="read-only"):
        curves.values[0, 0] = 0.5


def test_uneven_steps_make_each_run_end_where_it_went() -> None:
    steps = [[1.0, 10.0, 100.0], [1.0, 20.0, math.nan]]
    curves = CurveSet.of("mine", [[0.1, 0.2, 0.3], [0.1, 0.2, math.nan]], ACCURACY, steps=steps)
    assert curves.horizons.tolist() == [100.0, 20.0]
    assert curves.seen_at(0.1).tolist() == [2, 1]


@pytest.mark.parametrize(("share", "seen"), [(0.0, 1), (0.1, 1), (0.26, 2), (0.5, 2), (0.51, 3), (0.8, 4), (1.0, 4)])
def test_seen_at_a_share_rounds_up_and_shows_one_value_at_least(share: float, seen: int) -> None:
    assert two_tasks().seen_at(share)[0] == seen


def test_seen_at_a_share_outside_0_to_1_is_an_error() -> None:
    with pytest.raises(InputError, match=r"1\.5"):
        two_tasks().seen_at(1.5)


def test_normalised_view_follows_the_metric_of_each_task() -> None:
    curves = two_tasks()
    np.testing.assert_allclose(curves.normalised[0], Normalizer.of(ACCURACY).forward(curves.values[0]))
    np.testing.assert_allclose(curves.normalised[2], Normalizer.of(LOSS, 4.0).forward(curves.values[2]))
    assert (np.diff(curves.normalised[2]) > 0).all()  # a falling loss gets better


def test_normalised_view_without_untrained_value_uses_the_first_one() -> None:
    curves = CurveSet.of("mine", [[2.0, 1.0]], LOSS)
    np.testing.assert_allclose(curves.normalised[0], Normalizer.of(LOSS, 2.0).forward([2.0, 1.0]))


def test_thinning_keeps_the_last_value_and_the_numbers_of_steps() -> None:
    values = np.linspace(0.0, 0.9, 200)[None].repeat(2, axis=0)
    values[1, 50:] = np.nan
    thin = CurveSet.of("mine", values, ACCURACY).thinned()
    assert thin.lengths.tolist() == [100, 25]
    assert thin.steps[0].tolist() == list(range(2, 201, 2))
    assert thin.values[0, -1] == pytest.approx(0.9)
    assert thin.horizons.tolist() == [200.0, 200.0]


def test_thinning_changes_no_normalised_value() -> None:
    values = np.linspace(5.0, 1.0, 300)[None]
    whole = CurveSet.of("mine", values, LOSS)
    np.testing.assert_array_equal(whole.thinned().normalised[0], whole.normalised[0, 2::3])


def test_short_curves_are_not_thinned() -> None:
    curves = two_tasks()
    assert curves.thinned() is curves


def test_sample_of_a_seed_is_the_same_twice_and_differs_between_seeds() -> None:
    curves = digits_bench()
    first, again, other = curves.sample(50, 0), curves.sample(50, 0), curves.sample(50, 1)
    np.testing.assert_array_equal(first.values, again.values)
    assert not np.array_equal(first.values, other.values, equal_nan=True)
    assert len(curves.sample(10**6)) == len(curves)


def test_halves_hold_the_best_tenth_of_each_task_and_the_rest() -> None:
    curves = digits_bench("log_loss")
    good, bad = curves.sample_halves(10**6)
    assert len(good) + len(bad) == len(curves)
    for number in range(len(curves.task_names)):
        worst_good = good.best_normalised[good.task == number].min()
        assert worst_good >= bad.best_normalised[bad.task == number].max()


def test_tasks_divide_the_set_and_keep_rows_together() -> None:
    curves = two_tasks()
    parts = dict(curves.tasks())
    assert {name: len(part) for name, part in parts.items()} == {"easy": 2, "hard": 1}
    assert parts["hard"].config is not None
    assert parts["hard"].config.tolist() == [[3.0]]
    with pytest.raises(InputError, match="'huge'"):
        curves.of_task("huge")


def test_prefixes_pad_with_zeros_and_stop_at_the_end_of_a_curve() -> None:
    seen = two_tasks().prefixes(3)
    assert seen.lengths.tolist() == [3, 2, 3]
    assert seen.values[1, 2] == 0.0
    assert seen.steps[0].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("untrained", [None, [1, 1]])
def test_question_says_what_each_task_measures(untrained: list[float] | None) -> None:
    curves = CurveSet.of(
        "mine", [[0.3, 0.2], [0.5, 0.6]], [ACCURACY, LOSS], task=[1, 0], task_names=["a", "b"], untrained=untrained
    )
    question = curves.question(1, np.full((2, 1), 2.0))
    assert question.kinds.tolist() == [LOSS.kind, ACCURACY.kind]
    assert question.given("untrained") == (untrained is not None)


def test_question_starts_runs_at_step_0_where_the_value_before_training_is_known() -> None:
    curves = CurveSet.of("mine", [[0.3, 0.4], [0.5, 0.6]], Metric.unit(), untrained=[0.1, math.nan])
    seen = curves.question([2, 1], np.full((2, 1), 2.0)).with_untrained_at_zero()
    assert seen.lengths.tolist() == [3, 1]
    assert seen.steps.tolist() == [[0.0, 1.0, 2.0], [1.0, 0.0, 0.0]]
    assert seen.values.tolist() == [[0.1, 0.3, 0.4], [0.5, 0.0, 0.0]]


def test_question_holds_what_was_seen_and_what_is_asked() -> None:
    curves, asked = two_tasks(), np.full((3, 2), 4.0)
    others = curves.context()
    question = curves.question([2, 1, 3], asked, others)
    np.testing.assert_array_equal(question.runs.values, curves.prefixes([2, 1, 3]).values)
    assert question.steps is asked
    assert question.horizon == curves.horizons[0]
    assert question.context is others


def test_context_holds_whole_curves_and_their_horizons() -> None:
    curves = two_tasks()
    context = curves.context()
    assert len(context) == 3
    assert context.runs.lengths.tolist() == curves.lengths.tolist()
    np.testing.assert_array_equal(context.horizons, curves.horizons)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": [0, 7, 0]}, "task numbers"),
        ({"task": [0, 0]}, "task has shape"),
        ({"horizons": [1.0, 4.0, 4.0]}, "curve 0 has a step outside"),
        ({"steps": [[1, 2, 2, 3]] * 3}, "steps of curve 0 do not rise"),
        ({"values": [[0.1, 1.5], [0.1, 0.2], [0.1, 0.2]]}, r"value 1\.5 .* of curve 0"),
        ({"metrics": [ACCURACY, LOSS]}, "2 metrics for 1 tasks"),
        ({"untrained": [0.1]}, "untrained has shape"),
    ],
)
def test_set_of_wrong_arrays_is_an_error_that_names_the_place(changes: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"values": [[0.1, 0.2, 0.3, 0.4]] * 3, "metrics": ACCURACY} | changes
    with pytest.raises(InputError, match=message):
        CurveSet.of("mine", arguments.pop("values"), arguments.pop("metrics"), **arguments)  # type: ignore[arg-type]


def test_set_with_a_gap_in_a_curve_is_an_error() -> None:
    whole = CurveSet.of("mine", [[0.1, 0.2, 0.3]], ACCURACY)
    from dataclasses import replace

    with pytest.raises(InputError, match="gap"):
        replace(whole, values=np.array([[0.1, np.nan, 0.3]]))


@pytest.mark.parametrize(
    ("name", "hard", "minimize"),
    [
        ("validation/accuracy", (0.0, 1.0), False),
        ("validation/mean_average_precision", (0.0, 1.0), False),
        ("test error_rate", (0.0, 1.0), True),
        ("valid log loss (nats)", (0.0, math.inf), True),
        ("val_cross_entropy (class weighted)", (0.0, math.inf), True),
        ("valid/ce_loss", (0.0, math.inf), True),
    ],
)
def test_metric_of_a_collection_gets_its_bounds_by_name(name: str, hard: tuple[float, float], minimize: bool) -> None:
    metric = metric_from(name)
    assert (metric.hard, metric.minimize) == (hard, minimize)


def test_metric_of_unknown_name_is_an_error() -> None:
    with pytest.raises(InputError, match="'flux'"):
        metric_from("flux")


def test_digits_bench_knows_tasks_horizons_and_values_before_training() -> None:
    curves = digits_bench("log_loss")
    assert len(curves) == 1056
    assert len(curves.task_names) == 12
    assert set(curves.horizons) == {50.0, 100.0}
    assert curves.untrained is not None
    assert (curves.lengths < curves.horizons).any()  # diverged runs are kept


@pytest.mark.skipif(not DATA.is_dir(), reason="the collections of real curves are not here")
@pytest.mark.parametrize(("name", "count", "longest"), [("taskset", 8000, 50), ("nasbench201", 140, 200)])
def test_npz_of_real_curves_loads_whole(name: str, count: int, longest: int) -> None:
    curves = read_npz(DATA / f"{name}.npz")
    assert (len(curves), int(curves.lengths.max())) == (count, longest)
    seen = curves.normalised[~np.isnan(curves.values)]
    assert ((seen >= 0.0) & (seen <= 1.0)).all()
