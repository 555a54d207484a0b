-- Adds a member to a registry, or removes it, and lists the members.
--
-- KEYS  the registry: a hash by member id, with the expiry (us) and the note, separated
--       by a space
-- ARGV  id and note; ttl, 0 to remove the member, and the longest ttl (ms); the most
--       members of a registry
--
-- Returns {id, note, time left (us)} of each member afterwards, the one of the call
-- first if it is one; nothing if the registry is full.

local registry, id, note = KEYS[1], ARGV[1], ARGV[2]
local ttl, longest, most = ARGV[3] * 1000, ARGV[4] * 1000, tonumber(ARGV[5])
local time = now()
local answer, expired, kept = {}, {}, ttl
if ttl > 0 then
  answer[1] = {id, note, ttl}
else
  expired[1] = id
end
local all = redis.call('HGETALL', registry)
for i = 1, #all, 2 do
  local other = all[i]
  local expires, other_note = string.match(all[i + 1], '^(%d+) (.*)$')
  if not expires then
    return redis.error_reply('WRONGTYPE the registry has a field of another form')
  end
  local left = expires - time
  if left > longest then -- the clock was set back since
    left = longest
    redis.call('HSET', registry, other, micros(time + left) .. ' ' .. other_note)
  end
  if left <= 0 then
    expired[#expired + 1] = other
  elseif other ~= id then
    answer[#answer + 1] = {other, other_note, left}
    kept = math.max(kept, left)
  end
end
if #expired > 0 then
  redis.call('HDEL', registry, unpack(expired))
end
if #answer > most then
  return {}
end
if ttl > 0 then
  redis.call('HSET', registry, id, micros(time + ttl) .. ' ' .. note)
end
redis.call('PEXPIRE', registry, math.ceil(kept / 1000))
return answer
