"""Engines agree: torch, onnxruntime in batches, onnxruntime as a stream, and all cutoffs at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import epochcast as ec
from epochcast.curve import Curves
from epochcast.prior import paper
from epochcast.question import Question
from epochcast.runtime.networks import StreamEngine, load_network
from epochcast.runtime.weights import find, read_safetensors

CURVES = paper.sample(40, np.random.default_rng(11)).noisy


def _torch_network(name: str):
    torch = pytest.importorskip("torch", reason="needs epochcast[train]")
    from epochcast.nn.model import SetModel, StreamModel
    from epochcast.nn.trainer import TrainConfig

    arrays, header = read_safetensors(find(name).weights)
    config = TrainConfig.from_json(header["config"]).model
    network = SetModel(config) if config.layout == "set" else StreamModel(config)
    own = network.state_dict()
    network.load_state_dict({key: torch.from_numpy(np.array(arrays[key])) for key in own})
    return network.eval()


def _answer_of(network, feed):
    import torch

    names = ("steps", "values", "observed", "queries")
    if "tokens" in feed:
        names = ("tokens", "past", "positions", "cutoff_features", "query_features")
    with torch.no_grad():
        raw = network(*(torch.from_numpy(np.array(feed[name])) for name in names))
    return (raw[0] if isinstance(raw, tuple) else raw).numpy()


@pytest.mark.parametrize("cutoff", [1, 10, 50, 99])
@pytest.mark.parametrize("name", ec.models())
def test_onnxruntime_agrees_with_torch(name, cutoff):
    engine, network = load_network(name), _torch_network(name)
    curves = Curves.of(CURVES[:, :cutoff])
    queries = np.broadcast_to(np.arange(cutoff + 1.0, 101.0), (40, 100 - cutoff))
    answer = engine.predict(Question.of(curves, queries, 100))
    recorded = {}

    class Recorder:
        def __init__(self, session):
            self.session = session

        def run(self, names, feed):
            recorded.update(feed=feed, raw=self.session.run(names, feed)[0])
            return self.session.run(names, feed)

    engine.session = Recorder(engine.session)
    engine.predict(Question.of(curves, queries, 100)[:8])
    if isinstance(engine, StreamEngine):
        recorded["feed"]["past"] = engine.empty_memory(8)  # whose layers are apart in the graph
    np.testing.assert_allclose(recorded["raw"], _answer_of(network, recorded["feed"]), atol=1e-4)
    assert answer.shape == (40, 100 - cutoff)


@pytest.mark.parametrize("name", ["lcpfn"])
def test_onnxruntime_agrees_with_torch_on_runs_of_different_lengths(name):
    engine, network = load_network(name), _torch_network(name)
    curves = Curves.of([CURVES[0, :30], CURVES[1, :7]])
    feed = engine.feed(Question.of(curves, np.array([[40.0, 100.0], [8.0, 50.0]]), 100))
    np.testing.assert_allclose(engine.session.run(["raw"], feed)[0], _answer_of(network, feed), atol=1e-4)


def _stream_engines() -> list[str]:
    return [name for name in ec.models() if isinstance(load_network(name), StreamEngine)]


@pytest.mark.parametrize("wanted", [range(100), (99, 9, 47)], ids=["all", "some"])
@pytest.mark.parametrize("name", _stream_engines())
def test_all_cutoffs_at_once_equal_one_cutoff_at_a_time(name, wanted):
    engine = load_network(name)
    whole = Question.of(Curves.of(CURVES[:5]), np.empty((5, 0)), 100)
    compared = []
    for cutoff, answer in engine.at_cutoffs(whole, wanted):
        compared.append(cutoff)
        if cutoff not in (0, 1, 9, 10, 47, 99):
            continue
        queries = np.broadcast_to(np.arange(cutoff + 1.0, 101.0), (5, 100 - cutoff))
        single = engine.predict(Question.of(Curves.of(CURVES[:5, :cutoff]), queries, 100))
        assert answer.shape == queries.shape
        np.testing.assert_allclose(answer.means, single.means, atol=1e-4)
        np.testing.assert_allclose(answer.log_scales, single.log_scales, atol=1e-4)
        np.testing.assert_allclose(answer.log_weights, single.log_weights, atol=1e-3)
    assert compared == sorted(wanted)


def test_all_cutoffs_of_runs_that_fill_what_is_read_and_have_a_value_before_training_are_answered():
    engine = load_network("real")
    count = engine.codec.most_values
    steps = np.arange(1.0, count + 1.0)
    whole = Question.of(
        Curves.of([0.9 - 0.8 * 0.98**steps]), np.empty((1, 0)), count, untrained=np.array([0.1]), kinds=np.array([1.0])
    )
    (cutoff, answer), *_ = engine.at_cutoffs(whole, [count - 5])
    seen = replace(whole, runs=Curves.of([0.9 - 0.8 * 0.98 ** steps[:cutoff]]), steps=steps[None, cutoff:])
    np.testing.assert_allclose(answer.means, engine.predict(seen).means, atol=1e-6)


@pytest.mark.parametrize("name", ec.models())
def test_large_batch_is_cut_into_chunks_without_a_seam(name):
    engine = load_network(name)
    draw = paper.sample(150, np.random.default_rng(3)).noisy[:, :60]
    queries = np.full((150, 1), 100.0)
    whole = engine.predict(Question.of(Curves.of(draw), queries, 100))
    for i in (0, 70, 149):
        one = engine.predict(Question.of(Curves.of(draw[i : i + 1]), queries[:1], 100))
        np.testing.assert_allclose(whole[i].cdf(0.5), one[0].cdf(0.5), atol=1e-5)


@pytest.mark.parametrize("name", ec.models())
def test_runs_of_different_lengths_are_forecast_as_each_alone(name):
    engine = load_network(name)
    runs = [CURVES[i, :length] for i, length in enumerate((30, 3, 11, 30))]
    queries = np.array([[40.0, 100.0]])
    together = engine.predict(Question.of(Curves.of(runs), np.repeat(queries, len(runs), axis=0), 100))
    for i, run in enumerate(runs):
        alone = engine.predict(Question.of(Curves.of(run), queries, 100))
        np.testing.assert_allclose(together[i].cdf(0.5), alone[0].cdf(0.5), atol=1e-5)
        assert np.abs(together[i].cdf(0.5) - together[(i + 1) % 3].cdf(0.5)).max() > 1e-3  # no other run's


@pytest.mark.parametrize("name", _stream_engines())
def test_memory_handed_on_as_one_array_reads_like_the_whole_run(name):
    engine = load_network(name)
    question = Question.of(Curves.of(CURVES[:2, :20]), np.full((2, 1), 100.0), 100)
    tokens, asked = engine.codec.newest(question, engine.codec.runs(question))
    first = np.zeros((2, 1), dtype=np.int64)
    _, memory = engine.read_on(tokens[:, :15], asked, first, engine.empty_memory(2))
    answer, memory = engine.read_on(tokens[:, 15:], asked, np.full((2, 1), 5), memory)
    assert memory.shape[4] == 21
    np.testing.assert_allclose(answer[:, 0].cdf(0.5), engine.predict(question).cdf(0.5), atol=1e-5)


def test_stream_session_keeps_keys_and_values_of_every_token():
    engine = load_network(_stream_engines()[0])
    session = engine.for_one_run()
    fed = []
    run = engine.session.run

    class Counter:
        def run(self, names, feed):
            fed.append(feed["tokens"].shape[1])
            return run(names, feed)

    engine.session = Counter()
    for cutoff in (1, 2, 3, 10):
        session.predict(Question.of(Curves.of(CURVES[:1, :cutoff]), np.array([[100.0]]), 100))
    assert fed == [2, 1, 1, 7]
