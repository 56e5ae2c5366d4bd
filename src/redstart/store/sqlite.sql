-- The schema of the store sqlite://. Statements are separated by empty lines, versions by lines of minus signs:
-- what is below such a line leads from one version to the next.
--------
CREATE TABLE tasks (
    seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, owner BLOB NOT NULL, body BLOB NOT NULL,
    version INTEGER NOT NULL, fence INTEGER NOT NULL, created REAL NOT NULL, updated REAL NOT NULL,
    queue BLOB NOT NULL, due REAL NOT NULL
)

CREATE INDEX tasks_due ON tasks (queue, due)

CREATE INDEX tasks_owner ON tasks (owner)

-- The number of tasks of each owner; under the text 'all', which is not a blob, that of all owners.
CREATE TABLE counts (owner BLOB PRIMARY KEY, tasks INTEGER NOT NULL)

CREATE TRIGGER task_added AFTER INSERT ON tasks BEGIN
    INSERT OR IGNORE INTO counts VALUES (new.owner, 0), ('all', 0);
    UPDATE counts SET tasks = tasks + 1 WHERE owner IN (new.owner, 'all');
END

CREATE TRIGGER task_removed AFTER DELETE ON tasks BEGIN
    UPDATE counts SET tasks = tasks - 1 WHERE owner IN (old.owner, 'all');
    DELETE FROM counts WHERE owner = old.owner AND tasks = 0;
END

-- What may expire: values, streams, buckets. The first letter of a key tells which.
CREATE TABLE pairs (key BLOB PRIMARY KEY, value BLOB NOT NULL, until REAL)

CREATE INDEX pairs_until ON pairs (until)

CREATE TABLE entries (id INTEGER PRIMARY KEY AUTOINCREMENT, stream BLOB NOT NULL, data BLOB NOT NULL)

CREATE INDEX entries_stream ON entries (stream, id)

CREATE TRIGGER stream_expired AFTER DELETE ON pairs BEGIN
    DELETE FROM entries WHERE stream = old.key;
END

CREATE TABLE messages (id INTEGER PRIMARY KEY, topic BLOB NOT NULL, data BLOB NOT NULL)
