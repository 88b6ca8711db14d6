"""The comparison with other libraries: each wrapper where its library is installed, all around them everywhere."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochcast.baselines import LastValue
from epochcast.benchmarks import CurveSet, digits_bench
from epochcast.curve import Array, Curves
from epochcast.distributions import Bars, Mixture
from epochcast.experiments.harness import Store
from epochcast.experiments.real.scores import CurveScores, score
from epochcast.metric import Metric
from epochcast.question import Question
from tests.checkout import in_a_checkout, research

pytestmark = in_a_checkout
HORIZON = 40


def approach(length: int, seed: int = 0, noise: float = 0.003) -> Array:
    """A run that closes a tenth of what is left to 0.9 in every step."""
    steps = np.arange(1.0, length + 1.0)
    return 0.9 - 0.6 * 0.9**steps + noise * np.random.default_rng(seed).standard_normal(length)


# --- series -----------------------------------------------------------------------------------------------------------


def series(steps: Array, values: Array, queries: Array) -> Any:
    return research("peers.series").Series.of(Curves.of(values, steps), 0, np.asarray(queries, dtype=np.float64))


def test_series_of_even_steps_is_unchanged() -> None:
    values = np.random.default_rng(0).random(5)
    found = series(np.arange(3.0, 18.0, 3.0), values, [18.0, 30.0])
    assert (found.values == values).all()
    np.testing.assert_allclose(found.ahead, [1.0, 5.0])
    assert found.count == 5


def test_series_of_doubling_steps_counts_doublings() -> None:
    values = np.random.default_rng(0).random(5)
    found = series(2.0 ** np.arange(4.0, 9.0), values, [512.0, 2048.0])
    np.testing.assert_allclose(found.values, values)
    np.testing.assert_allclose(found.ahead, [1.0, 3.0])


def test_series_of_uneven_steps_is_interpolated() -> None:
    found = series(np.array([10.0, 11.0, 14.0, 15.0, 18.0]), np.array([1.0, 2.0, 5.0, 6.0, 9.0]), [20.0])
    np.testing.assert_allclose(found.values, [1.0, 3.0, 5.0, 7.0, 9.0])
    np.testing.assert_allclose(found.ahead, [1.0])


def test_series_of_one_value_counts_steps() -> None:
    found = series(np.array([4.0]), np.array([0.5]), [5.0, 9.0])
    assert found.ahead.tolist() == [1.0, 5.0]


def test_series_reads_a_table_between_its_rows() -> None:
    found = series(np.array([2.0, 4.0]), np.array([0.1, 0.2]), [6.0, 7.0, 8.0])
    table = np.array([[1.0, 10.0], [3.0, 30.0]])
    np.testing.assert_allclose(found.at_queries(table), [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])


# --- answers ----------------------------------------------------------------------------------------------------------


def test_peer_leaves_runs_that_it_cannot_answer_to_the_last_value() -> None:
    engine = research("peers.engine")

    class Drift(engine.GaussianPeer):
        name = "drift"
        fewest = 3

        def forecast(self, values: Array, count: int) -> Array | None:
            if values[-1] > 0.8:
                return None
            slope = (values[-1] - values[0]) / (len(values) - 1)
            steps = np.arange(1.0, count + 1.0)
            return np.stack([values[-1] + slope * steps, 0.1 * steps], axis=-1)

    curves = Curves.of([[0.1, 0.2, 0.3], [0.1, 0.2], [0.7, 0.8, 0.9]])
    question = Question.of(curves, np.array([[4.0, 6.0]] * 3), 10.0)
    drift = Drift()
    answer, last = drift.predict(question), LastValue().predict(question)
    np.testing.assert_allclose(answer.mean()[0], [0.4, 0.6])
    np.testing.assert_allclose(np.sqrt(answer.variance()[0]), [0.1, 0.3])
    for row in (1, 2):
        np.testing.assert_allclose(answer[row].log_prob(0.5), last[row].log_prob(0.5))
    assert drift.answered == 1


def test_quantiles_that_cross_are_sorted() -> None:
    engine = research("peers.engine")

    class Crossed(engine.QuantilePeer):
        name = "crossed"
        fewest = 1

        def forecast(self, values: Array, count: int) -> Array | None:
            return np.tile(np.linspace(0.9, 0.1, len(self.levels)), (count, 1))

    answer = Crossed().predict(Question.of(Curves.of([0.1, 0.2]), np.array([[3.0]]), 10.0))
    assert answer.icdf(0.975)[0, 0] == pytest.approx(0.9)
    assert answer.icdf(0.025)[0, 0] == pytest.approx(0.1)


def test_forecasts_are_cut_to_the_range_of_values() -> None:
    engine = research("peers.engine")

    class Rocket(engine.GaussianPeer):
        name = "rocket"
        fewest = 1

        def forecast(self, values: Array, count: int) -> Array | None:
            return np.stack([np.full(count, np.inf), np.full(count, 1e9)], axis=-1)

    class Fan(engine.QuantilePeer):
        name = "fan"
        fewest = 1

        def forecast(self, values: Array, count: int) -> Array | None:
            return np.tile(np.linspace(-5.0, 6.0, len(self.levels)), (count, 1))

    gaussian, fan = (
        peer().predict(Question.of(Curves.of([0.1, 0.2]), np.array([[3.0]]), 10.0)) for peer in (Rocket, Fan)
    )
    assert gaussian.mean()[0, 0] == 1.0
    assert gaussian.variance()[0, 0] == pytest.approx(1.0)
    assert (fan.values.min(), fan.values.max()) == (0.0, 1.0)
    assert fan.icdf(0.5)[0, 0] == pytest.approx(0.5)


# --- the libraries themselves -----------------------------------------------------------------------------------------

LIBRARIES = {
    "auto-ets": "statsforecast",
    "auto-theta": "statsforecast",
    "holt-damped": "statsmodels",
    "decay-gp": "botorch",
    "nni": "nni.algorithms.hpo.curvefitting_assessor",
}


@pytest.fixture(params=LIBRARIES)
def installed(request: pytest.FixtureRequest) -> Any:
    """A peer whose library is there."""
    with _quiet():
        pytest.importorskip(LIBRARIES[request.param], exc_type=ImportError)
    return research("peers.registry").peer(request.param)


@contextmanager
def _quiet() -> Iterator[None]:
    """Libraries of other makers warn as they are imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def runs(lengths: list[int]) -> Curves:
    return Curves.of([approach(length, seed) for seed, length in enumerate(lengths)])


@pytest.mark.filterwarnings("ignore")
def test_library_expects_a_run_that_rises_to_rise_on(installed: Any) -> None:
    curves = runs([20, 20])
    queries = np.tile(np.arange(21.0, HORIZON + 1.0), (2, 1))
    engine = installed.build()
    middle = engine.predict(Question.of(curves, queries, HORIZON)).icdf(0.5)
    assert engine.answered == 2
    assert (middle[:, 10] > curves.last_value + 0.01).all()
    assert np.abs(middle - approach(HORIZON, noise=0.0)[20:]).max() < 0.3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["auto-ets", "auto-theta"])
def test_intervals_are_those_of_statsforecast(name: str) -> None:
    with _quiet():
        models = pytest.importorskip("statsforecast.models")
    values = approach(20)
    library = {"auto-ets": models.AutoETS, "auto-theta": models.AutoTheta}[name](season_length=1)
    expected = library.forecast(y=values, h=5, level=[90, 50])
    question = Question.of(Curves.of(values), np.arange(21.0, 26.0)[None], 40.0)
    answer = research("peers.registry").peer(name).build().predict(question)
    for level, end in ((0.05, "lo-90"), (0.25, "lo-50"), (0.75, "hi-50"), (0.95, "hi-90")):
        np.testing.assert_allclose(answer.icdf(level)[0], expected[end], atol=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_mean_is_that_of_statsmodels() -> None:
    with _quiet():
        ets = pytest.importorskip("statsmodels.tsa.exponential_smoothing.ets")
        pandas = importlib.import_module("pandas")
    values = approach(20)
    expected = ets.ETSModel(pandas.Series(values), trend="add", damped_trend=True).fit(disp=False).forecast(5)
    answer = research("peers.registry").peer("holt-damped").build()
    found = answer.predict(Question.of(Curves.of(values), np.arange(21.0, 26.0)[None], 40.0)).mean()[0]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_library_answers_each_run_as_it_would_alone(installed: Any) -> None:
    curves = runs([8, 12])
    queries = np.tile(np.array([13.0, 20.0, 40.0]), (2, 1))
    together = installed.build().predict(Question.of(curves, queries, HORIZON)).icdf(0.5)
    for row, length in enumerate(curves.lengths):
        alone = Question.of(Curves.of(curves.values[row, :length]), queries[row : row + 1], HORIZON)
        np.testing.assert_allclose(installed.build().predict(alone).icdf(0.5)[0], together[row])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("length", [1, 2, 5, 12])
def test_library_keeps_a_constant_run_finite(installed: Any, length: int) -> None:
    curves = Curves.of([0.5] * length)
    answer = installed.build().predict(Question.of(curves, np.array([[13.0, 40.0]]), HORIZON))
    np.testing.assert_allclose(answer.icdf(0.5), 0.5, atol=0.02)
    assert np.isfinite(answer.cdf(np.array([[0.4, 0.6]]))).all()


@pytest.mark.filterwarnings("ignore")
def test_ft_pfn_says_what_the_library_says() -> None:
    with _quiet():
        surrogate = pytest.importorskip("ifbo.surrogate")
        torch = importlib.import_module("torch")
        utils = importlib.import_module("ifbo.utils")
        bars = importlib.import_module("ifbo.bar_distribution")

    class Untrained(torch.nn.Module):
        """Stands where the published weights would: the library's own bins over a random linear map."""

        def __init__(self) -> None:
            super().__init__()
            self.criterion = bars.FullSupportBarDistribution(torch.linspace(0.0, 1.0, 21))
            self.map = torch.nn.Linear(3, 20)

        def forward(self, data: Any, single_eval_pos: int) -> Any:
            x, y = data
            return self.map(x[single_eval_pos:]) * (1.0 + y.mean())

    torch.manual_seed(0)
    library = surrogate.FTPFN.__new__(surrogate.FTPFN)
    torch.nn.Module.__init__(library)
    library.device, library.model = None, Untrained().eval()
    curves, queries = runs([10, 10]), np.array([[11.0, 40.0], [20.0, 30.0]])
    answer = research("peers.ifbo_ftpfn").FtPfn(library).predict(Question.of(curves, queries, HORIZON))
    assert isinstance(answer, Bars)
    for row in range(2):
        nothing = torch.zeros(1)
        seen = utils.Curve(nothing, torch.arange(1.0, 11.0) / HORIZON, torch.as_tensor(curves.values[row, :10]).float())
        asked = utils.Curve(nothing, torch.as_tensor(queries[row]).float() / HORIZON)
        (said,) = library.predict([seen], [asked])
        for y in (0.1, 0.52, 0.97):
            expected = said.likelihood(torch.full((2,), y)).numpy()
            np.testing.assert_allclose(answer[row].log_prob(y), expected, atol=1e-4)


def test_ft_pfn_without_weights_is_not_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ftpfn = research("peers.ifbo_ftpfn")
    monkeypatch.delenv(ftpfn.FOLDER, raising=False)
    assert not ftpfn.weights_are_here()
    monkeypatch.setenv(ftpfn.FOLDER, str(tmp_path))
    assert not ftpfn.weights_are_here()
    assert not research("peers.registry").peer("ft-pfn").runs_here
    (tmp_path / ".model").mkdir()
    (tmp_path / ".model" / "ftpfnv0.0.1.tar.gz").touch()
    assert ftpfn.weights_are_here()


# --- the study --------------------------------------------------------------------------------------------------------


def toy_peer(name: str = "toy", revision: int = 1, curves: int | None = None) -> Any:
    registry = research("peers.registry")

    class Toy(LastValue):
        answered = 0

        def predict(self, question: Question) -> Mixture:
            self.answered += len(question)
            return super().predict(question)

    return registry.Peer(name, "no-such-package", "1.0", Toy, curves, revision)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = toy_peer()
    monkeypatch.setattr(research("peers.registry"), "PEERS", (made,))
    return made


def test_study_scores_a_peer_as_the_real_curve_study_does(toy: Any) -> None:
    study = research("peers.study")
    curves = digits_bench().sample(60)
    (entry,) = study.run(study.entries(toy, [curves], [0.4]))
    direct = score(LastValue(), curves, 0.4)
    assert entry.scores.rows.tolist() == direct.rows.tolist()
    np.testing.assert_allclose(entry.scores.crps, direct.crps)
    np.testing.assert_allclose(entry.scores.log_likelihood, direct.log_likelihood)
    assert entry.answered == len(direct)


def test_study_takes_cached_scores_of_a_peer_that_is_not_installed(
    toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, store = research("peers.study"), Store(tmp_path / "peers.jsonl")
    entries = study.entries(toy, [digits_bench().sample(30)], [0.2, 0.8])
    assert study.missing(entries, store) == 4
    first = study.run(entries, store)
    monkeypatch.setattr(study, "score_item", lambda item: pytest.fail("computed again"))
    again = Store(tmp_path / "peers.jsonl")
    assert study.missing(entries, again) == 0
    for old, new in zip(first, study.run(entries, again), strict=True):
        np.testing.assert_array_equal(old.scores.crps, new.scores.crps)
    assert not toy.runs_here


def test_keys_change_with_the_revision_of_a_wrapper(monkeypatch: pytest.MonkeyPatch) -> None:
    registry, study, keys = research("peers.registry"), research("peers.study"), set()
    for revision in (1, 2):
        made = toy_peer(revision=revision)
        monkeypatch.setattr(registry, "PEERS", (made,))
        keys |= {item.key for entry in study.entries(made, [digits_bench().sample(5)], [0.2]) for item in entry.items}
    assert len(keys) == 2


def test_slow_peer_sees_the_first_curves_only(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, study = toy_peer(curves=7), research("peers.study")
    monkeypatch.setattr(research("peers.registry"), "PEERS", (slow,))
    (entry,) = study.run(study.entries(slow, [digits_bench().sample(60)], [0.4]))
    assert entry.scores.rows.tolist() == list(range(7))


def test_names_of_peers_are_their_engines_own() -> None:
    peers = research("peers.registry").PEERS
    assert len({who.name for who in peers}) == len(peers)
    assert all(who.build().name == who.name for who in peers if who.name != "ft-pfn")


# --- the page ---------------------------------------------------------------------------------------------------------


def scores(engine: str, crps: Array, rows: Array | None = None, *, density: bool = True) -> Any:
    count = len(crps)
    index = np.arange(count) if rows is None else rows
    likelihood = np.full(count, 1.0 if density else np.nan)
    columns = CurveScores(index, likelihood, crps**2, crps, np.full(count, 0.9), np.full(count, 0.5))
    return research("peers.study").PeerScores("mine", engine, 0.2, columns, count - 1)


@pytest.fixture
def entries() -> list[Any]:
    base = 0.1 + 0.05 * np.random.default_rng(0).random(100)
    noise = 0.01 * np.random.default_rng(1).standard_normal(40)
    return [
        scores("ours", base),
        scores("better", base - 0.02),
        scores("quantiles", base + 0.03, density=False),
        scores("few", base[10:50] + noise - noise.mean(), np.arange(10, 50)),
    ]


def test_tables_say_who_beats_the_first_engine_and_by_what(entries: list[Any]) -> None:
    text = research("peers.report").tables(entries)
    wins = text.split("### Where another engine beats ours")[1].split("###")[0]
    assert "mine at 20%: better, CRPS" in wins
    assert "quantiles" not in wins
    assert "few, CRPS" not in wins


def test_tables_pair_an_engine_with_the_first_one_on_its_own_curves(entries: list[Any]) -> None:
    report = research("peers.report")
    few = next(pair for pair in report.pairs(entries) if pair.engine == "few")
    gain, error = few.gain(report.SCORES[0])
    assert gain == pytest.approx(0.0, abs=1e-9)
    assert error == pytest.approx(1e3 * 0.01 / np.sqrt(40), rel=0.3)


def test_tables_leave_the_likelihood_of_quantiles_blank(entries: list[Any]) -> None:
    text = research("peers.report").tables(entries)
    table = text.split("### Log-likelihood, mean over curves")[1].split("###")[0]
    row = next(line for line in table.splitlines() if line.startswith("| mine"))
    assert [cell.strip() for cell in row.split("|")][5] == "-"
    assert "nan" not in text


def test_tables_line_up(entries: list[Any]) -> None:
    blocks = [block.splitlines() for block in research("peers.report").tables(entries).split("\n\n") if block[0] == "|"]
    assert len(blocks) >= 6
    for block in blocks:
        assert len({len(line) for line in block}) == 1


def test_page_is_filled_between_its_marks_alone() -> None:
    script = research("pages")
    page = "before\n<!-- tables -->\nold\n<!-- /tables -->\nafter\n"
    once = script.filled(page, "tables", "new")
    assert once == "before\n<!-- tables -->\n\nnew\n\n<!-- /tables -->\nafter\n"
    assert script.filled(once, "tables", "new") == once
    with pytest.raises(SystemExit, match="no marks <!-- tables -->"):
        script.filled("nothing", "tables", "new")


def test_script_leaves_out_peers_that_are_neither_cached_nor_installed(
    toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = research("compare_peers")
    monkeypatch.setattr(script, "PEERS", (toy,))
    page = tmp_path / "page.md"
    page.write_text("<!-- tables -->\n<!-- /tables -->\n", encoding="utf-8")
    values = np.stack([approach(20, seed) for seed in range(6)])
    monkeypatch.setattr(script, "collections_in", lambda paths, plan: [CurveSet.of("mine", values, Metric.unit())])
    script.main(data=["mine"], cache=tmp_path / "cache.jsonl", engines="last-value,power-law", out=page)
    assert "toy: left out" in capsys.readouterr().err
    assert "power-law" in page.read_text(encoding="utf-8")
    assert "toy" not in page.read_text(encoding="utf-8")


def test_script_keeps_a_page_with_results_that_it_does_not_have(monkeypatch: pytest.MonkeyPatch, toy: Any) -> None:
    script = research("compare_peers")
    monkeypatch.setattr(script, "PEERS", (toy,))
    table = "| engine | CRPS |\n| toy    | 1.00 |\n"
    page = f"<!-- tables -->\n{table}<!-- /tables -->\n"
    assert script.lost_from(page, []) == ["toy"]
    assert script.lost_from(page, ["toy"]) == []
    assert script.lost_from(f"{table}<!-- tables -->\ntoy\n<!-- /tables -->\n", []) == []


def test_point_forecasts_are_single_quantiles() -> None:
    point, quantiles = research("peers.engine").PointPeer, research("peers.quantiles").Quantiles
    assert point.levels.tolist() == [0.5]
    assert quantiles(point.levels, np.array([[0.3]])).icdf(0.9)[0] == 0.3
