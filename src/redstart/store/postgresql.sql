-- The schema and the statements of the store in PostgreSQL. {schema} stands for the name of the schema.
-- Each `version` is applied once, in this order. A released version is never edited: what changes is a new one.
-- Times are seconds since 1970 on the clock of the engine. Names are bytes, of at most 512, so that any text fits.

-- version: 1
DO $$ BEGIN
    IF to_regnamespace('{schema}') IS NULL THEN
        CREATE SCHEMA {schema};
    END IF;
END $$;
CREATE TABLE {schema}.version (number int NOT NULL);
INSERT INTO {schema}.version VALUES (1);
CREATE TABLE {schema}.tasks (
    key bytea PRIMARY KEY,
    id bytea NOT NULL,
    owner bytea NOT NULL,
    owner_key bytea NOT NULL,
    body bytea NOT NULL,
    version bigint NOT NULL,
    fence bigint NOT NULL,
    created float8 NOT NULL,
    updated float8 NOT NULL,
    queue bytea NOT NULL,
    due float8 NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY
);
CREATE INDEX ON {schema}.tasks (queue, due, place);
CREATE INDEX ON {schema}.tasks (owner_key, place);
CREATE TABLE {schema}.total (tasks bigint NOT NULL);
INSERT INTO {schema}.total VALUES (0);
CREATE TABLE {schema}.kv (key bytea PRIMARY KEY, value bytea NOT NULL, until float8);
CREATE INDEX ON {schema}.kv (until);
CREATE SEQUENCE {schema}.entry_id;
CREATE TABLE {schema}.streams (key bytea PRIMARY KEY, until float8, after bigint NOT NULL);
CREATE INDEX ON {schema}.streams (until);
CREATE TABLE {schema}.entries (stream bytea, id bigint, data bytea NOT NULL, PRIMARY KEY (stream, id));
CREATE UNLOGGED TABLE {schema}.buckets (
    key bytea PRIMARY KEY, tokens float8 NOT NULL, since float8 NOT NULL, allowed boolean NOT NULL, until float8
);
CREATE INDEX ON {schema}.buckets (until);
CREATE FUNCTION {schema}.seconds() RETURNS float8 LANGUAGE sql VOLATILE
    AS 'SELECT extract(epoch FROM pg_catalog.clock_timestamp())::float8';
-- The row of the total is locked first, so that two inserts cannot both take the last place.
CREATE FUNCTION {schema}.insert_task(
    key_ bytea, id_ bytea, owner_ bytea, owner_key_ bytea, body_ bytea, fence_ bigint, queue_ bytea, delay float8,
    max_owned bigint, max_all bigint
) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
    now float8;
BEGIN
    UPDATE {schema}.total SET tasks = tasks + 1 WHERE tasks < max_all;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF (SELECT count(*) FROM {schema}.tasks WHERE owner_key = owner_key_) >= max_owned
            OR EXISTS (SELECT FROM {schema}.tasks WHERE key = key_) THEN
        UPDATE {schema}.total SET tasks = tasks - 1;
        RETURN NULL;
    END IF;
    now := {schema}.seconds();
    INSERT INTO {schema}.tasks (key, id, owner, owner_key, body, version, fence, created, updated, queue, due)
        VALUES (key_, id_, owner_, owner_key_, body_, 1, fence_, now, now, queue_, now + delay);
    RETURN now;
END
$$;

-- query: task_insert
WITH added AS MATERIALIZED (
    SELECT {schema}.insert_task(
        %(key)s, %(id)s, %(owner)s, %(owner_key)s, %(body)s, %(fence)s::bigint, %(queue)s, %(delay)s::float8,
        %(max_owned)s::bigint, %(max_all)s::bigint
    ) AS now
)
SELECT now, pg_notify('{schema}', %(topic)s),
    CASE WHEN %(changed)s::text IS NOT NULL THEN pg_notify('{schema}', %(changed)s::text) END
FROM added WHERE now IS NOT NULL

-- query: task_read
SELECT id, owner, body, version, fence, created, updated, {schema}.seconds()
FROM {schema}.tasks WHERE key = %(key)s AND owner = %(owner)s

-- query: task_list
SELECT id, owner, body, version, fence, created, updated, {schema}.seconds()
FROM {schema}.tasks
WHERE owner_key = %(owner_key)s AND place > CASE WHEN %(after)s = ''::bytea THEN 0
    ELSE (SELECT place FROM {schema}.tasks WHERE key = %(after)s AND owner_key = %(owner_key)s) END
ORDER BY place LIMIT %(limit)s

-- The first ones of each queue are read without a lock, some more than needed: others may take the same ones now.
-- query: task_claim
WITH clock AS MATERIALIZED (SELECT {schema}.seconds() AS now),
heads AS MATERIALIZED (
    SELECT head.key FROM unnest(%(queues)s::bytea[]) AS wanted (queue) CROSS JOIN LATERAL (
        SELECT key FROM {schema}.tasks WHERE queue = wanted.queue AND due <= (SELECT now FROM clock)
        ORDER BY due, place LIMIT %(limit)s + 32
    ) AS head
),
mine AS (
    SELECT key, due, place FROM {schema}.tasks
    WHERE key IN (SELECT key FROM heads) AND queue = ANY (%(queues)s::bytea[]) AND due <= (SELECT now FROM clock)
    ORDER BY due, place LIMIT %(limit)s FOR UPDATE SKIP LOCKED
),
claimed AS (
    UPDATE {schema}.tasks SET queue = '', due = now + %(hold)s, version = version + 1, fence = fence + 1
    FROM mine, clock WHERE tasks.key = mine.key
    RETURNING id, owner, body, version, fence, created, updated, now, mine.due AS was_due, mine.place AS place
)
SELECT id, owner, body, version, fence, created, updated, now FROM claimed ORDER BY was_due, place

-- query: task_write
WITH clock AS MATERIALIZED (SELECT {schema}.seconds() AS now),
written AS (
    UPDATE {schema}.tasks
    SET body = %(body)s, queue = %(queue)s, due = now + %(delay)s, version = version + 1, updated = now
    FROM clock WHERE key = %(key)s AND version = %(version)s
    RETURNING now
)
SELECT now, pg_notify('{schema}', %(topic)s),
    CASE WHEN %(changed)s::text IS NOT NULL THEN pg_notify('{schema}', %(changed)s::text) END
FROM written

-- query: task_hold
WITH mine AS (
    SELECT tasks.key FROM {schema}.tasks
    JOIN unnest(%(keys)s::bytea[], %(versions)s::bigint[]) AS wanted (key, version) USING (key, version)
    ORDER BY tasks.key FOR UPDATE OF tasks
)
UPDATE {schema}.tasks SET queue = '', due = (SELECT {schema}.seconds()) + %(hold)s FROM mine WHERE tasks.key = mine.key
RETURNING id

-- query: task_delete
WITH gone AS (DELETE FROM {schema}.tasks WHERE key = %(key)s AND version = %(version)s RETURNING 1)
UPDATE {schema}.total SET tasks = tasks - 1 WHERE EXISTS (SELECT FROM gone) RETURNING 1

-- query: kv_get
SELECT value FROM {schema}.kv WHERE key = %(key)s AND (until IS NULL OR until > {schema}.seconds())

-- query: kv_set
WITH clock AS MATERIALIZED (SELECT {schema}.seconds() AS now),
swept AS (
    DELETE FROM {schema}.kv WHERE key IN (
        SELECT key FROM {schema}.kv WHERE until <= (SELECT now FROM clock) AND key <> %(key)s
        LIMIT 4 FOR UPDATE SKIP LOCKED
    )
)
INSERT INTO {schema}.kv SELECT %(key)s, %(value)s, now + %(ttl)s::float8 FROM clock
ON CONFLICT (key) DO UPDATE SET value = excluded.value, until = excluded.until
WHERE NOT %(nx)s OR kv.until <= (SELECT now FROM clock)
RETURNING 1

-- query: kv_take
WITH gone AS (DELETE FROM {schema}.kv WHERE key = %(key)s RETURNING value, until)
SELECT value FROM gone WHERE until IS NULL OR until > {schema}.seconds()

-- query: kv_delete
DELETE FROM {schema}.kv WHERE key = %(key)s RETURNING 1

-- query: publish
SELECT pg_notify('{schema}', %(message)s)

-- A stream that has expired begins again after its last entry.
-- query: log_append
WITH clock AS MATERIALIZED (SELECT {schema}.seconds() AS now),
dead AS (
    DELETE FROM {schema}.streams WHERE key IN (
        SELECT key FROM {schema}.streams WHERE until <= (SELECT now FROM clock) AND key <> %(stream)s
        LIMIT 4 FOR UPDATE SKIP LOCKED
    ) RETURNING key
),
swept AS (DELETE FROM {schema}.entries WHERE stream IN (SELECT key FROM dead)),
mine AS (
    INSERT INTO {schema}.streams AS old SELECT %(stream)s, now + %(ttl)s::float8, 0 FROM clock
    ON CONFLICT (key) DO UPDATE SET until = excluded.until, after = CASE
        WHEN old.until <= (SELECT now FROM clock) THEN nextval('{schema}.entry_id') ELSE old.after END
    RETURNING nextval('{schema}.entry_id') AS id, after
),
trimmed AS (
    DELETE FROM {schema}.entries WHERE stream = %(stream)s AND id <= greatest((SELECT after FROM mine), (
        SELECT id FROM {schema}.entries WHERE stream = %(stream)s ORDER BY id DESC OFFSET %(maxlen)s - 1 LIMIT 1
    ))
)
INSERT INTO {schema}.entries SELECT %(stream)s, id, %(data)s FROM mine RETURNING id

-- query: log_read
SELECT id, data FROM {schema}.entries JOIN {schema}.streams ON streams.key = stream
WHERE stream = %(stream)s AND id > greatest(streams.after, %(after)s)
    AND (until IS NULL OR until > (SELECT {schema}.seconds()))
ORDER BY id

-- query: take
WITH clock AS MATERIALIZED (SELECT {schema}.seconds() AS now),
swept AS (
    DELETE FROM {schema}.buckets WHERE key IN (
        SELECT key FROM {schema}.buckets WHERE until <= (SELECT now FROM clock) AND key <> %(key)s
        LIMIT 4 FOR UPDATE SKIP LOCKED
    )
)
INSERT INTO {schema}.buckets AS old
SELECT %(key)s, %(burst)s::float8 - (%(burst)s >= 1)::int, now, %(burst)s >= 1,
    now + %(burst)s::float8 / nullif(%(rate)s::float8, 0)
FROM clock
ON CONFLICT (key) DO UPDATE SET (tokens, allowed, since, until) = (
    SELECT filled - (filled >= 1)::int, filled >= 1, greatest(old.since, excluded.since), excluded.until
    FROM (SELECT least(
        %(burst)s::float8, old.tokens + greatest(0, excluded.since - old.since) * %(rate)s::float8
    ) AS filled) AS bucket
)
RETURNING allowed, CASE WHEN allowed THEN 0 WHEN %(rate)s > 0 THEN (1 - tokens) / %(rate)s ELSE 'infinity' END::float8
