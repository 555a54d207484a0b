-- What scripts have in common that know leases; it is put before each of them.
-- A lease is a string, token and note with a space between. Those who wait for a
-- key are a sorted set beside it, so that listing leases can leave it out by its
-- type.

local function token_of(value)
  return string.match(value, '^[^ ]*')
end

local function waiting_for(key)
  return key .. ':waiting'
end

-- A key that was freed is kept for who is next for a moment, by a lease that has
-- no token.
local function kept_for(waiter)
  return ' ' .. waiter
end
