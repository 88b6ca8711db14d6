"""Damaged logs: a reader gives a run or refuses with an `EpochcastError`, and no file hides the others of its folder.

    python fuzz/logs.py --mutations 5000 --seed 0
    python fuzz/logs.py --start 2000 --mutations 1000 --format csv --format wandb     # a part of them
    python fuzz/logs.py --start 1234 --mutations 1 --format csv                       # one mutation again

Every mutation is drawn from the seed, its format and its number alone. One line per format; exit code 1 if anything
escaped. Files with checksums are damaged both as they lie on disk and below their checksums, since damage would
otherwise hardly ever get past the first of them.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sqlite3
import struct
import sys
import tempfile
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import epochcast as ec
from epochcast.errors import EpochcastError
from epochcast.logs import read_runs
from epochcast.logs.leveldb import BLOCK
from epochcast.logs.tfrecord import masked_crc
from epochcast.logs.wandb import MAGIC
from epochcast.watch import Watcher

STEPS = 12
WATCHED = 25  # one mutation in so many is also forecast, as `watch` does
PIECES = (
    *(b"nan", b"-inf", b"1e999", b"-1", b"0", b"9" * 400, b"1e308", b"1_0", b"0x1p3", b"NaN", b"null", b"true"),
    *(b"\n", b"\r\n", b"\r", b",", b";", b"\t", b" ", b'"', b"'", b"\\", b":", b"#", b"\x00", b"\xff", b"\xff\xfe"),
    *(b"\xef\xbb\xbf", b"\xed\xa0\x80", "\u0663".encode(), b"{" * 3000, b"[" * 3000, b"}", b"]", b'{"a":1}', b"epoch"),
    *(b"\x00" * 40, b"\xff" * 10, b"\x80" * 11, b"step", b"val_acc", b"\x1b[2J", b"=1+1"),
)
Files = dict[str, bytes]  # path below the folder -> content


@dataclass(frozen=True)
class Format:
    """A kind of log: a whole one, the part of it that is damaged, and how that part becomes files again."""

    parts: list[bytes]
    files: Callable[[Sequence[bytes]], Files]
    by_name: str | None  # the file that may also be given by name
    in_place: bool = False  # mostly changed without a change of size, as a file of another size is refused at once


def values() -> list[float]:
    return [round(1.0 - 0.7 * 0.8**step, 4) for step in range(STEPS)]


# --- whole logs --------------------------------------------------------------------------------------------------


def csv_log() -> Format:
    rows = [f"{step},{1 - value:.4f},{value},sgd" for step, value in enumerate(values(), start=1)]
    text = "\n".join(["epoch,loss,val_acc,optimizer", *rows, *rows[4:6]]) + "\n"
    return one_file("run.csv", text.encode())


def csv_of_runs() -> Format:
    rows = [f"{run},{step},{value}" for step, value in enumerate(values(), start=1) for run in ("a", "7")]
    return one_file("runs.csv", "\n".join(["trial_id,epoch,val_acc", *rows]).encode() + b"\n")


def jsonl_log() -> Format:
    rows = [{"epoch": step, "val_acc": value, "train": {"loss": 1 - value}} for step, value in enumerate(values())]
    return one_file("run.jsonl", b"".join(json.dumps(row).encode() + b"\n" for row in rows))


def transformers_log() -> Format:
    history = [{"epoch": step / 4, "step": 10 * step, "val_acc": value} for step, value in enumerate(values(), 1)]
    state = {"best_metric": None, "epoch": 3.0, "log_history": history, "max_steps": 120}
    return one_file("trainer_state.json", json.dumps(state, indent=1).encode())


def sqlite_log() -> Format:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mlflow.db"
        with closing(sqlite3.connect(path)) as store, store:
            store.executescript("""
                PRAGMA page_size = 1024;
                CREATE TABLE experiments (experiment_id INTEGER PRIMARY KEY, name VARCHAR, lifecycle_stage VARCHAR);
                CREATE TABLE runs (run_uuid VARCHAR PRIMARY KEY, name VARCHAR, start_time BIGINT,
                                   lifecycle_stage VARCHAR, experiment_id INTEGER);
                CREATE TABLE metrics (key VARCHAR, value FLOAT NOT NULL, timestamp BIGINT, run_uuid VARCHAR,
                                      step BIGINT DEFAULT 0, is_nan BOOLEAN DEFAULT 0,
                                      PRIMARY KEY (key, timestamp, step, run_uuid, value, is_nan));
                INSERT INTO experiments VALUES (1, 'digits', 'active');
                INSERT INTO runs VALUES ('a1', 'mlp', 100, 'active', 1), ('b1', 'cnn', 50, 'active', 1);
            """)
            for step, value in enumerate(values(), start=1):
                for run in ("a1", "b1"):
                    store.execute("INSERT INTO metrics VALUES ('val_acc', ?, ?, ?, ?, 0)", (value, step, run, step))
        return one_file("mlflow.db", path.read_bytes(), in_place=True)


def mlruns_log() -> Format:
    meta = b"lifecycle_stage: active\nname: digits\n"
    run = b"lifecycle_stage: active\nrun_id: a1\nrun_name: 'first: run'\nstatus: 3\ntags: []\n"
    metric = "".join(f"{1795014808745 + step} {value} {step}\n" for step, value in enumerate(values())).encode()
    names = ("mlruns/1/meta.yaml", "mlruns/1/a1/meta.yaml", "mlruns/1/a1/metrics/val_acc")
    return Format([meta, run, metric, metric], lambda parts: dict(zip(names, parts, strict=False)), None)


def tensorboard_log(*, below_checksums: bool) -> Format:
    events = [b"\x1a\x0dbrain.Event:2", b"\x10\x05\x3a\x02\x08\x01"]  # the version, and a session that starts
    for step, value in enumerate(values(), start=1):
        scalar = field(1, b"val_acc") + b"\x15" + struct.pack("<f", value)
        events.insert(-1 if step < STEPS // 2 else len(events), b"\x10" + varint(step) + field(5, field(1, scalar)))
    return framed_log("events.out.tfevents.1794779460.host", events, tensorboard_file, below_checksums)


def wandb_log(*, below_checksums: bool) -> Format:
    records = [field(21, b""), field(17, field(1, b"abcd1234") + field(8, b"mlp"))]
    for step, value in enumerate(values()):
        logged = {"_step": step, "epoch": step, "val_acc": value, "text": "x" * (20_000 if step == 3 else 1)}
        items = [field(1, field(2, k.encode()) + field(16, json.dumps(v).encode())) for k, v in logged.items()]
        records.append(field(2, b"".join(items) + field(2, b"\x08" + varint(step))))
    name = "wandb/run-20261118_152524-abcd1234/run-abcd1234.wandb"
    return framed_log(name, records, wandb_file, below_checksums)


def one_file(name: str, data: bytes, in_place: bool = False) -> Format:
    return Format([data], lambda parts: {name: parts[0]}, name, in_place)


def framed_log(
    name: str, records: list[bytes], frame: Callable[[Sequence[bytes]], bytes], below_checksums: bool
) -> Format:
    if below_checksums:
        return Format(records, lambda parts: {name: frame(parts)}, name)
    return one_file(name, frame(records))


def tensorboard_file(events: Sequence[bytes]) -> bytes:
    parts = [part for event in events for part in (struct.pack("<Q", len(event)), event)]
    return b"".join(part + struct.pack("<I", masked_crc(part)) for part in parts)


def wandb_file(records: Sequence[bytes]) -> bytes:
    data = bytearray(MAGIC + b"\x00")
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


def varint(number: int) -> bytes:
    data = bytearray()
    while number >= 0x80:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


FORMATS: dict[str, Callable[[], list[Format]]] = {
    "csv": lambda: [csv_log(), csv_of_runs()],
    "jsonl": lambda: [jsonl_log()],
    "tensorboard": lambda: [tensorboard_log(below_checksums=below) for below in (False, True)],
    "transformers": lambda: [transformers_log()],
    "mlflow sqlite": lambda: [sqlite_log()],
    "mlflow files": lambda: [mlruns_log()],
    "wandb": lambda: [wandb_log(below_checksums=below) for below in (False, True)],
}


# --- damage ------------------------------------------------------------------------------------------------------


def damaged(log: Format, rng: random.Random) -> list[bytes]:
    """One to four changes somewhere in the parts."""
    changed = [bytearray(part) for part in log.parts]
    ways = 2 if log.in_place and rng.random() < 0.9 else 7
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        change(rng.choice(changed), rng.randrange(ways), rng)
    if len(changed) > 1 and rng.random() < 0.1:
        rng.shuffle(changed)
    return [bytes(part) for part in changed]


def change(data: bytearray, how: int, rng: random.Random) -> None:
    start = rng.randrange(len(data) + 1)
    end = min(len(data), start + rng.choice((1, 1, 2, 4, 16, 200)))
    if how == 0 and start < len(data):
        data[start] ^= 1 << rng.randrange(8)
    elif how == 1:
        data[start:end] = rng.randbytes(end - start)
    elif how == 2:
        data[start:start] = rng.choice(PIECES)
    elif how == 3:
        data[start:end] = rng.choice(PIECES)
    elif how == 4:
        del data[start:end]
    elif how == 5:
        data[start:start] = data[start:end] * rng.choice((1, 2, 50))
    else:
        del data[start:]


# --- what readers make of it -------------------------------------------------------------------------------------


class Trial:
    """A folder with one log that is damaged again and again, beside one that is whole."""

    def __init__(self, folder: Path, forecaster: ec.Forecaster) -> None:
        self.folder = folder
        self.forecaster = forecaster
        self.counts: Counter[str] = Counter(mutations=0, read=0, refused=0, escapes=0)
        self.escapes: list[str] = []

    def run(self, log: Format, parts: Sequence[bytes], number: int) -> None:
        self.counts["mutations"] += 1
        try:
            outcome = self._read(log, parts, watch=number % WATCHED == 0)
        except Exception as error:  # what is looked for
            self.counts["escapes"] += 1
            self.escapes.append(f"mutation {number}: {type(error).__name__}: {error}")
        else:
            self.counts[outcome] += 1

    def _read(self, log: Format, parts: Sequence[bytes], watch: bool) -> str:
        shutil.rmtree(self.folder, ignore_errors=True)
        for name, data in {"whole.csv": b"val_acc\n0.5\n0.6\n", **log.files(parts)}.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        outcome = "read"
        if log.by_name is not None:
            try:
                read_runs(self.folder / log.by_name)
            except EpochcastError:
                outcome = "refused"
        findings = read_runs(self.folder)
        findings.describe()
        if "whole.csv" not in {run.name for run in findings}:
            raise AssertionError("the log beside it was not read")
        caught = [skipped.reason for skipped in findings.skipped if "its reader failed" in skipped.reason]
        if caught:
            raise AssertionError(caught[0])
        if watch:
            snapshot = Watcher(self.folder, "val_acc", "accuracy", 40, forecaster=self.forecaster).refresh()
            json.dumps(snapshot.to_dict(), allow_nan=False)
        return "refused" if findings.skipped else outcome


def fuzz_logs(mutations: int, seed: int, start: int = 0, names: Sequence[str] = ()) -> dict[str, Counter[str]]:
    """Counts by format, all by default: mutations, read, refused, escapes. Escapes are told on the error stream."""
    report: dict[str, Counter[str]] = {}
    forecaster = ec.Forecaster()
    for name in names or FORMATS:
        logs = FORMATS[name]()
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("error")
            trial = Trial(Path(folder) / "logs", forecaster)
            for number in range(start, start + mutations):
                log = logs[number % len(logs)]
                trial.run(log, damaged(log, random.Random(f"{seed} {name} {number}")), number)
        report[name] = trial.counts
        for escape in trial.escapes[:5]:
            print(f"{name}, seed {seed}, {escape}", file=sys.stderr)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description="damage logs and see what their readers make of it")
    parser.add_argument("--mutations", type=int, default=5000, help="of each format")
    parser.add_argument("--start", type=int, default=0, help="the number of the first mutation")
    parser.add_argument("--format", action="append", choices=list(FORMATS), help="may be repeated; by default all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    report = fuzz_logs(options.mutations, options.seed, options.start, options.format or ())
    for name, counts in report.items():
        print(f"{name}: " + ", ".join(f"{count:,} {what}" for what, count in counts.items()))
    return 1 if any(counts["escapes"] for counts in report.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
