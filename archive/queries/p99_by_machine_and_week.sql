WITH
    -- p99 of round trips by machine and week, exact: interpolated as the figures of Tripmeter are.
    -- Counts how often each value occurs, so memory grows with the number of different nanoseconds and not with the samples.
counts AS (
    SELECT machine, date, rtt_ns, count(*) AS n
    FROM samples
    WHERE status = 'ok' AND rtt_ns IS NOT NULL
    GROUP BY machine, date, rtt_ns
), weeks AS (
    SELECT machine, date_trunc('week', date) AS week, rtt_ns, sum(n) AS n
    FROM counts
    GROUP BY machine, date_trunc('week', date), rtt_ns
), ranked AS (
    SELECT machine, week, rtt_ns,
        sum(n) OVER (PARTITION BY machine, week ORDER BY rtt_ns) AS up_to,
        sum(n) OVER (PARTITION BY machine, week) AS n
    FROM weeks
), neighbours AS (
    SELECT machine, week, n,
        min(rtt_ns) FILTER (WHERE up_to > CAST(0.99 * (n - 1) AS BIGINT)) AS low,
        min(rtt_ns) FILTER (WHERE up_to > CAST(0.99 * (n - 1) AS BIGINT) + 1) AS high
    FROM ranked
    GROUP BY machine, week, n
)
SELECT machine, CAST(week AS DATE) AS week, n AS samples,
    low + (coalesce(high, low) - low) * (0.99 * (n - 1) - CAST(0.99 * (n - 1) AS BIGINT)) AS p99_ns
FROM neighbours
ORDER BY machine, week
