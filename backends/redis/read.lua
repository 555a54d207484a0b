-- Deletes the entries that are drained, if the list gives under a fill, and reads
-- the next.
--
-- KEYS  the four of the list
-- ARGV  the fill, the place after which to read, the place up to which to delete
--       (both "" for none), about how many grants to read
--
-- Returns entries as XRANGE has them: {id, {"f", fill, user, grant, ...}}.

local stream, after, drained, most = KEYS[3], ARGV[2], ARGV[3], tonumber(ARGV[4])
local on = gives(KEYS[4], ARGV[1]) == DONE
if drained ~= '' and on then
  forget_up_to(stream, drained)
end
-- How many grants an entry has is not known before: the first tells for the next.
local entries, grants, count = {}, 0, 1
while grants < most do
  local from = after == '' and '-' or '(' .. after
  local more = redis.call('XRANGE', stream, from, '+', 'COUNT', count)
  for _, entry in ipairs(more) do
    entries[#entries + 1] = entry
    grants = grants + #entry[2] / 2 - 1
  end
  if #more < count then
    break
  end
  after = more[count][1]
  count = math.max(1, math.floor((most - grants) * #entries / math.max(grants, 1)))
end
return entries
