"""Runs last of test_kubectl*.py: docs/compatibility.md says what they found."""

import os
import pathlib

import pytest

import compatibility


def test_the_table_says_what_was_found():
    if not compatibility.complete():
        pytest.skip("not all rows of the table were run")
    committed = compatibility.TABLE.read_text() if compatibility.TABLE.exists() else ""
    if "VIRTSET_COMPATIBILITY" in os.environ:
        pathlib.Path(os.environ["VIRTSET_COMPATIBILITY"]).write_text(
            compatibility.document(committed))
        return
    said, found = compatibility.columns_of(committed), compatibility.columns()
    assert {version: said.get(version) for version in found} == found
