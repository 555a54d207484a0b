-- Takes the token of a fill and turns the list off.
--
-- KEYS  the four keys of the list
-- ARGV  the fill, the run id
--
-- Returns DONE, OTHER_RUN or OTHER_TOKEN.

local marker, fill, run = KEYS[4], ARGV[1], ARGV[2]
local token = redis.call('HMGET', marker, 'token')[1]
if run ~= this_run() then
  return OTHER_RUN
elseif tonumber(token or 0) >= tonumber(fill) then
  return OTHER_TOKEN
end
-- A missing list may never be started, for example after destroy: let its marker
-- expire.
local fresh = redis.call('EXISTS', marker) == 0
-- A server without memory accepts this write first, and then the next one.
redis.call('HDEL', marker, 'fill')
redis.call('HSET', marker, 'token', fill, 'run_id', run)
if fresh then
  redis.call('PEXPIRE', marker, 3600000)
end
return DONE
