from __future__ import annotations

import faiss
import numpy as np
import pytest

from biomodels.index import training
from biomodels.index.factory import ivf_of


def sample(count: int = 3000, dimension: int = 24) -> np.ndarray:
    rng = np.random.default_rng(4)
    centres = rng.normal(size=(50, dimension))
    E_ND = (centres[rng.integers(0, 50, count)] + 0.3 * rng.normal(size=(count, dimension))).astype(np.float32)
    faiss.normalize_L2(E_ND)
    return E_ND


@pytest.mark.parametrize("factory", ["IVF32,Flat", "IVF32,SQ8", "IVF16,RaBitQ", "PCA8,IVF16,SQ8", "IVF32_HNSW16,SQ8"])
def test_the_number_of_threads_changes_no_bit(factory: str, monkeypatch) -> None:
    monkeypatch.setattr(training, "FEW", 1)
    made = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(training, "cores", lambda threads=threads: threads)
        made.append(faiss.serialize_index(training.train_index(factory, sample(), seed=7)).tobytes())
    assert made[0] == made[1] == made[2]
    assert made[0] != faiss.serialize_index(training.train_index(factory, sample(), seed=8)).tobytes()


@pytest.mark.parametrize("factory", ["IVF32,SQ8", "PCA8,IVF16,SQ8"])
def test_it_is_what_faiss_trains_itself(factory: str) -> None:
    E_ND = sample()
    expected = faiss.index_factory(24, factory, faiss.METRIC_INNER_PRODUCT)
    ivf = ivf_of(expected)
    ivf.cp.seed, ivf.cp.min_points_per_centroid, ivf.cp.max_points_per_centroid = 7, 1, len(E_ND)
    expected.train(E_ND)
    made = training.train_index(factory, E_ND, seed=7)
    assert faiss.serialize_index(made).tobytes() == faiss.serialize_index(expected).tobytes()


@pytest.mark.gpu
def test_gpus_find_lists_as_good() -> None:
    if not training.gpus():
        pytest.skip("faiss sees no GPU")
    E_ND = sample(20_000, 64)
    quality = []
    for seen in (training.gpus(), 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(training, "gpus", lambda seen=seen: seen)
            index = training.train_index("IVF64,Flat", E_ND, seed=7)
        quality.append(float(index.quantizer.search(E_ND, 1)[0].mean()))
    assert quality[0] == pytest.approx(quality[1], abs=0.01)
