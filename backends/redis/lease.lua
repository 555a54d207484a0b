-- Common functions of the scripts of leases, prepended to each of them. A lease is a
-- string: token, space, note. The waiters for a key are a sorted set beside it, which
-- a listing of leases skips by its type.

local function token_of(value)
  return string.match(value, '^[^ ]*')
end

local function waiting_for(key)
  return key .. ':waiting'
end

-- A lease without a token reserves a freed key for its next waiter for a moment.
local function kept_for(waiter)
  return ' ' .. waiter
end
