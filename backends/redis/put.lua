-- Appends a part to a list that is being filled.
--
-- KEYS  the four keys of the list
-- ARGV  the token; the run id; "1" for the first part, "2" for a first part that keeps
--       the users, else "0"; the expected numbers of units and users; the number of
--       ranges of units; first and count of each range; then user and grant of each
--       user with a unit
--
-- Returns DONE, OTHER_TOKEN, OTHER_RUN or OTHER_LENGTH.

local list, taken, marker = KEYS[1], KEYS[2], KEYS[4]
local units, users = redis.call('LLEN', list), redis.call('HLEN', taken)
local refused = may_fill(marker, ARGV[1], ARGV[2])
if refused ~= DONE then
  return refused
end
local first, keep = ARGV[3] ~= '0', ARGV[3] == '2'
if first then
  units, users = 0, keep and users or 0
end
if units ~= tonumber(ARGV[4]) or users ~= tonumber(ARGV[5]) then
  return OTHER_LENGTH
end
if keep then
  redis.call('UNLINK', list)
elseif first then
  redis.call('HDEL', marker, 'whole')
  redis.call('UNLINK', list, taken)
end
local last = 6 + 2 * ARGV[6]
push(list, ARGV, 7, last)
for i = last + 1, #ARGV, MOST do
  redis.call('HSET', taken, unpack(ARGV, i, math.min(i + MOST - 1, #ARGV)))
end
return DONE
