"""A digest of code: what was computed with other code must not be taken from a cache."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path


@cache
def digest(*modules: str) -> str:
    """Changes with the code of these modules and of all that lies in these packages."""
    found = hashlib.sha256()
    for module in modules:
        spec = find_spec(module)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"there is no module {module}")
        origin = Path(spec.origin)
        for file in sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]:
            found.update(file.read_bytes())
    return found.hexdigest()
