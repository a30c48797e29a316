"""Losses on embeddings: pure functions of tensors, computed in float32 at least, whatever the model's precision.

Tensor names carry their shape: N rows, D dimensions, T triples, C candidates. A matrix such as `S_NN` has one row per
anchor.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

_NEVER = float("-inf")


def multi_similarity(
    E_ND: Tensor,
    labels_N: Tensor,
    *,
    alpha: float = 1.0,
    beta: float = 60.0,
    base: float = 0.5,
    miner_margin: float | None = 0.2,
    string_ids_N: Tensor | None = None,
) -> Tensor:
    r"""Multi-similarity loss on cosine similarity, with SapBERT's miner of triplets.

    With S the cosine similarities, P and N the mined positives and negatives of an anchor, the loss is the mean over
    all N rows of

    .. math:: \frac1\alpha\log\Big(1+\sum_{p\in P}e^{-\alpha(S_{ap}-base)}\Big)
            + \frac1\beta\log\Big(1+\sum_{n\in N}e^{\beta(S_{an}-base)}\Big)

    (Wang et al. 2019, eq. 16; Liu et al. 2021). A triplet (a, p, n) is mined if d(a,n) - d(a,p) <= `miner_margin`, d
    being the Euclidean distance of the vectors scaled to length 1. Which pairs occur in a mined triplet follows from
    each row's nearest negative and farthest positive alone, so memory is O(N²) where a list of triplets is O(N³).

    A row with nothing mined counts as 0 in the mean. As in pytorch-metric-learning, with which SapBERT was trained, a
    batch in which exactly one triplet is mined has the loss 0.

    Args:
        E_ND: embeddings of any length but zero.
        labels_N: int64, equal for names of one concept.
        alpha, beta, base: of the formula; the defaults are SapBERT's.
        miner_margin: None takes every positive and every negative.
        string_ids_N: int64, equal for equal strings. A string that two concepts share is then not its own negative.

    Returns:
        A scalar, float32 (float64 for float64 input); it is 0 and has a gradient of 0 where nothing is mined.
    """
    E_ND = functional.normalize(_precise(E_ND), dim=-1)
    S_NN = E_ND @ E_ND.T
    same_NN = labels_N[:, None] == labels_N[None, :]
    positive_NN = same_NN & ~torch.eye(len(labels_N), dtype=torch.bool, device=labels_N.device)
    negative_NN = ~same_NN
    if string_ids_N is not None:
        negative_NN = negative_NN & (string_ids_N[:, None] != string_ids_N[None, :])
    if miner_margin is not None and len(labels_N):
        positive_NN, negative_NN = _mine(E_ND.detach(), positive_NN, negative_NN, miner_margin)
    if int(positive_NN.sum()) <= 1 and int(negative_NN.sum()) <= 1:
        return 0.0 * S_NN.sum()
    pull_N = _log_one_plus_sum(-alpha * (S_NN - base), positive_NN) / alpha
    push_N = _log_one_plus_sum(beta * (S_NN - base), negative_NN) / beta
    return (pull_N + push_N).mean()


def info_nce(
    A_ND: Tensor,
    C_MD: Tensor,
    targets_N: Tensor,
    *,
    temperature: float = 0.05,
    hard_negatives_KD: Tensor | None = None,
    hard_negative_weight: float = 0.0,
) -> Tensor:
    """Contrastive cross-entropy of each anchor against all candidates of the batch (InfoNCE; SimCSE's eq. 1 and 8).

    Args:
        A_ND: anchors.
        C_MD: candidates; each is a negative of every anchor but its own.
        targets_N: int64, the candidate that is the anchor's positive.
        temperature: divides the cosine similarities.
        hard_negatives_KD: further negatives of every anchor; anchor i's own is row i (so K = N).
        hard_negative_weight: added to the logit of an anchor's own hard negative: the log of its weight.

    Returns:
        The mean over anchors, a scalar.
    """
    anchors = functional.normalize(_precise(A_ND), dim=-1)
    logits = anchors @ functional.normalize(_precise(C_MD), dim=-1).T / temperature
    if hard_negatives_KD is not None:
        hard = anchors @ functional.normalize(_precise(hard_negatives_KD), dim=-1).T / temperature
        own = torch.eye(*hard.shape, dtype=hard.dtype, device=hard.device)
        logits = torch.cat([logits, hard + hard_negative_weight * own], dim=1)
    return functional.cross_entropy(logits, targets_N)


def triplet(A_TD: Tensor, P_TD: Tensor, N_TD: Tensor, *, margin: float = 1.0) -> Tensor:
    """Hinge on squared Euclidean distances, [|a-p|² - |a-n|² + margin]+ (FaceNet; TL-BERT's eq. 9).

    Returns:
        T values, one per triple: a local term needs their sum and their number.
    """
    A_TD, P_TD, N_TD = _precise(A_TD), _precise(P_TD), _precise(N_TD)
    return functional.relu((A_TD - P_TD).square().sum(-1) - (A_TD - N_TD).square().sum(-1) + margin)


def _mine(E_ND: Tensor, positive_NN: Tensor, negative_NN: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """Keep the pairs that occur in a triplet with d(a,n) - d(a,p) <= margin."""
    # The difference form keeps the distance of near neighbours exact; |a|²+|b|²-2ab would cancel in float32.
    D_NN = torch.cdist(E_ND, E_ND, compute_mode="donot_use_mm_for_euclid_dist")
    nearest_negative_N1 = D_NN.masked_fill(~negative_NN, float("inf")).amin(dim=1, keepdim=True)
    farthest_positive_N1 = D_NN.masked_fill(~positive_NN, _NEVER).amax(dim=1, keepdim=True)
    return (
        positive_NN & (nearest_negative_N1 - D_NN <= margin),
        negative_NN & (D_NN - farthest_positive_N1 <= margin),
    )


def _log_one_plus_sum(X_NN: Tensor, mask_NN: Tensor) -> Tensor:
    """Return log(1 + Σ exp(x)) of each row over the mask, stable for large x."""
    zero_N1 = X_NN.new_zeros(len(X_NN), 1)
    return torch.logsumexp(torch.cat([zero_N1, X_NN.masked_fill(~mask_NN, _NEVER)], dim=1), dim=1)


def _precise(X: Tensor) -> Tensor:
    return X if X.dtype == torch.float64 else X.float()
