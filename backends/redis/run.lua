-- Says in which run the server is.
--
-- Returns {the run}.

return {this_run()}
