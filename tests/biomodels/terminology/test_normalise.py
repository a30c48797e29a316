"""The normal form of names and their ids."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from biomodels.terminology.normalise import Normaliser, keyed_hash, name_id


@pytest.mark.parametrize(
    ("text", "lowered", "kept"),
    [
        ("  Heart \t Attack\n", "heart attack", "Heart Attack"),
        ("e\u0301tat", "état", "état"),
        ("A\u00a0B\u2003C", "a b c", "A B C"),
        ("İ", "i̇", "İ"),
        ("ΑΣ", "ας", "ΑΣ"),
        ("", "", ""),
    ],
)
def test_examples(text: str, lowered: str, kept: str):
    assert Normaliser(lowercase=True)(text) == lowered
    assert Normaliser(lowercase=False)(text) == kept
    assert Normaliser(lowercase=True, tidy=False)(text) == text.lower()
    assert Normaliser(lowercase=False, tidy=False)(text) == text


@given(st.text(), st.booleans())
def test_a_normal_form_stays_as_it_is(text: str, lowercase: bool):
    normaliser = Normaliser(lowercase)
    assert normaliser(normaliser(text)) == normaliser(text)


@given(st.booleans(), st.booleans())
def test_a_normaliser_is_found_by_its_name(lowercase: bool, tidy: bool):
    normaliser = Normaliser(lowercase, tidy)
    assert Normaliser.from_name(normaliser.name) == normaliser


def test_an_unknown_normaliser_is_refused():
    with pytest.raises(ValueError, match="nfkc"):
        Normaliser.from_name("nfkc")


def test_name_id_is_the_first_63_bits_of_blake2b():
    bits = "".join(f"{byte:08b}" for byte in hashlib.blake2b("état".encode()).digest())
    assert name_id("état") == int(bits[:63], 2) < 2**63


def test_a_keyed_hash_depends_on_seed_and_on_where_its_key_is_cut():
    assert keyed_hash(13, "a", 1) == keyed_hash(13, "a", 1)
    assert (
        len({keyed_hash(13, "a", "b"), keyed_hash(13, "ab"), keyed_hash(14, "a", "b"), keyed_hash(-13, "a", "b")}) == 4
    )
