"""Named sets of option values for `shard terminology`: recipes of published work."""

from __future__ import annotations

from typing import Any, Literal

_AS_PUBLISHED: dict[str, Any] = {
    "keep_suppressed": True,
    "keep_obsolete": True,
    "tidy": False,
    "max_pairs": 50,
    "equal_names": "none",
}
"""SapBERT's recipe looks at neither SUPPRESS nor SAB nor TTY, and at no length; `STR.lower()`, distinct per CUI."""

Preset = Literal["sapbert-2020aa", "sapbert-2020ab-multilingual", "medmentions-2017aa"]

PRESETS: dict[Preset, dict[str, Any]] = {
    "sapbert-2020aa": {"languages": ("ENG",), "lowercase": True, **_AS_PUBLISHED},
    "sapbert-2020ab-multilingual": {"languages": (), "lowercase": False, **_AS_PUBLISHED},
    "medmentions-2017aa": {"languages": (), "lowercase": True, **_AS_PUBLISHED},
}
"""By name: the English pairs of Liu et al., NAACL 2021; all languages with their case, for XLM-R, of Liu et al., ACL
2021; and all sources and languages, whose `--export-dictionary` is the dictionary for MedMentions."""


def describe() -> str:
    """Return all presets as options."""
    shared = dict(set.intersection(*(set(preset.items()) for preset in PRESETS.values())))
    own = [
        f"{name}: {_options({key: value for key, value in preset.items() if key not in shared})}"
        for name, preset in PRESETS.items()
    ]
    return f"{'; '.join(own)}; all of them: {_options(shared)}"


def _options(preset: dict[str, Any]) -> str:
    return " ".join(_option(key, preset[key]) for key in sorted(preset))


def _option(key: str, value: Any) -> str:
    flag = key.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    if isinstance(value, tuple):
        return f"--{flag} {','.join(value)}" if value else f"all {flag}"
    return f"--{flag} {value}"
