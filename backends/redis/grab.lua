-- Gives a unit to each user who has none yet, if it is time.
--
-- KEYS  the four of each batch's list
-- ARGV  for each batch its time (us since 1970), by the clock of the caller; and as
--       MessagePack its fill, a list of users, a list of the key of each
--
-- The clock of this server decides nothing: it may be wrong, and a list elsewhere of
-- the same sale would give when this one does not.
--
-- Returns a list for each batch: DONE or why nothing is given; the number of the
-- entry that it writes, or 0; beside DONE, the units that are given now, with
-- spaces between, to the users who have none in their order, of whom the last get
-- nothing if there are too few; beside NOT_OPEN, when the list opens; then, unless the list is off or of another fill,
-- the number and the grant of each user who has one from before, the first user
-- being 1. Whoever has one is to hear so at any time: a request that was answered
-- once is not denied because the list has closed since.
--
-- Writes an entry of the stream for each batch that is given something, under the
-- fill and the entry's number in it, which counts from 1 without gaps: how many
-- units, the time, the units with spaces between, and a batch as above of those
-- who were given them. That is mostly the very one that was asked for: an entry
-- with a value for each user would cost this script little more, but whoever reads
-- the stream as much again as the grab.

local run = this_run()

-- Why a list gives nothing at a time, or DONE, when it opens, and how many entries
-- the fill has.
local function why_not(marker, fill, time)
  local m = redis.call('HMGET', marker, 'fill', 'run_id', 'opens', 'closes', 'entries')
  if m[1] ~= fill or m[2] ~= run then
    return OTHER_FILL
  end
  local opens, closes = tonumber(m[3]), tonumber(m[4])
  if time < opens then
    return NOT_OPEN, opens, m[5]
  end
  return closes ~= 0 and time >= closes and CLOSED or DONE, nil, m[5]
end

local function give(why, opens, entries, list, taken, stream, marker, at, batch, fill, users, keys)
  local answer, known = {why, 0, opens or ''}, 3
  local had = redis.call('HMGET', taken, unpack(users))
  local new, count = {}, 0
  for i = 1, #users do
    if had[i] then
      answer[known + 1], answer[known + 2] = i, had[i]
      known = known + 2
    else
      count = count + 1
      new[count] = i
    end
  end
  -- They are taken off the list last: that cannot fail any more once XADD has not.
  local units = why == DONE and count > 0 and redis.call('LRANGE', list, 0, count - 1) or {}
  if #units > 0 then
    local grants, whose, which = {}, {}, {}
    for n = 1, #units do
      local i = new[n]
      whose[n], which[n] = users[i], keys[i]
      grants[2 * n - 1], grants[2 * n] = users[i], units[n] .. ' ' .. at .. ' ' .. keys[i]
    end
    if #units < #users then
      batch = cmsgpack.pack(fill, whose, which)
    end
    answer[2], answer[3] = tonumber(entries) + 1, table.concat(units, ' ')
    redis.call('XADD', stream, fill .. '-' .. answer[2], 'count', #units, 'at', at, 'units', answer[3], 'batch', batch)
    redis.call('HSET', marker, 'entries', answer[2])
    redis.call('HSET', taken, unpack(grants))
    redis.call('LTRIM', list, #units, -1)
  end
  return answer
end

local answers = {}
for n = 1, #ARGV / 2 do
  local key, at, batch = 4 * n, ARGV[2 * n - 1], ARGV[2 * n]
  local fill, users, keys = cmsgpack.unpack(batch)
  local why, opens, entries = why_not(KEYS[key], fill, tonumber(at))
  if why == OTHER_FILL then
    answers[n] = {why, 0}
  else
    answers[n] = give(why, opens, entries, KEYS[key - 3], KEYS[key - 2], KEYS[key - 1], KEYS[key], at, batch, fill, users, keys)
  end
end
return answers
