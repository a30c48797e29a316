"""The classifier against SentEval's own way of training it with PyTorch, one penalty at a time."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from sklearn.model_selection import StratifiedKFold

from biomodels.evaluation import senteval

RNG = np.random.default_rng(8)
CENTRES = RNG.normal(size=(3, 12))
Y_N = RNG.integers(0, 3, 150)
X_ND = (CENTRES[Y_N] + 2.0 * RNG.normal(size=(150, 12))).astype(np.float32)
PROTOCOLS = [senteval.Protocol(3, "adam", 16, 3, 2), senteval.Protocol(3, "rmsprop", 32, 2, 1)]


class Reference:
    """Logistic regression as SentEval trains it: `torch.nn.Linear`, a `torch.optim` optimiser, early stopping."""

    def __init__(self, protocol, penalty, classes):
        np.random.seed(senteval.SEED)
        torch.manual_seed(senteval.SEED)
        self.protocol = protocol
        self.model = torch.nn.Linear(X_ND.shape[1], classes)
        optimiser = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}[protocol.optimiser]
        self.optimiser = optimiser(self.model.parameters(), weight_decay=penalty)

    def fit(self, X, y, dev=None):
        if dev is None:
            order = np.random.permutation(len(X))
            cut = int(0.05 * len(X))
            X, y, dev = X[order[cut:]], y[order[cut:]], (X[order[:cut]], y[order[:cut]])
        best, stop, count, epoch = -1.0, False, 0, 0
        while not stop and epoch <= senteval.MAX_EPOCHS:
            for _ in range(self.protocol.epoch_size):
                order = np.random.permutation(len(X))
                for i in range(0, len(X), self.protocol.batch_size):
                    rows = order[i : i + self.protocol.batch_size]
                    loss = torch.nn.functional.cross_entropy(self.model(torch.tensor(X[rows])), torch.tensor(y[rows]))
                    self.optimiser.zero_grad()
                    loss.backward()
                    self.optimiser.step()
            epoch += self.protocol.epoch_size
            accuracy = self.score(*dev)
            if accuracy > best:
                best, kept = accuracy, copy.deepcopy(self.model)
            else:
                stop = count >= self.protocol.tenacity
                count += 1
        self.model = kept
        return best

    def score(self, X, y):
        with torch.no_grad():
            return float((self.model(torch.tensor(X)).argmax(1).numpy() == y).mean())


def reference_choice(X, y, protocol, classes):
    means = []
    for penalty in senteval.PENALTIES:
        folds = StratifiedKFold(n_splits=protocol.folds, shuffle=True, random_state=1111)
        accuracies = [
            Reference(protocol, penalty, classes).fit(X[train], y[train], (X[dev], y[dev]))
            for train, dev in folds.split(X, y)
        ]
        means.append(round(100 * np.mean(accuracies), 2))
    return max(means), senteval.PENALTIES[int(np.argmax(means))]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_train_test_is_what_sentevals_code_gives(protocol):
    train, test = (X_ND[:120], Y_N[:120]), (X_ND[120:], Y_N[120:])
    dev, penalty = reference_choice(*train, protocol, 3)
    final = Reference(protocol, penalty, 3)
    final.fit(*train)
    counted = []
    found = senteval.train_test(train, test, protocol, counted.append)
    assert (found.dev, found.test) == (dev, round(100 * final.score(*test), 2))
    assert sum(counted) == senteval.fits(protocol, nested_folds=False)
    assert found.test > 50 and found.predicted.shape == (30,)


def test_nested_is_what_sentevals_code_gives():
    protocol, y = PROTOCOLS[0], (Y_N > 0).astype(np.int64)
    dev, test = [], []
    for train, held_out in StratifiedKFold(n_splits=3, shuffle=True, random_state=1111).split(X_ND, y):
        best, penalty = reference_choice(X_ND[train], y[train], protocol, 2)
        dev.append(best)
        final = Reference(protocol, penalty, 2)
        final.fit(X_ND[train], y[train])
        test.append(round(100 * final.score(X_ND[held_out], y[held_out]), 2))
    counted = []
    found = senteval.nested(X_ND, y, protocol, counted.append)
    assert (found.dev, found.test) == (round(np.mean(dev), 2), round(np.mean(test), 2))
    assert sum(counted) == senteval.fits(protocol, nested_folds=True)


def test_train_dev_test_is_what_sentevals_code_gives():
    protocol = PROTOCOLS[0]
    train, dev, test = ((X_ND[part], Y_N[part]) for part in (slice(0, 90), slice(90, 120), slice(120, 150)))
    models = [Reference(protocol, penalty, 3) for penalty in senteval.PENALTIES]
    scores = [round(100 * model.fit(*train, dev), 2) for model in models]
    best = int(np.argmax(scores))
    found = senteval.train_dev_test(train, dev, test, protocol)
    assert (found.dev, found.test) == (scores[best], round(100 * models[best].score(*test), 2))


def test_features_of_a_pair():
    A_ND, B_ND = X_ND[:4], X_ND[4:8]
    assert np.array_equal(senteval.pair_features(A_ND, B_ND), np.c_[abs(A_ND - B_ND), A_ND * B_ND])


def test_the_callers_random_states_are_left_alone():
    torch.manual_seed(5)
    np.random.seed(5)
    expected = torch.rand(1), np.random.rand()
    torch.manual_seed(5)
    np.random.seed(5)
    senteval.train_test((X_ND, Y_N), (X_ND, Y_N), PROTOCOLS[1])
    assert (torch.rand(1), np.random.rand()) == expected
