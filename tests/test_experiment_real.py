from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import trapezoid
from typer.testing import CliRunner

from epochcast.baselines import LastValue
from epochcast.benchmarks import CurveSet, digits_bench
from epochcast.cli.commands import app
from epochcast.console import as_json
from epochcast.distributions import Bars, Distribution, Mixture
from epochcast.errors import InputError
from epochcast.experiments import harness
from epochcast.experiments.contenders import contenders
from epochcast.experiments.crps import crps
from epochcast.experiments.real import report as real_report
from epochcast.experiments.real import rows as real_rows
from epochcast.experiments.real import scores as real
from epochcast.experiments.real import study as real_study
from epochcast.experiments.real.study import Plan
from epochcast.metric import Metric
from epochcast.question import Engine, Input, Question

ACCURACY = Metric("accuracy", False, (0.0, 1.0), (0.0, 1.0))
FAST = ("last-value", "power-law")


# --- CRPS -------------------------------------------------------------------------------------------------------------


def integrated(distribution: Distribution, y: float) -> float:
    """The CRPS of a single distribution by its definition: the integral of (F(x) - 1{x >= y})^2."""
    total = 0.0
    for ends, step in (((-6.0, y), 0.0), ((y, 7.0), 1.0)):
        grid = np.linspace(*ends, 100_001)
        below = np.concatenate([distribution.cdf(part) for part in np.array_split(grid, 10)])
        total += float(trapezoid((below - step) ** 2, grid))
    return total


@pytest.mark.parametrize("y", [-1.0, 0.2, 0.5, 0.97, 2.0])
def test_crps_of_a_mixture_equals_the_integral(y: float) -> None:
    rng = np.random.default_rng(0)
    mixture = Mixture.of(rng.normal(size=(1, 4)), rng.random((1, 4)), np.log(0.05 + 0.3 * rng.random((1, 4))))
    assert crps(mixture, [y])[0] == pytest.approx(integrated(mixture, y), abs=1e-5)


@pytest.mark.parametrize("y", [-1.0, 0.0, 0.2, 0.5, 0.97, 2.0])
def test_crps_of_bars_equals_the_integral(y: float) -> None:
    rng = np.random.default_rng(0)
    bars = Bars(np.sort(rng.random(21)), 2.0 * rng.normal(size=(1, 20)))
    assert crps(bars, [y])[0] == pytest.approx(integrated(bars, y), abs=1e-5)


def test_crps_of_many_equal_components_is_that_of_one() -> None:
    one = Mixture(np.zeros((1, 1)), np.full((1, 1), 0.3), np.full((1, 1), -2.0))
    many = Mixture(np.full((1, 1000), -math.log(1000)), np.full((1, 1000), 0.3), np.full((1, 1000), -2.0))
    np.testing.assert_allclose(crps(many, [0.5]), crps(one, [0.5]), rtol=1e-9)


def test_crps_is_smallest_for_the_true_distribution() -> None:
    values = np.random.default_rng(0).normal(0.5, 0.1, 20_000)

    def mean_score(mean: float, scale: float) -> float:
        shape = (len(values), 1)
        mixture = Mixture(np.zeros(shape), np.full(shape, mean), np.full(shape, math.log(scale)))
        return float(crps(mixture, values).mean())

    best = mean_score(0.5, 0.1)
    assert all(mean_score(*wrong) > best + 1e-3 for wrong in ((0.5, 0.05), (0.5, 0.2), (0.56, 0.1)))


# --- scores -----------------------------------------------------------------------------------------------------------


class Oracle(Engine):
    """Knows that the value at step t is t / 100, give or take 0.01."""

    name = "oracle"
    scale = 0.01

    def predict(self, question: Question) -> Mixture:
        shape = (*question.steps.shape, 1)
        return Mixture(np.zeros(shape), (question.steps / 100.0)[..., None], np.full(shape, math.log(self.scale)))


class Boaster(Oracle):
    name = "boaster"
    scale = 0.003


def rising(count: int = 300, length: int = 50) -> CurveSet:
    noise = 0.01 * np.random.default_rng(0).standard_normal((count, length))
    return CurveSet.of("rising", np.arange(1.0, length + 1.0) / 100.0 + noise, Metric.unit())


def test_score_of_the_true_engine_is_calibrated_and_a_boaster_is_not() -> None:
    true, boast = (real.score(engine, rising(), 0.4) for engine in (Oracle(), Boaster()))
    expected = -math.log(0.01) - 0.5 * math.log(2.0 * math.pi * math.e)
    assert true.log_likelihood.mean() == pytest.approx(expected, abs=0.02)
    assert true.squared_error.mean() == pytest.approx(1e-4, rel=0.1)
    assert true.inside90.mean() == pytest.approx(0.9, abs=0.02)
    assert boast.inside90.mean() < 0.6
    assert boast.log_likelihood.mean() < true.log_likelihood.mean() - 1.0


def test_score_leaves_out_curves_without_values_on_both_sides() -> None:
    values = np.full((3, 10), 0.5)
    values[1, 3:] = np.nan  # diverged before the cutoff
    values[2, :] = np.nan  # diverged at once
    scores = real.score(LastValue(), CurveSet.of("mine", values, ACCURACY), 0.5)
    assert scores.rows.tolist() == [0]


def test_score_of_curves_with_own_horizons_equals_that_of_each_alone() -> None:
    rng = np.random.default_rng(0)
    steps = np.cumsum(rng.integers(1, 9, (4, 20)), axis=1).astype(float)
    curves = CurveSet.of("mine", rng.random((4, 20)), ACCURACY, steps=steps)
    together = real.score(LastValue(), curves, 0.4)
    for row in range(4):
        alone = real.score(LastValue(), curves[[row]], 0.4)
        np.testing.assert_allclose(together.log_likelihood[row], alone.log_likelihood[0])
        np.testing.assert_allclose(together.crps[row], alone.crps[0])


def test_engine_that_reads_the_untrained_value_is_shown_it() -> None:
    class Looker(LastValue):
        reads: frozenset[Input] = frozenset({"untrained"})
        shown: tuple[float, ...] = ()

        def predict(self, question: Question) -> Mixture:
            assert question.untrained is not None
            self.shown += tuple(question.untrained)
            begun = question.with_untrained_at_zero()
            assert (begun.steps[:, 0] == 0.0).all()
            np.testing.assert_array_equal(begun.values[:, 0], question.untrained)
            return super().predict(question)

    looker, curves = Looker(), digits_bench().sample(5)
    real.score(looker, curves, 0.5)
    assert curves.untrained is not None
    wanted = [curves.normalizer(row).forward(curves.untrained[row]) for row in range(len(curves))]
    np.testing.assert_allclose(np.sort(looker.shown), np.sort(wanted))


def test_engine_with_a_grid_gets_long_curves_thinned() -> None:
    class Gridded(LastValue):
        grid = 100
        horizons: tuple[float, ...] = ()

        def predict(self, question: Question) -> Mixture:
            self.horizons = (*self.horizons, question.horizon)
            assert question.steps.max() <= 100.0
            return super().predict(question)

    engine = Gridded()
    real.score(engine, CurveSet.of("long", np.random.default_rng(0).random((3, 400)), ACCURACY), 0.5)
    assert engine.horizons == (100.0,)


# --- the study --------------------------------------------------------------------------------------------------------


def small_plan(**changes: Any) -> Plan:
    return replace(Plan(engines=FAST, curves=24, shares=(0.2, 0.8)), **changes)


def test_study_scores_every_engine_on_the_same_curves() -> None:
    collections = real_study.prepared(digits_bench(), small_plan())
    scored = real_study.run(collections, small_plan(engines=(*FAST, "empirical-gp")))
    assert [(entry.engine, entry.share) for entry in scored[:3]] == [
        ("last-value", 0.2),
        ("power-law", 0.2),
        ("empirical-gp", 0.2),
    ]
    for group in real_rows.groups(scored):
        assert all(np.array_equal(entry.scores.rows, group[0].scores.rows) for entry in group)


def test_study_in_chunks_equals_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    collections = real_study.prepared(digits_bench(), small_plan())
    whole = real_study.run(collections, small_plan())
    monkeypatch.setattr(real_study, "_CHUNK", 7)
    chunks = real_study.run(collections, small_plan())
    for one, other in zip(whole, chunks, strict=True):
        np.testing.assert_array_equal(one.scores.rows, other.scores.rows)
        np.testing.assert_allclose(one.scores.log_likelihood, other.scores.log_likelihood, rtol=1e-9)


def test_study_with_a_store_computes_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collections = real_study.prepared(digits_bench(), small_plan())
    first = real_study.run(collections, small_plan(), harness.Harness(harness.Store(tmp_path / "scores.jsonl")))
    monkeypatch.setattr(real_study, "score_item", None)
    again = real_study.run(collections, small_plan(), harness.Harness(harness.Store(tmp_path / "scores.jsonl")))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.scores.log_likelihood, other.scores.log_likelihood)


def test_study_key_changes_with_curves_cutoff_and_engine() -> None:
    part = real_study._Part(np.arange(3), digits_bench().sample(3))
    entrants = contenders(small_plan().engines)
    item = real_study._Item(entrants[0], part, 0.2, 0)
    others = [
        replace(item, part=replace(part, curves=digits_bench("log_loss").sample(3))),
        replace(item, share=0.4),
        replace(item, entrant=entrants[1]),
        replace(item, seed=1),
        replace(item, part=replace(part, past=digits_bench("log_loss").sample(3))),
    ]
    assert len({item.key, *(other.key for other in others)}) == 6
    assert replace(item).key == item.key


def test_taskset_is_prepared_whole_and_as_good_and_bad_halves() -> None:
    taskset = replace(digits_bench("log_loss"), name="taskset")
    whole, good, bad = real_study.prepared(taskset, small_plan(curves=100))
    assert (whole.name, good.name, bad.name) == ("taskset", "taskset-good", "taskset-bad")
    assert len(whole) == 100
    assert len(good) == len(bad) == 50
    assert good.best_normalised.mean() > bad.best_normalised.mean()


def test_samplers_get_few_curves_that_every_engine_scored() -> None:
    plan = small_plan(engines=("last-value", "exact"), curves=24, sampler_curves=2, shares=(0.2,))
    rows = real_study.sampler_rows(real_study.prepared(digits_bench(), plan)[0], plan)
    assert len(rows) == 2
    assert [entrant.sampled for entrant in contenders(plan.engines)] == [False, True]


@pytest.mark.slow
def test_study_with_a_sampler_has_paired_rows() -> None:
    plan = small_plan(engines=("last-value", "exact"), curves=24, sampler_curves=2, shares=(0.4,))
    scored = real_study.run(real_study.prepared(digits_bench(), plan), plan)
    rows = real_rows.rows_of(scored)
    assert [(row.engine, row.paired, row.n) for row in rows[1:]] == [("last-value", True, 2), ("exact", True, 2)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"engines": ()}, "no engine"), ({"curves": 0}, "curves=0"), ({"shares": (1.0,)}, "cutoff 1")],
)
def test_plan_of_nothing_is_an_error(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small_plan(**changes)


# --- rows and report --------------------------------------------------------------------------------------------------


def scored_by(engines: list[Any], share: float = 0.4) -> list[real_study.Scored]:
    return [real_study.Scored("rising", e.name, share, False, real.score(e, rising(40), share), 1.0) for e in engines]


def test_rows_rank_the_better_engine_first() -> None:
    better, worse = real_rows.rows_of(scored_by([Oracle(), LastValue()]))
    assert better.rank_log_likelihood < worse.rank_log_likelihood
    assert better.rank_log_likelihood + worse.rank_log_likelihood == pytest.approx(3.0)
    assert better.rank_squared_error == pytest.approx(1.0)
    assert better.difference.mean == 0.0
    assert worse.difference.mean == pytest.approx(worse.log_likelihood.mean - better.log_likelihood.mean)


def test_rows_of_equal_engines_share_a_rank() -> None:
    first, second = real_rows.rows_of(scored_by([Oracle(), Oracle()]))
    assert first.rank_log_likelihood == second.rank_log_likelihood == 1.5


def test_row_as_json_has_the_promised_fields_and_no_infinity() -> None:
    scored = scored_by([Oracle()])
    row = real_rows.rows_of(scored)[0]
    promised = {"benchmark", "engine", "cutoff", "n", "log_likelihood", "log_likelihood_median"}
    promised |= {"squared_error_median", "crps", "coverage90"}
    assert promised <= vars(row).keys()
    assert '"log_likelihood": null' in as_json(replace(row, log_likelihood=-math.inf))


def test_report_says_where_the_first_engine_loses() -> None:
    scored = scored_by([LastValue(), Oracle()])
    text = real_report.markdown(real_rows.rows_of(scored), scored, Plan(engines=FAST), "epochcast evaluate real")
    assert "## Where last-value loses" in text
    assert "- rising at 40%: oracle, mean log-likelihood +" in text
    won = real_report.markdown(real_rows.rows_of(scored[::-1]), scored[::-1], Plan(engines=FAST), "...")
    assert "Nowhere by these measures." in won


def test_command_prints_rows_as_json_and_writes_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    options = ["--engines", ",".join(FAST), "--curves", "10", "--cutoffs", "0.2,0.8", "--out", str(tmp_path), "--json"]
    options += ["--benchmarks", "digits_bench_accuracy", "--cache", str(tmp_path / "scores.jsonl")]
    monkeypatch.setattr(sys, "argv", ["epochcast", "evaluate", "real", *options])
    result = CliRunner().invoke(app, sys.argv[1:])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [(row["engine"], row["cutoff"]) for row in rows] == [(e, c) for c in (0.2, 0.8) for e in FAST]
    text = (tmp_path / "real-curves.md").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("!["):
            assert (tmp_path / line[line.index("(") + 1 : -1]).stat().st_size > 0
    assert f"    epochcast evaluate real {' '.join(options)}\n" in text


def test_command_skips_and_lists_bad_files_only_when_told(tmp_path: Path) -> None:
    (tmp_path / "broken.npz").write_bytes(b"PK")
    curves = digits_bench().sample(6)
    np.savez(tmp_path / "good.npz", curves=curves.values, metric=np.array("accuracy"), minimize=np.array(False))
    arguments = ["evaluate", "real", "--data", str(tmp_path), "--engines", "last-value", "--cutoffs", "0.5", "--json"]
    with pytest.raises(InputError, match=r"broken\.npz"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    result = CliRunner().invoke(app, [*arguments, "--skip-bad"], catch_exceptions=False)
    assert "left out" in result.stderr
    assert "broken.npz" in result.stderr
    assert {row["benchmark"] for row in json.loads(result.stdout)} == {"good"}


def test_command_with_an_unknown_collection_names_those_there() -> None:
    with pytest.raises(InputError, match=r"'lcbench' is not among .*digits_bench_accuracy"):
        CliRunner().invoke(app, ["evaluate", "real", "--benchmarks", "lcbench"], catch_exceptions=False)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Runs of very different lengths in one folder."""
    folder = tmp_path / "runs"
    folder.mkdir()
    for length in (10, 20, 300):
        lines = [f"{epoch},{1.0 - 0.7 * epoch**-0.5:.4f}" for epoch in range(1, length + 1)]
        (folder / f"{length}.csv").write_text("\n".join(["epoch,val_acc", *lines, ""]))
    return folder


def test_command_cuts_logs_of_mixed_lengths_each_by_its_own(logs: Path) -> None:
    command = ["evaluate", "real", "--data", str(logs), "--engines", "last-value", "--json"]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert [(row["cutoff"], row["n"]) for row in json.loads(result.stdout)] == [
        (share, 3) for share in (0.1, 0.2, 0.4, 0.8)
    ]
    assert "runs: 3 of 3 curves used" in result.stderr


def test_command_with_a_horizon_cuts_all_logs_there_and_tells_how_many_it_used(logs: Path) -> None:
    command = ["evaluate", "real", "--data", str(logs), "--engines", "last-value", "--cutoffs", "0.8", "--json"]
    result = CliRunner().invoke(app, [*command, "--horizon", "20"], catch_exceptions=False)
    assert [row["n"] for row in json.loads(result.stdout)] == [2]
    assert "runs: 2 of 3 curves used; the others have no value on both sides of any cutoff" in result.stderr


def test_command_with_a_column_that_tells_nothing_asks_what_it_measures(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("epoch,flux\n1,0.5\n2,0.6\n")
    with pytest.raises(InputError, match=r"'flux' measures is not known .*--metric.*--monitor"):
        CliRunner().invoke(app, ["evaluate", "real", "--data", str(tmp_path)], catch_exceptions=False)
