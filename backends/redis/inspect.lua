-- Reads the state of a list, and writes nothing.
--
-- KEYS  the four keys of the list
--
-- Returns 1 if any of its keys exists, else 0; 1 if it is on, else 0; the fill under
-- which it is or last was on, and the token ("" for none); the numbers of units, users
-- and entries; and 1 if its users are complete, else 0.

local m = redis.call('HMGET', KEYS[4], 'gave', 'token', 'fill', 'run_id', 'whole')
return {redis.call('EXISTS', unpack(KEYS)) > 0 and 1 or 0, m[3] and m[4] == this_run() and 1 or 0,
  m[1] or '', m[2] or '', redis.call('LLEN', KEYS[1]), redis.call('HLEN', KEYS[2]), redis.call('XLEN', KEYS[3]),
  m[5] == this_run() and 1 or 0}
