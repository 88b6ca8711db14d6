"""The local files of Weights & Biases."""

from __future__ import annotations

import base64
import json
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from epochcast.errors import InputError
from epochcast.logs import limits, read_runs, wandb
from epochcast.logs.leveldb import BLOCK

FOLDER = "offline-run-20261118_152524-abcd1234"
# run-abcd1234.wandb of wandb 0.31, offline, zlib and base64: epoch, val_acc, train: {loss} and a text, six times.
REAL = """
eNrNlk9oHFUcx/P2XzZvt8nmJdmkI4Isja2ujvPezHs7UxWkeJFi8abEw3Z2dtJM2MyOu7N1VQRdULBClMbapLaKrUiVXjRCPaiH3OyhpPQgeBPswZOo+A
8R/c1WyMx2Axsorcc3vN/7fb+f3+837+1/8u4D3301ZJ2Tnn58CKXRRhbjtFmxqpSp2sfoQWzgBxRZpbJSpHxetyoW12mVWtyat4St0nmhVzS9Uq1S1bIt
Vq0yi6QUuaTIyurYG8urcGasg0YLWcNQTM9s1SyDHYkkOYZaWwspVXWOOH6zcAfehVPlZ023Wumg2AsvYoxjtUYHxRWZHogv1bzFxEK96R9D2fT3r/7+TS
r3+fKPm/FT6B5p5C60gDz0EkKFlCpTKpfuTV13sJitOW6rfX9bF2WhPeK9viaBvDjL40mca9jPtJyGvWS7flP22/4MWtlc/3I/bEhE5M4NnuHcL7udIhyQ
lPbiKfKfGzLcaLm+s2R3EFLwKE6XQ+tH79srn4CIlPQmwmMk4dZ9+J4q+HbbL+BZgsvBzqZvLnkdlIfEBlco54wzYXDBuF1UDDxDQmdmQFhJ1bih6QbOkG
S56dteNzUsbK9uLXQXY2T4qFkrm5bVRczxOEn6DdNxSaJWbzZhD/3p6vlXToK2YXIc3WYpN6AhQy/PXd4XsE4PzPqjr+fGA9YjAeuJnhzdxDcUoBB1PRFy
LThlfS2LElc0XTX0sGUatkxxLmQ5AcPDK0988eEaaMPkLXRzTrx5DkksjX6+8msuoJ0ZmHbqg8xrwc8gK62gsG4W1s2ixT9kHsKTPbLBDOM7Gg2DM42LUt
/iGCXBSprC+J0rP1w9DfJ2kZNo+123TTgwj316ceZ8wHx0O+a0hzn985L92TsQMSa9jcJqVRipLbVJRdahP6Z69MJnujPBIugRzvqNAZWZrqiCalQNM1Qf
xidG3gOFOXIKDRhyi40A+bjV/ssKyI8PTF5f33DehQgirSG8J5poKpSIC4Wrel9gXNdUATMXmXIt7F6DHttyn37MnXdcx38O53sAwN2kiD4ELvyTPHsWRE
6QM30um/+JauCf+O3axWLAf3Jg/vmDy3+fgYgpaXVH96jQBdV17bq36bA3TGVd5yUq1MhfgIetcUxC1sCAoUI/TvcYGwZjKnTk7GH34PugMU9Oox0F3kJD
QD+5/sfmtYdA53T0GVSUMjk04EMosXEJBQWc2a6ArKeAjH3y1LezELG7+3ZUHO9ofdHxKH9ei6g4jmK52L90aLVI
"""


def stored() -> bytes:
    return zlib.decompress(base64.b64decode(REAL))


def varint(number: int) -> bytes:
    data = bytearray()
    while number >= 0x80:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def item(name: str, value: object) -> bytes:
    """An item of the history; slashes part a name into that of an object and those inside it."""
    parts = name.split("/")
    names = field(1, name.encode()) if len(parts) == 1 else b"".join(field(2, part.encode()) for part in parts)
    return field(1, names + field(16, json.dumps(value).encode()))


def history(values: Mapping[str, object], step: int | None = None) -> bytes:
    own = b"" if step is None else field(2, b"\x08" + varint(step) if step else b"")
    return field(2, b"".join(item(name, value) for name, value in values.items()) + own)


def framed(records: Sequence[bytes]) -> bytes:
    """A transaction log, its records parted where a block ends."""
    data = bytearray(wandb.MAGIC + b"\x00")
    for record in records:
        rest, begun, whole = record, False, False
        while not whole:
            room = BLOCK - len(data) % BLOCK
            if room < 7:
                data += bytes(room)
                continue
            part, rest = rest[: room - 7], rest[room - 7 :]
            whole = not rest
            kind = (4 if begun else 1) if whole else (3 if begun else 2)
            data += struct.pack("<IHB", zlib.crc32(bytes([kind]) + part), len(part), kind) + part
            begun = True
    return bytes(data)


def write(root: Path, data: bytes, folder: str = FOLDER) -> Path:
    path = root / "wandb" / folder / "run-abcd1234.wandb"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


def log(count: int, first: int = 1) -> list[bytes]:
    return [history({"_step": step, "acc": step / 100}) for step in range(first, first + count)]


class TestRealFile:
    def test_file_of_the_client_gives_its_metrics_by_epoch(self, tmp_path: Path) -> None:
        path = write(tmp_path, stored())
        (run,) = read_runs(tmp_path)
        assert (run.name, run.format, run.path) == ("wandb/mlp", "wandb", path.parent)
        assert run.step_name == "epoch"
        assert sorted(run.metrics) == ["train/loss", "val_acc"]
        assert run.metrics["train/loss"].values.tolist() == [1, 0.5, 0.25, 0.125, 0.0625, 0.03125]
        steps, values = run.metrics["val_acc"]
        assert steps.tolist() == [1, 2, 3, 4, 5, 6]
        assert math.isnan(values[2])
        assert values[[0, 1, 3, 4, 5]].tolist() == [0.5, 0.75, 0.875, math.inf, 0.9375]

    def test_file_given_by_name_is_recognised_by_its_first_bytes(self, tmp_path: Path) -> None:
        path = tmp_path / "renamed.log"
        path.write_bytes(stored())
        assert len(read_runs(path)[0].metrics["val_acc"].steps) == 6

    def test_file_cut_anywhere_gives_a_prefix_of_its_values(self, tmp_path: Path) -> None:
        whole = stored()
        path = write(tmp_path, whole)
        seen = set()
        for cut in range(0, len(whole) + 1, 5):
            path.write_bytes(whole[:cut])
            values = [run.metrics["train/loss"].values.tolist() for run in read_runs(tmp_path) if run.metrics]
            assert values in ([], [[0.5**k for k in range(len(values[0]) if values else 0)]])
            seen.add(len(values[0]) if values else 0)
        assert seen == {0, 1, 2, 3, 4, 5, 6}

    def test_flipped_bit_never_changes_a_value(self, tmp_path: Path) -> None:
        whole = stored()
        path = write(tmp_path, whole)
        for place in range(7, len(whole), 11):
            damaged = bytearray(whole)
            damaged[place] ^= 4
            path.write_bytes(damaged)
            for run in read_runs(tmp_path):
                values = run.metrics["train/loss"].values.tolist() if run.metrics else []
                assert values == [0.5**k for k in range(len(values))]


class TestRecords:
    def test_record_over_several_blocks_is_put_together(self, tmp_path: Path) -> None:
        long = history({"_step": 2, "text": "x" * 100_000, "acc": 0.5})
        write(tmp_path, framed([*log(1), long, *log(1, first=3)]))
        assert read_runs(tmp_path)[0].metrics["acc"].values.tolist() == [0.01, 0.5, 0.03]

    @pytest.mark.parametrize("room", range(12))
    def test_record_that_ends_just_before_its_block_is_followed_by_the_next(self, tmp_path: Path, room: int) -> None:
        overhead = len(history({"_step": 1, "acc": 0.25, "text": "x" * 20_000})) - 20_000
        filler = history({"_step": 1, "acc": 0.25, "text": "x" * (BLOCK - 14 - overhead - room)})
        data = framed([filler, *log(2, first=2)])
        assert len(framed([filler])) == BLOCK - room
        write(tmp_path, data)
        assert read_runs(tmp_path)[0].metrics["acc"].values.tolist() == [0.25, 0.02, 0.03]

    def test_record_over_the_size_limit_is_passed_over_and_noted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(wandb, "_FORMAT", replace(wandb._FORMAT, largest=1000))
        write(tmp_path, framed([*log(1), history({"_step": 2, "acc": 1, "text": "x" * 70_000}), *log(1, first=3)]))
        (run,) = read_runs(tmp_path)
        assert run.metrics["acc"].values.tolist() == [0.01, 0.03]
        assert "1 records of more than 1,000 bytes" in run.notes[0]

    def test_numbers_of_the_newest_format_are_read(self, tmp_path: Path) -> None:
        number = field(1, field(1, b"acc") + b"\x31" + struct.pack("<d", 0.5))
        integer = field(1, field(1, b"count") + b"\x28" + varint(5))  # -3, as zigzag
        write(tmp_path, framed([field(2, number + integer + field(2, b"\x08\x07"))]))
        (run,) = read_runs(tmp_path)
        assert run.step_name == "_step"
        assert run.metrics["acc"].steps.tolist() == [7]
        assert run.metrics["acc"].values.tolist() == [0.5]
        assert run.metrics["count"].values.tolist() == [-3]

    def test_media_and_the_notes_of_the_client_are_no_metrics(self, tmp_path: Path) -> None:
        picture = {"_type": "image-file", "width": 28, "height": 28}
        values = {"_step": 0, "_runtime": 1.5, "_timestamp": 1e9, "picture": picture, "acc": 0.5, "deep": {"loss": 2.0}}
        write(tmp_path, framed([history(values)]))
        assert sorted(read_runs(tmp_path)[0].metrics) == ["acc", "deep/loss"]

    def test_step_of_the_record_stands_in_for_the_item(self, tmp_path: Path) -> None:
        write(tmp_path, framed([history({"acc": 0.5}, step=0), history({"acc": 0.6}, step=4)]))
        assert read_runs(tmp_path)[0].metrics["acc"].steps.tolist() == [0, 4]

    def test_more_records_than_the_limit_raise(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = write(tmp_path, framed(log(3)))
        monkeypatch.setattr(limits, "MAX_ROWS", 2)
        with pytest.raises(InputError, match="more than 2 records"):
            read_runs(path)


class TestRuns:
    def test_resumed_run_is_one_run_in_the_order_of_its_folders(self, tmp_path: Path) -> None:
        write(tmp_path, framed(log(5, first=4)), "run-20261119_090000-abcd1234")
        write(tmp_path, framed(log(5)), "offline-run-20261118_100000-abcd1234")
        (run,) = read_runs(tmp_path)
        assert run.path.name == "run-20261119_090000-abcd1234"
        assert run.metrics["acc"].values.tolist() == [step / 100 for step in range(1, 9)]
        assert run.notes == ("acc: the run starts again at _step 4: left out 2 of 10 values, of the attempt before",)

    def test_runs_of_one_name_are_told_apart_by_their_ids(self, tmp_path: Path) -> None:
        named = [field(17, field(8, b"mlp")), *log(2)]
        for run in ("aaaa1111", "bbbb2222"):
            folder = tmp_path / f"run-20261119_090000-{run}"
            folder.mkdir()
            (folder / f"run-{run}.wandb").write_bytes(framed(named))
        assert [run.name for run in read_runs(tmp_path)] == ["mlp (aaaa1111)", "mlp (bbbb2222)"]

    def test_files_copied_into_one_folder_are_runs_of_their_own(self, tmp_path: Path) -> None:
        for run in ("aaaa1111", "bbbb2222"):
            (tmp_path / f"run-{run}.wandb").write_bytes(framed([field(17, field(8, b"mlp")), *log(2)]))
        assert [run.name for run in read_runs(tmp_path)] == ["mlp (aaaa1111)", "mlp (bbbb2222)"]
        assert [run.path.name for run in read_runs(tmp_path)] == ["run-aaaa1111.wandb", "run-bbbb2222.wandb"]

    def test_summary_counts_only_where_there_is_no_history(self, tmp_path: Path) -> None:
        files = write(tmp_path, framed(log(5))).parent / "files"
        files.mkdir()
        summary = {"_step": 4, "_wandb": {"runtime": 3}, "epoch": 9, "acc": 0.75, "train": {"loss": "NaN"}}
        (files / "wandb-summary.json").write_text(json.dumps(summary))
        assert len(read_runs(tmp_path)) == 1
        (files.parent / "run-abcd1234.wandb").unlink()
        (run,) = read_runs(tmp_path)
        assert (run.name, run.format) == (f"wandb/{FOLDER}", "wandb")
        assert (run.metrics["acc"].steps.tolist(), run.metrics["acc"].values.tolist()) == ([9], [0.75])
        assert sorted(run.metrics) == ["acc", "train/loss"]
        assert "newest value" in run.notes[0]

    def test_history_of_old_clients_is_read_as_json_lines(self, tmp_path: Path) -> None:
        files = tmp_path / "wandb" / "run-20180101_000000-abcd1234" / "files"
        files.mkdir(parents=True)
        (files / "wandb-history.jsonl").write_text('{"_step": 0, "acc": 0.5}\n{"_step": 1, "acc": 0.6}\n')
        (files / "wandb-summary.json").write_text('{"_step": 1, "acc": 0.6}')
        (run,) = read_runs(tmp_path)
        assert (run.format, run.metrics["acc"].values.tolist()) == ("jsonl", [0.5, 0.6])


class TestOtherFiles:
    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            (b"", "no whole record"),
            (b":W&B", "no whole record"),
            (b"something else", "does not begin as"),
            (framed([b"\x07"]), "record 1 cannot be read"),
            (framed([field(2, field(1, field(1, b"acc") + field(16, b"{")))]), "not JSON"),
            (wandb.MAGIC + b"\0" + b"\1" * 400, "checksum"),
        ],
    )
    def test_file_that_is_no_transaction_log_is_left_out_and_says_why(
        self, tmp_path: Path, data: bytes, problem: str
    ) -> None:
        write(tmp_path, data)
        findings = read_runs(tmp_path)
        assert list(findings) == []
        assert problem in findings.skipped[0].reason

    @pytest.mark.parametrize("text", ["[1]", "{", ""])
    def test_summary_that_is_no_object_raises(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "wandb-summary.json"
        path.write_text(text)
        with pytest.raises(InputError, match=r"wandb-summary\.json is"):
            read_runs(path)
