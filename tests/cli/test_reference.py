"""The generated pages are up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.cli.reference import pages

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", sorted(pages()))
def test_pages_are_up_to_date(name: str) -> None:
    hint = "run python -m tenure.cli.reference"
    assert (DOCS / name).read_text() == pages()[name], hint
