"""The Apache Iceberg table format: values and pure functions, no I/O."""
