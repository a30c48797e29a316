"""The corpora that the sentence search looks through: the one of the settings, and those that people load."""

from __future__ import annotations

import copy
import secrets
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biomodels.errors import BiomodelsError, InputError, UsageError

if TYPE_CHECKING:
    from biomodels.sentences.index import Hit
    from biomodels.simcse import SimCSE

DEFAULT = "default"
KEPT = 16
"""How many loaded corpora are kept; the one that was longest not used gives way."""


class UnknownCorpusError(BiomodelsError):
    """A corpus is not, or no longer, there."""

    status = 404
    title = "Unknown corpus"


@dataclass
class _Corpus:
    model: SimCSE
    lock: threading.Lock
    sentences: int = 0


class Corpora:
    """Corpora in memory, under names that only who loaded them knows. Methods may be called from any thread.

    Args:
        model: embeds sentences.
        default: the corpus named "default": a directory of `SimCSE.save_index`, or a UTF-8 file, one sentence a line;
            empty if None.
        max_sentences: in a corpus that people load.

    Raises:
        BiomodelsError: the default corpus cannot be read.
    """

    def __init__(self, model: SimCSE, default: str | None = None, *, max_sentences: int = 50_000) -> None:
        self._model = model
        self._max_sentences = max_sentences
        self._lock = threading.Lock()
        self._loaded: OrderedDict[str, _Corpus] = OrderedDict()
        self._default = self._new()
        if default is not None:
            own = self._default.model
            if Path(default).is_dir():
                own.load_index(default)
            else:
                own.build_index(default)
            self._default.sentences = len(own.index or ())

    def describe(self) -> dict[str, Any]:
        """Return what is searched, and with what."""
        return {
            "pooler": self._model.pooler,
            "sentences": self._default.sentences,
            "max_sentences": self._max_sentences,
        }

    def load(self, sentences: Sequence[str], name: str | None = None) -> dict[str, Any]:
        """Load a corpus, or add to one that was loaded.

        Args:
            sentences: white space around them is taken off, and blank ones are passed over.
            name: of the corpus to add to; a new one by default.

        Returns:
            Name and size of the corpus.

        Raises:
            UnknownCorpusError: the corpus is not there.
            UsageError: it would become too large, or is the default one, which stays as it is.
        """
        if name == DEFAULT:
            raise UsageError("corpus: the default one cannot be added to; load a corpus of your own")
        texts = [text.strip() for text in sentences]
        texts = [text for text in texts if text]
        for number, text in enumerate(texts, start=1):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise InputError(f"sentence {number}: is no valid text ({error.reason})") from error
        if name is None:
            name, corpus = secrets.token_urlsafe(12), self._new()
        else:
            corpus = self._find(name)
        with corpus.lock:
            if corpus.sentences + len(texts) > self._max_sentences:
                raise UsageError(f"sentences: a corpus takes at most {self._max_sentences:,} here")
            corpus.model.add_to_index(texts)
            corpus.sentences += len(texts)
        with self._lock:
            self._loaded[name] = corpus
            self._loaded.move_to_end(name)
            while len(self._loaded) > KEPT:
                self._loaded.popitem(last=False)
        return {"corpus": name, "sentences": corpus.sentences}

    def size(self, name: str) -> dict[str, Any]:
        """Return name and size of a corpus.

        Raises:
            UnknownCorpusError: it is not there.
        """
        return {"corpus": name, "sentences": self._find(name).sentences}

    def search(self, query: str, top_k: int, threshold: float, name: str = DEFAULT) -> list[Hit]:
        """Return the sentences of a corpus nearest to a query; see `SimCSE.find`.

        Raises:
            UnknownCorpusError: the corpus is not there.
            InputError: the query is blank or no valid text.
        """
        if not query.strip():
            raise InputError("query: is empty or blank")
        try:
            query.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"query: is no valid text ({error.reason})") from error
        corpus = self._find(name)
        with corpus.lock:
            return corpus.model.find(query.strip(), top_k=top_k, threshold=threshold)[0]

    def _find(self, name: str) -> _Corpus:
        if name == DEFAULT:
            return self._default
        with self._lock:
            if name not in self._loaded:
                raise UnknownCorpusError("corpus: it is not, or no longer, loaded; load the file again")
            self._loaded.move_to_end(name)
            return self._loaded[name]

    def _new(self) -> _Corpus:
        """Return an empty corpus; its model shares the weights."""
        model = copy.copy(self._model)
        model.build_index([])
        return _Corpus(model, threading.Lock())
