"""Runs the queries of docs/reference/sql.md on four engines, and compares their rows with `fxtrec report --json`.

check_sql.py FXTREC REPOSITORY SCRATCH

The traces are real recordings. Different hosts are simulated by recording in UTS namespaces with other host names; the week of the older
commit's traces is simulated by changing the wall clock's offset in the file.
"""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

FXTREC, REPOSITORY, SCRATCH = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
WEEK = 7 * 86_400_000_000_000
# A report's percentiles are at most this much too high.
TOLERANCE = 1.008


class Failed(Exception):
    pass


def fxtrec(*args, **more):
    line = [FXTREC, *map(str, args)]
    done = subprocess.run(line, capture_output=True, text=True, cwd=SCRATCH, **more)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, line))}: {done.returncode}\n{done.stderr}")
    return done.stdout


def report(*traces):
    return json.loads(fxtrec("report", "--json", "--include-recorder", "--worst", "10", *traces))


# The recordings.


def record(host, name, *command):
    line = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', host, str(FXTREC), "-q", "-o", name, *command]
    subprocess.run(line, cwd=SCRATCH, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(REPOSITORY / "fxt-writer/python")})
    return name


def set_back(name):
    """Moves the beginning of a trace back by a week."""
    path = SCRATCH / name
    offset = int(re.search(r"wall_clock_offset_ns=(\d+)", fxtrec("dump", name))[1])
    old, new = (struct.pack("<Q", it) for it in (offset, offset - WEEK))
    content = path.read_bytes()
    if content.count(old) != 1:
        raise Failed(f"{name}: the offset of the wall clock is there {content.count(old)} times")
    path.write_bytes(content.replace(old, new))


class Trace:
    def __init__(self, name, host, commit, week):
        self.name, self.host, self.commit, self.week = name, host, commit, week
        self.report = report(name)


def traces():
    crowd = ["-a", "--", "sh", "-c", "for n in 1 2 3 4 5; do (i=0; while [ $i -lt 6000 ]; do i=$((i+1)); done; sleep 0.01; ls / >/dev/null) & done; wait"]
    spans = ["--", sys.executable, str(REPOSITORY / "tests/programs/traced.py"), "2", "5"]
    made = []
    for commit in ("aaa", "bbb"):
        for host in ("web-1", "web-2"):
            name = record(host, f"{host}-{commit}.fxt", *(spans if (host, commit) == ("web-2", "bbb") else crowd))
            made.append((name, host, commit))
    # A trace that is truncated in the middle of a record.
    whole = (SCRATCH / "web-1-bbb.fxt").read_bytes()
    (SCRATCH / "cut.fxt").write_bytes(whole[: len(whole) * 2 // 3 // 8 * 8 + 4])
    made.append(("cut.fxt", "web-1", "bbb"))
    for name, _, commit in made:
        if commit == "aaa":
            set_back(name)
        fxtrec("export", "-q", name, "-o", "fleet", "--label", f"commit={commit}")
        fxtrec("export", "-q", name, "-o", "fleet-csv", "--format", "csv", "--label", f"commit={commit}")
    weeks, today = {}, datetime.now(timezone.utc)
    for commit, age in (("aaa", 7), ("bbb", 0)):
        year, week, _ = (today - timedelta(days=age)).isocalendar()
        weeks[commit] = f"{year}-W{week:02}"
    return [Trace(name, host, commit, weeks[commit]) for name, host, commit in made]


# The engines.


def duckdb(folder, tables):
    import duckdb

    database = duckdb.connect(":memory:")
    for table in tables:
        files = f"{folder}/{table}/*/*/*.parquet"
        database.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{files}', hive_partitioning = true)")

    def run(sql):
        rows = database.execute(sql)
        return [column[0] for column in rows.description], rows.fetchall()

    return run


def datafusion(folder, tables):
    import datafusion
    import pyarrow

    context = datafusion.SessionContext()
    parts = [("day", pyarrow.string()), ("trace_id", pyarrow.string())]
    for table in tables:
        context.register_parquet(table, f"{folder}/{table}", table_partition_cols=parts)

    def run(sql):
        rows = context.sql(sql).to_arrow_table()
        return rows.column_names, [tuple(row.values()) for row in rows.to_pylist()]

    return run


def polars(folder, tables):
    import polars

    context = polars.SQLContext()
    for table in tables:
        context.register(table, polars.scan_parquet(f"{folder}/{table}/**/*.parquet", hive_partitioning=True))

    def run(sql):
        rows = context.execute(sql, eager=True)
        return rows.columns, rows.rows()

    return run


def spark(folder, tables):
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # There are few rows: a task for each of many partitions would dominate the time.
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.sql.files.minPartitionNum": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.warehouse.dir": str(SCRATCH / "warehouse"),
        "spark.local.dir": str(SCRATCH / "spark"),
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    for table in tables:
        session.read.parquet(f"{folder}/{table}").createOrReplaceTempView(table)

    def run(sql):
        rows = session.sql(sql)
        return rows.columns, [tuple(row) for row in rows.collect()]

    def end():
        java = session.sparkContext._gateway
        session.stop()
        java.shutdown()
        # It ends when this is closed; otherwise it ends only some time after Python.
        java.proc.stdin.close()
        java.proc.wait(timeout=60)

    run.end = end
    return run


def path_to(engine):
    """A PATH that contains only this engine."""
    venv = Path(sys.prefix) / "bin"
    only = SCRATCH / f"path-{engine}"
    only.mkdir(exist_ok=True)
    # This is not a link, since Python finds its environment by its own location.
    (only / engine).write_text(f'#!/bin/sh\nexec "{venv / engine}" "$@"\n')
    (only / engine).chmod(0o755)
    return {**os.environ, "PATH": str(only)}


def query_by(engine, other=None):
    """`fxtrec query` with only this engine, for the tables in this folder."""
    env = path_to(engine)

    def begin(folder, tables):
        def run(sql):
            rows = json.loads(fxtrec("query", other or folder, sql, "--json", env=env) or "[]")
            # The program writes 128-bit integers, which sums are, as strings.
            number = lambda name, value: int(value) if name.endswith("_ns") and isinstance(value, str) else value
            rows = [{name: number(name, value) for name, value in row.items()} for row in rows]
            return list(rows[0]) if rows else [], [tuple(row.values()) for row in rows]

        return run

    return begin


def same_by_csv(engine, tables, trace):
    """Every table of a trace has the same columns, types and rows in Parquet, in CSV, and without a separate export."""
    env = path_to(engine)
    ask = lambda source, sql: json.loads(fxtrec("query", source, sql, "--json", env=env) or "[]")
    own = ask(trace, "SELECT trace_id FROM trace")[0]["trace_id"]
    temporary = lambda: sorted(Path(tempfile.gettempdir()).glob("fxtrec-query-*"))
    before = temporary()
    for table in tables:
        equal(f"columns of {table}", ask("fleet-csv", f"DESCRIBE {table}"), ask("fleet", f"DESCRIBE {table}"))
        # An export has labels, and a query has none.
        sources = ["fleet", "fleet-csv"] + ([trace] if table != "label" else [])
        rows = [ask(source, f"SELECT * FROM {table} WHERE trace_id = '{own}' ORDER BY ALL") for source in sources]
        if not rows[0] and table in ("sched_slice", "thread_state", "wait", "thread", "trace"):
            raise Failed(f"{table} has no rows to compare")
        for other in rows[1:]:
            if table != "trace":
                equal(f"rows of {table}", other, rows[0])
            else:
                equal(f"rows of {table}", [{**row, "file": None} for row in other], [{**row, "file": None} for row in rows[0]])
    equal("tables", ask(trace, "SHOW TABLES"), ask("fleet", "SHOW TABLES"))
    if found := set(temporary()) - set(before):
        raise Failed(f"left behind: {found}")


# The content of the report.


def equal(what, found, expected):
    if found != expected:
        raise Failed(f"{what}: {found}, and by the report {expected}")


def by(all_traces, key):
    groups = {}
    for trace in all_traces:
        groups.setdefault(getattr(trace, key), []).append(trace)
    return dict(sorted(groups.items()))


def p99_by(key):
    def check(all_traces, rows):
        groups = by(all_traces, key)
        equal(key, [row[0] for row in rows], list(groups))
        for (_, group), (_, waits, p99, *_more) in zip(groups.items(), rows):
            told = report(*[trace.name for trace in group])["total"]["metrics"]["wakeup"]
            equal("count", waits, told["count"])
            if not p99 <= told["p99_ns"] <= p99 * TOLERANCE + 1:
                raise Failed(f"p99 {p99}, and by the report {told['p99_ns']}")
        return groups

    return check


def p99_by_commit(all_traces, rows):
    groups = p99_by("commit")(all_traces, rows)
    for group, row in zip(groups.values(), rows):
        told = report(*[trace.name for trace in group])["total"]["metrics"]["wakeup"]
        equal("max", row[3], told["max_ns"])


def worst_of(all_traces):
    told = report(*[trace.name for trace in all_traces])
    return [dict(wait, host=told["traces"][wait["trace"]]["host"], file=told["traces"][wait["trace"]]["file"]) for wait in told["worst"]]


def longest_first(waits):
    return sorted(waits, key=lambda it: (-it["length_ns"], it["begin_ns"], it["tid"]))


def worst_waits(all_traces, rows):
    told = longest_first(worst_of(all_traces))
    equal("lengths", [row[5] for row in rows], [wait["length_ns"] for wait in told])
    for row, wait in zip(rows, told):
        first = (wait["antagonists"] or [{}])[0]
        # The truncated trace has the beginning of another one, and so some of its waits.
        equal("wait", (row[0], row[3], row[4]), (wait["host"], wait["tid"], {"preempt": "preempted"}.get(wait["metric"], wait["metric"])))
        equal("antagonist", (row[8], row[9]), (first.get("tid"), first.get("ran_ns")))
        equal("antagonists", row[10] or 0, len(wait["antagonists"]) + wait["more_antagonists"])
        equal("waker", row[6] is None, wait["waker"] is None)


def antagonists(all_traces, rows):
    told = []
    for wait in longest_first(worst_of(all_traces)):
        told += [(wait["length_ns"], wait["begin_ns"], it["tid"], it["ran_ns"]) for it in wait["antagonists"]]
    found = [(row[0], row[1], row[3], row[4]) for row in rows]
    equal("antagonists", sorted(found), sorted(told))


def taken_by_cgroup(all_traces, rows):
    told = {}
    for trace in all_traces:
        own = json.loads(fxtrec("report", "--json", "--include-recorder", "--worst", "1000000", trace.name))
        cgroups = {thread["koid"]: thread.get("cgroup") for thread in own["threads"]}
        for wait in own["worst"]:
            had = sum(it["ran_ns"] for it in wait["antagonists"])
            if had:
                told[cgroups[wait["koid"]]] = told.get(cgroups[wait["koid"]], 0) + had
    found = {}
    for cgroup, taken_by, had, times in rows:
        found[cgroup] = found.get(cgroup, 0) + had
        if times < 1 or taken_by is not None and not taken_by.startswith("/"):
            raise Failed(f"{times} times by {taken_by}")
    equal("time of cgroups", found, told)


def steal_by_host(all_traces, rows):
    equal("hosts", sorted(row[0] for row in rows), list(by(all_traces, "host")))
    for host, steal, ran, percent in rows:
        metrics = [trace.report["total"]["metrics"] for trace in all_traces if trace.host == host]
        equal("steal", steal, sum(it["steal"]["sum_ns"] for it in metrics))
        equal("slices", ran, sum(it["slice"]["sum_ns"] for it in metrics))
        if abs(float(percent) - 100 * steal / ran) > 1e-6:
            raise Failed(f"{percent} % of {ran}")


def regressions(all_traces, rows):
    p99_by("week")(all_traces, [row[:3] for row in rows])
    equal("the first", rows[0][3], None)
    for before, now in zip(rows, rows[1:]):
        if abs(float(now[3]) - 100 * (now[2] - before[2]) / before[2]) > 1e-6:
            raise Failed(f"change: {now[3]} %")


def sums_by_name(all_traces, of):
    sums = {}
    for trace in all_traces:
        for thread in trace.report["threads"]:
            count, nanos, longest = of(thread)
            known = sums.get(thread["comm"], (0, 0, 0))
            sums[thread["comm"]] = (known[0] + count, known[1] + nanos, max(known[2], longest))
    return sums


def cpu_time(all_traces, rows):
    sums = sums_by_name(all_traces, lambda thread: (0, thread["cpu_time_ns"], 0))
    told = sorted(((name, it[1]) for name, it in sums.items()), key=lambda it: (-it[1], it[0]))[:10]
    equal("CPU time", [(row[0], row[2]) for row in rows], told)


def held_back(trace):
    """The name of COMMAND, and how long it was blocked until the recorder let it run, if the trace has both ends of that: the tables
    contain it, and the report leaves it out."""
    command = recorder = since = None
    for line in fxtrec("dump", "--json", trace.name).splitlines():
        it = json.loads(line)
        args = {arg["name"]: arg["value"] for arg in it.get("args", [])}
        if it.get("name") == "trace_info":
            command, recorder = args["command"]["koid"], it["thread"]["koid"]
        elif it.get("type") == "context_switch" and it["outgoing"]["koid"] == command:
            since = it["time_ns"] if it["outgoing_state"] == "blocked" else None
        elif it.get("type") == "wakeup" and it["thread"]["koid"] == command and since is not None:
            if args.get("waker", {}).get("koid") != recorder:
                break
            comm = next(thread["comm"] for thread in trace.report["threads"] if thread["koid"] == command)
            return [(comm, it["time_ns"] - since)]
    return []


def blocked(all_traces, rows):
    def of(thread):
        both = [thread["metrics"][metric] for metric in ("blocked", "blocked_d")]
        return sum(it["count"] for it in both), sum(it["sum_ns"] for it in both), max(it["max_ns"] or 0 for it in both)

    sums = sums_by_name(all_traces, of)
    for name, nanos in (held for trace in all_traces for held in held_back(trace)):
        count, total, longest = sums[name]
        sums[name] = (count + 1, total + nanos, max(longest, nanos))
    told = sorted(((name, *it) for name, it in sums.items() if it[0]), key=lambda it: (-it[2], it[0]))[:10]
    equal("blocked", [tuple(row) for row in rows], told)


def spans(all_traces, rows):
    wall, whole = {}, {}
    for trace in all_traces:
        # Asynchronous spans have no parts.
        for row in (it for it in trace.report.get("spans", []) if not it.get("async")):
            wall[row["name"]] = wall.get(row["name"], 0) + row["parts"]["wall"]["sum_ns"]
            if row["unknown_ns"] == 0:
                for part in ("cpu", "runqueue", "blocked"):
                    key = (row["name"], part)
                    whole[key] = whole.get(key, 0) + row["parts"][part]["sum_ns"]
            else:
                whole[(row["name"], None)] = 1
    if "nap" not in wall:
        raise Failed("the traces have no spans")
    found, parts = {}, {}
    for name, part, nanos in rows:
        found[name] = found.get(name, 0) + nanos
        part = "cpu" if part == "cpu_undivided" else part
        parts[(name, part)] = parts.get((name, part), 0) + nanos
    equal("spans", found, wall)
    for (name, part), nanos in whole.items():
        if (name, None) not in whole:
            equal(f"{part} of {name}", parts.get((name, part), 0), nanos)


def not_whole(all_traces, rows):
    losses = lambda trace: trace.report["losses"]
    bad = [it for it in all_traces if losses(it)["gaps"] or losses(it)["events"] or losses(it)["damaged"] or losses(it)["truncated"]]
    if not any(trace.name == "cut.fxt" for trace in bad):
        raise Failed("the report does not say that a trace was cut")
    told = [(it.name, it.host, losses(it)["gaps"], losses(it)["events"], losses(it)["truncated"]) for it in bad]
    equal("traces", sorted(tuple(row) for row in rows), sorted(told))


CHECKS = {
    "p99 of wakeup latency by commit": p99_by_commit,
    "The ten worst waits of the fleet": worst_waits,
    "All antagonists of the ten worst waits": antagonists,
    "Which cgroups took the CPU": taken_by_cgroup,
    "Which host steals": steal_by_host,
    "Regressions by week": regressions,
    "CPU time by name of thread": cpu_time,
    "For how long threads were blocked": blocked,
    "Where the time of spans went": spans,
    "Incomplete traces": not_whole,
}

ENGINES = {
    "DuckDB": duckdb,
    "DataFusion": datafusion,
    "Polars": polars,
    "Spark": spark,
    "fxtrec query with the program duckdb": query_by("duckdb"),
    "fxtrec query with Python's module": query_by("python3"),
    "fxtrec query of CSV with the program duckdb": query_by("duckdb", "fleet-csv"),
    "fxtrec query of CSV with Python's module": query_by("python3", "fleet-csv"),
}


def main():
    manual = (REPOSITORY / "docs/reference/sql.md").read_text()
    queries = dict(re.findall(r"^### (.*?)\n(?:(?!^###).)*?```sql\n(.*?)```", manual, re.M | re.S))
    equal("queries of docs/reference/sql.md", sorted(queries), sorted(CHECKS))
    if manual.count("```sql") != len(queries):
        raise Failed("docs/reference/sql.md has queries without a heading of their own")
    begin = time.time()
    all_traces = traces()
    folder = SCRATCH / "fleet"
    tables = sorted(path.name for path in folder.iterdir())
    print(f"{len(all_traces)} traces and {len(tables)} tables after {time.time() - begin:.1f} s", flush=True)
    wrong = 0
    for name, engine in ENGINES.items():
        begin = time.time()
        run = engine(folder, tables)
        for title, check in CHECKS.items():
            try:
                check(all_traces, run(queries[title])[1])
            except Exception as error:
                wrong += 1
                print(f"{name}: {title}: {type(error).__name__}: {str(error)[:2000]}", file=sys.stderr)
        getattr(run, "end", lambda: None)()
        print(f"{name}: {len(CHECKS)} queries in {time.time() - begin:.1f} s", flush=True)
    for engine in ("duckdb", "python3"):
        begin = time.time()
        try:
            same_by_csv(engine, tables, all_traces[0].name)
        except Exception as error:
            wrong += 1
            print(f"CSV by {engine}: {type(error).__name__}: {str(error)[:2000]}", file=sys.stderr)
        print(f"CSV and Parquet by {engine}: {len(tables)} tables compared in {time.time() - begin:.1f} s", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failed:
        sys.exit(f"scripts/check-sql: {failed}")
