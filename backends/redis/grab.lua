-- Grants a unit to each user who has none yet, within the hours of the list.
--
-- KEYS  the four keys of each batch's list
-- ARGV  for each batch: its time (us since 1970) by the caller's clock; and in
--       MessagePack its fill, a list of users, and a list of their keys
--
-- The clock of this server is not used: if it were wrong, lists of one sale would open
-- at different times.
--
-- Returns a list for each batch:
--   DONE, or the reason why nothing is given
--   the number of the entry that it writes, or 0
--   with DONE: the new units, separated by spaces, for the users without a grant, in
--   their order; if units run out, the last users get none; with NOT_OPEN: when the
--   list opens
--   unless the list is off or has another fill: number (from 1) and grant of each user
--   with an earlier grant. The list reports these also after its close, so that a
--   repeated request gets its first answer.
--
-- Writes a stream entry for each batch with new grants. Its id is the fill and a number
-- that counts from 1 without gaps; its fields are the count of units, the time, the
-- units separated by spaces, and a batch as above of their users. That is usually the
-- requested batch itself: an entry with a field for each user would cost this script
-- little more, but would double the work of the reader of the stream.

local run = this_run()

-- Returns why a list grants nothing at a time, or DONE; when it opens; and the number
-- of entries of the fill.
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

local function grant(why, opens, entries, list, taken, stream, marker, at, batch, fill, users, keys)
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
  -- The units leave the list last: once XADD has succeeded, that cannot fail.
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
    answers[n] = grant(why, opens, entries, KEYS[key - 3], KEYS[key - 2], KEYS[key - 1], KEYS[key], at, batch, fill, users, keys)
  end
end
return answers
