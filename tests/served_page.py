"""`epochcast watch --web` in a process of its own, for tests that ask it as a browser would."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.logged_runs import HORIZON


def words(root: Path, *options: str) -> list[str]:
    return ["watch", str(root), "--monitor", "val_acc", "--horizon", str(HORIZON), "--web", "--no-open", *options]


class Served:
    """`epochcast watch --web` in a process of its own."""

    def __init__(self, root: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", "epochcast.cli", *words(root, "--interval", "0.2", *options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which background jobs do not hear
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+", line)
        if found is None:
            raise AssertionError(line + str(self.process.communicate(timeout=30)))
        self.address = found[0]

    def get(self, address: str) -> tuple[int, str]:
        deadline = time.monotonic() + 30
        while True:
            try:
                with urllib.request.urlopen(address, timeout=30) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()
            except urllib.error.URLError:  # it is not there yet
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def end(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors
