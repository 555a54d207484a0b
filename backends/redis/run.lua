-- Returns {the server's run}.

return {this_run()}
