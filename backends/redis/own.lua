-- Says whether the server has a copy of the vote script that no other run of it has.
--
-- KEYS  the marker
-- ARGV  the field of the marker that names the copy
--
-- Returns the version of the server, 0 before 7.0; the run that it is in; and the
-- name of the copy that it has had in this run, "" for none.

local run = run_id()
local of, name = string.match(redis.call('HMGET', KEYS[1], ARGV[1])[1] or '', '^(%x+) (%w+)$')
return {redis.REDIS_VERSION_NUM or 0, run, of == run and name or ''}
