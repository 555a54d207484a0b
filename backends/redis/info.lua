-- Says who the server is, what time it has and how it is set up.
--
-- Returns its run id, the time, its mode, its role, its master (":" if it has
-- none), and its eviction policy. What it does not tell is "".

local function field(section, name)
  return string.match('\n' .. redis.call('INFO', section), '\n' .. name .. ':([^\r\n]*)') or ''
end

local master = field('replication', 'master_host') .. ':' .. field('replication', 'master_port')
return {run_id(), now(), field('server', 'redis_mode'), field('replication', 'role'), master,
  field('memory', 'maxmemory_policy')}
