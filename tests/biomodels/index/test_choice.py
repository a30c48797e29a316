from __future__ import annotations

import pytest

from biomodels.errors import UsageError
from biomodels.index import choice
from biomodels.index.choice import Sizes


def sizes(strings: int, dimension: int = 384) -> Sizes:
    return Sizes(strings, dimension, names=strings + strings // 10, name_bytes=150 * strings)


@pytest.mark.parametrize(
    ("strings", "budget", "factory"),
    [
        (5_000, None, "Flat"),
        (100_000, None, "IVF2048,Flat"),
        (2_000_000, None, "IVF8192,SQ8"),
        (2_000_000, 4_000_000_000, "IVF8192,Flat"),
        (2_000_000, 1_000_000_000, "IVF8192,SQ8"),
        (2_000_000, 700_000_000, "IVF8192,SQ6"),
        (2_000_000, 500_000_000, "IVF8192,SQ4"),
        (2_000_000, 200_000_000, "IVF8192,RaBitQ"),
    ],
)
def test_the_most_exact_that_fits(strings: int, budget: int | None, factory: str) -> None:
    assert choice.choose(sizes(strings), budget) == factory
    assert choice.reason(factory, sizes(strings), budget)


def test_nothing_fits() -> None:
    with pytest.raises(UsageError, match=r"need at least 140,582,912 \(IVF8192,RaBitQ"):
        choice.choose(sizes(2_000_000), 100_000_000)


def test_bytes_are_those_of_the_files(tmp_path, make_row, make_embeddings, make_index) -> None:
    rows = [make_row(f"C{i}", f"name {i}") for i in range(4000)]
    embeddings = make_embeddings(tmp_path / "e", rows)
    for factory in ("Flat", "IVF64,SQ8", "IVF64,PQ8x4", "IVF64,RaBitQ"):
        index = make_index(embeddings, tmp_path / factory, factory, shards=1)
        on_disk = (tmp_path / factory / "shards" / "shard-000.faiss").stat().st_size
        expected = choice.memory_of(factory, Sizes(4000, index.dimension, 4000, 0))
        assert expected <= on_disk <= expected + 40_000, factory


def test_estimates_grow_with_what_they_depend_on() -> None:
    def seconds(strings: int, workers: int = 2) -> dict[str, float]:
        return choice.estimate(
            "IVF8192,SQ8", sizes(strings), queries=1000, train_sample=None, flops=1e11, workers=workers
        ).seconds

    small, large = seconds(1_000_000), seconds(4_000_000)
    assert small["training"] == large["training"]
    assert large["recall"] == pytest.approx(4 * small["recall"])
    assert seconds(4_000_000, workers=8)["vectors"] < large["vectors"]
    flat = choice.estimate("Flat", sizes(1000), queries=100, train_sample=None, flops=1e11, workers=1)
    assert flat.seconds["training"] == 0
    assert flat.recall == 1.0
    assert (
        choice.estimate("OPQ48,IVF64,PQ48", sizes(10_000), queries=9, train_sample=None, flops=1e11, workers=1).recall
        is None
    )
    assert choice.measured_flops(64) > 1e8
