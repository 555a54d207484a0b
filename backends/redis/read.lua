-- Deletes drained entries, if the list is on under a fill, and reads the next ones.
--
-- KEYS  the four keys of the list
-- ARGV  the fill; the position after which to read, and the position up to which to
--       delete (both "" for none); the approximate number of grants to read
--
-- Returns a refusal or DONE, and then entries as from XRANGE: {id, {"count", number of
-- units, "at", time, "units", units, "batch", their users}}. Fill 0 only reads, and is
-- never refused.

local stream, after, drained, most = KEYS[3], ARGV[2], ARGV[3], tonumber(ARGV[4])
if ARGV[1] ~= '0' then
  local refusal = check_fill(KEYS[4], ARGV[1])
  if refusal ~= DONE then
    return {refusal}
  elseif drained ~= '' then
    forget_up_to(stream, drained)
  end
end
-- An entry has one to a thousand grants, unknown until it is read: so read few at a
-- time.
local entries, grants, few = {DONE}, 0, 8
while grants < most do
  local from = after == '' and '-' or '(' .. after
  local more = redis.call('XRANGE', stream, from, '+', 'COUNT', few)
  for _, entry in ipairs(more) do
    if grants < most then
      entries[#entries + 1] = entry
      grants = grants + (tonumber(entry[2][2]) or 1)
      after = entry[1]
    end
  end
  if #more < few then
    break
  end
end
return entries
