-- Lists one page of the leases.
--
-- ARGV  cursor, "0" to begin; pattern of the keys; how many keys to look at;
--       the longest ttl (ms)
--
-- Returns the next cursor, "0" at the end, and {key, value, ms left} of each
-- lease found. One without an end, or too far an end, has what the next vote
-- gives it. Over all pages a lease that is there all the time comes once or
-- more.

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
