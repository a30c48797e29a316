"""SapBERT's recipe without a training loop."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import torch

from biomodels.losses import multi_similarity
from biomodels.models.spec import EncoderSpec
from biomodels.recipes.contract import Global
from biomodels.recipes.sapbert import SapBert

ROWS = pa.table(
    {
        "concept_id": ["C1", "C2", "C1", "C3"],
        "name_1": ["cold", "frigid", "cold", "common cold"],
        "name_2": ["chill", "cold", "common cold", "coryza"],
    }
)


def test_each_text_is_encoded_once_and_groups_name_both_sides(tiny_bert):
    recipe = SapBert(EncoderSpec())
    tokenizer = recipe.tokenizer(tiny_bert)
    batch = recipe.collate(ROWS, tokenizer, key=0)
    ids = batch.inputs["names"]["input_ids"]
    texts = [text.replace(" ", "") for text in tokenizer.batch_decode(ids, skip_special_tokens=True)]
    assert texts == ["cold", "frigid", "commoncold", "chill", "coryza"]
    assert batch.groups["row"].tolist() == [0, 1, 0, 2, 3, 0, 2, 4]
    concepts, strings = batch.groups["concept"], batch.groups["string"]
    assert concepts[:4].tolist() == concepts[4:].tolist()
    assert concepts[0] == concepts[2] != concepts[1]
    assert strings[0] == strings[2] == strings[5] and strings[3] == strings[6]
    assert batch.inputs["names"]["attention_mask"].sum(1).tolist() == [6, 8, 12, 7, 8]


def test_labels_of_a_slice_are_those_of_the_whole(tiny_bert):
    recipe = SapBert(EncoderSpec())
    tokenizer = recipe.tokenizer(tiny_bert)
    whole, part = recipe.collate(ROWS, tokenizer, 0), recipe.collate(ROWS.slice(2), tokenizer, 0)
    assert part.groups["concept"][:2].tolist() == whole.groups["concept"][2:4].tolist()


def test_no_rows_still_make_a_batch(tiny_bert):
    recipe = SapBert(EncoderSpec())
    batch = recipe.collate(ROWS.slice(0, 0), recipe.tokenizer(tiny_bert), 0)
    assert len(batch.inputs["names"]["input_ids"]) == 0
    (term,) = recipe.terms({"names": {"embedding": torch.zeros(0, 32)}}, batch.groups)
    assert isinstance(term, Global) and len(term.tensors["embedding"]) == 0


@pytest.mark.parametrize(("pooling", "length"), [("cls", 12), ("mean", 12), ("mean_all_tok", 25)])
def test_only_mean_all_tok_pads_to_the_full_length(tiny_bert, pooling, length):
    recipe = SapBert(EncoderSpec(pooling=pooling))
    assert recipe.collate(ROWS, recipe.tokenizer(tiny_bert), 0).inputs["names"]["input_ids"].shape[1] == length


def test_term_is_the_loss_over_both_names_of_all_pairs(tiny_bert):
    recipe = SapBert(EncoderSpec(), mask_same_string=False)
    batch = recipe.collate(ROWS, recipe.tokenizer(tiny_bert), 0)
    module = recipe.load(tiny_bert).eval()
    outputs = module(batch.inputs)
    (term,) = recipe.terms(outputs, batch.groups)
    E_ND = outputs["names"]["embedding"][batch.groups["row"]]
    labels_N = torch.tensor([1, 2, 1, 3, 1, 2, 1, 3])
    assert float(term.fn(term.tensors)) == pytest.approx(float(multi_similarity(E_ND, labels_N)), abs=1e-6)


def test_every_parameter_of_the_module_is_trained(tiny_bert):
    recipe = SapBert(EncoderSpec())
    batch = recipe.collate(ROWS, recipe.tokenizer(tiny_bert), 0)
    module = recipe.load(tiny_bert)
    (term,) = recipe.terms(module(batch.inputs), batch.groups)
    term.fn(term.tensors).backward()
    assert [name for name, parameter in module.named_parameters() if parameter.grad is None] == []


def test_weights_that_do_not_fit_are_refused(tiny_bert, tmp_path: Path):
    recipe = SapBert(EncoderSpec())
    weights = {name: parameter.detach() for name, parameter in recipe.load(tiny_bert).named_parameters()}
    first = next(iter(weights))
    with pytest.raises(ValueError, match="missing"):
        recipe.save(tiny_bert, {name: w for name, w in weights.items() if name != first}, str(tmp_path))
