"""Avro files as Arrow tables: what manifests of Iceberg and Paimon are written in."""
