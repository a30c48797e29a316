from __future__ import annotations

import numpy as np
import pytest

from biomodels.evaluation import exact
from biomodels.evaluation.exact import exact_topk


def brute_force(E_QD, E_ND, k, metric):
    queries, names = E_QD.astype(np.float64), E_ND.astype(np.float64)
    if metric == "cosine":
        names /= np.linalg.norm(names, axis=1, keepdims=True)
    return np.argsort(-(queries @ names.T), axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("metric", ["cosine", "ip"])
def test_equals_a_full_sort_whatever_the_blocks(metric, monkeypatch):
    random = np.random.default_rng(0)
    E_QD = random.standard_normal((37, 24), dtype=np.float32)
    E_ND = random.standard_normal((501, 24), dtype=np.float32) * random.uniform(0.5, 9, (501, 1)).astype(np.float32)
    S_QK, I_QK = exact_topk(E_QD, E_ND, 7, metric)
    assert (brute_force(E_QD, E_ND, 7, metric) == I_QK).all()
    monkeypatch.setattr(exact, "NAME_BLOCK", 13)
    monkeypatch.setattr(exact, "QUERY_BLOCK", 5)
    S_small, I_small = exact_topk(E_QD, E_ND, 7, metric)
    assert (I_small == I_QK).all()
    assert S_small.tobytes() == S_QK.tobytes()


def test_equal_scores_keep_the_order_of_the_rows(monkeypatch):
    monkeypatch.setattr(exact, "NAME_BLOCK", 4)
    E_ND = np.tile(np.array([[0.6, 0.8]], dtype=np.float32), (10, 1))
    E_ND[3] *= 1 + 3e-7  # float32 noise is no better score
    _, I_QK = exact_topk(np.array([[1.0, 2.0]], dtype=np.float32), E_ND, 10, "ip")
    assert I_QK.tolist() == [list(range(10))]


def test_cosine_ignores_length_and_inner_product_does_not():
    E_ND = np.array([[1.0, 0.0], [5.0, 5.0]], dtype=np.float32)
    query = np.array([[2.0, 0.1]], dtype=np.float32)
    assert exact_topk(query, E_ND, 2, "cosine")[1].tolist() == [[0, 1]]
    assert exact_topk(query, E_ND, 2, "ip")[1].tolist() == [[1, 0]]
