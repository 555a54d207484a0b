-- Frees each lease that still has the token of its ask, and its note if it has
-- one, and tells who is next: whom the ask names, or who is first of those who
-- wait for it.
--
-- KEYS  the key of each ask
-- ARGV  for how long a key is kept for who is first, and for who is named (ms);
--       then token, note, waiter, and who is named or "", for each ask
--
-- Returns how many leases were freed.

-- What is about waiting is only a help: it must not keep a lease from being freed.
local freed = 0
for i, key in ipairs(KEYS) do
  local at = 4 * i - 1
  local token, note, waiter, next = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  if waiter ~= '' then
    redis.pcall('ZREM', waiting_for(key), waiter)
  end
  local value = redis.call('GET', key)
  local held = value and token_of(value) == token and (note == '' or value == token .. ' ' .. note)
  if held or value and waiter ~= '' and value == kept_for(waiter) then
    redis.call('DEL', key)
    freed = freed + (held and 1 or 0)
    local keep = ARGV[2]
    if next == '' then
      next, keep = redis.pcall('ZPOPMIN', waiting_for(key))[1], ARGV[1]
    end
    if next then
      redis.pcall('SET', key, kept_for(next), 'PX', keep)
      redis.pcall('PUBLISH', key .. ':' .. next, '')
    end
  end
end
return freed
