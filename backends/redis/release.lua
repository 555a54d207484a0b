-- Frees each lease that still has the token of its request, and its note if there is
-- one, and notifies the next waiter: the one that the request names, or the first in
-- line.
--
-- KEYS  the key of each request
-- ARGV  how long a key is reserved for the first waiter, and for a named one (ms);
--       then token, note, waiter, and the named waiter or "", for each request
--
-- Returns the number of freed leases.

-- The line of waiters is only an optimisation: its errors must not prevent a release.
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
