-- Reads a marker and writes nothing.
--
-- KEYS  the marker
--
-- Returns the time from which the node votes under it, or an empty list if the
-- node has none of this run.

return {(read_marker(KEYS[1], run_id()))}
