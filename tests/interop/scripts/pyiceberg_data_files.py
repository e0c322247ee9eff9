"""What PyIceberg makes of Parquet files: the schema that it sees in them, and their metrics."""

from __future__ import annotations

import json
import sys

import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    pyarrow_to_schema,
)
from pyiceberg.schema import Schema

question = json.load(sys.stdin)
answers = []
for path in question["paths"]:
    metadata = pq.read_metadata(path)
    answer = {"schema": pyarrow_to_schema(pq.read_schema(path), format_version=3).model_dump(mode="json")}
    if "schema" in question:
        schema = Schema.model_validate(question["schema"])
        found = data_file_statistics_from_parquet_metadata(
            metadata,
            compute_statistics_plan(schema, question.get("properties", {})),
            parquet_path_to_id_mapping(schema),
        ).to_serialized_dict()
        answer["metrics"] = {
            name: sorted(
                [key, value.hex() if isinstance(value, bytes) else value] for key, value in each.items()
            )
            for name, each in found.items()
            if isinstance(each, dict)
        }
        answer["record_count"] = found["record_count"]
        answer["split_offsets"] = found["split_offsets"]
    answers.append(answer)
json.dump(answers, sys.stdout)
