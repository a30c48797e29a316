from __future__ import annotations

import numpy as np
import pytest

from biomodels.errors import UsageError
from biomodels.evaluation.entity_linking import vectors
from biomodels.evaluation.entity_linking.vectors import VectorStore


class Counting:
    def __init__(self):
        self.seen = []

    def __call__(self, texts):
        self.seen += texts
        return np.array([[len(text), ord(text[0])] for text in texts], dtype=np.float32)


def test_each_text_is_encoded_once_over_all_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(vectors, "CHUNK", 2)
    encode, told = Counting(), []
    with VectorStore(tmp_path, 2, encode) as store:
        store.add(["a", "bb", "a", "ccc"], told.append)
        assert store.take(["ccc", "a"])[:].tolist() == [[3, 99], [1, 97]]
    with VectorStore(tmp_path, 2, encode) as store:
        assert store.missing(["bb", "d", "d"]) == ["d"]
        store.add(["bb", "d"])
        view = store.take(["d", "bb", "a"])
        assert len(view) == 3
        assert view[1:].tolist() == [[2, 98], [1, 97]]
        assert view[np.array([2, 0])].tolist() == [[1, 97], [1, 100]]
    assert encode.seen == ["a", "bb", "ccc", "d"]
    assert told == [2, 1]


def test_a_killed_run_leaves_nothing_wrong(tmp_path):
    with VectorStore(tmp_path, 2, Counting()) as store:
        store.add(["a", "bb"])
    for name, cut in (("vectors.f32", 3), ("keys.bin", 5)):
        for change in (b"", b"\x01" * cut):
            content = (tmp_path / name).read_bytes()
            (tmp_path / name).write_bytes(content[:-cut] if not change else content + change)
            with VectorStore(tmp_path, 2, Counting()) as store:
                store.add(["a", "bb", "ccc"])
                assert store.take(["a", "bb", "ccc"])[:].tolist() == [[1, 97], [2, 98], [3, 99]]


def test_two_processes_do_not_write_one_folder(tmp_path):
    with VectorStore(tmp_path, 2, Counting()), pytest.raises(UsageError, match="another process"):
        VectorStore(tmp_path, 2, Counting())
