"""The data plane: tables read and written by Spark as it comes. The only floor that knows pyspark."""
