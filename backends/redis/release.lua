-- Frees each lease that still has the token of its ask, and its note if it has
-- one, and tells who is first of those who wait for it.
--
-- KEYS  the key of each ask
-- ARGV  for how long a key is kept for who is next (ms); then token, note and
--       waiter, for each ask
--
-- Returns how many leases were freed.

-- What is about waiting is only a help: it must not keep a lease from being freed.
local freed = 0
for i, key in ipairs(KEYS) do
  local token, note, waiter = ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1]
  if waiter ~= '' then
    redis.pcall('ZREM', waiting_for(key), waiter)
  end
  local value = redis.call('GET', key)
  local held = value and token_of(value) == token and (note == '' or value == token .. ' ' .. note)
  if held or value and waiter ~= '' and value == kept_for(waiter) then
    redis.call('DEL', key)
    freed = freed + (held and 1 or 0)
    local next = redis.pcall('ZPOPMIN', waiting_for(key))[1]
    if next then
      redis.pcall('SET', key, kept_for(next), 'PX', ARGV[1])
      redis.pcall('PUBLISH', key .. ':' .. next, '')
    end
  end
end
return freed
