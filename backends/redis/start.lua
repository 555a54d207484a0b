-- Turns a list on.
--
-- KEYS  the four keys of the list
-- ARGV  the token; the run id; the expected numbers of units and users; its hours (us; 0
--       for at once, and never); the position up to which the stream is drained, or ""
--
-- Returns DONE, OTHER_TOKEN, OTHER_RUN or OTHER_LENGTH.

local list, taken, stream, marker, fill = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]
local units, users = redis.call('LLEN', list), redis.call('HLEN', taken)
redis.call('XLEN', stream)
local refused = may_fill(marker, fill, ARGV[2])
if refused ~= DONE then
  return refused
elseif units ~= tonumber(ARGV[3]) or users ~= tonumber(ARGV[4]) then
  return OTHER_LENGTH
end
-- This changes nothing. A Redis user without the right to LTRIM fails here, and not in
-- the middle of a grab.
redis.call('LTRIM', list, 0, -1)
if ARGV[7] ~= '' then
  forget_up_to(stream, ARGV[7])
end
redis.call('PERSIST', marker)
redis.call('HSET', marker, 'fill', fill, 'gave', fill, 'opens', ARGV[5], 'closes', ARGV[6],
  'whole', ARGV[2], 'entries', 0)
return DONE
