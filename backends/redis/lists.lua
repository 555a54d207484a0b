-- What the scripts of the lists have in common; it is put before each of them.
--
-- KEYS of each list: the units that are left (a list), who was given what (a hash
-- of users), the grants that the log may lack (a stream), and the marker (a hash):
--
--   fill    under which the list gives, only while it is on
--   gave    the fill under which it gives or last gave
--   token   the fill that has stopped it last
--   run_id  the server's when that token was taken
--   opens, closes  from when and until when it gives (us), 0 for at once and never
--
-- A grant is "<unit> <us since 1970> <key>": the value of its user in the hash,
-- and beside the user in an entry of the stream.
--
-- A script that writes has asked each of its keys something before, so that one of
-- another type ends it with nothing done. Its first write is one that a server
-- without memory refuses, unless it must work there too: after that first write,
-- Redis refuses none.

local DONE, OTHER_FILL, OTHER_TOKEN, OTHER_RUN, OTHER_LENGTH, NOT_OPEN, CLOSED = 0, 1, 2, 3, 4, 5, 6

-- How many values a call may have: Lua unpacks no more than some thousands.
local MOST = 4000

-- Why a list does not give under a fill, or DONE if it does.
local function gives(marker, fill)
  local m = redis.call('HMGET', marker, 'fill', 'run_id')
  return m[1] == fill and m[2] == run_id() and DONE or OTHER_FILL
end

-- Why whoever has a token and a run id may not fill a list, or DONE.
local function may_fill(marker, token, run)
  local m = redis.call('HMGET', marker, 'token', 'run_id', 'fill')
  if run ~= run_id() then
    return OTHER_RUN
  elseif m[1] ~= token or m[3] then
    return OTHER_TOKEN
  end
  return m[2] == run and DONE or OTHER_RUN
end

-- Deletes the entries of a stream up to and including a place.
local function forget_up_to(stream, place)
  local ms, seq = string.match(place, '^(%d+)-(%d+)$')
  redis.call('XTRIM', stream, 'MINID', string.format('%s-%.0f', ms, seq + 1))
end

-- Puts ranges of units, given as first and count, at the end of a list.
local function push(list, ranges, from, to)
  local units = {}
  for i = from, to, 2 do
    local first = tonumber(ranges[i])
    for unit = first, first + ranges[i + 1] - 1 do
      units[#units + 1] = string.format('%.0f', unit)
      if #units == MOST then
        redis.call('RPUSH', list, unpack(units))
        units = {}
      end
    end
  end
  if #units > 0 then
    redis.call('RPUSH', list, unpack(units))
  end
end
