from __future__ import annotations

import gzip

import pytest

from biomodels.errors import InputError, RejectRateError
from biomodels.evaluation.entity_linking.benchmark import mentions_table
from biomodels.evaluation.entity_linking.options import ReadOptions
from biomodels.evaluation.entity_linking.registry import read_benchmark

NCBI = {
    "processed_test/2.concept": "2||0|9||Disease||melanoma||D1\n2||20|30||Disease||breast cancer|colon cancer||D2|D3\n",
    "processed_test/1.concept": "1||0|4||Disease||rash||D4|C9\n1||6|9||Disease||thing||cui-less\n",
    "processed_train/7.concept": "7||0|4||Disease||Rash||D4\n",
    "processed_dev/8.concept": "8||0|4||Disease||crc||D3\n",
    "train_dictionary.txt": "D1||melanoma\nD2||breast cancer\nD3||colon cancer\nD4|C9||exanthema\n",
    "test_dictionary.txt": "D1||melanoma\nD2||breast cancer\nD3||colon cancer\nD4|C9||exanthema\nD4||rash\nD3||crc\n",
}


def read(name, folder, **options):
    return read_benchmark(name, ReadOptions(folder, **options))


def test_biosyn_folders(write):
    benchmark = read("ncbi-disease", write(NCBI))
    (part,) = benchmark.parts
    assert part.name == "test"
    assert [(m.document_id, m.mention, m.gold) for m in part.mentions] == [
        ("1", "rash", ({"D4", "C9"},)),
        ("2", "melanoma", ({"D1"},)),
        ("2", "breast cancer|colon cancer", ({"D2", "D3"}, {"D2", "D3"})),
    ]
    assert [m.parts for m in part.mentions] == [("rash",), ("melanoma",), ("breast cancer", "colon cancer")]
    assert part.seen == {"rash", "crc"}
    assert (len(part.dictionary.texts), len(part.terminology.texts)) == (6, 4)
    table = mentions_table(part.mentions)
    assert table["gold"].to_pylist()[2] == [["D2", "D3"], ["D2", "D3"]]
    assert len(set(table["mention_id"].to_pylist())) == 3


def test_without_a_test_split_the_development_set_is_measured(write):
    files = {name: content for name, content in NCBI.items() if "test" not in name}
    (part,) = read("bc5cdr-disease", write(files | {"dev_dictionary.txt": "D3||colon\nD4||rash\n"})).parts
    assert (part.name, [m.mention for m in part.mentions], part.seen) == ("dev", ["crc"], {"rash"})
    assert part.dictionary.texts == ["colon", "rash"]


def test_a_given_dictionary_replaces_all_of_the_folder(write, tmp_path):
    other = tmp_path / "other.txt.gz"
    other.write_bytes(gzip.compress(b"D1\tMelanoma\nD2\tBreast Cancer\n"))
    (part,) = read("ncbi-disease", write(NCBI), dictionary=str(other)).parts
    assert part.dictionary is part.terminology
    assert part.dictionary.texts == ["Melanoma", "Breast Cancer"]


def test_json_layout(write):
    folder = write(
        {
            "data.json": '{"train": [["aspirin", "D1"]], "test": [["ASA", "D1"], ["x|y", "D1|D2"], ["q", "cui-less"]]}',
            "mesh_dictionary.txt": "D1||aspirin\n",
        }
    )
    (part,) = read("bc5cdr-chemical", folder).parts
    assert [m.parts for m in part.mentions] == [("ASA",), ("x", "y")]
    assert part.seen == {"aspirin"}


COMETA_ROWS = "ID\tTerm\tGeneral SNOMED ID\tSpecific SNOMED ID\tExample\n"


def test_cometa_reads_both_splits_and_quoted_examples(write):
    folder = write(
        {
            "splits/stratified_general/test.csv": COMETA_ROWS
            + '1\theart racing\t11\t12\t"my heart racing\nall ""night"""\n2\tSpots\t13\t13\tno\n',
            "splits/stratified_general/train.csv": COMETA_ROWS + "3\tspots\t13\t13\tx\n",
            "splits/zeroshot_general/test.csv": COMETA_ROWS + "4\tbelly\t14\t14\tx\n",
            "splits/stratified_specific/test.csv": COMETA_ROWS + "1\theart racing\t11\t12\tx\n",
            "COMETA_id_sf_dictionary.txt": "11||tachycardia\n12||palpitations\n13||rash\n14||abdomen\n",
        }
    )
    parts = {part.name: part for part in read("cometa", folder).parts}
    assert {name: len(part.mentions) for name, part in parts.items()} == {
        "stratified_general": 2,
        "zeroshot_general": 1,
        "stratified_specific": 1,
    }
    first = parts["stratified_general"].mentions[0]
    assert first.context == 'my heart racing\nall "night"'
    assert first.context[first.start : first.end] == "heart racing"
    assert parts["stratified_general"].seen == {"spots"}
    assert parts["stratified_specific"].mentions[0].gold == ({"12"},)
    assert not parts["stratified_general"].rules.lowercase


AAP = {
    f"AskAPatient.fold-{fold}.{split}.txt": rows
    for fold in (0, 1, 10)
    for split, rows in {
        "test": f"C1\tHeadache\thead hurts {fold}\nC2\tDizziness\tDizzy\n",
        "train": "C1\tHeadache\tmy head\nC3\tBurning feet\thot feet\n",
        "validation": b"C2\tDizziness\tdizzy\nC3\tBurning feet\tfeet \x96 burning\n",
    }.items()
}


def test_askapatient_folds_and_their_labels_as_dictionary(write):
    benchmark = read("askapatient", write(AAP))
    assert [part.name for part in benchmark.parts] == ["fold-0", "fold-1", "fold-10"]
    assert [len(part.mentions) for part in benchmark.parts] == [2, 2, 2]
    assert sorted(benchmark.parts[0].dictionary.texts) == ["Burning feet", "Dizziness", "Headache"]
    assert benchmark.parts[0].seen == {"my head", "hot feet", "dizzy", "feet – burning"}
    assert "3 labels" in benchmark.notes[0]
    assert "3 lines are not UTF-8" in benchmark.notes[1]
    assert benchmark.averaged


def test_askapatient_as_sapbert_bundles_it(write):
    files = {"AskAPatient.fold-0.test.txt": "C1||head hurts\n", "AskAPatient.dict.txt": "C1||headache\nC1||cephalgia\n"}
    benchmark = read("askapatient", write(files))
    assert benchmark.parts[0].dictionary.texts == ["headache", "cephalgia"]
    assert benchmark.parts[0].seen is None
    assert not benchmark.notes


def test_askapatient_real_folds(shared_data):
    benchmark = read("askapatient", str(shared_data / "entity_linking/askapatient"))
    assert [len(part.mentions) for part in benchmark.parts] == [867, 867, 866]
    assert len(set(benchmark.parts[0].dictionary.ids)) == 1036


MEDMENTIONS = (
    "1|t|Heart attack\n1|a|A heart attack.\n"
    "1\t0\t12\tHeart attack\tT047\tUMLS:C01\n1\t15\t27\theart attack\tT047\tC01\n\n"
    "2|t|Rash\n2|a|\n2\t0\t4\tRash\tT184\tC02\n\n3|t|Old rash\n3|a|x\n3\t4\t8\trash\tT184\tC02\n\n"
)


@pytest.mark.parametrize("zipped", [False, True])
def test_medmentions_pubtator(write, zipped):
    corpus = gzip.compress(MEDMENTIONS.encode()) if zipped else MEDMENTIONS
    folder = write(
        {
            "corpus_pubtator.txt" + ".gz" * zipped: corpus,
            "corpus_pubtator_pmids_test.txt": "1\n2\n",
            "corpus_pubtator_pmids_trng.txt": "3\n",
            "umls_dictionary.txt": "C01||myocardial infarction\nC02||exanthema\n",
        }
    )
    (part,) = read("medmentions", folder).parts
    assert [(m.document_id, m.mention) for m in part.mentions] == [
        ("1", "Heart attack"),
        ("1", "heart attack"),
        ("2", "Rash"),
    ]
    assert all(m.context[m.start : m.end] == m.mention for m in part.mentions)
    assert part.seen == {"rash"}
    assert not part.rules.split


def test_medmentions_processed(write):
    folder = write({"a.txt": "1||0|4||T1||a|b||C01\n", "umls_dictionary.txt": "C01||x\n"})
    (part,) = read("medmentions", folder).parts
    assert part.mentions[0].parts == ("a|b",)


def test_xlbel_v1_contexts(write):
    folder = write(
        {
            "de_1k_test_query.txt": "C1|C2||Herz||Ein <tgt>Herz</tgt>infarkt, und\n C3 ||Haut ||die <tgt>Haut </tgt>\n",
            "he_1k_test_query.txt": "C1||לב||התקף <tgt>לב</tgt> חריף\n",
            "umls_onto_all_lang.txt": "C1||Heart\nC3||skin\n",
        }
    )
    parts = {part.name: part for part in read("xl-bel", folder).parts}
    heart, skin = parts["de"].mentions
    assert heart.gold == ({"C1", "C2"},)
    assert heart.context == "Ein Herzinfarkt, und"
    assert heart.context[heart.start : heart.end] == "Herz"
    assert (skin.mention, skin.gold) == ("Haut ", ({"C3"},))
    hebrew = parts["he"].mentions[0]
    assert hebrew.language == "he"
    assert hebrew.context == "התקף לב חריף"
    assert hebrew.context[hebrew.start : hebrew.end] == "לב"


def test_xlbel_v0_real_queries(shared_data):
    folder = shared_data / "entity_linking/xlbel"
    benchmark = read("xl-bel", str(folder / "v0.0"), dictionary=str(folder / "open_dictionary.txt"))
    assert {part.name: len(part.mentions) for part in benchmark.parts} == dict.fromkeys(
        ["de", "en", "es", "fi", "ja", "ko", "ru", "th", "tr", "zh"], 1000
    )
    assert len(benchmark.parts[0].dictionary.texts) == 130_900


def test_custom_folder(write):
    folder = write(
        {
            "dictionary.txt": "A||alpha\nB||beta\n",
            "clinic.txt": "A||ALPHA||an <tgt>ALPHA</tgt>s\nB||be||plain context\ncui-less||?\n",
            "web.txt": "B||beta\n",
            "train.txt": "A||alpha\n",
        }
    )
    benchmark = read("custom", folder)
    assert [(part.name, len(part.mentions)) for part in benchmark.parts] == [("clinic", 2), ("web", 1)]
    assert benchmark.parts[0].mentions[0].context == "an ALPHAs"
    assert benchmark.parts[0].seen == {"alpha"}


PUBTATOR = (
    "1|t|Ataxia telangiectasia (AT)\n1|a|AT, and breast and ovarian cancer, in hepatosplenomegally.\n"
    "1\t0\t21\tAtaxia telangiectasia\tSpecificDisease\tD1\n1\t27\t29\tAT\tSpecificDisease\tMESH:D1\n"
    "1\t35\t60\tbreast and ovarian cancer\tCompositeMention\tD2|OMIM:3\n"
    "1\t65\t84\thepatosplenomegally\tDisease\tD4\n1\t0\t6\tAtaxia\tDisease\tD99\n1\t0\t6\tAtaxia\tDisease\t-1\n"
    "1\tCID\tD1\tD2\n\n"
)


def test_raw_pubtator_is_preprocessed(write, tmp_path):
    folder = write({"NCBItestset_corpus.txt": PUBTATOR})
    (tmp_path / "d.txt").write_text("D1||a\nD2||b\n3||c\nD4||d\n")
    (tmp_path / "s.txt").write_text("hepatosplenomegally||hepatosplenomegaly\n")
    options = {"dictionary": str(tmp_path / "d.txt"), "spelling": str(tmp_path / "s.txt")}
    benchmark = read("ncbi-disease", folder, **options)
    assert [m.mention for m in benchmark.parts[0].mentions] == [
        "ataxia telangiectasia",
        "ataxia telangiectasia",
        "breast cancer|ovarian cancer",
        "hepatosplenomegaly",
    ]
    assert [len(m.gold) for m in benchmark.parts[0].mentions] == [1, 1, 2, 1]
    assert benchmark.notes == ["1 mentions were left out because a gold id of theirs is not in the dictionary."]
    plain = read("ncbi-disease", folder, preprocess="none", **options)
    assert [m.mention for m in plain.parts[0].mentions][1:3] == ["AT", "breast and ovarian cancer"]
    with pytest.raises(InputError, match="no dictionary; give it by --dictionary"):
        read("ncbi-disease", folder)


D = {"dictionary.txt": "A||alpha\n"}


@pytest.mark.parametrize(
    ("name", "files", "message"),
    [
        ("ncbi-disease", {"readme.md": "x"}, r"neither processed_test"),
        (
            "ncbi-disease",
            {"processed_test/1.concept": NCBI["processed_test/1.concept"]},
            r"no dictionary.*--dictionary",
        ),
        (
            "ncbi-disease",
            NCBI | {"processed_test/1.concept": "1\t0\t4\tDisease\trash\tD4\n"},
            r"1\.concept:1: has 1 fields.*instead",
        ),
        ("ncbi-disease", NCBI | {"processed_test/1.concept": "1||0-4||Disease||rash||D4\n"}, r"span '0-4'"),
        ("ncbi-disease", NCBI | {"test_dictionary.txt": "MESH:D1||melanoma\n"}, r"no gold id is in .*test_dictionary"),
        (
            "ncbi-disease",
            {"processed_test/1.concept": "1||0|4||D||x||cui-less\n", "test_dictionary.txt": "A||x"},
            r"neither mentions",
        ),
        ("ncbi-disease", NCBI | {"train_dictionary.txt": "D1||mela||noma\n"}, r"train_dictionary\.txt:1: has 3 fields"),
        ("ncbi-disease", NCBI | {"train_dictionary.txt": "D1,melanoma\n"}, r"has 1 fields.*it has , instead"),
        ("bc5cdr-chemical", {"data.json": "{", "d_dictionary.txt": "A||b"}, r"data\.json: is not JSON"),
        (
            "bc5cdr-chemical",
            {"data.json": '{"test": [["x"]]}', "d_dictionary.txt": "A||b"},
            r"data\.json: is not JSON of the form",
        ),
        ("cometa", {"x/test.csv": "x"}, r"has no stratified_general/test\.csv"),
        (
            "cometa",
            D | {"stratified_general/test.csv": "Term,General SNOMED ID\nx,1\n"},
            r"test\.csv:1: has no column.*separated by tabs",
        ),
        (
            "cometa",
            D | {"stratified_general/test.csv": b"Term\tGeneral SNOMED ID\ncaf\xe9\t1\n"},
            r"test\.csv:2: is not utf-8",
        ),
        ("cometa", D | {"zeroshot_general/test.csv": "Term\tGeneral SNOMED ID\nx\t\n"}, r"test\.csv:2: has an empty"),
        ("cometa", {"stratified_general/test.csv": "Term\tGeneral SNOMED ID\nx\tA\n"}, r"has no dictionary of SNOMED"),
        ("askapatient", {"fold0.txt": "x"}, r"has no AskAPatient\.fold-0\.test\.txt"),
        ("askapatient", {"AskAPatient.fold-2.train.txt": "A\tb\tc\n"}, r"fold 2 has no AskAPatient\.fold-2\.test"),
        ("askapatient", {"AskAPatient.fold-0.test.txt": "A||x\n"}, r"have no labels; give --dictionary"),
        ("askapatient", {"AskAPatient.fold-0.test.txt": "A,b,c\n"}, r"test\.txt:1: has 1 fields between tabs"),
        ("medmentions", {"corpus_pubtator.txt": MEDMENTIONS} | D, r"has no corpus_pubtator_pmids_test\.txt"),
        (
            "medmentions",
            {"corpus_pubtator.txt": "1|t|x\n1\t0\t9\txy\tT\tC1\n", "corpus_pubtator_pmids_test.txt": "1"},
            r"corpus_pubtator\.txt:2: the span 0-9",
        ),
        (
            "medmentions",
            {"corpus_pubtator.txt": "hello\n", "corpus_pubtator_pmids_test.txt": "1"},
            r"corpus_pubtator\.txt:1: is not of the form",
        ),
        ("medmentions", {"dictionary.txt": "A||x"}, r"neither corpus_pubtator\.txt nor"),
        ("xl-bel", {"Deutsch.txt": "A||x"} | D, r"no file of a language"),
        ("xl-bel", {"de.txt": "A||x"}, r"has no dictionary, such as umls_onto"),
        ("xl-bel", D | {"de.txt": "A||x||no tags\n"}, r"de\.txt:1: has a context without exactly one"),
        ("xl-bel", D | {"de.txt": "A||x||<tgt>x</tgt> <tgt>x</tgt>\n"}, r"without exactly one"),
        ("xl-bel", D | {"de.txt": b"A||x\nA||caf\xe9\n"}, r"de\.txt:2: is not utf-8 .*--encoding; 1 of 2 lines"),
        ("xl-bel", D | {"de.txt": "A||x", "b_dictionary.txt": "A||x"}, r"several files may be"),
        ("xl-bel", D | {"de.txt": "\n\n"}, r"part de: has no mention"),
        ("custom", D, r"no file of id\|\|mention lines"),
        ("custom", {"test.txt": "A||x\n"}, r"has no dictionary\.txt"),
        ("custom", {"test.txt": "A||x\n", "dictionary.txt": "\n"}, r"dictionary\.txt: has no line"),
        ("custom", {"test.txt": "||x\n"} | D, r"test\.txt:1: has an empty id"),
    ],
)
def test_bad_folders_say_what_is_wrong(write, name, files, message):
    with pytest.raises(InputError, match=message):
        read(name, write(files))


def test_bad_paths_say_what_is_wrong(write, tmp_path):
    with pytest.raises(InputError, match="is not there"):
        read("custom", str(tmp_path / "absent"))
    folder = write(D | {"test.txt": "A||x\n"})
    with pytest.raises(InputError, match="is a file"):
        read("custom", folder + "/test.txt")
    with pytest.raises(InputError, match=r"absent\.txt: cannot be read"):
        read("custom", folder, dictionary=str(tmp_path / "absent.txt"))
    (tmp_path / "d.txt.gz").write_bytes(b"A||plain text")
    with pytest.raises(InputError, match=r"d\.txt\.gz: cannot be read"):
        read("custom", folder, dictionary=str(tmp_path / "d.txt.gz"))


def test_some_malformed_lines_may_be_let_pass(write):
    folder = write(D | {"test.txt": b"A||x\nA||y\nno separator\nA||caf\xe9\n"})
    with pytest.raises(RejectRateError, match="2 of 4"):
        read("custom", folder, max_reject_rate=0.4)
    benchmark = read("custom", folder, max_reject_rate=0.5)
    assert [m.mention for m in benchmark.parts[0].mentions] == ["x", "y"]
    assert [(reject.line, reject.content) for reject in benchmark.rejects] == [(3, "no separator"), (4, "A||caf\\xe9")]
    latin = read("custom", folder, max_reject_rate=0.5, encoding="latin-1")
    assert latin.parts[0].mentions[-1].mention == "café"
