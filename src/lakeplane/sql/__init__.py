"""The SQL front end: statements that name tables of a lake, understood here, with the rows left to Spark."""
