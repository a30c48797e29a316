from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from biomodels.errors import InputError
from biomodels.inference import text_encoder
from biomodels.inference.text_encoder import TextEncoder
from biomodels.models.encoder import load_backbone, load_tokenizer
from biomodels.models.spec import Precision

WORDS = ["acute", "chronic", "renal", "failure", "of", "the", "left", "type", "2", "mellitus", "with", "(disorder)"]


def texts(count: int, seed: int = 0) -> list[str]:
    """Phrases of 1 to 40 words, a few of them without any known word."""
    rng = np.random.default_rng(seed)
    phrases = [" ".join(rng.choice(WORDS, size=rng.integers(1, 40))) for _ in range(count - 3)]
    return [*phrases, "", "é", "日本"]


@pytest.fixture(scope="module")
def encoder(minilm: str) -> TextEncoder:
    return TextEncoder(minilm)


def test_vectors_equal_those_of_sentence_transformers(encoder: TextEncoder, minilm: str) -> None:
    from sentence_transformers import SentenceTransformer

    peer = SentenceTransformer(minilm, device="cpu")
    given = texts(200)
    np.testing.assert_allclose(encoder.encode(given), peer.encode(given, batch_size=64), atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "bf16", "int8"])
def test_a_vector_is_the_same_to_the_bit_alone_and_among_others(minilm: str, precision: Precision) -> None:
    encoder = TextEncoder(minilm, precision=precision)
    given = [*texts(60), *(f"{word} {i}" for i in range(400) for word in WORDS[:2])]
    together = encoder.encode(given)
    few = [*range(0, 60, 4), *range(60, len(given), 100)]
    assert np.array_equal(together[few], np.concatenate([encoder.encode([given[i]]) for i in few]))
    assert np.array_equal(together[::-1], encoder.encode(given[::-1]))
    assert np.array_equal(together[:7], encoder.encode(given[:7]))


def test_budget_threads_and_windows_do_not_change_bits(
    encoder: TextEncoder, minilm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = texts(60)
    expected = encoder.encode(given)
    assert np.array_equal(expected, TextEncoder(minilm, token_budget=100, threads=3).encode(given))
    monkeypatch.setattr(text_encoder, "WINDOW", 7)
    assert np.array_equal(expected, encoder.encode(given))


def test_equal_texts_are_encoded_once(encoder: TextEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    tokenise = encoder._tokenize
    monkeypatch.setattr(encoder, "_tokenize", lambda given: seen.extend(given) or tokenise(given))
    given = ["renal failure", "sepsis", "renal failure", "sepsis", "fever"]
    vectors = encoder.encode(given)
    assert seen == ["renal failure", "sepsis", "fever"]
    assert np.array_equal(vectors, np.stack([encoder.encode([text])[0] for text in given]))


def test_precisions_that_a_device_does_not_have_are_refused(tiny_bert: str) -> None:
    with pytest.raises(InputError, match="fp16 needs a GPU; use bf16 or float32"):
        TextEncoder(tiny_bert, precision="fp16", device="cpu")


@pytest.mark.slow
def test_compiled_vectors_differ_by_rounding_only(tiny_bert: str) -> None:
    given = texts(20)
    compiled = TextEncoder(tiny_bert, compiled=True, threads=1).encode(given)
    np.testing.assert_allclose(compiled, TextEncoder(tiny_bert).encode(given), atol=1e-5)


@pytest.mark.gpu
def test_a_gpu_gives_the_vectors_of_the_cpu(minilm: str, encoder: TextEncoder) -> None:
    given = texts(200)
    np.testing.assert_allclose(TextEncoder(minilm, device="cuda").encode(given), encoder.encode(given), atol=1e-4)
    half = TextEncoder(minilm, device="cuda", precision="fp16").encode(given)
    assert (half * encoder.encode(given)).sum(1).min() > 0.999


def test_no_text_gives_no_vector(encoder: TextEncoder) -> None:
    assert encoder.encode([]).shape == (0, 384)


def explicit_mean_all_tok(directory: str, given: list[str], length: int) -> np.ndarray:
    """SapBERT's `mean_all_tok` as one padded batch: every position counts, padding too, though none attends to it."""
    tokens = load_tokenizer(Path(directory))(
        given, padding="max_length", truncation=True, max_length=length, return_tensors="pt"
    )
    with torch.inference_mode():
        states = load_backbone(Path(directory)).eval()(**tokens).last_hidden_state
    return states.mean(dim=1).numpy()


def test_mean_all_tok_averages_over_padding(tiny_bert: str) -> None:
    given = ["renal failure", "a", "hyperlipidaemia of an unknown kind, type iii", ""]
    ours = TextEncoder(tiny_bert, pooling="mean_all_tok", max_length=25).encode(given)
    np.testing.assert_allclose(ours, explicit_mean_all_tok(tiny_bert, given, 25), atol=1e-6)
    assert np.abs(ours - TextEncoder(tiny_bert, pooling="mean").encode(given)).max() > 1e-2


def test_cls_takes_the_first_state(tiny_bert: str) -> None:
    tokens = load_tokenizer(Path(tiny_bert))(["renal failure"], return_tensors="pt")
    with torch.inference_mode():
        expected = load_backbone(Path(tiny_bert)).eval()(**tokens).last_hidden_state[:, 0].numpy()
    np.testing.assert_allclose(TextEncoder(tiny_bert).encode(["renal failure"]), expected, atol=1e-6)


def test_longer_texts_are_cut(tiny_bert: str) -> None:
    encoder = TextEncoder(tiny_bert, max_length=10)
    same, cut = encoder.encode(["abcdefgh", "abcdefghijklm"])
    assert np.array_equal(same, cut)
    assert not np.array_equal(same, encoder.encode(["abcdefg"])[0])


def test_prefix_is_put_before_every_text(tiny_bert: str, tmp_path: Path) -> None:
    shutil.copytree(tiny_bert, tmp_path / "m")
    (tmp_path / "m" / "encoder.json").write_text(json.dumps({"pooling": "cls", "prefix": "query: "}))
    expected = TextEncoder(tiny_bert).encode(["query: renal"])
    assert np.array_equal(TextEncoder(str(tmp_path / "m")).encode(["renal"]), expected)


def test_normalised_vectors_have_length_one(encoder: TextEncoder, minilm: str) -> None:
    np.testing.assert_allclose(np.linalg.norm(encoder.encode(texts(20)), axis=1), 1, atol=1e-6)
    raw = TextEncoder(minilm, normalise=False)
    assert raw.digest != encoder.digest
    assert (np.abs(np.linalg.norm(raw.encode(texts(20)), axis=1) - 1) > 0.1).any()


def test_bf16_stays_near_float32(tiny_bert: str) -> None:
    given = texts(20)
    full, half = TextEncoder(tiny_bert).encode(given), TextEncoder(tiny_bert, precision="bf16").encode(given)
    cosine = (full * half).sum(1) / np.linalg.norm(full, axis=1) / np.linalg.norm(half, axis=1)
    assert cosine.min() > 0.999
    assert not np.array_equal(full, half)
