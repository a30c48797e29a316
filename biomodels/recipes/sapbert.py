"""SapBERT: names of one concept drawn together by the multi-similarity loss (Liu et al., NAACL and ACL 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import pyarrow as pa
import torch
from torch import Tensor, nn

from biomodels.losses import multi_similarity
from biomodels.models.encoder import Encoder, encode_by_length, load_backbone, load_tokenizer
from biomodels.models.spec import EncoderSpec, write_spec
from biomodels.recipes.contract import Batch, Global, Inputs, Outputs, Term
from biomodels.recipes.tokens import tokenize
from biomodels.terminology.normalise import name_id


class NameEncoder(nn.Module):
    """An encoder behind the recipe contract: the set `names` in, `names.embedding` out."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, inputs: Inputs) -> Outputs:
        """Encode the set `names`."""
        tokens = inputs["names"]
        E_BD = encode_by_length(self.encoder, tokens["input_ids"], tokens["attention_mask"])
        return {"names": {"embedding": E_BD}}


@dataclass(frozen=True)
class SapBert:
    """Rows are synonym pairs; the loss is global over both names of all pairs of the batch.

    A string is encoded once on a rank, however many of its pairs bear it; the original encodes it again each time,
    with other dropout.

    Attributes:
        spec: pooling, length, normalisation and prefix of the model that is trained.
        alpha, beta, base, miner_margin: of `multi_similarity`.
        mask_same_string: a string that two concepts of the batch share is not taken as its own negative. The original
            does take it.
    """

    spec: EncoderSpec
    alpha: float = 1.0
    beta: float = 60.0
    base: float = 0.5
    miner_margin: float | None = 0.2
    mask_same_string: bool = True

    name: ClassVar[str] = "sapbert"
    columns: ClassVar[tuple[str, ...]] = ("concept_id", "name_1", "name_2")
    uncut: ClassVar[str | None] = None

    def load(self, model: str) -> NameEncoder:
        """Load the encoder; BERT's next-sentence pooler is left out where nothing reads it, since it would decay."""
        backbone = load_backbone(Path(model), self.spec.pooling, dtype=torch.float32)
        if self.spec.pooling != "pooler" and isinstance(getattr(backbone, "pooler", None), nn.Module):
            backbone.pooler = cast(nn.Module, None)
        return NameEncoder(Encoder(backbone, self.spec))

    def tokenizer(self, model: str) -> Any:
        """Load the model's tokenizer."""
        return load_tokenizer(Path(model))

    def collate(self, rows: pa.Table, tokenizer: Any, key: int) -> Batch:
        """Return each distinct string once, and of each row its two strings and its concept. `key` is not needed."""
        first, second = (rows[column].to_pylist() for column in ("name_1", "name_2"))
        place = {text: i for i, text in enumerate(dict.fromkeys(first + second))}
        names = tokenize(
            tokenizer,
            [self.spec.prefix + text for text in place],
            max_length=self.spec.max_length,
            full_length=self.spec.pooling == "mean_all_tok",
        )
        concepts = [name_id(concept) for concept in rows["concept_id"].to_pylist()]
        groups = {
            "row": torch.tensor([place[text] for text in first + second], dtype=torch.int64),
            "concept": torch.tensor(concepts + concepts, dtype=torch.int64),
            "string": torch.tensor([name_id(text) for text in first + second], dtype=torch.int64),
        }
        return Batch({"names": names}, groups)

    def terms(self, outputs: Outputs, groups: Mapping[str, Tensor]) -> list[Term]:
        """Return one global term over 2R rows: the first names of R pairs, then the second."""
        E_ND = outputs["names"]["embedding"].index_select(0, groups["row"])
        return [Global({"embedding": E_ND, "concept": groups["concept"], "string": groups["string"]}, self._loss)]

    def save(self, model: str, weights: Mapping[str, Tensor], directory: str) -> None:
        """Write backbone, tokenizer and pooling record."""
        module = self.load(model)
        missing, unexpected = module.load_state_dict(dict(weights), strict=False)
        trained = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
        if unexpected or trained & set(missing):
            raise ValueError(
                f"weights do not fit {model}: unexpected {unexpected}, missing {sorted(trained & set(missing))}"
            )
        backbone = cast(Any, module.encoder.backbone)
        backbone.save_pretrained(directory)
        self.tokenizer(model).save_pretrained(directory)
        write_spec(Path(directory), self.spec, module.encoder.dimension)

    def _loss(self, rows: Mapping[str, Tensor]) -> Tensor:
        return multi_similarity(
            rows["embedding"],
            rows["concept"],
            alpha=self.alpha,
            beta=self.beta,
            base=self.base,
            miner_margin=self.miner_margin,
            string_ids_N=rows["string"] if self.mask_same_string else None,
        )
