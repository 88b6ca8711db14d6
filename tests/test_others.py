"""Other runs of the task as context: what reaches an engine, at which scale, and what is said of runs left out."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import epochcast as ec
from epochcast.curve import Curves
from epochcast.distributions import Mixture
from epochcast.errors import InputError
from epochcast.metric import Metric
from epochcast.others import MOST_RUNS, newest_and_best, others_of
from epochcast.question import Engine, Input, Question

HORIZON = 30
STEPS = np.arange(1.0, HORIZON + 1.0)


def curves(count: int, seed: int = 0) -> list[np.ndarray]:
    """Accuracies that rise from a random start to a random end."""
    rng = np.random.default_rng(seed)
    ends, starts, scales = rng.uniform(0.6, 0.9, count), rng.uniform(0.1, 0.3, count), rng.uniform(3.0, 9.0, count)
    return [
        end - (end - start) * np.exp(-STEPS / scale) for end, start, scale in zip(ends, starts, scales, strict=True)
    ]


RUNS = curves(12)
SEEN = RUNS[0][:5]
OTHERS = RUNS[1:]
LOSSES = [2.5 * (1.0 - run) for run in RUNS]


class Recorder(Engine):
    """Remembers what it was asked; reads everything."""

    name = "recorder"
    reads: frozenset[Input] = frozenset({"untrained", "kind", "schedule", "context", "config"})

    def __init__(self) -> None:
        self.questions: list[Question] = []

    @property
    def asked(self) -> Question:
        return self.questions[-1]

    def predict(self, question: Question) -> Mixture:
        self.questions.append(question)
        shape = (*question.steps.shape, 1)
        return Mixture(np.zeros(shape), np.full(shape, 0.5), np.full(shape, -2.0))


@pytest.fixture
def engine() -> Recorder:
    return Recorder()


@pytest.fixture(scope="module")
def forecaster() -> ec.Forecaster:
    return ec.Forecaster("empirical-gp")


def asked(values: Any, metric: str, context: Any, **known: Any) -> Question:
    engine = Recorder()
    ec.Forecaster.around(engine).forecast(values, HORIZON, metric, context=context, **known)
    return engine.asked


def context_values(question: Question) -> list[list[float]]:
    assert question.context is not None
    runs = question.context.runs
    return [runs.values[i, :length].tolist() for i, length in enumerate(runs.lengths)]


# --- what is handed over ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "context",
    [OTHERS, [run.tolist() for run in OTHERS], np.stack(OTHERS), [ec.Run(run) for run in OTHERS],
     [ec.Run(OTHERS[0]), *OTHERS[1:]], tuple(OTHERS)],
    ids=["arrays", "lists", "2-D", "runs", "mixed", "tuple"],
)  # fmt: skip
def test_context_reaches_the_engine_whatever_holds_it(context: Any) -> None:
    question = asked(SEEN, "accuracy", context)
    assert question.context is not None
    np.testing.assert_allclose(question.context.runs.values, np.stack(OTHERS), atol=0.2)
    np.testing.assert_array_equal(context_values(question), context_values(asked(SEEN, "accuracy", OTHERS)))
    assert question.context.horizons.tolist() == [HORIZON] * len(OTHERS)


def test_runs_of_a_context_bring_their_steps_configurations_and_values_before_training() -> None:
    runs = [
        ec.Run([0.3, 0.5], steps=[2, 4], config={"lr": 0.1}),
        ec.Run([0.1, 0.2, 0.4], steps=[0, 1, 2]),
        [0.3, 0.4, 0.5],
    ]
    question = asked(ec.Run(SEEN, config={"lr": 0.2}), "accuracy", runs, space={"lr": "log"})
    context = question.context
    assert context is not None
    assert context.runs.steps.tolist() == [[2, 4, 0], [1, 2, 0], [1, 2, 3]]
    assert context.runs.lengths.tolist() == [2, 2, 3]
    assert context.configs == ({"lr": 0.1}, None, None)
    assert question.configs == ({"lr": 0.2},)
    assert context.space == ec.Space(lr="log")
    assert context.untrained is not None
    assert np.isnan(context.untrained[[0, 2]]).all()
    np.testing.assert_allclose(context.untrained[1], asked([0.1], "accuracy", runs).runs.values[0, 0])


def test_run_of_a_context_ends_at_its_own_horizon_or_that_of_the_call_or_its_last_step() -> None:
    runs = [ec.Run([0.1, 0.2], horizon=10), [0.1, 0.2], np.linspace(0.1, 0.6, 50), ec.Run([0.1, 0.2], horizon=90)]
    context = asked(SEEN, "accuracy", runs).context
    assert context is not None
    assert context.horizons.tolist() == [10, HORIZON, 50, 90]
    with pytest.raises(InputError, match=r"seen up to step 12, past its horizon=10"):
        others_of([ec.Run(np.linspace(0, 1, 12), horizon=10)], Metric.named("accuracy"), HORIZON)


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (0.5, r"^context=0\.5 must be a list of runs or a 2-D array, one run per row$"),
        ("runs", "^context='runs' must be a list of runs"),
        ({"a": SEEN}, r"^context=.* must be a list of runs"),
        (ec.Run(SEEN), "must be a list of runs"),
        ([0.1, 0.2], r"^context\[0\]=0\.1 is not a run; one run alone is context=\[run\]$"),
        (SEEN, r"is not a run; one run alone is context=\[run\]$"),
        ([SEEN, ["a", "b"]], r"^values of context\[1\]\[0\] = 'a' is not a number$"),
        ([[SEEN, SEEN]], r"^values of context\[0\] have 2 dimensions; each run of a context must be 1-D$"),
        ([ec.Run([0.1, 0.2], steps=[1])], r"^context\[0\]: curve 0 has 1 steps but 2 values$"),
        ([ec.Run([0.1, 0.2], steps=[1, 1])], r"^context\[0\]: step 1 of curve 0 appears twice"),
        ([ec.Run([0.1, 0.2], config=3)], r"^context\[0\]: config=3 must be a mapping of names to values"),  # type: ignore[arg-type]
        ([ec.Run([0.1, 0.2], horizon=1)], r"^context\[0\]: horizon=1 must be a whole number of steps"),
    ],
)
def test_context_that_is_a_mistake_is_an_error(context: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        asked(SEEN, "accuracy", context)


@pytest.mark.parametrize("name", ["stream", "lcpfn", "last-value"])
def test_model_that_reads_no_other_runs_refuses_them_and_no_configuration(name: str) -> None:
    with pytest.raises(InputError, match=rf"^{name} makes no use of other runs; leave context=\.\.\. out"):
        ec.forecast(SEEN, HORIZON, "accuracy", context=OTHERS, model=name)
    with pytest.raises(InputError, match=rf"^{name} makes no use of configurations; leave config=\{{'lr': 1\}} out"):
        ec.forecast(SEEN, HORIZON, "accuracy", config={"lr": 1}, model=name)
    with pytest.raises(InputError, match="makes no use of other runs"):
        ec.Forecaster(name).stream(HORIZON, "accuracy", context=OTHERS)
    ec.forecast(ec.Run(SEEN, config={"lr": 1}), HORIZON, "accuracy", model=name)  # what it carries is left to the model
    ec.forecast(SEEN, HORIZON, "accuracy", context=[], model=name)


def test_configuration_is_that_of_the_call_or_of_the_run_but_not_of_both() -> None:
    for values, known in ((SEEN, {"config": {"lr": 1}}), (ec.Run(SEEN, config={"lr": 1}), {})):
        assert asked(values, "accuracy", OTHERS, **known).configs == ({"lr": 1},)
    assert asked(ec.Run(SEEN, config={"lr": 1}), "accuracy", OTHERS, config={"lr": 1.0}).configs == ({"lr": 1},)
    assert asked([SEEN, ec.Run(SEEN, config={"lr": 2})], "accuracy", OTHERS).configs == (None, {"lr": 2})
    with pytest.raises(InputError, match=r"^config=\{'lr': 2\} is not the Run's own, \{'lr': 1\}; give one of them$"):
        asked(ec.Run(SEEN, config={"lr": 1}), "accuracy", OTHERS, config={"lr": 2})
    with pytest.raises(InputError, match="must be a mapping"):
        asked(SEEN, "accuracy", OTHERS, config=[1])


def test_horizon_of_a_run_that_is_forecast_is_that_of_the_call() -> None:
    asked(ec.Run(SEEN, horizon=HORIZON), "accuracy", OTHERS)
    with pytest.raises(InputError, match=r"^horizon=30 is not horizon=40 of the Run; a call has one horizon for all$"):
        asked([SEEN, ec.Run(SEEN, horizon=40)], "accuracy", OTHERS)


# --- runs that are left out -------------------------------------------------------------------------------------------


def test_runs_that_cannot_be_used_are_left_out_with_a_note_of_how_many_and_why(engine: Recorder) -> None:
    bad: list[Any] = [[0.4], [], [0.3, float("nan"), 0.5], [0.1, float("inf")], [0.3, 5.0], [2.0, 1.0], [0.2, None]]
    forecast = ec.Forecaster.around(engine).forecast(SEEN, HORIZON, "accuracy", context=[*bad, *OTHERS])
    assert forecast.notes == (
        "7 of 18 other runs were left out, 2 with fewer than 2 values, 2 with values that accuracy cannot have, "
        "3 with values that are missing or not finite",
    )
    assert context_values(engine.asked) == context_values(asked(SEEN, "accuracy", OTHERS))


def test_one_run_left_out_is_said_in_the_singular(engine: Recorder) -> None:
    forecast = ec.Forecaster.around(engine).forecast(SEEN, HORIZON, "accuracy", context=[[0.4], *OTHERS])
    assert forecast.notes == ("1 of 12 other runs was left out, 1 with fewer than 2 values",)


def test_missing_values_of_a_context_are_dropped_with_those_of_the_run() -> None:
    runs = [[0.1, None, 0.3], [None, 0.2]]
    context = asked(SEEN, "accuracy", runs, missing="drop").context
    assert context is not None
    assert context.runs.steps.tolist() == [[1, 3]]


def test_context_of_no_usable_run_is_none_with_a_note(engine: Recorder) -> None:
    alone = ec.Forecaster.around(engine).forecast(LOSSES[0][:5], HORIZON, "loss")
    forecast = ec.Forecaster.around(engine).forecast(LOSSES[0][:5], HORIZON, "loss", context=[[0.4], [-1.0, 0.3]])
    assert engine.asked.context is None
    np.testing.assert_array_equal(engine.asked.runs.values, engine.questions[0].runs.values)
    assert alone.notes == ()
    assert forecast.notes == (
        "2 of 2 other runs were left out, 1 with fewer than 2 values, 1 with values that loss cannot have; "
        "the forecast is made without any",
    )
    assert ec.forecast(SEEN, HORIZON, "accuracy", context=[[0.4]], model="stream").notes[0].startswith("1 of 1")


def test_empty_context_is_none_without_a_note(engine: Recorder) -> None:
    for empty in ([], np.empty((0, 5))):
        forecast = ec.Forecaster.around(engine).forecast(SEEN, HORIZON, "accuracy", context=empty)
        assert (forecast.notes, engine.asked.context) == ((), None)


def test_of_too_many_runs_the_newest_and_the_best_of_the_others_are_read(engine: Recorder) -> None:
    rng = np.random.default_rng(0)
    ends = rng.permutation(200) / 250.0
    runs = [ec.Run([end / 2, end], config={"i": i}) for i, end in enumerate(ends)]
    forecast = ec.Forecaster.around(engine).forecast(SEEN, HORIZON, "accuracy", context=runs)
    assert forecast.notes == (
        "200 other runs are more than the 64 that are read: the 32 newest, and of the others the 32 with the best "
        "values",
    )
    assert engine.asked.context is not None
    found = {config["i"] for config in engine.asked.context.configs if config}
    best = set(np.argsort(-ends[:168])[:32].tolist())
    assert found == best | set(range(168, 200))
    assert len(engine.asked.context) == MOST_RUNS


def test_best_of_too_many_losses_are_the_smallest() -> None:
    runs = Curves.of([[2.0, value] for value in np.linspace(1.9, 0.1, 100)])
    assert newest_and_best(Metric.named("loss"), runs).tolist() == list(range(36, 100))
    assert newest_and_best(Metric.named("accuracy"), runs).tolist() == [*range(32), *range(68, 100)]


# --- one scale for all ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["accuracy", "error", "unit", "loss", "reward"])
def test_runs_of_a_call_share_one_scale(metric: str) -> None:
    question = asked([RUNS[0][:2], RUNS[1][:4]], metric, OTHERS)
    assert context_values(question)[0][:4] == question.runs.values[1].tolist()


def test_scale_of_losses_is_the_value_before_training_or_the_median_first_one() -> None:
    def scale(values: Any, context: Any, **known: Any) -> float:
        """The loss that the map puts where it puts the untrained model's."""
        engine = Recorder()
        forecast = ec.Forecaster.around(engine).forecast(values, HORIZON, "loss", context=context, **known)
        return float(2 * forecast.normalizer.center)

    runs = [[2.0, 1.0], [3.0, 1.5], [40.0, 2.0]]
    assert scale([8.0, 1.1], runs) == 3.0
    assert scale([], runs) == 3.0
    told = [ec.Run(runs[0], untrained=2.3), ec.Run([2.5, *runs[1]], steps=[0, 1, 2]), runs[2]]
    assert scale([8.0, 1.1], told) == pytest.approx(2.4)
    assert scale([8.0, 1.1], told, untrained=7.0) == 7.0
    assert scale(ec.Run([7.0, 1.1], steps=[0, 1]), told) == 7.0


def test_scale_of_a_reward_is_the_range_of_the_other_runs_but_for_those_that_exploded() -> None:
    def ends(values: Any, context: Any) -> list[float]:
        forecast = ec.Forecaster.around(Recorder()).forecast(values, HORIZON, "reward", context=context)
        center, half = float(forecast.normalizer.center), float(forecast.normalizer.half_width)
        return [center - half, center + half]

    runs = [[0.0, 50.0], [-20.0, 60.0], [10.0, 100.0]]
    assert ends([5.0, 70.0], runs) == [-20.0, 100.0]
    assert ends([5.0, 70.0], [*runs, [0.0, -1e9]]) == [-20.0, 100.0]
    assert ends([5.0, 150.0], runs) == [-20.0, 100.0]  # outside, but not far
    assert ends([5.0, 5.0], [[5.0, 5.0], [5.0, 5.0]]) == [2.5, 7.5]
    assert ends([0.0], [[0.0, 0.0], [1e6, 1e6]]) == [0.0, 1e6]  # two places, and most are in neither


def test_runs_of_a_context_that_exploded_are_squeezed() -> None:
    values = context_values(asked(LOSSES[0][:5], "loss", [*LOSSES[1:], [2.0, 1.5, 1e200, 1e300]]))
    assert values[-1][-1] == pytest.approx(0.0, abs=1e-12)
    assert np.isfinite(np.concatenate(values)).all()


def test_run_that_left_the_range_of_the_others_is_forecast_as_if_there_were_none(forecaster: ec.Forecaster) -> None:
    exploded = [2.0, 1.5, 1e5, 1e5]
    among = forecaster.forecast(exploded, HORIZON, "loss", context=LOSSES[1:])
    alone = forecaster.forecast(exploded, HORIZON, "loss")
    np.testing.assert_array_equal(among.median(), alone.median())
    assert among.notes == (
        "the run has left the range of the other runs: its newest value 1e+05 lies far outside; "
        "it is forecast without them",
    )


def test_batch_among_other_runs_answers_each_run_as_if_it_were_alone(forecaster: ec.Forecaster) -> None:
    runs = [LOSSES[0][:5], [2.0, 1.5, 1e5, 1e5], LOSSES[0][:9], [7.0, 1e4]]
    batch = forecaster.forecast(runs, HORIZON, "loss", context=LOSSES[1:])
    assert "curve 1 has left the range of the other runs" in batch.notes[0]
    assert "and so have 1 others" in batch.notes[0]
    for i, run in enumerate(runs):
        single = forecaster.forecast(run, HORIZON, "loss", context=LOSSES[1:])
        np.testing.assert_allclose(batch[i].median(), single.median(), rtol=1e-9)
        np.testing.assert_allclose(batch[i].log_prob(1.0), single.log_prob(1.0), rtol=1e-9)
        np.testing.assert_allclose(batch[i].paths(3, seed=0), single.paths(3, seed=0), rtol=1e-6)


# --- what it is good for ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["accuracy", "loss"])
def test_run_that_has_not_begun_is_forecast_from_the_others(forecaster: ec.Forecaster, metric: str) -> None:
    runs = curves(40, seed=1)
    runs = runs if metric == "accuracy" else [2.5 * (1.0 - run) for run in runs]
    forecast = forecaster.forecast([], HORIZON, metric, context=runs)
    low, high = forecast.final.interval(0.9)
    ends = np.array([run[-1] for run in runs])
    assert 0.75 < np.mean((ends >= low) & (ends <= high)) <= 1.0
    others = [run / 4.0 for run in runs] if metric == "accuracy" else [run + 2.0 for run in runs]
    low, high = forecaster.forecast([], HORIZON, metric, context=others).final.interval(0.9)
    assert np.mean((ends >= low) & (ends <= high)) < 0.3  # runs that end elsewhere say something else
    assert forecast.steps.tolist() == STEPS.tolist()


def test_loss_that_has_not_begun_still_needs_a_scale_without_other_runs(forecaster: ec.Forecaster) -> None:
    for context in (None, [], [[1.0]]):
        with pytest.raises(InputError, match="needs soft bounds when nothing is seen"):
            forecaster.forecast([], HORIZON, "loss", context=context)


def test_order_of_the_context_does_not_matter(forecaster: ec.Forecaster) -> None:
    for metric, runs in (("accuracy", RUNS), ("loss", LOSSES), ("reward", RUNS)):
        first, again = (
            forecaster.forecast(runs[0][:5], HORIZON, metric, context=context) for context in (runs[1:], runs[:0:-1])
        )
        np.testing.assert_allclose(first.median(), again.median(), rtol=1e-7)
        fewer = forecaster.forecast(runs[0][:5], HORIZON, metric, context=runs[2:])
        assert not np.allclose(first.median(), fewer.median(), rtol=1e-7)


# --- what an engine may remember --------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["accuracy", "loss", "reward"])
def test_stream_asks_with_the_same_context_at_every_value_and_answers_as_a_forecast(metric: str) -> None:
    engine = Recorder()
    forecaster = ec.Forecaster.around(engine)
    runs = RUNS if metric != "loss" else LOSSES
    stream = forecaster.stream(HORIZON, metric, context=runs[1:], config={"lr": 0.1}, space=ec.Space(lr="log"))
    for value in runs[0][:10]:
        stream.update(float(value))
    first = engine.questions[0].context
    assert first is not None
    assert first.space == ec.Space(lr="log")
    assert all(question.context is first for question in engine.questions)
    assert engine.asked.configs == ({"lr": 0.1},)
    whole = asked(runs[0][:10], metric, runs[1:])
    np.testing.assert_array_equal(engine.asked.runs.values, whole.runs.values)
    assert context_values(engine.asked) == context_values(whole)


def test_stream_from_step_0_keeps_the_scale_that_the_untrained_value_sets(engine: Recorder) -> None:
    stream = ec.Forecaster.around(engine).stream(HORIZON, "loss", context=LOSSES[1:])
    for step, value in enumerate([2.6, *LOSSES[0][:4]]):
        stream.update(float(value), step=float(step))
    assert len({id(question.context) for question in engine.questions}) == 1


def test_stream_that_explodes_leaves_the_others_and_comes_back(engine: Recorder) -> None:
    stream = ec.Forecaster.around(engine).stream(HORIZON, "loss", context=LOSSES[1:])
    notes = [stream.update(value).notes for value in (2.0, 1e6, 1.9)]
    assert [question.context is None for question in engine.questions] == [False, True, False]
    assert engine.questions[0].context is engine.questions[2].context
    assert [len(note) for note in notes] == [0, 1, 0]


def test_same_other_runs_are_the_same_context_from_call_to_call(engine: Recorder) -> None:
    forecaster = ec.Forecaster.around(engine)
    configs = [{"lr": float(i)} for i in range(len(OTHERS))]

    def context(metric: str = "accuracy", schedule: str | None = None, **changed: Any) -> Any:
        runs = [ec.Run(run.copy(), config=dict(config)) for run, config in zip(OTHERS, configs, strict=True)]
        arguments: dict[str, Any] = {"horizon": HORIZON, "context": runs, **changed}
        forecaster.with_schedule(schedule).forecast(SEEN[:3], metric=metric, **arguments)
        return engine.asked.context

    first = context()
    assert context() is first
    assert context(schedule="cosine") is first
    for changed in (
        {"metric": "error"},
        {"horizon": 60},
        {"context": OTHERS},
        {"space": {"lr": "log"}},
        {"context": [ec.Run(run, config={"lr": 1}) for run in OTHERS]},
        {"context": [ec.Run(run, untrained=0.1) for run in OTHERS]},
        {"context": [ec.Run(run, steps=STEPS / 2) for run in OTHERS]},
        {"context": [run + 1e-9 for run in OTHERS]},
        {"context": OTHERS[1:]},
    ):
        context()
        assert context(**changed) is not engine.questions[-2].context, changed


def test_forecaster_that_has_read_other_runs_can_be_pickled(forecaster: ec.Forecaster) -> None:
    wanted = forecaster.forecast(SEEN, HORIZON, "accuracy", context=OTHERS)
    again = pickle.loads(pickle.dumps(forecaster)).forecast(SEEN, HORIZON, "accuracy", context=OTHERS)
    np.testing.assert_array_equal(again.median(), wanted.median())
