from __future__ import annotations

import pytest

from biomodels.evaluation.entity_linking import preprocess, pubtator
from biomodels.evaluation.entity_linking.dictionary import read_dictionary
from biomodels.evaluation.entity_linking.preprocess import BioSynForm, normalise_mention, split_composite_mention
from biomodels.evaluation.entity_linking.text_files import Lines


def test_case_and_punctuation():
    assert normalise_mention("  Non-Hodgkin's (B-cell)  Lymphoma|X/Y ") == "non hodgkin s b cell lymphoma|x y"


@pytest.mark.parametrize(
    ("mention", "count", "parts"),
    [
        ("breast and ovarian cancer", 2, ["breast cancer", "ovarian cancer"]),
        ("breast, brain, and kidney cancer", 3, ["breast cancer", "brain cancer", "kidney cancer"]),
        ("Duchenne/Becker muscular dystrophy", 2, ["Duchenne muscular dystrophy", "Becker muscular dystrophy"]),
        ("cancer of breast or ovary", 2, ["cancer of breast", "cancer of ovary"]),
        ("retinal and the pineal tumours", 2, ["retinal tumours", "the pineal tumours"]),
        ("ovarian cancer and colon cancer", 2, ["ovarian cancer", "colon cancer"]),
        ("breast and ovarian cancer", 1, ["breast and ovarian cancer"]),
        ("breast and ovarian cancer", 3, ["breast and ovarian cancer"]),
        ("adenomas and carcinoma", 2, ["adenomas and carcinoma"]),
    ],
)
def test_composites_are_cut_only_if_the_parts_are_as_many_as_the_ids(mention, count, parts):
    assert split_composite_mention(mention, count) == parts


def test_abbreviations_of_a_document_are_expanded_until_nothing_changes():
    form = BioSynForm()
    found = form.abbreviations("Copper toxicosis (CT) is seen. Wilson disease (WD) is not.")
    assert found == {"CT": "Copper toxicosis", "WD": "Wilson disease"}
    assert form.mention("WD carriers", "", 1, found | {"carriers": "CT"}) == "wilson disease copper toxicosis"
    assert form.mention("a and b c", "a c|b c", 2, {}) == "a c|b c"


@pytest.mark.parametrize(
    ("raw", "processed", "types", "spelling", "share"),
    [
        ("ncbi_disease_raw/NCBItestset_corpus.txt", "ncbi_disease/processed_test", None, True, 0.988),
        ("bc5cdr_raw/CDR_DevelopmentSet.PubTator.txt", "bc5cdr_disease_dev/processed_dev", {"Disease"}, False, 0.998),
    ],
)
def test_agrees_with_the_files_that_biosyn_processed(shared_data, raw, processed, types, spelling, share):
    folder, lines = shared_data / "entity_linking", Lines()
    words = preprocess.read_spelling(lines, str(folder / "medic/ncbi-spell-check.txt")) if spelling else {}
    dictionary = read_dictionary(lines, str(folder / "ncbi_disease/train_dictionary.txt"))
    mentions, _ = pubtator.mentions_of(pubtator.documents(str(folder / raw)), types, dictionary, BioSynForm(words))
    mine = {m.mention_id: m.mention for m in mentions}
    theirs = {
        f"{row[0]}:{row[1]}": row[3]
        for path in (folder / processed).iterdir()
        for row in (line.split("||") for line in path.read_text().splitlines())
    }
    assert mine.keys() == theirs.keys()
    assert sum(mine[key] == theirs[key] for key in theirs) / len(theirs) >= share
