"""From a name to a table or view: four kinds of catalog with one face."""
