"""The running total: the script, in the dialect that Volley and Flink share, and how much state it comes to."""

import math

MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
}

# A key is drawn evenly, or the k-th in proportion to 1/k (Zipf with exponent 1: even in the logarithm).
KEYS = {
    "uniform": "CAST(u * {keys} AS BIGINT)",
    "zipf": "CAST(EXP(u * LN({keys})) AS BIGINT)",
}

TABLES = """
CREATE TABLE numbers (u DOUBLE, v BIGINT) WITH (
  'connector' = 'datagen', 'number-of-rows' = '{rows}', 'rows-per-second' = '1000000000',
  'fields.u.min' = '0', 'fields.u.max' = '1', 'fields.v.min' = '0', 'fields.v.max' = '1000'
);
CREATE TABLE totals (k BIGINT, n BIGINT, s BIGINT) WITH ('connector' = 'blackhole');
"""

TOTAL = "INSERT INTO totals SELECT k, COUNT(*), SUM(v) FROM (SELECT {key} AS k, v FROM numbers) AS t GROUP BY k;\n"

# The same without the state: what the generator and the sink cost.
SOURCE_ALONE = "INSERT INTO totals SELECT {key}, v, v FROM numbers;\n"

STATE_BYTES_OF_KEY = 60
"""What the state of a key weighs: its hash, key, count and sum with what tells whether they are null."""


def script(rows, keys, distribution, options, statement=TOTAL):
    """The whole script, with options set first."""
    settings = "".join(f"SET '{key}' = '{value}';\n" for key, value in options.items())
    key = KEYS[distribution].format(keys=keys)
    return settings + TABLES.format(rows=rows) + statement.format(key=key)


def expected_keys(rows, keys, distribution):
    """How many different keys so many rows have, on average."""
    if distribution == "uniform":
        return keys * -math.expm1(-rows / keys)
    logarithm, steps = math.log(max(keys, 2)), 10_000
    total = 0.0
    for step in range(steps):
        key = math.exp((step + 0.5) / steps * logarithm)
        # So many keys lie in this step, and each comes in a row with this probability.
        total += key * logarithm / steps * -math.expm1(-rows / (key * logarithm))
    return total


def state_bytes(rows, keys, distribution):
    """How much state the running total comes to, about."""
    return int(expected_keys(rows, keys, distribution) * STATE_BYTES_OF_KEY)
