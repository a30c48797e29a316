"""Small benchmark folders, written in every layout that the readers know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Write = Callable[[Mapping[str, str | bytes]], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """The function that writes files below a new folder and returns its path."""

    def make(files: Mapping[str, str | bytes]) -> str:
        folder = tmp_path / f"data{len(list(tmp_path.iterdir()))}"
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(folder)

    return make
