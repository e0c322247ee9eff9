"""Names in the Avro schemas of Iceberg."""

from __future__ import annotations

import re

import pytest

from lakeplane.iceberg.avro_schema import avro_name

# From Java's TestSchemaConversions.
OF_JAVA = {"9x": "_9x", "x_": "x_", "a.b": "a_x2Eb", "☃": "_x2603", "a#b": "a_x23b"}


@pytest.mark.parametrize("name", OF_JAVA)
def test_names_are_spelt_as_java_spells_them(name: str) -> None:
    assert avro_name(name) == OF_JAVA[name]


@pytest.mark.parametrize("name", ["٣", "९x", "²", "é", "x٣", "😀", "a b", "-", "0"])
def test_what_is_written_is_a_name_of_avro(name: str) -> None:
    """Digits of other scripts were left as they are, and strict readers refuse the whole file."""
    assert re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", avro_name(name))
