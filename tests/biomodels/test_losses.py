"""Losses against golden values of the original code, against brute force, and at their edges."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from biomodels.losses import info_nce, multi_similarity, triplet

HAND_2D = [[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]]
HAND_2D_LOSS = 1.024397224587521  # pytorch-metric-learning 0.9.98.dev1, float64


def brute_force(E_ND, labels_N, strings_N, margin):
    """The loss from an explicit list of triplets."""
    E_ND = functional.normalize(E_ND, dim=-1)
    S_NN, n = E_ND @ E_ND.T, len(labels_N)
    positives, negatives, triplets = set(), set(), 0
    for a in range(n):
        for p in range(n):
            for q in range(n):
                if a == p or labels_N[a] != labels_N[p] or labels_N[a] == labels_N[q]:
                    continue
                if strings_N is not None and strings_N[a] == strings_N[q]:
                    continue
                if (E_ND[a] - E_ND[q]).norm() - (E_ND[a] - E_ND[p]).norm() <= margin:
                    positives.add((a, p))
                    negatives.add((a, q))
                    triplets += 1
    if triplets <= 1:
        return S_NN.sum() * 0, triplets
    total = 0.0
    for a in range(n):
        pull = sum((torch.exp(-(S_NN[a, p] - 0.5)) for i, p in sorted(positives) if i == a), torch.zeros(()))
        push = sum((torch.exp(60 * (S_NN[a, q] - 0.5)) for i, q in sorted(negatives) if i == a), torch.zeros(()))
        total = total + torch.log1p(pull) + torch.log1p(push) / 60
    return total / n, triplets


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_hand_computed_case(dtype):
    E_ND = torch.tensor(HAND_2D, dtype=dtype, requires_grad=True)
    loss = multi_similarity(E_ND, torch.tensor([0, 1, 0, 1]))
    loss.backward()
    assert loss.dtype == dtype
    assert float(loss) == pytest.approx(HAND_2D_LOSS, abs=1e-6)
    expected = torch.tensor(
        [[0.0, -0.03999816867], [0.12001677764, -0.16002237018], [-0.16002237018, 0.12001677764], [-0.03999816867, 0.0]]
    )
    assert torch.allclose(E_ND.grad.float(), expected, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_golden_values_of_the_original(shared_data, dtype):
    golden = json.loads((shared_data / "golden" / "ms_loss_golden.json").read_text())
    assert len(golden["cases"]) == 5
    for case in golden["cases"]:
        labels_N = torch.tensor(case["labels"])
        E_ND = torch.tensor(case["embeddings"], dtype=dtype, requires_grad=True)
        loss = multi_similarity(E_ND, labels_N)
        loss.backward()
        assert float(loss) == pytest.approx(case["loss_with_miner"], abs=1e-6), case["name"]
        gradient = torch.tensor(case["grad_with_miner"], dtype=dtype)
        assert float((E_ND.grad - gradient).abs().max()) <= 1e-6, case["name"]
        plain = multi_similarity(torch.tensor(case["embeddings"], dtype=dtype), labels_N, miner_margin=None)
        assert float(plain) == pytest.approx(case["loss_no_miner"], abs=1e-6), case["name"]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    rows=st.integers(1, 9),
    concepts=st.integers(1, 4),
    strings=st.sampled_from([None, 3, 20]),
)
def test_equals_the_list_of_triplets(seed, rows, concepts, strings):
    generator = torch.Generator().manual_seed(seed)
    E_ND = torch.randn(rows, 3, generator=generator, dtype=torch.float64)
    labels_N = torch.randint(concepts, (rows,), generator=generator)
    strings_N = None if strings is None else torch.randint(strings, (rows,), generator=generator)
    ours, theirs = (E_ND.clone().requires_grad_() for _ in range(2))
    loss = multi_similarity(ours, labels_N, string_ids_N=strings_N)
    expected, triplets = brute_force(theirs, labels_N, strings_N, 0.2)
    assert float(loss) == pytest.approx(float(expected), abs=1e-12)
    loss.backward()
    if triplets > 1:
        expected.backward()
        assert torch.allclose(ours.grad, theirs.grad, atol=1e-12)
    else:
        assert not ours.grad.any()


def test_one_mined_triplet_counts_as_none_like_in_the_original():
    # Anchor 0 has its positive 1 farther than the margin allows; anchor 1 has its negative out of reach.
    E_ND = torch.tensor([[1.0, 0.0], [0.5, 0.8660254], [0.9, -0.4358899]], dtype=torch.float64)
    labels_N = torch.tensor([0, 0, 1])
    _, triplets = brute_force(E_ND, labels_N, None, 0.2)
    assert triplets == 1
    assert float(multi_similarity(E_ND, labels_N)) == 0.0
    assert float(multi_similarity(E_ND, labels_N, miner_margin=None)) > 0.0


def test_a_string_of_two_concepts_is_not_its_own_negative():
    E_ND = torch.tensor([[1.0, 0.0], [0.9, 0.1], [1.0, 0.0], [0.0, 1.0]])
    labels_N, strings_N = torch.tensor([0, 0, 1, 1]), torch.tensor([5, 6, 5, 7])
    taken = multi_similarity(E_ND, labels_N)
    masked = multi_similarity(E_ND, labels_N, string_ids_N=strings_N)
    assert float(masked) < float(taken)


def test_loss_is_float32_and_finite_for_half_precision_and_extreme_similarities():
    E_ND = torch.ones(4, 8, dtype=torch.bfloat16).requires_grad_()
    loss = multi_similarity(E_ND, torch.tensor([0, 1, 0, 1]), beta=5000.0)
    loss.backward()
    assert loss.dtype == torch.float32
    assert torch.isfinite(loss) and torch.isfinite(E_ND.grad).all()


def test_empty_batch_has_a_loss_of_zero_with_a_graph():
    E_ND = torch.zeros(0, 4, requires_grad=True)
    multi_similarity(E_ND, torch.zeros(0, dtype=torch.int64)).backward()
    assert E_ND.grad is not None


def test_info_nce_equals_its_formula():
    generator = torch.Generator().manual_seed(3)
    A, C, H = (torch.randn(4, 6, generator=generator) for _ in range(3))
    cos = functional.cosine_similarity
    weight = 0.7
    expected = 0.0
    for i in range(4):
        sims = torch.stack([cos(A[i], C[j], dim=0) for j in range(4)]) / 0.05
        hard = torch.stack([cos(A[i], H[j], dim=0) for j in range(4)]) / 0.05
        scale = torch.tensor([weight if j == i else 0.0 for j in range(4)])
        expected += -(sims[i] - torch.logsumexp(torch.cat([sims, hard + scale]), 0)) / 4
    loss = info_nce(A, C, torch.arange(4), hard_negatives_KD=H, hard_negative_weight=weight)
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    no_hard = info_nce(A, C, torch.arange(4))
    assert float(no_hard) < float(loss)


def test_triplet_is_the_hinge_of_squared_distances():
    a, p, n = (torch.tensor([row]) for row in ([0.0, 0.0], [1.0, 1.0], [2.0, 0.0]))
    assert triplet(a, p, n, margin=0.5).tolist() == [0.0]
    assert triplet(a, p, n, margin=3.0).tolist() == [1.0]
    assert triplet(a.bfloat16(), p.bfloat16(), n.bfloat16()).dtype == torch.float32
