-- Deletes the entries that are drained, if the list gives under a fill, and reads
-- the next.
--
-- KEYS  the four of the list
-- ARGV  the fill, the place after which to read, the place up to which to delete
--       (both "" for none), about how many grants to read
--
-- Returns a refusal or DONE, and then entries as XRANGE has them: {id, {"count",
-- how many, "at", the time, "units", the units, "batch", whose they are}}. Fill 0
-- only reads, and is never refused.

local stream, after, drained, most = KEYS[3], ARGV[2], ARGV[3], tonumber(ARGV[4])
if ARGV[1] ~= '0' then
  local refusal = gives(KEYS[4], ARGV[1])
  if refusal ~= DONE then
    return {refusal}
  elseif drained ~= '' then
    forget_up_to(stream, drained)
  end
end
-- An entry has one grant or a thousand, which nothing tells before it is read: so
-- few at a time.
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
