"""The command line: what it prints, and one clear line with exit code 2 on bad input."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import epochcast as ec

ACCURACY = 1.0 - 0.6 * np.arange(1.0, 31.0) ** -0.5


def run(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "epochcast.cli", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=300)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "run.csv"
    rows = "\n".join(f"{i},{1 - a:.4f},{a:.4f}" for i, a in enumerate(ACCURACY, start=1))
    path.write_text(f"epoch,val_loss,val_acc\n{rows}\n")
    return str(path)


@pytest.mark.parametrize(
    ("former", "note"),
    [
        (("--column", "val_acc", "--metric", "accuracy"), "--column will go; say --monitor val_acc"),
        (("--metric", "val_acc", "--kind", "accuracy"), "--kind will go; say --monitor val_acc --metric accuracy"),
    ],
)
def test_former_options_mean_the_same_and_say_that_they_will_go(log, former, note):
    common = ("forecast", log, "--horizon", "60", "--json")
    own, old = run(*common, "--monitor", "val_acc", "--metric", "accuracy"), run(*common, *former)
    assert (own.returncode, old.returncode) == (0, 0)
    assert old.stdout == own.stdout
    assert f"note: {note}\n" in old.stderr
    assert "will go" not in own.stderr


def test_forecast_of_a_column_prints_a_fan_chart_and_the_end(log):
    result = run("forecast", log, "--monitor", "val_acc", "--metric", "accuracy", "--horizon", "100", "--best", "0.9")
    assert result.returncode == 0, result.stderr
    assert "accuracy at step 100" in result.stdout
    assert "probability to beat 0.9" in result.stdout
    assert "●" in result.stdout


def test_forecast_as_json_holds_ordered_quantiles_of_all_future_steps(log):
    result = run("forecast", log, "--monitor", "val_acc", "--metric", "accuracy", "--horizon", "60", "--json")
    data = json.loads(result.stdout)
    assert data["steps"] == list(range(31, 61))
    assert data["quantiles"]["0.050"][-1] < data["median"][-1] < data["quantiles"]["0.950"][-1]


def test_forecast_knows_the_schedule_it_is_told():
    falling = [round(0.3 + 2.0 * 0.95**step, 4) for step in range(1, 13)]
    common = ("forecast", "-", "--metric", "log_loss", "--horizon", "60", "--json")
    ends = []
    for words in ("constant", "cosine"):
        told = run(*common, "--schedule", words, stdin="\n".join(map(str, falling))).stdout
        ends.append(json.loads(told)["median"][-1])
        wanted = ec.Forecaster(schedule=words).forecast(falling, 60, "log_loss").final.median()
        assert ends[-1] == pytest.approx(float(wanted), rel=1e-3)
    assert ends[0] < ends[1]  # at a falling rate less is gained


def test_forecast_reads_plain_numbers_from_standard_input():
    result = run("forecast", "-", "--metric", "accuracy", "--horizon", "50", "--json", stdin="0.2\n0.4\n0.5\n0.55\n")
    assert json.loads(result.stdout)["steps"][0] == 5


def test_forecast_of_text_without_numbers_is_refused():
    result = run("forecast", "-", "--metric", "accuracy", "--horizon", "50", stdin="0.1 x 0.3\n")
    assert result.returncode == 2
    assert "holds no values" in result.stderr


def test_forecast_of_words_says_that_numbers_are_missing():
    result = run("forecast", "-", "--metric", "accuracy", "--horizon", "50", stdin="a\nb\n")
    assert result.returncode == 2
    assert "no column of numbers" in result.stderr


def test_forecast_with_a_missing_value_names_the_option_that_leaves_it_out():
    arguments = ("forecast", "-", "--metric", "accuracy", "--horizon", "10")
    refused = run(*arguments, stdin="0.1\nnan\n0.3\n")
    assert refused.returncode == 2
    assert "--missing drop" in refused.stderr
    assert run(*arguments, "--missing", "drop", stdin="0.1\nnan\n0.3\n").returncode == 0


def test_forecast_writes_a_plot(log, tmp_path):
    picture = tmp_path / "fan.png"
    arguments = ("--monitor", "val_acc", "--metric", "accuracy", "--horizon", "60", "--cutoff", "10")
    result = run("forecast", log, *arguments, "--plot", str(picture))
    assert result.returncode == 0, result.stderr
    assert picture.stat().st_size > 10_000
    assert "truth" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--monitor", "acc", "--metric", "accuracy", "--horizon", "50"), "val_acc"),
        (("--monitor", "val_acc", "--metric", "acc", "--horizon", "50"), "'acc' is unknown"),
        (("--monitor", "val_acc", "--metric", "accuracy", "--horizon", "20"), "past the horizon"),
        (("--monitor", "val_acc", "--metric", "accuracy", "--horizon", "50", "--model", "gpt"), "'gpt' is unknown"),
        (("--monitor", "val_acc", "--metric", "accuracy", "--horizon", "50", "--cutoff", "99"), "cutoff=99"),
        (("--monitor", "val_acc", "--metric", "accuracy", "--horizon", "50", "--schedule", "cosin"), "choose constant"),
    ],
)
def test_forecast_with_a_mistake_says_so_in_one_line(log, arguments, message):
    result = run("forecast", log, *arguments)
    assert result.returncode == 2
    assert result.stderr.startswith("epochcast: ")
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_forecast_with_former_and_present_options_that_say_the_same_is_refused(log):
    result = run("forecast", log, "--monitor", "a", "--metric", "b", "--kind", "accuracy", "--horizon", "50")
    assert result.returncode == 2
    assert "epochcast: --kind accuracy and --metric b say the same; leave --kind out" in result.stderr


def test_forecast_of_a_missing_file_names_it(tmp_path):
    result = run("forecast", str(tmp_path / "no.csv"), "--metric", "accuracy", "--horizon", "50")
    assert result.returncode == 2
    assert "no.csv" in result.stderr


def test_demo_shows_forecasts_next_to_what_came():
    result = run("demo")
    assert result.returncode == 0, result.stderr
    assert "digits_mlp" in result.stdout
    assert "truth" in result.stdout


def test_models_lists_every_shipped_model_and_shows_a_card():
    import epochcast as ec

    listed = run("models", "--json")
    assert set(json.loads(listed.stdout)["models"]) == set(ec.models())
    assert "curves" in json.loads(run("models", "lcpfn").stdout)
    assert "stream" in run("models").stdout


def test_evaluate_prior_prints_rows_with_errors():
    result = run("evaluate", "prior", "--model", "stream", "--curves", "50", "--json", "--cutoffs", "0.1,0.8")
    rows = json.loads(result.stdout)
    assert [row["cutoff"] for row in rows] == [10, 80]
    assert rows[0]["log_likelihood"] < rows[1]["log_likelihood"] + 1.0
    assert rows[0]["curves"] == 50
    assert "controlled" in run("evaluate", "prior", "--model", "stream", "--curves", "20").stdout


def test_train_makes_a_model_that_forecasts_and_goes_on_from_its_checkpoint(tmp_path):
    pytest.importorskip("torch", reason="needs epochcast[train]")
    config = {
        "model": {"layers": 1, "width": 16, "heads": 2, "hidden": 32, "outputs": 20, "layout": "set", "head": "bars"},
        "curves": 80,
        "batch": 8,
        "targets": "exact",
    }
    recipe = tmp_path / "tiny.json"
    recipe.write_text(json.dumps(config))
    arguments = ("train", "--recipe", str(recipe), "--out", str(tmp_path), "--name", "tiny")
    first = run(*arguments, "--checkpoint", str(tmp_path / "c.safetensors"), "--threads", "1")
    assert first.returncode == 0, first.stderr
    again = run(*arguments, "--checkpoint", str(tmp_path / "c.safetensors"))
    assert "going on from step 10 of 10" in again.stderr
    numbers = ("forecast", "-", "--metric", "accuracy", "--horizon", "50", "--json")
    result = run(*numbers, "--model", str(tmp_path / "tiny.onnx"), stdin="0.2\n0.4\n")
    assert len(json.loads(result.stdout)["steps"]) == 48


def test_train_with_an_unknown_recipe_names_the_known_ones(tmp_path):
    pytest.importorskip("torch", reason="needs epochcast[train]")
    result = run("train", "--recipe", "magic", "--out", str(tmp_path))
    assert result.returncode == 2
    assert "lcpfn" in result.stderr
