-- What the other scripts have in common; it is put before each of them.
-- Times are microseconds since 1970 by the server's clock, which a Lua number
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

-- A lease is a string, token and note with a space between. A marker is a hash,
-- so that listing leases can leave it out by its type.
local function token_of(value)
  return string.match(value, '^[^ ]*')
end

-- The time from which the node votes under a marker; nil if it has none of
-- this run.
local function read_marker(marker, run)
  local fields = redis.call('HMGET', marker, 'run_id', 'votes_from')
  if fields[1] == run then
    return tonumber(fields[2])
  end
end

-- %.0f writes a whole number of any size without an exponent.
local function write_marker(marker, run, votes_from)
  redis.call('HSET', marker, 'run_id', run, 'votes_from', string.format('%.0f', votes_from))
end

-- The same time, after mending: what the node promised before it lost its
-- memory has run out silence later. A marker that says later than that was
-- written before the clock was set back, and is cut to it.
local function mended_marker(marker, time, silence)
  local run = run_id()
  local votes_from = read_marker(marker, run)
  local latest = time + silence * 1000
  if not votes_from or votes_from > latest then
    votes_from = latest
    write_marker(marker, run, votes_from)
  end
  return votes_from
end
