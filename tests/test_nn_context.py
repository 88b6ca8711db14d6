"""The decoder that reads other runs: the same answers in torch and on onnxruntime, and what they may depend on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from epochcast.curve import Curves
from epochcast.distributions import Mixture
from epochcast.engines import load_engine
from epochcast.errors import WeightsError
from epochcast.nn.export import export
from epochcast.nn.model import ModelConfig
from epochcast.nn.task_batch import Lesson, TaskRuns
from epochcast.nn.trainer import TrainConfig, Trainer
from epochcast.prior.real.task import sample_tasks
from epochcast.question import Context, Engine, Question
from epochcast.rates import Rates
from epochcast.runtime.weights import find

STEPS = np.arange(1.0, 21.0)
CONFIG = TrainConfig(
    model=ModelConfig(layers=2, width=32, heads=2, hidden=64, decoder=48, rates=True, context=16, context_layers=1),
    prior="real",
    curves=96,
    batch=4,
)


@pytest.fixture(scope="module")
def trainer() -> Trainer:
    made = Trainer(CONFIG)
    made.run(12)
    return made


@pytest.fixture(scope="module")
def model(trainer: Trainer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(trainer, tmp_path_factory.mktemp("model"), "tiny")[1]


@pytest.fixture(scope="module")
def engine(model: Path) -> Engine:
    return load_engine(model)


def runs_of_a_task(seed: int) -> TaskRuns:
    task = next(
        task
        for task in sample_tasks(20, 9, np.random.default_rng(seed), STEPS, 20.0)
        if len(task.columns) == 9 and task.columns.shape[1] > 1 and not task.categories.any()
    )
    values = task.runs.noisy
    columns = task.columns
    low, high = columns[:8].min(axis=0), columns[:8].max(axis=0)
    columns = (columns - low) / np.where(high > low, high - low, 1.0)  # as an engine scales them
    return TaskRuns(
        np.broadcast_to(STEPS, values.shape), values, np.stack([values] * 2), np.full(9, 20), 20.0, np.full(9, 20.0),
        task.runs.kinds, Rates(np.zeros(9), task.runs.rate, task.runs.clock), columns, task.categories,
    )  # fmt: skip


def question(runs: TaskRuns, seen: int, others: list[int], lengths: list[int], target: int = 8) -> Question:
    configs = [{f"c{j}": float(x) for j, x in enumerate(row)} for row in runs.columns]
    kept = np.arange(20) < np.array(lengths)[:, None]
    context = Context(
        Curves(np.where(kept, runs.steps[others], 0.0), np.where(kept, runs.values[others], 0.0), np.array(lengths)),
        np.full(len(others), 20.0),
        tuple(configs[i] for i in others),
    )
    return Question(
        Curves(runs.steps[target : target + 1, :seen], runs.values[target : target + 1, :seen], np.array([seen])),
        STEPS[None, seen:],
        20.0,
        runs.kinds[target : target + 1],
        configs=(configs[target],),
        context=context,
    )


def parts(answer: Mixture) -> tuple[np.ndarray, ...]:
    return answer.log_weights, answer.means, answer.log_scales


@pytest.mark.parametrize("seen", [0, 1, 7])
def test_engine_answers_beside_other_runs_as_the_network_in_training_does(
    trainer: Trainer, engine: Engine, seen: int
) -> None:
    runs, lengths = runs_of_a_task(1), [20, 20, 5, 20, 12, 20, 20, 1]
    objective = trainer.objective
    reading = objective.read(runs)
    queries = np.array([[[seen, 19]]])
    lesson = Lesson(0, np.array([8]), np.array([[seen]]), queries, ((0, np.arange(8)),), (np.array(lengths),))
    wanted = [part.detach().numpy()[0] for part in objective.answer([objective.assembled(lesson, [reading])])]
    found = engine.predict(question(runs, seen, list(range(8)), lengths))
    for one, other in zip(parts(found), wanted, strict=True):
        np.testing.assert_allclose(one[:, [0, -1]], other, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("alone", [0, 4])
def test_trainer_moves_what_reads_a_run_alone_only_where_runs_are_alone(alone: int) -> None:
    trainer = Trainer(replace(CONFIG, alone=alone))
    before = {name: value.clone() for name, value in trainer.objective.network.state_dict().items()}
    trainer.run(2)
    moved = {name for name, value in trainer.objective.network.state_dict().items() if not value.equal(before[name])}
    beside_others = {name for name in before if name.startswith("context.")}
    assert moved & beside_others
    assert bool(moved - beside_others) == (alone > 0)


def test_lessons_move_nothing_of_what_reads_a_run_alone() -> None:
    trainer = Trainer(replace(CONFIG, alone=4))
    batch = replace(trainer.objective.sampler(4, np.random.default_rng(0)), alone=None)
    trainer.objective.loss(batch, np.random.default_rng(0)).backward()
    touched = {name for name, p in trainer.objective.network.named_parameters() if p.grad is not None}
    assert touched
    assert all(name.startswith("context.") for name in touched)


def test_engine_without_context_answers_as_if_it_could_read_none(engine: Engine) -> None:
    runs = runs_of_a_task(2)
    with_none = replace(question(runs, 5, [0, 1], [20, 20]), context=None)
    bare = replace(with_none, configs=())
    np.testing.assert_array_equal(engine.predict(with_none).means, engine.predict(bare).means)


def test_engine_that_trusts_no_other_runs_answers_as_without_them(tmp_path: Path) -> None:
    trainer = Trainer(CONFIG)
    trainer.run(2)
    network, asked = trainer.objective.network, question(runs_of_a_task(2), 5, [0, 1], [20, 20])
    distances = []
    for logit in (3.0, -30.0):
        network.context.trust.bias.data[:] = logit
        engine = load_engine(export(trainer, tmp_path / str(logit), "tiny")[1])
        beside, alone = engine.predict(asked), engine.predict(replace(asked, context=None, configs=()))
        values = alone.icdf(0.3)
        distances.append(float(np.abs(beside.log_prob(values) - alone.log_prob(values)).max()))
    assert distances[0] > 1e-3
    assert distances[1] < 1e-6


def test_engine_order_of_other_runs_does_not_matter(engine: Engine) -> None:
    runs, lengths = runs_of_a_task(3), [20, 9, 20, 20, 4, 20]
    order = [4, 2, 0, 5, 1, 3]
    one = engine.predict(question(runs, 6, [0, 1, 2, 3, 4, 5], lengths))
    other = engine.predict(question(runs, 6, order, [lengths[i] for i in order]))
    assert not np.allclose(one.means, engine.predict(question(runs, 6, [0, 1], lengths[:2])).means, atol=1e-3)
    for a, b in zip(parts(one), parts(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_engine_batch_beside_one_context_answers_as_its_runs_alone(engine: Engine) -> None:
    runs = runs_of_a_task(4)
    single = [question(runs, 4, [0, 1, 2, 3], [20, 20, 8, 20], target) for target in (6, 7, 8)]
    whole = replace(
        single[0],
        runs=Curves(runs.steps[6:, :4], runs.values[6:, :4], np.full(3, 4)),
        steps=np.concatenate([one.steps for one in single]),
        kinds=runs.kinds[6:],
        configs=tuple(config for one in single for config in one.configs),
    )
    together = engine.predict(whole)
    for row, one in enumerate(single):
        alone = engine.predict(replace(one, context=whole.context))
        np.testing.assert_allclose(together.means[row], alone.means[0], rtol=1e-3, atol=1e-4)


def test_engine_stream_beside_other_runs_answers_as_a_forecast_of_all_values(engine: Engine) -> None:
    runs = runs_of_a_task(5)
    stream = engine.for_one_run()
    context = question(runs, 1, [0, 1, 2], [20, 20, 20]).context
    for seen in range(1, 6):
        asked = replace(question(runs, seen, [0, 1, 2], [20, 20, 20]), context=context)
        np.testing.assert_allclose(stream.predict(asked).means, engine.predict(asked).means, rtol=1e-3, atol=1e-4)


def test_training_moves_only_the_decoder_that_reads_other_runs() -> None:
    before, after = Trainer(CONFIG), Trainer(CONFIG)
    after.run(2)
    for (name, one), other in zip(
        before.objective.network.named_parameters(), after.objective.network.parameters(), strict=True
    ):
        if not name.startswith("context."):
            assert (one == other).all(), name
    assert (before.objective.network.context.head.weight != after.objective.network.context.head.weight).any()


def test_training_goes_on_from_its_checkpoint_exactly(tmp_path: Path) -> None:
    whole, part = Trainer(CONFIG), Trainer(CONFIG)
    whole.run(3)
    part.run(2)
    part.save(tmp_path / "checkpoint.safetensors")
    resumed = Trainer.resume(tmp_path / "checkpoint.safetensors")
    resumed.run(1)
    for one, other in zip(whole.objective.network.parameters(), resumed.objective.network.parameters(), strict=True):
        assert (one == other).all()


def test_start_from_a_network_without_context_begins_with_its_decoder(tmp_path: Path) -> None:
    alone = Trainer(replace(CONFIG, model=replace(CONFIG.model, context=0)))
    alone.run(2)
    alone.save(tmp_path / "alone.safetensors")
    trainer = Trainer(CONFIG)
    trainer.start_from(tmp_path / "alone.safetensors")
    network = trainer.objective.network
    assert (network.context.decode_hidden.weight == network.decode_hidden.weight).all()
    assert (network.decode_hidden.weight == alone.objective.network.decode_hidden.weight).all()


def test_weights_know_all_three_graphs(model: Path) -> None:
    assert find(model).graph == model
    other = model.with_suffix(".context.onnx")
    whole = other.read_bytes()
    try:
        other.write_bytes(whole[:-1])
        with pytest.raises(WeightsError, match="damaged"):
            find(model)
    finally:
        other.write_bytes(whole)
