"""Makes 2001-01-01_07.jsonl from the flights of January to June 2001 in Parquet. See README.md beside this file.

    python make.py flights-2001.parquet 2001-01-01_07.jsonl        # needs the Python module duckdb
"""

import sys

import duckdb

source, target = sys.argv[1:]
reports = duckdb.execute(
    """
    SELECT strftime(date, '%Y-%m-%d %H:%M:%S'), delay, distance, origin, destination
    FROM (SELECT *, row_number() OVER () AS place FROM read_parquet(?))
    WHERE date >= TIMESTAMP '2001-01-01' AND date < TIMESTAMP '2001-01-08'
    -- A report comes when the delay is known; reports of one minute stay in the order of the file.
    ORDER BY date + to_minutes(greatest(delay, 0)), place
    """,
    [source],
).fetchall()

with open(target, "w") as file:
    for date, delay, distance, origin, destination in reports:
        file.write(
            f'{{"date":"{date}","delay":{delay},"distance":{distance},'
            f'"origin":"{origin}","destination":"{destination}"}}\n'
        )
print(f"{len(reports)} reports")
