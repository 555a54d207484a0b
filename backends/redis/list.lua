-- Lists one page of the leases.
--
-- ARGV  cursor, "0" to begin; pattern of the keys; number of keys to scan;
--       the longest ttl (ms)
--
-- Returns the next cursor, "0" at the end, and {key, value, ms left} of each lease. A
-- lease without an end, or with one too far away, gets the longest ttl, as from the
-- next vote. A lease that exists during the whole scan is returned at least once.

local longest = tonumber(ARGV[4])
local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3], 'TYPE', 'string')
local answer = {page[1]}
for _, key in ipairs(page[2]) do
  local value = redis.call('GET', key)
  if value and token_of(value) ~= '' then
    local left = redis.call('PTTL', key)
    if left < 0 or left > longest then
      left = longest
    end
    answer[#answer + 1] = {key, value, left}
  end
end
return answer
