-- Removes units from the end of a list that is on.
--
-- KEYS  the four keys of the list
-- ARGV  the fill; the most units to remove
--
-- Returns {DONE, units...}, or {OTHER_FILL}.

local list, count = KEYS[1], tonumber(ARGV[2])
local refused = check_fill(KEYS[4], ARGV[1])
if refused ~= DONE then
  return {refused}
end
local units = redis.call('LRANGE', list, -count, -1)
redis.call('LTRIM', list, 0, -count - 1)
local answer = {DONE}
for i, unit in ipairs(units) do
  answer[i + 1] = tonumber(unit)
end
return answer
