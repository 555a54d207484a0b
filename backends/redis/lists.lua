-- What the scripts of the lists have in common; it is put before each of them.
--
-- KEYS of each list: the units that are left (a list), who was given what (a hash
-- of users), the grants that the log may lack (a stream), and the marker (a hash):
--
--   fill    under which the list gives, only while it is on
--   gave    the fill under which it gives or last gave
--   token   the fill that has stopped it last
--   run_id  the server's run when that token was taken: see this_run
--   whole   the server's run when it was turned on, until its users are deleted
--   entries how many entries of the stream the fill has had
--   opens, closes  from when and until when it gives (us), by the time that a grab
--                  names, 0 for at once and never
--
-- A grant, the value of its user in the hash, is "<unit> <us since 1970> <key>".
-- Entries of the stream are as grab.lua writes them.
--
-- A script must do all or nothing, and what fails in its middle stays done. So it
-- asks each of its keys something, or fails at its first write, before it changes
-- any: a key of another type ends it there. And a server that has no memory left,
-- or may not be written, refuses a first write only: that of a script that gives,
-- or adds, is one that needs memory.

local DONE, OTHER_FILL, OTHER_TOKEN, OTHER_RUN, OTHER_LENGTH, NOT_OPEN, CLOSED = 0, 1, 2, 3, 4, 5, 6

-- How many values a call may have: Lua unpacks no more than some thousands.
local MOST = 4000

-- The server's run: its run id, and the id under which it replicates. A master that
-- is made a replica and then a master again keeps the first, and may come back with
-- less than it had; the second is new each time.
local function this_run()
  local info = redis.call('INFO', 'replication')
  local _, before = string.find(info, '\nmaster_replid:', 1, true)
  return run_id() .. '-' .. string.match(info, '^%x+', before + 1)
end

-- Why a list does not give under a fill, or DONE if it does.
local function gives(marker, fill)
  local m = redis.call('HMGET', marker, 'fill', 'run_id')
  return m[1] == fill and m[2] == this_run() and DONE or OTHER_FILL
end

-- Why whoever has a token and a run id may not fill a list, or DONE.
local function may_fill(marker, token, run)
  local m = redis.call('HMGET', marker, 'token', 'run_id', 'fill')
  if run ~= this_run() then
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
