-- Gives a user who has no packet yet the oldest that nobody has.
--
-- KEYS  the list of unclaimed packets, the list of claimed ones, the map of the
--       users who have one
-- ARGV  the user
--
-- Returns the packet with the user in it; nil if the user has one, or none is left.

if redis.call('HEXISTS', KEYS[3], ARGV[1]) == 1 then
  return false
end
local encoded = redis.call('RPOP', KEYS[1])
if not encoded then
  return false
end
local packet = cjson.decode(encoded)
packet.user = ARGV[1]
encoded = cjson.encode(packet)
redis.call('HSET', KEYS[3], ARGV[1], ARGV[1])
redis.call('LPUSH', KEYS[2], encoded)
return encoded
