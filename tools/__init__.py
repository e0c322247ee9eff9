"""What the Makefile runs to prepare a machine; standard library only."""
