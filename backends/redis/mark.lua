-- Writes a marker that stays until it is deleted.
--
-- KEYS  the marker
-- ARGV  the run id that the node must have to vote at once, or "" to repair the marker;
--       the longest ttl (ms)
--
-- Returns 1, or 0 if the node has another run id.

local marker, wanted, longest = KEYS[1], ARGV[1], tonumber(ARGV[2])
if wanted == '' then
  mended_marker(marker, now(), longest, run_id())
elseif wanted == run_id() then
  write_marker(marker, wanted, now())
else
  return 0
end
-- A vote may have written the marker, with an expiry.
redis.call('PERSIST', marker)
redis.call('HDEL', marker, 'kept_until')
return 1
