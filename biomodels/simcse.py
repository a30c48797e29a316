"""The sentence tool with SimCSE's methods, arguments and defaults (Gao, Yao and Chen, EMNLP 2021, arXiv 2104.08821).

Code written for the original needs one line changed::

    from biomodels import SimCSE

    model = SimCSE("princeton-nlp/sup-simcse-bert-base-uncased")
    embeddings = model.encode("A woman is reading.")
    similarities = model.similarity(["A woman is reading."], ["He plays guitar."])
    model.build_index(["A woman is reading.", "A man is playing a guitar."])
    results = model.search("He plays guitar.")
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from biomodels.errors import CompatibilityError, InputError, UsageError
from biomodels.sentences.poolers import POOLERS, Pooler, pooler_of

if TYPE_CHECKING:
    import pyarrow as pa
    from torch import Tensor

    from biomodels.inference.text_encoder import TextEncoder
    from biomodels.models.spec import Pooling
    from biomodels.sentences.index import Hit, Layout, SentenceIndex

MAX_LENGTH = 128
CHUNK = 1 << 14

_log = logging.getLogger(__name__)

Vectors = NDArray[np.float32]
Found = list[tuple[str, float]]


class SimCSE:
    """Embeds sentences, compares them, and searches among them.

    Args:
        model_name_or_path: any encoder: a directory, or a name on the Hugging Face Hub.
        device: "cpu", "cuda", "cuda:1", …; by default cuda where there is one.
        num_cells: inverted lists of an index built with `faiss_fast`; fewer if there are fewer sentences.
        num_cells_in_search: how many of them a search visits; more where fewer than `top_k` were found in them.
        pooler: one of `POOLERS`; by default what the model directory records, else what the publishers of the eight
            original checkpoints say, else "cls".
        show_progress: show a bar while many sentences are encoded.

    Raises:
        InputError: the model cannot be loaded, or lacks what the pooler needs.
    """

    def __init__(
        self,
        model_name_or_path: str,
        device: str | None = None,
        num_cells: int = 100,
        num_cells_in_search: int = 10,
        pooler: Pooler | None = None,
        *,
        show_progress: bool = False,
    ) -> None:
        for name, value in (("num_cells", num_cells), ("num_cells_in_search", num_cells_in_search)):
            if value < 1:
                raise UsageError(f"{name}: must be at least 1 (given: {value})")
        self.num_cells = num_cells
        self.num_cells_in_search = num_cells_in_search
        self.show_progress = show_progress
        self._model = os.fspath(model_name_or_path)
        self._pooling: Pooling = _pooling(self._model, pooler)
        self._encoder = self._load(device)
        self._index: SentenceIndex | None = None

    @property
    def device(self) -> str:
        """Where the model is."""
        return str(self._encoder.device)

    @property
    def pooler(self) -> str:
        """How token states become a vector, by SimCSE's name for it."""
        return pooler_of(self._pooling)

    def encode(  # noqa: PLR0917 # the original's arguments, which may be given by position
        self,
        sentence: str | Sequence[str],
        device: str | None = None,
        return_numpy: bool = False,
        normalize_to_unit: bool = True,
        keepdim: bool = False,
        batch_size: int = 64,
        max_length: int = MAX_LENGTH,
    ) -> Tensor | Vectors:
        """Embed sentences.

        Args:
            sentence: one sentence, or several.
            device: move the model there first.
            return_numpy: an array rather than a tensor (which is on the CPU).
            normalize_to_unit: scale vectors to length 1; a zero vector stays zero.
            keepdim: a single sentence gives (1, D) rather than (D,).
            batch_size: most sentences in one forward pass.
            max_length: tokens, special ones included; longer sentences are cut, in any case where the model's
                positions end.

        Returns:
            (N, D) or (D,), float32.
        """
        E_ND = self._vectors(_texts(sentence), device, batch_size, max_length, normalize=normalize_to_unit)
        if isinstance(sentence, str) and not keepdim:
            E_ND = E_ND[0]
        if return_numpy:
            return E_ND
        import torch

        return torch.from_numpy(E_ND)

    def similarity(
        self,
        queries: str | Sequence[str],
        keys: str | Sequence[str] | NDArray[Any],
        device: str | None = None,
    ) -> float | Vectors:
        """Return cosine similarities.

        Args:
            queries: one sentence, or N.
            keys: one sentence, or M; or their vectors, of any length: (D,) or (M, D).
            device: move the model there first.

        Returns:
            A float for one query and one key, (M,) for one query, else (N, M).

        Raises:
            InputError: the vectors are not finite.
            UsageError: the vectors have another dimension.
        """
        from biomodels.index.shards import unit

        Q_ND = self._vectors(_texts(queries), device)
        if isinstance(keys, np.ndarray):
            K_MD = np.atleast_2d(np.asarray(keys, dtype=np.float32))
            if K_MD.shape[1:] != Q_ND.shape[1:]:
                raise UsageError(f"keys: have the shape {keys.shape}, but the model's vectors {Q_ND.shape[1:]}")
            if not np.isfinite(K_MD).all():
                raise InputError("keys: hold values that are not finite")
            single_key = keys.ndim == 1
        else:
            K_MD, single_key = self._vectors(_texts(keys), device), isinstance(keys, str)
        S_NM: Vectors = unit(Q_ND) @ unit(K_MD).T
        if not isinstance(queries, str):
            return S_NM
        return float(S_NM[0, 0]) if single_key else S_NM[0]

    def build_index(
        self,
        sentences_or_file_path: str | os.PathLike[str] | Iterable[str],
        use_faiss: bool | None = None,
        faiss_fast: bool = False,
        device: str | None = None,
        batch_size: int = 64,
        *,
        ids: Sequence[str] | None = None,
        metadata: Sequence[Any] | None = None,
    ) -> None:
        """Index sentences for `search`, in place of those indexed before.

        Up to 100,000 sentences are compared exactly. More of them go to inverted lists on disk (in the folder for
        temporary files), which are memory-mapped; how many are visited is measured, so that 95 of 100 of the ten
        nearest are found. So memory does not grow with the corpus.

        Args:
            sentences_or_file_path: sentences, any iterable of them, or a UTF-8 file with one per line, in which
                blank lines are passed over.
            use_faiss: True needs FAISS; False compares exactly with numpy, however many there are; None takes FAISS
                where it is installed.
            faiss_fast: `num_cells` inverted lists, of which a search visits `num_cells_in_search`.
            device: move the model there first.
            batch_size: most sentences in one forward pass.
            ids: one text per sentence; by default its number, from "0".
            metadata: one value per sentence that JSON can hold; `find` returns it.

        Raises:
            InputError: the file cannot be read, a sentence is no text, or a vector is not finite.
            UsageError: ids repeat, ids or metadata are not one per sentence, or FAISS is not installed.
        """
        from biomodels.sentences.index import SentenceIndex

        index = SentenceIndex(self._encoder.dimension, self._digest())
        self._add(
            index,
            sentences_or_file_path,
            self._layout(use_faiss, faiss_fast),
            (ids, metadata),
            device=device,
            batch_size=batch_size,
        )
        self._index = index

    def add_to_index(
        self,
        sentences_or_file_path: str | os.PathLike[str] | Iterable[str],
        device: str | None = None,
        batch_size: int = 64,
        *,
        ids: Sequence[str] | None = None,
        metadata: Sequence[Any] | None = None,
    ) -> None:
        """Index further sentences, beside those of `build_index`; see there for the arguments.

        They are searched as the size of what is added demands: few are compared exactly.
        """
        index = self._built()
        self._add(
            index,
            sentences_or_file_path,
            self._layout(None, False),
            (ids, metadata),
            device=device,
            batch_size=batch_size,
        )

    def delete_from_index(self, ids: Sequence[str]) -> int:
        """Take sentences out of the index by id, and return how many.

        Raises:
            UsageError: there is no sentence of some id; then none is taken out.
        """
        return self._built().delete([ids] if isinstance(ids, str) else ids)

    def search(
        self, queries: str | Sequence[str], device: str | None = None, threshold: float = 0.6, top_k: int = 5
    ) -> Found | list[Found]:
        """Return the indexed sentences nearest to each query, with their cosine similarity, best first.

        Args:
            queries: one sentence, or several.
            device: move the model there first.
            threshold: least similarity.
            top_k: most sentences for a query.

        Returns:
            (sentence, similarity) pairs; for several queries a list of such lists.

        Raises:
            UsageError: there is no index, or top_k is below 1.
        """
        found = self.find(queries, top_k=top_k, threshold=threshold, device=device)
        pairs = [[(hit.sentence, hit.score) for hit in hits] for hits in found]
        return pairs[0] if isinstance(queries, str) else pairs

    def find(
        self, queries: str | Sequence[str], *, top_k: int = 5, threshold: float = 0.6, device: str | None = None
    ) -> list[list[Hit]]:
        """Do what `search` does, and return for each query hits with id, sentence, score and metadata."""
        index = self._built()
        return index.search(self._vectors(_texts(queries), device), top_k, threshold)

    def save_index(self, directory: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the index to a directory; `overwrite` replaces an index that is there."""
        self._built().save(directory, overwrite=overwrite)

    def load_index(self, directory: str | os.PathLike[str], *, verify: bool = False) -> None:
        """Open an index that `save_index` wrote; its files are memory-mapped.

        Args:
            directory: where it is.
            verify: read all of it once and compare it with its checksums.

        Raises:
            ArtifactError: it is missing or damaged.
            CompatibilityError: another model, or the same one with another pooler, made its vectors.
        """
        from biomodels.sentences.index import SentenceIndex

        index = SentenceIndex.load(directory, verify=verify)
        if index.model_digest != self._digest():
            raise CompatibilityError(
                f"{os.fspath(directory)}: its vectors were made by model {index.model_digest}, "
                f"not by {self._digest()}; load that model, with the same pooler, or build the index again"
            )
        self._index = index

    @property
    def index(self) -> SentenceIndex | None:
        """The index, if there is one: its length, its sentences, and how it is searched."""
        return self._index

    def _load(self, device: str | None) -> TextEncoder:
        from biomodels.inference.text_encoder import TextEncoder
        from biomodels.models.spec import most_tokens

        encoder = TextEncoder(self._model, device=device, pooling=self._pooling)
        self._longest = most_tokens(encoder.directory)
        return encoder.limited(min(MAX_LENGTH, self._longest), encoder.token_budget)

    def _digest(self) -> str:
        return self._encoder.digest

    def _layout(self, use_faiss: bool | None, faiss_fast: bool) -> Layout:
        from biomodels.index.engine import load_faiss
        from biomodels.sentences.index import Layout

        if use_faiss is not False:
            try:
                load_faiss()
            except UsageError:
                if use_faiss or faiss_fast:
                    raise
                _log.warning("faiss is not installed: sentences are compared one by one")
                use_faiss = False
        if use_faiss is False:
            return Layout(faiss=False)
        return Layout(nprobe=self.num_cells_in_search, lists=self.num_cells) if faiss_fast else Layout()

    def _add(
        self,
        index: SentenceIndex,
        source: str | os.PathLike[str] | Iterable[str],
        layout: Layout,
        entries: tuple[Sequence[str] | None, Sequence[Any] | None],
        *,
        device: str | None,
        batch_size: int,
    ) -> None:
        import pyarrow as pa

        from biomodels.sentences.entries import entry_tables, read_lines

        ids, metadata = entries
        if ids is not None:
            index.check_ids(pa.array(ids))
        sentences = read_lines(source) if isinstance(source, (str, os.PathLike)) else source

        def chunks() -> Iterator[tuple[pa.Table, Vectors]]:
            from tqdm import tqdm

            with tqdm(desc="encode", unit=" sentences", unit_scale=True, disable=not self.show_progress) as bar:
                for table in entry_tables(sentences, index.rows, CHUNK, ids, metadata):
                    yield table, self._vectors(table["sentence"].to_pylist(), device, batch_size)
                    bar.update(table.num_rows)

        index.add(chunks(), layout)

    def _built(self) -> SentenceIndex:
        if self._index is None:
            raise UsageError("there is no index yet; call build_index or load_index first")
        return self._index

    def _vectors(
        self,
        texts: list[str],
        device: str | None = None,
        batch_size: int = 64,
        max_length: int = MAX_LENGTH,
        *,
        normalize: bool = True,
    ) -> Vectors:
        from biomodels.index.shards import unit

        for name, value, least in (("batch_size", batch_size, 1), ("max_length", max_length, 3)):
            if value < least:
                raise UsageError(f"{name}: must be at least {least} (given: {value})")
        if device is not None and device != self.device:
            self._encoder = self._load(device)
        E_ND = self._encoder.limited(min(max_length, self._longest), batch_size).encode(texts)
        return unit(E_ND) if normalize and len(E_ND) else E_ND


PUBLISHED = {
    f"princeton-nlp/{kind}-simcse-{base}": pooler
    for kind, pooler in (("unsup", "cls_before_pooler"), ("sup", "cls"))
    for base in ("bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large")
}
"""The original checkpoints, which record no pooler, and the one that their publishers name for each."""


def _pooling(model: str, pooler: str | None) -> Pooling:
    """Return the pooling to use; see `SimCSE`."""
    from biomodels.models.spec import read_spec, records_pooling, resolve_model

    if pooler is not None:
        if pooler not in POOLERS:
            raise UsageError(f"pooler: {pooler!r} is none of {', '.join(POOLERS)}")
        return POOLERS[pooler]
    if model in PUBLISHED:
        return POOLERS[PUBLISHED[model]]
    directory = resolve_model(model)
    if records_pooling(directory):
        return read_spec(directory).pooling
    _log.warning('%s records no pooler; "cls" is used. Give pooler=… to choose', model)
    return POOLERS["cls"]


def _texts(sentences: str | Sequence[str]) -> list[str]:
    if isinstance(sentences, str):
        return [sentences]
    texts = list(sentences)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"sentence {number}: is a {type(text).__name__}, not a text")
    return texts
