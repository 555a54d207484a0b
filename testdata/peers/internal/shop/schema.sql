-- One row a shard is counted up with each batch: room on its page keeps its new
-- versions there, and the index as it is.
DROP TABLE IF EXISTS claims, shards;
CREATE TABLE shards (
  shard smallint PRIMARY KEY,
  stock bigint NOT NULL,
  sold  bigint NOT NULL DEFAULT 0 CHECK (sold <= stock)
) WITH (fillfactor = 10);
CREATE TABLE claims (
  user_id text PRIMARY KEY, -- one unit each
  key     text NOT NULL,
  shard   smallint NOT NULL,
  unit    bigint NOT NULL,
  at      timestamptz NOT NULL
);
