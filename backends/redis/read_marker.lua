-- Reads a marker and writes nothing.
--
-- KEYS  the marker
--
-- Returns the time from which the node votes, or an empty list without a marker of this
-- run.

return {(read_marker(KEYS[1], run_id()))}
