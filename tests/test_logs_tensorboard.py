"""TensorBoard event files: TFRecord framing, the wire format of protocol buffers, and scalars."""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.errors import EpochcastError, InputError
from epochcast.logs import Run, limits, protobuf, read_runs, tensorboard, tfrecord

NAME = "events.out.tfevents.1794779460.host.1.0"

# Written by torch.utils.tensorboard (torch 2.13, tensorboard 2.21), zlib and base64: val/acc and loss as plain values,
# lr and precise as float and double tensors, at steps 0 to 3; then a text and a histogram at step 0.
TORCH = """
eNrzYICAf5M85nL+CucK7Np3y1GKN6koMTNPz7UsNa/EyihIj0unJDWvOL8oKT+xKEWvuDQ3N7GoUq+8KLMktUgvFaQqPi0zJzUeImIxadI3aa
i5UrzzhDnlnkLM1RLg4uNiL0vM0U9MThYFytrL8s9fJgFVurjeW4nzH0wpLxc3F0tOfnExSJ3Dw1tGrBpQdf8LxLw4Zz6DqpPlkuZiyily4uBg
1GI5e+aMrRc3FycXe3FyYk5iUfHuWN88Q6i+uc3NLzlDn0P1qXGpcLEXFKUmZxanOvFwMBlxhILBVXsUA9TXrXeXhRqQoH9fmfMi1AABRnTfKN
hf4pr9SgqqWGj2DV1Ogxdwxcj+OVAfdyf/gxZU5breiV85mxEq0Xzkg+qjyXJdO42hOnmWK4RxsryE68Tlp6+ofuozl29G8VMczAgmdD852DtF
Wnqj+OkgQjGynxrqk1qvfUHxU+AruEoUP3V2cKD6adcOtU8ofrqnxg3Tiemn1atAgMkBxQgNFVlVFD8Zq0ONYEb3U4L9q89vP6P4KQehGMVP/1
/O0BNA8dMuhEr0lGeD4qDZJ9k7UfzkpQHXictPXKh+qjxYsNgalo+U18RwBmlCjNAy4NLjEszLL0nVL0mtKImHZkgnfg52IRYhJg5GJ9aM1Jyc
fC8OLjYuFpCSU28YNxVAjZqiufYsZ4IR1KhUrmQu9vLUzPSMkmKtCEGIEhkHSQhDwUERwrBx0ATTDYkORrAMCwUCDjC1VjhkBBz4QhdfAgA8rS
jQ
"""
# add_hparams of the same: three tags of the hyperparameter plugin, and the scalar `best`.
HPARAMS = """
eNrzYICAf5M85nKKWQsEdu275SjFm1SUmJmn51qWmldiZRSkx6VTkppXnF+UlJ9YlKJXXJqbm1hUqVdelFmSWqSXClIVn5aZkxoPEblgUMkfAD
V3Cv/sJk5zLkGwuVquXM5cIvEZBYlFibnF8fqpFQWpRZm5QO1e2lyaXOxQCSE5IRklNi6mnCIFZiUOLpa8xNxUBUYtDi42IZak1OKSiPXmDlFQ
84Xzt+znXAkz35/Ll0sGYX5xanFxZn5efHFJYlFJfGZeWr6XLpc2wh4FKTkufpA9QpyCs2aCwE57Lm6IhULMUowVm7c6idpAbTqxfXEQ5wWYTY
Zc+lxSmDal5qVA7BEEGgy3h0WJiYNRLmdZvwTUrMX13kqcH7ihZvGC7AR5TJSBwcE++I37FABqlHkF
"""
# Written by tensorboard.summary.Writer, in the layout of TensorFlow 2: epoch_loss at steps 1 to 3.
TENSORFLOW2 = """
eNrzYICAf5M85nKasgkFdu275SjFm1SUmJmn51qWmldiZRSkx6VTkppXnF+UlJ9YlKJXXJqbm1hUqVdelFmSWqSXClIVn5aZkxoPEdm4JfahGd
Rc//Ce95xeGRBzBRi1NLnUubhSC/KTM+Jz8ouLnbg4GIUYtFiAKu29eLk4udiLkxNzEouKFRjDZnP3oJgikQM1hQm3KQ12aKbYPNNNRjFFNBdq
CjMet6Cbcv/mZnkAb5BS5w==
"""


def stored(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def read(folder: Path, data: bytes, name: str = NAME) -> Run:
    path = folder / name
    path.write_bytes(data)
    return read_runs(path)[0]


def framed(data: bytes) -> bytes:
    """A record as TFRecord stores it."""
    length = struct.pack("<Q", len(data))
    checksums = [struct.pack("<I", tfrecord.masked_crc(part)) for part in (length, data)]
    return length + checksums[0] + data + checksums[1]


def record_ends(data: bytes) -> list[int]:
    ends = [0]
    while ends[-1] < len(data):
        (length,) = struct.unpack_from("<Q", data, ends[-1])
        ends.append(ends[-1] + 12 + length + 4)
    return ends[1:]


def scalar_event(tag: str, step: int, value: float) -> bytes:
    summary_value = b"\x0a" + bytes([len(tag)]) + tag.encode() + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(summary_value)]) + summary_value
    step_bytes = (step % 2**64).to_bytes(8, "little")
    varint = bytearray()
    number = int.from_bytes(step_bytes, "little")
    while number >= 0x80:
        varint.append(number & 0x7F | 0x80)
        number >>= 7
    varint.append(number)
    return b"\x10" + bytes(varint) + b"\x2a" + bytes([len(summary)]) + summary


def session_start(step: int) -> bytes:
    """What torch writes for `purge_step`, at a step below 128."""
    return b"\x10" + bytes([step]) + b"\x3a\x02\x08\x01"


class TestFilesOfRealLibraries:
    def test_torch_file_gives_its_scalars_and_nothing_else(self, tmp_path: Path) -> None:
        run = read(tmp_path, stored(TORCH))
        assert set(run.metrics) == {"val/acc", "loss", "lr", "precise"}
        assert run.metrics["val/acc"].values.tolist() == [0.5, 0.625, 0.75, 0.875]
        np.testing.assert_array_equal(run.metrics["loss"].values, [2.0, math.nan, math.inf, -math.inf])
        np.testing.assert_array_equal(run.metrics["lr"].values, np.float32([0.1, 0.05, 0.1 / 3, 0.025]))
        np.testing.assert_array_equal(run.metrics["precise"].values, 1 / 3 + np.arange(4.0))
        assert all(series.steps.tolist() == [1, 2, 3, 4] for series in run.metrics.values())
        assert any("counts from 0" in note for note in run.notes)

    def test_hyperparameters_are_not_taken_for_scalars(self, tmp_path: Path) -> None:
        run = read(tmp_path, stored(HPARAMS))
        assert {name: series.values.tolist() for name, series in run.metrics.items()} == {"best": [0.75]}

    def test_tensorflow2_file_gives_its_scalar_tensors(self, tmp_path: Path) -> None:
        series = read(tmp_path, stored(TENSORFLOW2)).metrics["epoch_loss"]
        assert (series.steps.tolist(), series.values.tolist()) == ([1, 2, 3], [0.5, 0.25, 0.125])

    @pytest.mark.skipif(
        importlib.util.find_spec("tensorboard") is None, reason="the tensorboard package is not installed"
    )
    @pytest.mark.filterwarnings("default")
    def test_reader_agrees_with_tensorboard_itself(self, tmp_path: Path) -> None:
        accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
        writer = pytest.importorskip("torch.utils.tensorboard").SummaryWriter(str(tmp_path))
        values = np.random.default_rng(0).normal(size=50)
        for step, value in enumerate(values, start=1):
            writer.add_scalar("acc", value, 10 * step)
        writer.close()
        theirs = accumulators.EventAccumulator(str(tmp_path))
        theirs.Reload()
        (run,) = read_runs(tmp_path)
        assert run.metrics["acc"].steps.tolist() == [event.step for event in theirs.Scalars("acc")]
        assert run.metrics["acc"].values.tolist() == [event.value for event in theirs.Scalars("acc")]


class TestRuns:
    def test_directory_of_event_files_is_one_run_and_the_later_file_wins(self, tmp_path: Path) -> None:
        first = [framed(scalar_event("acc", step, 0.1)) for step in (1, 2, 3)]
        second = [framed(scalar_event("acc", step, 0.9)) for step in (3, 4)]
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "events.out.tfevents.20.host").write_bytes(b"".join(second))
        (tmp_path / "run" / "events.out.tfevents.10.host").write_bytes(b"".join(first))
        (run,) = read_runs(tmp_path)
        assert (run.name, run.path) == ("run", tmp_path / "run")
        assert run.metrics["acc"].steps.tolist() == [1, 2, 3, 4]
        np.testing.assert_allclose(run.metrics["acc"].values, [0.1, 0.1, 0.9, 0.9], rtol=1e-6)

    def test_purge_step_drops_every_tag_from_there_on(self, tmp_path: Path) -> None:
        first = [framed(scalar_event(tag, step, 0.1)) for step in range(1, 31) for tag in ("acc", "loss")]
        second = [framed(session_start(20)), framed(scalar_event("acc", 20, 0.9))]
        (tmp_path / "events.out.tfevents.1794779460.host").write_bytes(b"".join(first))
        (tmp_path / "events.out.tfevents.1794779470.host").write_bytes(b"".join(second))
        (run,) = read_runs(tmp_path)
        assert run.metrics["acc"].steps.tolist() == [*range(1, 21)]
        assert run.metrics["loss"].steps.tolist() == [*range(1, 20)]
        assert run.metrics["acc"].values[-1] == pytest.approx(0.9)
        assert [note.partition(", of")[0] for note in run.notes] == [
            "acc: the run starts again at step 20: left out 11 of 31 values",
            "loss: the run starts again at step 20: left out 11 of 30 values",
        ]

    def test_second_file_that_goes_back_without_purge_step_drops_the_dead_attempt(self, tmp_path: Path) -> None:
        first = [framed(scalar_event("acc", step, 0.1)) for step in range(30)]
        second = [framed(scalar_event("acc", step, 0.9)) for step in range(10)]
        (tmp_path / "events.out.tfevents.1794779460.host").write_bytes(b"".join(first))
        (tmp_path / "events.out.tfevents.1794779470.host").write_bytes(b"".join(second))
        (run,) = read_runs(tmp_path)
        np.testing.assert_allclose(run.metrics["acc"].values, [0.9] * 10, rtol=1e-6)

    def test_negative_step_is_left_out(self, tmp_path: Path) -> None:
        data = framed(scalar_event("acc", -1, 0.1)) + framed(scalar_event("acc", 7, 0.2))
        assert read(tmp_path, data).metrics["acc"].steps.tolist() == [7]

    def test_record_over_the_size_limit_is_passed_over_and_noted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tensorboard, "_LARGEST_RECORD", 1000)
        large = framed(b"\x22" + b"\xd0\x0f" + bytes(2000))  # a graph of 2000 bytes
        run = read(tmp_path, large + framed(scalar_event("acc", 7, 0.5)))
        assert run.metrics["acc"].values.tolist() == [0.5]
        assert any("1 records of more than 1,000 bytes" in note for note in run.notes)

    def test_more_records_than_the_limit_raise(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "MAX_ROWS", 3)
        with pytest.raises(InputError, match="more than 3 records"):
            read(tmp_path, stored(TENSORFLOW2))


class TestUnfinishedFiles:
    @pytest.mark.parametrize("fixture", [TORCH, TENSORFLOW2])
    def test_file_cut_inside_its_last_scalar_gives_the_records_before_it(self, tmp_path: Path, fixture: str) -> None:
        data = stored(fixture)
        ends = record_ends(data)
        sizes = [sum(len(s.steps) for s in read(tmp_path, data[:end]).metrics.values()) for end in ends]
        last = max(place for place in range(1, len(ends)) if sizes[place] > sizes[place - 1])
        for cut in range(ends[last - 1], ends[last]):
            run = read(tmp_path, data[:cut])
            assert sum(len(series.steps) for series in run.metrics.values()) == sizes[last - 1], cut
            assert not any("checksum" in note for note in run.notes)

    def test_tail_of_zeros_after_a_crash_is_noted_and_the_rest_is_read(self, tmp_path: Path) -> None:
        run = read(tmp_path, stored(TENSORFLOW2) + bytes(64))
        assert len(run.metrics["epoch_loss"].steps) == 3
        assert any("checksum" in note for note in run.notes)

    def test_flipped_bit_anywhere_in_the_last_record_never_changes_a_value(self, tmp_path: Path) -> None:
        data = stored(TENSORFLOW2)
        start = record_ends(data)[-2]
        for place in range(start, len(data)):
            damaged = bytearray(data)
            damaged[place] ^= 0x10
            run = read(tmp_path, bytes(damaged))
            assert run.metrics["epoch_loss"].values.tolist() == [0.5, 0.25], place
            assert any("checksum" in note for note in run.notes)

    @pytest.mark.parametrize("data", [b"", b"\x10"])
    def test_file_without_a_whole_record_raises(self, tmp_path: Path, data: bytes) -> None:
        with pytest.raises(InputError, match="no whole record"):
            read(tmp_path, data)

    def test_file_of_another_format_raises(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="not an event file"):
            read(tmp_path, b"epoch,acc\n1,0.5\n2,0.6\n")


class TestWireFormat:
    def test_checksum_of_the_standard_test_string_is_the_published_one(self) -> None:
        assert tfrecord.crc32c(b"123456789") == 0xE3069283

    @pytest.mark.parametrize(
        ("message", "problem"),
        [
            (b"\x2a\x05ab", "3 bytes past"),
            (b"\x10" + b"\xff" * 11, "longer than 10 bytes"),
            (b"\x10", "inside a number"),
            (b"\x13", "wire type 3"),
            (b"\x2a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "past its message"),
        ],
    )
    def test_record_that_is_no_message_raises(self, tmp_path: Path, message: bytes, problem: str) -> None:
        with pytest.raises(InputError, match=f"record 1 is not an event: .*{problem}"):
            read(tmp_path, framed(message))

    @settings(max_examples=200, derandomize=True, deadline=None)
    @given(number=st.integers(-(2**63), 2**63 - 1))
    def test_int64_reads_what_was_encoded(self, number: int) -> None:
        event = memoryview(scalar_event("a", number, 1.0))
        assert next(protobuf.int64(value) for _, value in protobuf.fields(event)) == number

    @settings(max_examples=200, derandomize=True, deadline=None)
    @given(messages=st.lists(st.binary(max_size=60), min_size=1, max_size=3))
    def test_any_records_give_a_run_or_our_own_error(
        self, tmp_path_factory: pytest.TempPathFactory, messages: list[bytes]
    ) -> None:
        folder = tmp_path_factory.mktemp("events")
        with contextlib.suppress(EpochcastError):
            run = read(folder, b"".join(framed(message) for message in messages))
            assert all(len(steps) == len(values) for steps, values in run.metrics.values())
