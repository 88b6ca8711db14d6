"""What only a checkout of the repository has: tests of it are skipped elsewhere."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
RESEARCH, SCRIPTS = ROOT / "research", ROOT / "scripts"
in_a_checkout = pytest.mark.skipif(not RESEARCH.is_dir(), reason="needs a checkout of the repository")


def research(name: str) -> ModuleType:
    """A script or package of `research/`, which import each other by their bare names."""
    if not RESEARCH.is_dir():
        pytest.skip("needs a checkout of the repository", allow_module_level=True)
    if str(RESEARCH) not in sys.path:
        sys.path.append(str(RESEARCH))
    return importlib.import_module(name)
