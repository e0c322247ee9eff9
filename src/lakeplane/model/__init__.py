"""What both table formats are made of: values and pure functions, no I/O."""
