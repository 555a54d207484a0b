-- Registers a member in a room, or removes it, and lists the members.
--
-- KEYS  the room: a hash by member id, with the expiry (us) and the note, separated by
--       a space
-- ARGV  id and note; ttl, 0 to remove the member, and the longest ttl (ms); the most
--       members of a room
--
-- Returns {id, note, time left (us)} of each member afterwards, the one of the call
-- first if it is one; nothing if the room is full.

local room, id, note = KEYS[1], ARGV[1], ARGV[2]
local ttl, longest, most = ARGV[3] * 1000, ARGV[4] * 1000, tonumber(ARGV[5])
local time = now()
local answer, gone, kept = {}, {}, ttl
if ttl > 0 then
  answer[1] = {id, note, ttl}
else
  gone[1] = id
end
local all = redis.call('HGETALL', room)
for i = 1, #all, 2 do
  local other = all[i]
  local expires, said = string.match(all[i + 1], '^(%d+) (.*)$')
  if not expires then
    return redis.error_reply('WRONGTYPE the room has a field of another form')
  end
  local left = expires - time
  if left > longest then -- the clock was set back since
    left = longest
    redis.call('HSET', room, other, micros(time + left) .. ' ' .. said)
  end
  if left <= 0 then
    gone[#gone + 1] = other
  elseif other ~= id then
    answer[#answer + 1] = {other, said, left}
    kept = math.max(kept, left)
  end
end
if #gone > 0 then
  redis.call('HDEL', room, unpack(gone))
end
if #answer > most then
  return {}
end
if ttl > 0 then
  redis.call('HSET', room, id, micros(time + ttl) .. ' ' .. note)
end
redis.call('PEXPIRE', room, math.ceil(kept / 1000))
return answer
