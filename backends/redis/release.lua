-- Frees each lease that still has the token of its ask.
--
-- KEYS  the key of each ask
-- ARGV  its token
--
-- Returns how many had.

local freed = 0
for i, key in ipairs(KEYS) do
  local value = redis.call('GET', key)
  if value and token_of(value) == ARGV[i] then
    freed = freed + redis.call('DEL', key)
  end
end
return freed
