"""SentEval's protocol for classification on frozen embeddings (Conneau and Kiela 2018).

Logistic regression by minibatch descent with early stopping; its L2 penalty is chosen by cross-validation or on the
development set. Folds, first weights, orders of batches and rounding are those of SentEval with PyTorch, seed 1111.
Since every fit starts from that seed, the candidates for the penalty see the same batches, and are trained side by
side in one matrix.

Shapes: N texts, D dimensions, C classes, R penalties.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

SEED = 1111
PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
MAX_EPOCHS = 200

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Protocol:
    """Settings of the classifier.

    Attributes:
        folds: of the cross-validation.
        optimiser: "adam" or "rmsprop", with PyTorch's defaults.
        batch_size: texts in a step.
        tenacity: how often accuracy may fail to rise before training stops.
        epoch_size: passes over the data between two looks at the accuracy.
    """

    folds: int
    optimiser: str
    batch_size: int
    tenacity: int
    epoch_size: int


TEST = Protocol(10, "adam", 64, 5, 4)
FAST = Protocol(5, "rmsprop", 128, 3, 2)
"""SimCSE's modes: `test` uses TEST; `dev` and `fasttest` use FAST."""


class Accuracy(NamedTuple):
    """Percent right on the development data (folds of the training data, or the development set) and on the test."""

    dev: float
    test: float
    predicted: Ints | None = None


def nested(X_ND: Floats, y_N: Ints, protocol: Protocol, on_fit: Callable[[int], Any] = lambda fits: None) -> Accuracy:
    """Evaluate by nested cross-validation, for data without a split: MR, CR, SUBJ, MPQA."""
    from sklearn.model_selection import StratifiedKFold

    folds = StratifiedKFold(n_splits=protocol.folds, shuffle=True, random_state=SEED)
    dev, test = [], []
    for train, held_out in folds.split(X_ND, y_N):
        X, y = X_ND[train], y_N[train]
        best, penalty = _cross_validate(X, y, protocol, on_fit)
        dev.append(best)
        test.append(round(100 * _final((X, y), (X_ND[held_out], y_N[held_out]), penalty, protocol)[0], 2))
        on_fit(1)
    return Accuracy(round(float(np.mean(dev)), 2), round(float(np.mean(test)), 2))


def train_test(
    train: tuple[Floats, Ints],
    test: tuple[Floats, Ints],
    protocol: Protocol,
    on_fit: Callable[[int], Any] = lambda fits: None,
) -> Accuracy:
    """Evaluate on a test set; the penalty is chosen by cross-validation on the training data: TREC, MRPC."""
    dev, penalty = _cross_validate(*train, protocol, on_fit)
    accuracy, predicted = _final(train, test, penalty, protocol)
    on_fit(1)
    return Accuracy(dev, round(100 * accuracy, 2), predicted)


def train_dev_test(
    train: tuple[Floats, Ints],
    dev: tuple[Floats, Ints],
    test: tuple[Floats, Ints],
    protocol: Protocol,
    on_fit: Callable[[int], Any] = lambda fits: None,
) -> Accuracy:
    """Evaluate on a test set; penalty and stopping are chosen on the development set: SST2."""
    models = _fit(train, dev, PENALTIES, protocol)
    scores = [round(100 * model.accuracy, 2) for model in models]
    chosen = int(np.argmax(scores))
    predicted = models[chosen].predict(test[0])
    on_fit(1)
    return Accuracy(scores[chosen], round(100 * float((predicted == test[1]).mean()), 2), predicted)


def fits(protocol: Protocol, *, nested_folds: bool) -> int:
    """Return how often `on_fit` will be told of a fit."""
    return protocol.folds * (protocol.folds + 1) if nested_folds else protocol.folds + 1


def pair_features(A_ND: Floats, B_ND: Floats) -> Floats:
    """Return |a - b| beside a * b, as SentEval represents a pair."""
    return np.concatenate([np.abs(A_ND - B_ND), A_ND * B_ND], axis=1)


def _cross_validate(X: Floats, y: Ints, protocol: Protocol, on_fit: Callable[[int], Any]) -> tuple[float, float]:
    """Return the best mean accuracy over folds, in percent, and the penalty that gives it."""
    from sklearn.model_selection import StratifiedKFold

    accuracies = []
    classes = int(y.max()) + 1
    for train, dev in StratifiedKFold(n_splits=protocol.folds, shuffle=True, random_state=SEED).split(X, y):
        models = _fit((X[train], y[train]), (X[dev], y[dev]), PENALTIES, protocol, classes=classes)
        accuracies.append([model.accuracy for model in models])
        on_fit(1)
    means = [round(100 * float(mean), 2) for mean in np.mean(accuracies, axis=0)]
    return max(means), PENALTIES[int(np.argmax(means))]


def _final(
    train: tuple[Floats, Ints], test: tuple[Floats, Ints], penalty: float, protocol: Protocol
) -> tuple[float, Ints]:
    """Fit on all but a twentieth, which decides when to stop; return accuracy and predictions on the test."""
    (X, y), (test_X, test_y) = train, test
    chance = np.random.RandomState(SEED)
    order = chance.permutation(len(X))
    held_out = int(0.05 * len(X))
    dev, rest = order[:held_out], order[held_out:]
    classes = int(max(y.max(), test_y.max())) + 1
    (model,) = _fit((X[rest], y[rest]), (X[dev], y[dev]), (penalty,), protocol, chance=chance, classes=classes)
    predicted = model.predict(test_X)
    return float((predicted == test_y).mean()), predicted


class _Model(NamedTuple):
    accuracy: float
    W_DC: Floats
    B_C: Floats

    def predict(self, X_ND: Floats) -> Ints:
        found: Ints = np.argmax(X_ND @ self.W_DC + self.B_C, axis=1)
        return found


def _fit(
    train: tuple[Floats, Ints],
    dev: tuple[Floats, Ints],
    penalties: tuple[float, ...],
    protocol: Protocol,
    *,
    chance: np.random.RandomState | None = None,
    classes: int | None = None,
) -> list[_Model]:
    """Fit one model for each penalty; each is the one that was best on the development data."""
    X_ND, y_N = train
    chance = chance or np.random.RandomState(SEED)
    classes = classes or int(max(y_N.max(), dev[1].max())) + 1
    step = _Descent(X_ND.shape[1], classes, penalties, protocol.optimiser)
    best: list[_Model | None] = [None] * len(penalties)
    failures, stopped, epoch = [0] * len(penalties), [False] * len(penalties), 0
    while not all(stopped) and epoch <= MAX_EPOCHS:
        for _ in range(protocol.epoch_size):
            order = chance.permutation(len(X_ND))
            for start in range(0, len(order), protocol.batch_size):
                rows = order[start : start + protocol.batch_size]
                step(X_ND[rows], y_N[rows])
        epoch += protocol.epoch_size
        for r, model in enumerate(step.models(*dev)):
            known = best[r]
            if stopped[r]:
                continue
            if known is None or model.accuracy > known.accuracy:
                best[r] = model
            else:
                stopped[r] = failures[r] >= protocol.tenacity
                failures[r] += 1
    return [model for model in best if model is not None]


class _Descent:
    """R logistic regressions over the same batches, each with its own penalty; the loss is the batch's mean."""

    def __init__(self, dimension: int, classes: int, penalties: tuple[float, ...], optimiser: str) -> None:
        import torch

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            first = torch.nn.Linear(dimension, classes)
        start = np.concatenate([first.weight.detach().numpy().T, first.bias.detach().numpy()[np.newaxis]])
        self._classes = classes
        self._count = len(penalties)
        self._P_DK: Floats = np.tile(start, (1, self._count)).astype(np.float32)  # K = R x C; the last row is the bias
        self._decay_K = np.repeat(np.array(penalties, dtype=np.float32), classes)
        self._update = {"adam": self._adam, "rmsprop": self._rmsprop}[optimiser]
        self._mean, self._square = np.zeros_like(self._P_DK), np.zeros_like(self._P_DK)
        self._steps = 0
        self._gradient = np.empty_like(self._P_DK)

    def __call__(self, X_BD: Floats, y_B: Ints) -> None:
        """Do one step."""
        Z_BRC = (X_BD @ self._P_DK[:-1] + self._P_DK[-1]).reshape(len(X_BD), self._count, self._classes)
        Z_BRC -= Z_BRC.max(axis=2, keepdims=True)
        np.exp(Z_BRC, out=Z_BRC)
        Z_BRC /= Z_BRC.sum(axis=2, keepdims=True)
        Z_BRC[np.arange(len(y_B)), :, y_B] -= 1
        Z_BK = Z_BRC.reshape(len(X_BD), -1)
        Z_BK /= np.float32(len(X_BD))
        np.matmul(X_BD.T, Z_BK, out=self._gradient[:-1])
        Z_BK.sum(axis=0, out=self._gradient[-1])
        self._gradient += self._decay_K * self._P_DK
        self._steps += 1
        self._update()

    def models(self, X_ND: Floats, y_N: Ints) -> list[_Model]:
        """Return the present models with their accuracy on other data."""
        Z_NRC = (X_ND @ self._P_DK[:-1] + self._P_DK[-1]).reshape(len(X_ND), self._count, self._classes)
        accuracies = (Z_NRC.argmax(axis=2) == y_N[:, np.newaxis]).mean(axis=0)
        columns = [slice(r * self._classes, (r + 1) * self._classes) for r in range(self._count)]
        return [
            _Model(float(accuracy), self._P_DK[:-1, column].copy(), self._P_DK[-1, column].copy())
            for accuracy, column in zip(accuracies, columns, strict=True)
        ]

    def _adam(self) -> None:
        self._mean += np.float32(0.1) * (self._gradient - self._mean)
        self._square *= np.float32(0.999)
        self._square += np.float32(0.001) * self._gradient * self._gradient
        correction = np.float32(np.sqrt(1 - 0.999**self._steps))
        size = np.float32(1e-3 / (1 - 0.9**self._steps))
        self._P_DK -= size * self._mean / (np.sqrt(self._square) / correction + np.float32(1e-8))

    def _rmsprop(self) -> None:
        self._square *= np.float32(0.99)
        self._square += np.float32(0.01) * self._gradient * self._gradient
        self._P_DK -= np.float32(1e-2) * self._gradient / (np.sqrt(self._square) + np.float32(1e-8))
