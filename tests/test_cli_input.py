"""What the command line takes: metrics, columns, runs and numbers in the forms that people have them."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import epochcast as ec
from tests.command_line import command

STOPPING = ("--orders", "1", "--curves", "3", "--confidence", "0.95")
VALUES = [0.31, 0.45, 0.52, 0.57, 0.60, 0.62]


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "run.csv"
    rows = [f"{i},{100 * i},{1.0 - value:.2f},{value}" for i, value in enumerate(VALUES, start=1)]
    path.write_text("\n".join(["epoch,seen,val_loss,val_acc", *rows, ""]))
    return str(path)


def test_version_is_that_of_the_package() -> None:
    assert command("--version") == (0, f"epochcast {ec.__version__}\n", "")


# --- columns and runs -------------------------------------------------------------------------------------------------


def test_step_column_is_told_by_a_note(table: str) -> None:
    result = command("forecast", table, "--monitor", "val_acc", "--horizon", "50", "--json")
    assert "note: steps are counted by column 'epoch'" in result.err
    assert (result.answer["monitor"], result.answer["step_column"]) == ("val_acc", "epoch")
    assert result.answer["steps"][0] == 7


def test_step_column_by_name_is_taken(table: str) -> None:
    chosen = ("--monitor", "val_acc", "--step-column", "seen")
    result = command("forecast", table, *chosen, "--horizon", "700", "--json")
    assert "note: steps are counted by column 'seen'" in result.err
    assert result.answer["steps"][0] == 601


def test_table_without_a_step_column_says_how_steps_were_counted() -> None:
    result = command("forecast", "-", "--horizon", "9", "--json", stdin="acc\n0.5\n0.6\n")
    assert "no column counts the steps" in result.err
    assert result.answer["step_column"] is None


def test_run_of_a_folder_is_chosen_by_its_name(tmp_path: Path) -> None:
    for name, value in (("a", 0.2), ("b", 0.8)):
        (tmp_path / f"{name}.csv").write_text(f"epoch,acc\n1,{value}\n2,{value}\n")
    refused = command("forecast", str(tmp_path), "--horizon", "9")
    assert refused.code == 2
    assert "a.csv, b.csv; name one with run= (--run)" in refused.err
    median = command("forecast", str(tmp_path), "--run", "b.csv", "--horizon", "9", "--json").answer["median"]
    assert min(median) > 0.5


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["0.5 0.6 0.7", "0.5,0.6,0.7", "0.5\n0.6\n0.7\n", "[0.5, 0.6, 0.7]"])
def test_numbers_are_read_in_a_file_and_from_standard_input(tmp_path: Path, text: str) -> None:
    path = tmp_path / "values.txt"
    path.write_text(text)
    options = ("--metric", "accuracy", "--horizon", "9", "--json")
    assert command("forecast", str(path), *options).answer["steps"] == [4, 5, 6, 7, 8, 9]
    assert command("forecast", "-", *options, stdin=text).answer["steps"] == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("numbers", ["0.5,0.6,0.7", "0.5 0.6 0.7", "0.5, 0.6, 0.7"])
def test_numbers_may_stand_in_place_of_a_file(numbers: str) -> None:
    options = ("--metric", "accuracy", "--horizon", "9", "--json")
    assert command("forecast", numbers, *options).answer["steps"][0] == 4


def test_numbers_in_place_of_a_file_with_nan_among_them_say_what_can_be_done() -> None:
    result = command("forecast", "0.5,0.6,nan", "--metric", "accuracy", "--horizon", "9")
    assert result.code == 2
    assert "values[2] = nan" in result.err
    assert "--missing drop" in result.err


def test_download_of_tensorboard_and_history_of_keras_are_read(tmp_path: Path) -> None:
    download, history = tmp_path / "run-tag-acc.json", tmp_path / "history.json"
    download.write_text(json.dumps([[1.7e9 + i, 10 * i, value] for i, value in enumerate(VALUES, start=1)]))
    history.write_text(json.dumps({"loss": [2.0, 1.0], "val_accuracy": [0.5, 0.6]}, indent=1))
    found = command("forecast", str(download), "--metric", "accuracy", "--horizon", "70", "--json").answer
    assert found["steps"][0] == 61
    found = command("forecast", str(history), "--monitor", "val_accuracy", "--horizon", "9", "--json").answer
    assert (found["steps"][0], found["metric"]) == (3, "accuracy")


# --- metrics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "metric", "better"), [("val_acc", "accuracy", "larger"), ("val_loss", "loss", "smaller")]
)
def test_metric_left_out_is_what_the_column_says(table: str, column: str, metric: str, better: str) -> None:
    common = ("forecast", table, "--monitor", column, "--horizon", "50", "--json")
    guessed, told = command(*common), command(*common, "--metric", metric)
    assert guessed.answer["median"] == told.answer["median"]
    assert f"note: {column} is taken for {metric} by its name" in guessed.err
    assert f"{better} is better" in guessed.err
    assert "is taken for" not in told.err


def test_metric_left_out_where_no_name_says_it_is_asked_for() -> None:
    result = command("forecast", "0.5,0.6", "--horizon", "9")
    assert result.code == 2
    assert "what 'value' measures is not known from its name; give --metric" in result.err


def test_metric_of_ones_own_stays_in_its_bounds() -> None:
    returns = [-200.0, -150.0, -100.0, -60.0, -35.0, -20.0, -12.0, -8.0, -6.0]
    numbers = "\n".join(map(str, returns))
    own = ("--maximize", "--hard=-inf,0")
    found = command("forecast", "-", *own, "--horizon", "60", "--json", stdin=numbers).answer
    assert max(found["quantiles"]["0.975"]) <= 0.0
    assert found["quantiles"]["0.025"][-1] < found["median"][-1] < found["quantiles"]["0.975"][-1]


def test_metric_reward_follows_the_scale_of_the_run() -> None:
    numbers = "\n".join(str(-200.0 + 190.0 * (1.0 - 0.8**step)) for step in range(1, 13))
    found = command("forecast", "-", "--metric", "reward", "--horizon", "60", "--json", stdin=numbers).answer
    assert -60.0 < found["median"][-1] < 60.0
    assert found["quantiles"]["0.025"][-1] < found["median"][-1] < found["quantiles"]["0.975"][-1]


def test_metric_of_ones_own_with_soft_bounds_is_that_of_the_library() -> None:
    own = ("--metric", "score", "--minimize", "--hard", "0,50", "--soft", "0,20")
    found = command("forecast", "12,9,7", *own, "--horizon", "9", "--json").answer
    wanted = ec.forecast([12.0, 9.0, 7.0], 9, ec.Metric("score", True, (0.0, 50.0), (0.0, 20.0)))
    assert found["median"] == pytest.approx(wanted.median().tolist())
    assert found["metric"] == "score"


def test_metric_that_is_known_takes_other_bounds() -> None:
    found = command("forecast", "1.5,1.8", "--metric", "accuracy", "--hard", "0,5", "--horizon", "9", "--json").answer
    assert found["median"][-1] > 1.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--metric", "score"), "metric 'score' is unknown"),
        (("--metric", "score", "--hard", "0,1"), "say --minimize or --maximize"),
        (("--metric", "accuracy", "--minimize"), "accuracy is maximised, not minimised"),
        (("--minimize", "--hard", "0"), "--hard 0 must be two numbers"),
        (("--minimize", "--hard", "a,b"), "--hard a,b must be two numbers"),
        (("--minimize", "--hard", "1,0"), "the lower one first"),
        (("--minimize", "--hard", "nan,1"), "hard bounds"),
        (("--minimize", "--soft=-inf,1"), "must be finite"),
        (("--metric", "bleu"), "trailing %"),
        (("--metric", "nll", "--hard", "0,9"), "(--minimize or --maximize, --hard LOW,HIGH)"),
    ],
)
def test_metric_that_cannot_be_is_refused_in_one_line(options: tuple[str, ...], message: str) -> None:
    assert message in command("forecast", "20.5,21.5", *options, "--horizon", "9").refusal


def test_metric_below_its_bound_names_the_way_out() -> None:
    result = command("forecast", "-", "--metric", "nll", "--horizon", "9", stdin="0.5\n-0.5\n")
    assert "below the lower hard bound 0 of nll; for other bounds make a Metric of your own (--minimize" in result.err


def test_watch_takes_what_is_measured_from_the_name_in_the_logs(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("epoch,val_acc\n1,0.5\n2,0.6\n3,0.65\n")
    result = command("watch", str(tmp_path), "--metric", "val_acc", "--horizon", "9", "--once", "--json")
    assert (result.answer["monitor"], result.answer["metric"]) == ("val_acc", "accuracy")
    assert result.answer["kind"] == "accuracy"  # for one version
    refused = command("watch", str(tmp_path), "--metric", "flux", "--horizon", "9", "--once")
    assert "what 'flux' measures is not known from its name; give --metric" in refused.err


# --- warnings and JSON ------------------------------------------------------------------------------------------------


def test_warning_of_the_library_is_one_line_without_its_place_in_the_code() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = command("forecast", "0.95,0.8,0.6,0.4,0.2,0.1", "--metric", "accuracy", "--horizon", "9", "--json")
    assert result.answer["steps"][0] == 7
    line = next(line for line in result.err.splitlines() if "warning: " in line)
    assert line.startswith("epochcast: warning: the curve")
    assert ".py" not in result.err


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "NaN", "1e999"])
@pytest.mark.parametrize("option", ["--best", "--untrained"])
def test_number_that_is_not_finite_is_refused(option: str, value: str) -> None:
    result = command("forecast", "0.5,0.6", "--metric", "loss", "--horizon", "9", "--json", option, value)
    assert f"'{option}': {value} is not a finite number" in result.refusal


@pytest.mark.parametrize("option", ["--best", "--confidence", "--interval"])
def test_number_of_watch_that_is_not_finite_is_refused(tmp_path: Path, option: str) -> None:
    result = command("watch", str(tmp_path), "--metric", "acc", "--horizon", "9", "--once", "--json", option, "nan")
    assert f"'{option}': nan is not a finite number" in result.refusal


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--metric", "accuracy", "--horizon", "50.5"), "'--horizon': 50.5 is not a whole number"),
        (("--metric", "accuracy", "--horizon", "1e3"), "1e3 is not a whole number"),
        (("--metric", "accuracy"), "Missing option '--horizon'"),
        (("--horizon", "50", "--no-such-option"), "No such option"),
        (("--horizon", "50", "--best", "much"), "'--best': much is not a finite number"),
    ],
)
def test_option_that_cannot_be_read_is_refused_in_one_line(options: tuple[str, ...], message: str) -> None:
    result = command("forecast", "0.5,0.6", *options)
    assert message in result.refusal
    assert "see epochcast forecast --help" in result.refusal


def test_command_alone_shows_its_help() -> None:
    result = command()
    assert "evaluate" in result.out
    assert result.err == ""


def test_json_helper_has_null_for_what_is_not_finite() -> None:
    from epochcast.console import as_json

    assert as_json({"a": [float("nan"), 1.5, (float("inf"), "x")]}) == '{"a": [null, 1.5, [null, "x"]]}'


# --- progress ---------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("words", "bar"),
    [
        (("evaluate", "real", "--engines", "last-value", "--curves", "5", "--json"), "scoring"),
        (
            ("evaluate", "stopping", "--data", "digits_bench", "--model", "last-value", *STOPPING, "--json"),
            "last-value on",
        ),
        (("evaluate", "prior", "--model", "stream", "--curves", "4", "--json"), "stream on 4 curves"),
        (("demo",), "forecasting"),
    ],
)
def test_progress_is_shown_on_a_terminal_and_not_in_the_output(
    tmp_path: Path, words: tuple[str, ...], bar: str
) -> None:
    terminal, other_end = pty.openpty()
    arguments = [sys.executable, "-m", "epochcast.cli", *words]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with (tmp_path / "out").open("w") as out:
        process = subprocess.Popen(arguments, stdout=out, stderr=other_end, env=environment)
    os.close(other_end)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal is gone with the process
        while part := os.read(terminal, 4096):
            shown += part
    os.close(terminal)
    assert process.wait(120) == 0, shown
    assert bar in shown.decode()
    written = (tmp_path / "out").read_text()
    assert bar not in written
    assert "--json" not in words or json.loads(written)


def test_progress_is_silent_where_there_is_no_terminal() -> None:
    assert command("demo").err == ""


# --- input that is hardly any -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("empty.csv", "", "empty.csv is empty"),
        ("header.csv", "epoch,val_acc\n", "header.csv holds no values in column 'val_acc'"),
        ("half.csv", "epoch,val_acc\n1,0.5", "'val_acc'; the last line has no line end"),
        ("empty.jsonl", "", "empty.jsonl is empty"),
        ("", "", "must be the path of a file or a folder"),
    ],
)
def test_forecast_of_a_log_without_values_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if name:
        Path(name).write_text(text)
    assert said in command("forecast", name, "--metric", "accuracy", "--horizon", "9").refusal


def test_forecast_of_a_folder_without_logs_says_so(tmp_path: Path) -> None:
    said = command("forecast", str(tmp_path), "--metric", "accuracy", "--horizon", "9").refusal
    assert "holds no logs (CSV, JSON lines, TensorBoard, MLflow, W&B)" in said


def test_forecast_of_a_standard_input_that_is_closed_is_refused() -> None:
    words = [sys.executable, "-m", "epochcast.cli", "forecast", "-", "--metric", "accuracy", "--horizon", "9"]
    ended = subprocess.run(words, preexec_fn=lambda: os.close(0), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "epochcast: there is no standard input to read; give the path of a log\n"


def test_numbers_that_begin_with_a_minus_are_told_where_to_go() -> None:
    asked = ("--metric", "reward", "--horizon", "50")
    refusal = command("forecast", "-200,-150,-100", *asked).refusal
    assert "numbers that begin with a minus go last, behind --, as in -- -200,-150,-100" in refusal
    assert command("forecast", *asked, "--json", "--", "-200,-150,-100").answer["metric"] == "reward"
