-- What scripts have in common that know the time or the marker; it is put before
-- each of them. A marker is a hash, so that listing leases can leave it out by its
-- type. Times are microseconds since 1970 by the server's clock, which a Lua number
-- holds exactly; spans that are given to Redis are milliseconds.

-- The clock; Redis itself judges what has run out by the start of the script.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- The server's run id. A plain search: over all that INFO says, a pattern
-- would take as long as INFO itself.
local function run_id()
  local info = redis.call('INFO', 'server')
  local _, before = string.find(info, '\nrun_id:', 1, true)
  return string.match(info, '^%x+', before + 1)
end

-- What the marker says: the time from which the node votes (nil: it is of another
-- run, or there is none), and until when it is kept (nil: until Forget).
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

-- The same, after mending: what the node promised before it lost its memory has
-- run out silence later. A marker that says later than that was written before
-- the clock was set back, and is cut to it. new: the key was not there.
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
