"""What each contestant of ``spark_io`` runs, in a process of its own; each prints one JSON document."""

from __future__ import annotations

SESSION = """
import json, os, sys, time, shutil
from pathlib import Path
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
from pyspark.sql import SparkSession
def session(scratch, **more):
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "6g", "spark.local.dir": scratch + "/local", "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": scratch + "/spark", **more}
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items(): builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark
def timed(run):
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin
def in_turn(rounds, **contestants):
    best = dict.fromkeys(contestants, 9e9)
    for _ in range(rounds):
        for name, run in contestants.items():
            best[name] = min(best[name], timed(run))
    return best
def drain(frame): frame.write.format("noop").mode("overwrite").save()
AGGREGATE = {"flat": "sum(amount), max(at), count(city), sum(k)", "nested": "sum(place.x), sum(size(points)), count(tags)"}
scratch, rounds = sys.argv[1], int(sys.argv[2])
"""

MAKE = (
    SESSION
    + """
rows = int(sys.argv[3])
spark = session(scratch, **{"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"})
base = spark.range(0, rows, 1, 8)
base.selectExpr("id", "cast(id * 7919 % 1000003 as int) k", "cast(id * 37 % 99999999 / 100 as decimal(12,2)) amount",
    "id * 0.37 ratio", "concat('name_', id * 7919 % 1000003) name", "concat('city_', id % 200) city",
    "cast(timestamp_micros(1700000000000000 + id * 1000003) as timestamp) at", "date_add(date '2023-01-01', cast(id % 700 as int)) day",
).write.parquet(scratch + "/source/flat")
base.selectExpr("id", "named_struct('x', id * 0.5, 'y', named_struct('z', id % 100, 't', concat('t', id % 1000))) place",
    "transform(sequence(1, cast(id % 4 as int) + 1), i -> id * i) points", "map(concat('k', id % 7), id, 'all', id % 13) tags",
).write.parquet(scratch + "/source/nested")
print("{}")
"""
)

OURS = (
    SESSION
    + """
import lakeplane as lp
kinds, spark, found = json.loads(sys.argv[3]), session(scratch), {}
lake = lp.connect(scratch + "/warehouse", spark=spark)
lake.create_namespace("bench")
for kind in kinds:
    source = spark.read.parquet(scratch + "/source/" + kind)
    drain(source)
    count = iter(range(1000))
    table = lake.create_table(f"bench.{kind}", source.schema)
    def plain():
        folder = f"{scratch}/plain{next(count)}"
        source.write.option("compression", "zstd").parquet(folder)
        shutil.rmtree(folder)
    def ours():
        table.overwrite(source)
    found["write", kind] = in_turn(rounds, plain=plain, lakeplane=ours)
    files = table.inspect("files")["file_path"].to_pylist()
    first = spark.read.parquet(*files)
    assert table.read().count() == first.count()
    found["scan", kind] = in_turn(rounds, plain=lambda: drain(spark.read.parquet(*files)), lakeplane=lambda: drain(table.read()))
    found["aggregate", kind] = in_turn(rounds,
        plain=lambda: spark.read.parquet(*files).selectExpr(*AGGREGATE[kind].split(", ")).collect(),
        lakeplane=lambda: table.read().selectExpr(*AGGREGATE[kind].split(", ")).collect())
print(json.dumps([[*key, value] for key, value in found.items()]))
"""
)

MANY = (
    SESSION
    + """
import lakeplane as lp
number, spark = int(sys.argv[3]), session(scratch)
lake = lp.connect(scratch + "/warehouse", spark=spark)
table = lake.create_table("bench.many", "id BIGINT, k INT, name STRING", properties={"write.distribution-mode": "none"})
source = spark.read.parquet(scratch + "/source/flat").select("id", "k", "name").limit(number * 20)
wrote = timed(lambda: table.append(source.repartition(number)))
files = table.inspect("files")["file_path"].to_pylist()
assert len(files) == number, len(files)
folder = str(Path(files[0]).parent)
plan = timed(lambda: table.read())
found = {"files": len(files), "write": wrote, "read() first": plan, "read()": timed(lambda: table.read()),
    "plain read() of the folder": timed(lambda: spark.read.schema("id BIGINT, k INT, name STRING").parquet(folder)),
    **{f"scan, {name}": value for name, value in in_turn(rounds,
        plain=lambda: drain(spark.read.schema("id BIGINT, k INT, name STRING").parquet(folder)), lakeplane=lambda: drain(table.read())).items()}}
print(json.dumps(found))
"""
)

JAR = (
    SESSION
    + """
kinds, jar = json.loads(sys.argv[3]), sys.argv[4]
spark = session(scratch, **{"spark.jars": jar,
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog", "spark.sql.catalog.lake.type": "hadoop",
    "spark.sql.catalog.lake.warehouse": scratch + "/warehouse"})
found = {}
for kind in kinds:
    source = spark.read.parquet(scratch + "/source/" + kind)
    drain(source)
    source.limit(0).writeTo(f"lake.bench.jar_{kind}").create()
    found["write", kind] = in_turn(rounds, jar=lambda: source.writeTo(f"lake.bench.jar_{kind}").overwritePartitions())
    read = lambda: spark.table(f"lake.bench.{kind}")
    found["scan", kind] = in_turn(rounds, jar=lambda: drain(read()))
    found["aggregate", kind] = in_turn(rounds, jar=lambda: read().selectExpr(*AGGREGATE[kind].split(", ")).collect())
print(json.dumps([[*key, value] for key, value in found.items()]))
"""
)

PYICEBERG = """
import json, sys, time
from pathlib import Path
import pyarrow.dataset as ds
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable
scratch, rounds, kinds = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
catalog = SqlCatalog("bench", uri=f"sqlite:///{scratch}/pyiceberg.db", warehouse=f"{scratch}/pyiceberg")
catalog.create_namespace("bench")
def best(run, times=rounds):
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        run()
        found.append(time.perf_counter() - begin)
    return min(found)
found = []
for kind in kinds:
    folder = Path(scratch, "warehouse", "bench", kind, "metadata")
    newest = max(folder.glob("v*.metadata.json"), key=lambda each: int(each.name[1:].split(".")[0]))
    table = StaticTable.from_metadata(str(newest))
    found.append(["scan", kind, {"PyIceberg": best(lambda: table.scan().to_arrow())}])
    rows = ds.dataset(f"{scratch}/source/{kind}").to_table()
    mine = catalog.create_table(f"bench.{kind}", rows.schema)
    found.append(["write", kind, {"PyIceberg": best(lambda: mine.append(rows), 1)}])
print(json.dumps(found))
"""

DUCKDB = """
import json, sys, time
from pathlib import Path
import duckdb, duckdb_extension_avro, duckdb_extension_iceberg
scratch, rounds, kinds = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": 2})
for module in (duckdb_extension_avro, duckdb_extension_iceberg):
    [extension] = Path(module.__file__).parent.rglob("*.duckdb_extension")
    connection.load_extension(str(extension))
AGGREGATE = {"flat": "sum(amount), max(at), count(city), sum(k)", "nested": "sum(place.x), sum(len(points)), count(tags)"}
def best(query):
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        query()
        found.append(time.perf_counter() - begin)
    return min(found)
found = []
for kind in kinds:
    folder = Path(scratch, "warehouse", "bench", kind, "metadata")
    newest = max(folder.glob("v*.metadata.json"), key=lambda each: int(each.name[1:].split(".")[0]))
    scan = f"FROM iceberg_scan('{newest}')"
    found.append(["scan", kind, {"DuckDB": best(lambda: connection.execute(f"SELECT * {scan}").to_arrow_table())}])
    found.append(["aggregate", kind, {"DuckDB": best(lambda: connection.execute(f"SELECT {AGGREGATE[kind]} {scan}").fetchall())}])
print(json.dumps(found))
"""
