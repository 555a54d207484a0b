-- A batch of claims, each of another user. The rows of their shards are locked.
--
-- Users who have a unit get it again, whatever their key: the program compares it. The
-- others get the next units of their shards, in the order of their requests, as long as
-- there are any.
WITH requested AS MATERIALIZED (
  SELECT a.n, a.user_id, a.key, a.shard, c.key AS had, c.unit, c.at
  FROM unnest($1::text[], $2::text[], $3::smallint[]) WITH ORDINALITY AS a (user_id, key, shard, n)
  LEFT JOIN claims c ON c.user_id = a.user_id
), sold AS (
  INSERT INTO claims (user_id, key, shard, unit, at)
  SELECT user_id, key, shard, unit, now() FROM (
    SELECT a.user_id, a.key, a.shard, s.stock,
      s.sold + row_number() OVER (PARTITION BY a.shard ORDER BY a.n) AS unit
    FROM requested a JOIN shards s ON s.shard = a.shard
    WHERE a.had IS NULL
  ) numbered
  WHERE unit <= stock
  ON CONFLICT (user_id) DO NOTHING
  RETURNING user_id, key, shard, unit, at
), counted AS (
  UPDATE shards SET sold = shards.sold + c.n
  FROM (SELECT shard, count(*) AS n FROM sold GROUP BY shard) c
  WHERE shards.shard = c.shard
)
SELECT user_id, key, shard, unit, at, true AS fresh FROM sold
UNION ALL
SELECT user_id, had, shard, unit, at, false FROM requested WHERE had IS NOT NULL
