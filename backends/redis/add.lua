-- Appends units to a list that is on.
--
-- KEYS  the four keys of the list
-- ARGV  the fill; then first and count of each range of units
--
-- Returns DONE or OTHER_FILL.

local refused = check_fill(KEYS[4], ARGV[1])
if refused == DONE then
  push(KEYS[1], ARGV, 2, #ARGV)
end
return refused
