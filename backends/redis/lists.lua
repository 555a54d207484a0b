-- Common functions of the scripts of lists, prepended to each of them.
--
-- KEYS of each list: the remaining units (a list), the grants by user (a hash), the
-- grants that the log may lack (a stream), and the marker (a hash):
--
--   fill    the fill under which the list is on, only while it is
--   gave    the fill under which it is or last was on
--   token   the fill that stopped it last
--   run_id  the server's run when that token was taken: see this_run
--   whole   the server's run when it was turned on, until its users are deleted
--   entries number of stream entries of the fill
--   opens, closes  its hours (us), compared with the time of a grab; 0 for at once
--                  and never
--
-- A grant, the value of its user in the hash, is "<unit> <us since 1970> <key>".
-- grab.lua describes the entries of the stream.
--
-- A script must have its full effect or none, but Redis does not undo the writes of a
-- failed script. So a script reads each of its keys, or fails at its first write,
-- before it changes any: a key of another type fails there. A server without memory,
-- or without the right to write, refuses only the first write: in a script that grants
-- or adds, the first write is one that needs memory.

local DONE, OTHER_FILL, OTHER_TOKEN, OTHER_RUN, OTHER_LENGTH, NOT_OPEN, CLOSED = 0, 1, 2, 3, 4, 5, 6

-- The most values of a call: Lua unpacks only some thousands.
local MOST = 4000

-- The server's run: its run id and its replication id. A master that becomes a replica
-- and a master again keeps its run id, and may have lost data; its replication id is
-- new.
local function this_run()
  local info = redis.call('INFO', 'replication')
  local _, before = string.find(info, '\nmaster_replid:', 1, true)
  return run_id() .. '-' .. string.match(info, '^%x+', before + 1)
end

-- Returns why a list is not on under a fill, or DONE if it is.
local function check_fill(marker, fill)
  local m = redis.call('HMGET', marker, 'fill', 'run_id')
  return m[1] == fill and m[2] == this_run() and DONE or OTHER_FILL
end

-- Returns why the holder of a token and a run id may not fill a list, or DONE.
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

-- Appends ranges of units, given as first and count, to a list.
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
