"""Experiment 1: all engines meet the same curves, results resume, and the tables tell what was computed."""

from __future__ import annotations

import csv
import io
import json
import shutil
import zlib
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from epochcast.cli.commands import app
from epochcast.errors import ConfigError, InputError
from epochcast.experiments.contenders import Contender, chain_config, contenders, expanded
from epochcast.experiments.harness import Harness, Store
from epochcast.experiments.prior import plots as prior_plots
from epochcast.experiments.prior import scores as prior
from epochcast.experiments.prior import tables as prior_tables
from epochcast.experiments.prior.chains import LongChain
from epochcast.experiments.prior.comparison import Comparison, Plan, Scored, compare
from epochcast.experiments.prior.gallery import make_gallery
from epochcast.prior import paper
from epochcast.question import Question
from epochcast.runtime.weights import FOLDER, read_safetensors, write_safetensors
from epochcast.sampling.mcmc import M1, M2, M3, McmcEngine
from tests.checkout import research

pytest.importorskip("emcee")

NETWORK = "lcpfn"
TINY = ("nsamples=30:nwalkers=26:burn_in=10", "nsamples=20:nwalkers=26:burn_in=0:thin=5")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan(contenders([NETWORK, "mcmc-pp"], TINY), curves=30, sampled=8, shares=(0.1, 0.4))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def comparison(plan, folder) -> Comparison:
    return compare(plan, Harness(Store(folder / "prior.jsonl")))


# The curves


def test_curves_of_a_seed_are_the_same_however_many_are_drawn():
    few, many = prior.draw_curves(5, seed=4), prior.draw_curves(10_010, seed=4)
    assert np.array_equal(few.noisy, many.noisy[:5])
    assert len(many.sigma) == 10_010
    assert not np.array_equal(many.noisy[:10], many.noisy[10_000:])
    assert not np.array_equal(few.noisy, prior.draw_curves(5, seed=5).noisy)


def test_curves_in_a_number_below_one_are_refused():
    with pytest.raises(InputError, match="curves=0"):
        prior.draw_curves(0)


# Contenders


def test_contenders_take_part_once_per_chain_and_engine():
    found = contenders([NETWORK, "mcmc-pp", "exact", "power-law"], ["M1", "M3"])
    assert [contender.label for contender in found] == [NETWORK, "mcmc-pp M1", "mcmc-pp M3", "exact", "power-law"]
    assert [contender.sampled for contender in found] == [False, True, True, True, False]


def test_contender_that_is_told_a_schedule_has_a_label_and_a_fingerprint_of_its_own():
    plain, told = contenders(["default", "default@cosine"])
    assert (plain.label, told.label) == ("real", "real@cosine")
    assert plain.fingerprint != told.fingerprint
    assert told.forecaster().name == "real@cosine"
    assert told.build() is plain.build()  # the same network, asked with a schedule


def test_chain_settings_are_the_papers_unless_said_otherwise():
    assert [chain_config(name) for name in ("M1", "M2", "M3")] == [M1, M2, M3]
    assert chain_config("M2:start=map:nsamples=500") == replace(M2, start="map", nsamples=500)


@pytest.mark.parametrize(
    ("text", "message"),
    [("M4", "'M4'"), ("nsamples=x", "whole number"), ("walkers=9", "walkers=9"), ("M1:start=zero", "start='zero'")],
)
def test_chain_settings_with_a_mistake_are_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        chain_config(text)


def test_chain_grid_holds_every_setting_of_the_papers_table():
    configs = [chain_config(text) for text in expanded(["grid"])]
    assert len(set(configs)) == 6 * 3 * 4 * 3
    assert {M1, M2, M3} <= set(configs)
    assert {config.start for config in map(chain_config, expanded(["length"]))} == {"lse", "map", "default"}


def test_contender_fingerprint_follows_settings_and_weights(tmp_path):
    first, second = contenders(["mcmc-pp"], TINY)
    assert first.fingerprint != second.fingerprint
    for suffix in (".onnx", ".safetensors"):
        shutil.copy(FOLDER / f"{NETWORK}{suffix}", tmp_path / f"{NETWORK}{suffix}")
    own = Contender("own", str(tmp_path / f"{NETWORK}.onnx"))
    before = own.fingerprint
    arrays, header = read_safetensors(tmp_path / f"{NETWORK}.safetensors")
    write_safetensors(tmp_path / f"{NETWORK}.safetensors", arrays, {**header, "step": "1"})
    assert own.fingerprint != before


def test_contenders_without_a_name_are_refused():
    with pytest.raises(ConfigError, match="no engine"):
        contenders([])


# Many settings on one chain


@pytest.mark.parametrize("start", ["lse", "default"])
def test_parts_of_a_long_chain_equal_chains_run_on_their_own(start):
    texts = [*TINY, "nsamples=24:nwalkers=26:burn_in=15:thin=3"]
    configs = [chain_config(f"{text}:start={start}") for text in texts]
    curve = prior.seen_part(prior.draw_curves(3).noisy[2:], 10)
    queries = np.arange(11.0, 101.0)[None]
    parts = list(LongChain("pp", configs).forecasts(curve, queries, 100.0))
    for config, part in zip(configs, parts, strict=True):
        with pytest.warns(UserWarning, match="autocorrelation"):
            alone = McmcEngine("pp", config).predict(Question.of(curve, queries, 100.0))
        assert np.array_equal(part.forecast.means, alone.means)
        assert np.array_equal(part.forecast.log_scales, alone.log_scales)
    assert not np.array_equal(parts[0].forecast.means[..., :5], parts[1].forecast.means[..., :5])


def test_parts_of_a_long_chain_cost_their_share_of_its_steps():
    configs = [chain_config(text) for text in ("nsamples=400:nwalkers=26:burn_in=0", "nsamples=40:nwalkers=26")]
    configs[1] = replace(configs[1], burn_in=0)
    curve = prior.seen_part(prior.draw_curves(1).noisy, 10)
    whole, part = LongChain("pp", configs).forecasts(curve, np.array([[50.0]]), 100.0)
    assert part.seconds < 0.5 * whole.seconds


def test_long_chain_of_settings_that_share_no_chain_is_refused():
    with pytest.raises(ConfigError, match="one chain"):
        LongChain("pp", [M1, replace(M1, nwalkers=50)])


# The comparison


def test_comparison_gives_networks_all_curves_and_samplers_the_first(comparison):
    for scored in comparison.scored:
        assert scored.known.sum() == (8 if scored.contender.sampled else 30)
        assert (~np.isnan(scored.seconds)).sum() == 8
    assert np.flatnonzero(comparison.paired).tolist() == list(range(8))


def test_comparison_scores_are_those_of_the_engine(comparison, plan):
    engine = plan.contenders[0].build()
    expected = prior.score(engine, comparison.draw, 0.4, np.random.default_rng([plan.seed, 2]))
    found = comparison.at(NETWORK, 40)
    np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=1e-4)
    np.testing.assert_allclose(found.pit, expected.pit, atol=1e-4)
    np.testing.assert_allclose(comparison.oracle(40), expected.oracle)


def test_comparison_from_its_cache_alone_is_the_same(comparison, plan, folder):
    again = compare(plan, Harness(Store(folder / "prior.jsonl"), cached_only=True))
    for before, after in zip(comparison.scored, again.scored, strict=True):
        assert np.array_equal(before.log_likelihood, after.log_likelihood, equal_nan=True)
        assert np.array_equal(before.seconds, after.seconds, equal_nan=True)


def test_comparison_stopped_in_the_middle_has_paired_results(comparison, plan, folder, tmp_path):
    lines = (folder / "prior.jsonl").read_text().splitlines(keepends=True)
    networks = 2  # batches
    per_curve = 2 * 2  # two cutoffs; the network alone, and one chain for both settings
    (tmp_path / "prior.jsonl").write_text("".join(lines[: networks + 3 * per_curve + 1]))
    partial = compare(plan, Harness(Store(tmp_path / "prior.jsonl"), cached_only=True))
    assert np.flatnonzero(partial.paired).tolist() == [0, 1, 2]
    assert {line.curves for line in prior_tables.lines(partial, NETWORK)} == {30, 3}  # the same at every cutoff
    resumed = compare(plan, Harness(Store(tmp_path / "prior.jsonl")))
    for before, after in zip(comparison.scored, resumed.scored, strict=True):
        assert np.array_equal(before.log_likelihood, after.log_likelihood, equal_nan=True)


def test_comparison_on_more_curves_reuses_those_of_fewer(comparison, plan, folder, tmp_path):
    shutil.copy(folder / "prior.jsonl", tmp_path / "prior.jsonl")
    more = compare(replace(plan, curves=60, sampled=9), Harness(Store(tmp_path / "prior.jsonl"), cached_only=True))
    assert np.array_equal(more.at(comparison.labels[1], 10).known[:9], [True] * 8 + [False])


@pytest.mark.parametrize(
    ("changes", "message"), [({"sampled": 31}, "sampled=31"), ({"sampled": 0}, "sampled=0"), ({"twice": 1}, "names")]
)
def test_plan_with_a_mistake_is_refused(plan, changes, message):
    if "twice" in changes:
        changes = {"contenders": [*plan.contenders, plan.contenders[0]]}
    with pytest.raises(ConfigError, match=message):
        replace(plan, **changes)


# The tables


def made_up(offsets: dict[str, float], curves: int = 200, sampled: int = 90) -> Comparison:
    """Contenders that score what the oracle scores, plus an offset that differs a little from curve to curve."""
    draw = prior.draw_curves(curves, seed=1)
    plan = Plan([Contender(label, label) for label in offsets], curves, sampled, (0.1, 0.8))
    scored = []
    for contender in plan.contenders:
        for cutoff in plan.cutoffs:
            wobble = 0.01 * np.random.default_rng([cutoff, zlib.crc32(contender.label.encode())]).standard_normal(
                curves
            )
            score = paper.oracle_scores(draw)[:, cutoff:].mean(axis=1) + offsets[contender.label] + wobble
            score[sampled if contender.sampled else curves :] = np.nan
            pit = np.where(np.isnan(score), np.nan, 0.5)
            scored.append(Scored(contender, cutoff, score, pit, pit + 1.0, {}))
    return Comparison(plan, draw, scored, {})


def test_table_lines_recover_known_scores_and_differences():
    made = made_up({"exact": -0.1, "mcmc-pp": -0.4, NETWORK: -0.2})
    for line in prior_tables.lines(made, "exact"):
        offset = {"exact": -0.1, "mcmc-pp": -0.4, NETWORK: -0.2}[line.engine]
        assert line.curves == (200 if line.engine == NETWORK else 90)
        assert line.paired_curves == 90
        assert line.controlled.mean == pytest.approx(paper.ORACLE_LOG_LIKELIHOOD + offset, abs=0.004)
        assert line.controlled.error < 0.002  # where the raw score's is thirty times that
        assert line.log_likelihood.error > 0.04
        assert line.difference.mean == pytest.approx(offset + 0.1, abs=0.006)
        if line.engine != "exact":
            assert line.difference.error == pytest.approx(0.01 * np.sqrt(2 / 90), rel=0.4)


def test_table_lines_without_any_paired_curve_say_nan():
    made = made_up({"exact": 0.0, NETWORK: -0.1})
    nothing = [
        replace(s, log_likelihood=s.log_likelihood * (np.nan if s.contender.sampled else 1)) for s in made.scored
    ]
    lines = prior_tables.lines(replace(made, scored=nothing), "exact")
    assert all(np.isnan(line.difference.mean) and line.paired_curves == 0 for line in lines)
    assert "| exact | 0 |  |  | 1.5 |" in prior_tables.as_markdown(replace(made, scored=nothing), "exact")
    assert "Difference" not in prior_tables.as_markdown(replace(made, scored=nothing), "exact")


def test_markdown_states_curves_and_the_papers_figures(comparison):
    full = replace(made_up({"exact": 0.0, NETWORK: -0.1}))
    text = prior_tables.as_markdown(full, "exact")
    assert "on the 90 curves" in text
    assert f"| {NETWORK} | 200 |" in text
    assert "paper, MCMC M3" not in text  # other cutoffs than the paper's
    assert "autocorrelation time" in prior_tables.as_markdown(comparison, NETWORK)


def test_noise_thirds_split_the_paired_curves_by_their_noise():
    made = made_up({"exact": 0.0, NETWORK: -0.1})
    quiet, middle, noisy = prior_tables.noise_thirds(made)
    assert [third.sum() for third in (quiet, middle, noisy)] == [30, 30, 30]
    sigma = made.draw.sigma
    assert sigma[quiet].max() < sigma[middle].min() < sigma[middle].max() < sigma[noisy].min()


def test_csv_holds_a_line_per_contender_and_cutoff(comparison):
    rows = list(csv.DictReader(io.StringIO(prior_tables.as_csv(prior_tables.lines(comparison, NETWORK)))))
    assert [(row["engine"], row["cutoff"]) for row in rows[:2]] == [(NETWORK, "10"), (NETWORK, "40")]
    scores = list(csv.DictReader(io.StringIO(prior_tables.scores_csv(comparison))))
    assert len(scores) == 8 * 2 * 3
    assert float(scores[0]["log_likelihood"]) == pytest.approx(comparison.at(NETWORK, 10).log_likelihood[0], rel=1e-5)


def test_reference_that_takes_no_part_is_refused(comparison):
    assert prior_tables.choose_reference([*comparison.labels, "exact"]) == "exact"
    assert prior_tables.choose_reference(comparison.labels) == NETWORK
    with pytest.raises(InputError, match="takes no part"):
        prior_tables.choose_reference(comparison.labels, "exact")


# The pictures


def test_pictures_hold_a_panel_per_cutoff_and_per_curve(comparison, plan, folder):
    pytest.importorskip("matplotlib")
    assert len(prior_plots.cost_against_quality(comparison, NETWORK).axes) == 2
    assert len(prior_plots.gap_to_reference(comparison, NETWORK).axes) == 4
    gallery = make_gallery(plan.only([NETWORK, f"mcmc-pp {TINY[0]}"]), Harness(Store(folder / "prior.jsonl")), curves=2)
    assert len(prior_plots.forecasts_of_curves(gallery).axes) == 2 * 2
    low, median, high = gallery.at(NETWORK, 1, 40)
    assert len(median) == 60
    assert (low < median).all()
    assert (median < high).all()


# The stored reference


def reference_class():
    return research("exact_reference").Reference


def test_reference_holds_the_leading_curves_and_comes_back_from_its_file():
    made = made_up({"exact": -0.1, NETWORK: -0.2})
    scored = [replace(s, diagnostics={"disagreement": np.full(200, 0.01)}) for s in made.scored]
    reference = reference_class().of(replace(made, scored=scored))
    assert reference.curves == 90
    assert type(reference).from_json(reference.to_json()) == reference
    assert json.loads(reference.to_json())["cutoffs"] == [10, 80]
    with pytest.raises(InputError, match="no longer draws"):
        reference.draw()  # the made-up plan names seed 0, its curves are of seed 1
    assert np.array_equal(replace(reference, seed=1).draw().noisy, made.draw.noisy[:90])


def test_reference_measures_an_engine_in_nats():
    made = made_up({"exact": -0.1, NETWORK: -0.2})
    scored = [replace(s, diagnostics={"disagreement": np.full(200, 0.01)}) for s in made.scored]
    reference = replace(reference_class().of(replace(made, scored=scored)), seed=1)
    engine = contenders([NETWORK])[0].build()
    expected = prior.score(engine, reference.draw(), 0.8, np.random.default_rng(0)).log_likelihood
    gaps = reference.gaps(engine)
    assert gaps.shape == (90, 2)
    np.testing.assert_allclose(gaps[:, 1], expected - made.at("exact", 80).log_likelihood[:90], atol=1e-4)


def test_reference_of_nothing_is_refused():
    made = made_up({"exact": -0.1, NETWORK: -0.2})
    unknown = [replace(s, log_likelihood=s.log_likelihood * np.nan) for s in made.scored]
    with pytest.raises(InputError, match="first curve"):
        reference_class().of(replace(made, scored=unknown))


def test_reference_that_is_stored_fits_its_curves_and_its_two_runs_agree():
    reference = reference_class().load()
    assert len(reference.draw().noisy) == reference.curves == len(reference.log_likelihood)
    assert np.mean(reference.disagreement) < 0.02
    oracle = paper.oracle_scores(reference.draw())
    limit = np.stack([oracle[:, cutoff:].mean(axis=1) for cutoff in reference.cutoffs], axis=1)
    assert (np.array(reference.log_likelihood) - limit).mean() < 0.0  # nobody beats the oracle on average


# The command


def invoke(*arguments: str):
    return CliRunner().invoke(app, ["evaluate", "prior", *arguments], catch_exceptions=False)


def test_command_compares_engines_writes_files_and_goes_on_from_its_cache(tmp_path):
    engines = ("--engines", f"{NETWORK},mcmc-pp", "--mcmc", TINY[0], "--cutoffs", "0.1,0.4", "--cache", str(tmp_path))
    count = ("--curves", "12", "--sampled", "6")
    first = invoke(*engines, *count, "--out", str(tmp_path / "out"))
    assert first.exit_code == 0
    assert "on the 6 curves that every engine was given" in first.stdout
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"prior.csv", "prior.md", "prior_curves.csv", "prior_cost.png", "prior_gap.png"} <= written
    assert (tmp_path / "out" / "prior.md").read_text().strip() in first.stdout
    size = (tmp_path / "prior.jsonl").stat().st_size
    again = invoke(*engines, *count, "--cached", "--json")
    rows = json.loads(again.stdout)
    assert (tmp_path / "prior.jsonl").stat().st_size == size
    assert [(row["engine"], row["cutoff"]) for row in rows[:2]] == [(NETWORK, 10), (NETWORK, 40)]
    assert rows[-1]["curves"] == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--cached",), "--cache DIR"),
        (("--backend", "dask"), "'dask' is unknown"),
        (("--sampled", "99"), "sampled=99"),
        (("--cutoffs", "0.1,1.0"), "cutoff 1.0"),
        (("--cutoffs", "x"), "numbers"),
        (("--mcmc", "M9"), "M9"),
        (("--against", "exact"), "takes no part"),
        (("--gallery", "stream"), "takes no part"),
    ],
)
def test_command_with_a_mistake_is_refused(arguments, message):
    options = ("--engines", f"{NETWORK},mcmc-pp", "--mcmc", TINY[1], "--curves", "4", "--sampled", "1")
    with pytest.raises((ConfigError, InputError), match=message):
        invoke(*options, *arguments)
