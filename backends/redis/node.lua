-- Common functions of the scripts that use the time or the marker, prepended to each of
-- them. A marker is a hash, which a listing of leases skips by its type. Times are
-- microseconds since 1970 by the server's clock, exact in a Lua number; durations for
-- Redis are milliseconds.

-- The clock. Redis itself judges expiry by the start of the script.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- The server's run id. A plain search: a pattern over the whole INFO would take as long
-- as INFO itself.
local function run_id()
  local info = redis.call('INFO', 'server')
  local _, before = string.find(info, '\nrun_id:', 1, true)
  return string.match(info, '^%x+', before + 1)
end

-- Returns the time from which the node votes (nil: the marker is of another run or
-- missing), and the expiry of the marker (nil: none).
local function read_marker(marker, run)
  local fields = redis.call('HMGET', marker, 'run_id', 'votes_from', 'kept_until')
  return fields[1] == run and tonumber(fields[2]) or nil, fields[3] and tonumber(fields[3])
end

-- %.0f writes a whole number of any size without an exponent.
local function micros(time)
  return string.format('%.0f', time)
end

local function write_marker(marker, run, votes_from)
  redis.call('HSET', marker, 'run_id', run, 'votes_from', micros(votes_from))
end

-- Reads the marker after a repair: the leases that the node granted before it lost its
-- memory end after silence. A marker with a later time was written before the clock was
-- set back, and is reduced to that. new: the key did not exist.
local function mended_marker(marker, time, silence, run)
  local votes_from, kept_until = read_marker(marker, run)
  local new = false
  local latest = time + silence * 1000
  if not votes_from or votes_from > latest then
    new = not votes_from and not kept_until and redis.call('EXISTS', marker) == 0
    votes_from = latest
    write_marker(marker, run, votes_from)
  end
  return votes_from, kept_until, new
end
