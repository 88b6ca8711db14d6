"""JSON lines and the state of the Transformers Trainer."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from epochcast.errors import InputError
from epochcast.logs import Run, limits, read_runs

RECORDS = [
    {"step": 10, "loss": 2.5, "eval": {"acc": 0.5, "deep": {"f1": 0.25}}, "host": "a", "done": False, "best": None},
    {"step": 20, "loss": 1.25, "eval": {"acc": 0.625}},
    {"step": 30, "loss": 1.0, "eval": {"acc": 0.75}},
]
LINES = "".join(json.dumps(record) + "\n" for record in RECORDS).encode()
# Keys and layout of transformers 5.22.
STATE = {
    "best_metric": None,
    "epoch": 3.0,
    "global_step": 24,
    "log_history": [
        {"epoch": 0.625, "grad_norm": 0.56, "learning_rate": 4.1e-05, "loss": 0.67, "step": 5},
        {"epoch": 1.0, "eval_acc": 0.53, "eval_loss": 0.7, "step": 8},
        {"epoch": 2.0, "eval_acc": 0.63, "eval_loss": math.nan, "step": 16},
        {"epoch": 3.0, "eval_acc": 0.73, "eval_loss": 0.5, "step": 24},
    ],
    "max_steps": 24,
}


def read(folder: Path, data: bytes | str, name: str = "run.jsonl") -> Run:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_runs(path)[0]


def lengths(run: Run) -> dict[str, int]:
    return {name: len(series.steps) for name, series in run.metrics.items()}


class TestJsonLines:
    def test_lines_give_numbers_and_numbers_of_inner_objects(self, tmp_path: Path) -> None:
        run = read(tmp_path, LINES)
        assert lengths(run) == {"loss": 3, "eval/acc": 3, "eval/deep/f1": 1}
        assert run.metrics["eval/acc"].steps.tolist() == [10, 20, 30]
        assert run.metrics["eval/acc"].values.tolist() == [0.5, 0.625, 0.75]

    def test_ray_result_has_training_iteration_as_step(self, tmp_path: Path) -> None:
        run = read(tmp_path, '{"acc": 0.5, "training_iteration": 1, "config": {"lr": 0.1}}\n', "result.json")
        assert (run.format, run.step_name) == ("jsonl", "training_iteration")

    @pytest.mark.parametrize("word", ["NaN", '"NaN"', '"nan"'])
    def test_nan_as_number_or_word_is_kept(self, tmp_path: Path, word: str) -> None:
        run = read(tmp_path, f'{{"step": 1, "acc": 0.5}}\n{{"step": 2, "acc": {word}}}\n')
        assert math.isnan(run.metrics["acc"].values[1])

    def test_records_whose_steps_go_back_show_the_living_attempt(self, tmp_path: Path) -> None:
        records = [{"epoch": epoch, "acc": 0.1} for epoch in range(1, 31)]
        records += [{"epoch": epoch, "acc": 0.9} for epoch in range(1, 11)]
        run = read(tmp_path, "".join(json.dumps(record) + "\n" for record in records))
        assert run.metrics["acc"].values.tolist() == [0.9] * 10
        assert run.restarted == {"acc"}

    def test_text_among_numbers_is_left_out_and_noted(self, tmp_path: Path) -> None:
        run = read(tmp_path, '{"acc": 0.5}\n{"acc": "high"}\n')
        assert lengths(run) == {"acc": 1}
        assert "acc: left out 1 entries, not numbers" in run.notes

    def test_integer_of_thousands_of_digits_is_infinite_rather_than_a_crash(self, tmp_path: Path) -> None:
        run = read(tmp_path, '{"acc": ' + "9" * 5000 + "}\n")
        assert run.metrics["acc"].values.tolist() == [math.inf]

    @pytest.mark.parametrize("line", ['{"acc": }', "not json", "[1, 2]", "3", '{"a":' * 100_000, '{"a": "\xff"}'])
    def test_line_that_is_no_object_raises_with_its_number(self, tmp_path: Path, line: str) -> None:
        with pytest.raises(InputError, match="line 2 is"):
            read(tmp_path, b'{"acc": 0.5}\n' + line.encode("latin-1") + b'\n{"acc": 0.6}\n')

    def test_file_cut_inside_its_last_record_gives_the_records_before_it(self, tmp_path: Path) -> None:
        last = LINES.rstrip(b"\n").rfind(b"\n") + 1
        for cut in range(last, len(LINES) - 1):
            run = read(tmp_path, LINES[:cut])
            assert run.metrics["loss"].values.tolist() == [2.5, 1.25], cut
            assert bool(run.notes) == (cut > last)

    def test_last_record_without_a_line_end_is_whole_because_its_brace_is_closed(self, tmp_path: Path) -> None:
        assert lengths(read(tmp_path, LINES[:-1]))["loss"] == 3

    def test_file_without_a_whole_record_raises(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no whole record"):
            read(tmp_path, LINES[:20])

    def test_more_lines_than_the_limit_raise(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "MAX_ROWS", 2)
        with pytest.raises(InputError, match="more than 2 lines"):
            read(tmp_path, LINES)


class TestTrainerState:
    def test_state_gives_every_metric_over_steps(self, tmp_path: Path) -> None:
        run = read(tmp_path, json.dumps(STATE), "trainer_state.json")
        assert (run.format, run.step_name) == ("transformers", "step")
        assert lengths(run) == {"grad_norm": 1, "learning_rate": 1, "loss": 1, "eval_acc": 3, "eval_loss": 3}
        assert run.metrics["eval_acc"].steps.tolist() == [8, 16, 24]
        assert math.isnan(run.metrics["eval_loss"].values[1])

    def test_state_whose_steps_go_back_shows_the_living_attempt(self, tmp_path: Path) -> None:
        history = [{"step": step, "epoch": step / 10, "loss": 1.0} for step in (10, 20, 30, 40)]
        history += [{"step": 30, "epoch": 3.0, "loss": 2.0}, {"step": 30, "epoch": 3.0, "eval_loss": 1.5}]
        run = read(tmp_path, json.dumps({"log_history": history}), "trainer_state.json")
        assert run.metrics["loss"].steps.tolist() == [10, 20, 30]
        assert run.metrics["loss"].values.tolist() == [1.0, 1.0, 2.0]
        assert run.metrics["eval_loss"].steps.tolist() == [30]

    def test_state_can_be_read_by_epoch(self, tmp_path: Path) -> None:
        path = tmp_path / "trainer_state.json"
        path.write_text(json.dumps(STATE))
        assert read_runs(path, step_column="epoch")[0].metrics["eval_acc"].steps.tolist() == [1, 2, 3]

    def test_state_under_another_name_is_recognised(self, tmp_path: Path) -> None:
        assert read(tmp_path, json.dumps(STATE, indent=2), "copy.json").format == "transformers"

    @pytest.mark.parametrize("indent", [None, 2])
    def test_state_cut_inside_its_last_entry_gives_the_entries_before_it(
        self, tmp_path: Path, indent: int | None
    ) -> None:
        data = json.dumps(STATE, indent=indent).encode()
        start = data.rfind(b"{")
        end = data.find(b"}", start)
        for cut in range(start, end):
            run = read(tmp_path, data[:cut], "trainer_state.json")
            assert run.metrics["eval_acc"].values.tolist() == [0.53, 0.63], cut
            assert any("cut off" in note for note in run.notes)
        for cut in range(end + 1, len(data)):
            assert lengths(read(tmp_path, data[:cut], "trainer_state.json"))["eval_acc"] == 3

    def test_state_cut_before_its_first_entry_raises(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no whole entry"):
            read(tmp_path, '{"best_metric": null, "log_history": [{"epoch"', "trainer_state.json")

    @pytest.mark.parametrize("text", ["{}", "[]", '{"log_history": {}}', '{"log_history": [3]}'])
    def test_json_that_is_no_state_raises(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(InputError, match="log_history"):
            read(tmp_path, text, "trainer_state.json")

    def test_state_with_an_empty_history_is_a_run_without_metrics(self, tmp_path: Path) -> None:
        assert read(tmp_path, '{"log_history": []}', "trainer_state.json").metrics == {}
